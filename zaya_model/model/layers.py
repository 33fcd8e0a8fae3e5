"""RMSNorm, rotary embedding and the scaled residual merge.

Shapes: B batch, S sequence, D hidden, d head width.
"""

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """x · w / rms(x), statistics in fp32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.rms_norm(x.float(), self.weight.shape, self.weight, self.eps)


class ResidualScale(nn.Module):
    """(new + b₁)·s₁ + (residual + b₂)·s₂, the bias before the scale, in fp32 (facts: released ZAYA1 code)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.hidden_states_scale = nn.Parameter(torch.ones(size))
        self.hidden_states_bias = nn.Parameter(torch.zeros(size))
        self.residual_scale = nn.Parameter(torch.ones(size))
        self.residual_bias = nn.Parameter(torch.zeros(size))

    def forward(self, new_BSD: Tensor, residual_BSD: Tensor) -> Tensor:
        # One constant for both biases, then two fused multiply-adds: half the passes over the stream.
        constant = self.hidden_states_bias * self.hidden_states_scale + self.residual_bias * self.residual_scale
        merged = torch.addcmul(constant, residual_BSD, self.residual_scale)
        return torch.addcmul(merged, new_BSD.float(), self.hidden_states_scale)


class Rotary(nn.Module):
    """Rotary embedding of the first channels of each head, in halves (i, i + r/2); the rest pass."""

    def __init__(self, rotated: int, theta: float) -> None:
        super().__init__()
        self.rotated = rotated
        self.theta = theta

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines (S, r/2) in fp32."""
        exponents = torch.arange(0, self.rotated, 2, device=positions.device, dtype=torch.float32) / self.rotated
        angles = positions.float()[:, None] * self.theta**-exponents
        return angles.cos(), angles.sin()

    def forward(self, x_BHSd: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if not self.rotated:
            return x_BHSd
        half = self.rotated // 2
        first, second, rest = x_BHSd.split((half, half, x_BHSd.shape[-1] - self.rotated), dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), dim=-1)
