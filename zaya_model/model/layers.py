"""RMSNorm, rotary embedding and the scaled residual merge, each one node of autograd with few passes over its tensors.

Shapes: B batch, S sequence, D hidden, d head width, r rotated channels.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from zaya_model.config import ModelConfig


def product_dtype(x: Tensor) -> torch.dtype:
    """The precision of matrix products: autocast's where it is on, else the tensor's own."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def count_choices(choice_N: Tensor, num_classes: int, counted_N: Tensor | None = None) -> Tensor:
    """Tokens of each class, those that count; int64, and unlike `bincount` without a wait on a GPU."""
    ones = torch.ones_like(choice_N) if counted_N is None else counted_N.to(choice_N.dtype)
    return choice_N.new_zeros(num_classes).scatter_add_(0, choice_N, ones)


class RMSNorm(nn.Module):
    """x · w / rms(x), all in fp32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return Norm.apply(x.float(), self.weight, self.eps)


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = length.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, scale = ctx.saved_tensors
        unit = x * scale
        along = gradient * unit
        d_weight = along.flatten(0, -2).sum(0)
        share = (along @ weight).div_(x.shape[-1]).unsqueeze_(-1)
        return (gradient * weight).addcmul_(unit, share, value=-1).mul_(scale), d_weight, None


class ResidualScale(nn.Module):
    """(new + b₁)·s₁ + (residual + b₂)·s₂, the bias before the scale, in fp32 (facts: released ZAYA1 code)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.hidden_states_scale = nn.Parameter(torch.ones(size))
        self.hidden_states_bias = nn.Parameter(torch.zeros(size))
        self.residual_scale = nn.Parameter(torch.ones(size))
        self.residual_bias = nn.Parameter(torch.zeros(size))

    def forward(self, new_BSD: Tensor, residual_BSD: Tensor) -> Tensor:
        return Merge.apply(
            new_BSD.float(), residual_BSD,
            self.hidden_states_scale, self.hidden_states_bias, self.residual_scale, self.residual_bias,
        )  # fmt: skip


class Merge(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx,
        new: Tensor,
        residual: Tensor,
        new_scale: Tensor,
        new_bias: Tensor,
        scale: Tensor,
        bias: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(new, residual, new_scale, new_bias, scale, bias)
        # One constant for both biases, then two fused multiply-adds: half the passes over the stream.
        return torch.addcmul(new_bias * new_scale + bias * scale, residual, scale).addcmul_(new, new_scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, ...]:
        new, residual, new_scale, new_bias, scale, bias = ctx.saved_tensors
        total = gradient.flatten(0, -2).sum(0)
        d_new_scale = (gradient * new).flatten(0, -2).sum(0).addcmul_(total, new_bias)
        d_scale = (gradient * residual).flatten(0, -2).sum(0).addcmul_(total, bias)
        return gradient * new_scale, gradient * scale, d_new_scale, total * new_scale, d_scale, total * scale


class Rotary(nn.Module):
    """Rotary embedding of the first channels of each head, in halves (i, i + r/2); the rest pass."""

    def __init__(self, config: ModelConfig, *, is_sliding: bool) -> None:
        super().__init__()
        self.rotated = int(config.head_dim * config.partial_rotary_factor)
        self.theta = config.sliding_rope_theta if is_sliding else config.rope_theta

    def tables(self, start: int, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Cosines and sines (S, r/2) in fp32 of `length` positions from `start` on."""
        exponents = torch.arange(0, self.rotated, 2, device=device, dtype=torch.float32) / self.rotated
        positions = torch.arange(start, start + length, device=device, dtype=torch.float32)
        angles = positions[:, None] * (1.0 / self.theta**exponents)
        return angles.cos(), angles.sin()


def rotate_(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the first channels of the heads in place; with -sin, rotate them back."""
    half = cos.shape[-1]
    if half:
        first, second = x[..., :half], x[..., half : 2 * half]
        turned = first * sin
        first.mul_(cos).addcmul_(second, sin, value=-1)
        second.mul_(cos).add_(turned)
    return x
