"""SwiGLU experts over tokens sorted by expert.

Shapes: N tokens, D hidden, F expert width, E experts.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zaya_model.config import ModelConfig


class Experts(nn.Module):
    """down_e(silu(gate_e x) · up_e x) for the one expert each token chose, times its weight."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        E, D, width = config.num_experts, config.hidden_size, config.moe_intermediate_size
        self.skip: Literal["identity", "zero"] = config.skip
        self.gate_up_proj = nn.Parameter(torch.empty(E, 2 * width, D))
        self.down_proj = nn.Parameter(torch.empty(E, D, width))

    def forward(self, x_ND: Tensor, choice_N: Tensor, weight_N: Tensor) -> Tensor:
        """Mix; a token of the skip class gives itself or nothing, and costs no product."""
        E = self.gate_up_proj.shape[0]
        order = choice_N.argsort(stable=True)
        counts = torch.bincount(choice_N, minlength=E + 1)
        sorted_ND = Permute.apply(x_ND, order)
        mixed = self._grouped(sorted_ND, counts) if x_ND.is_cuda else self._one_by_one(sorted_ND, counts.tolist())
        back = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
        return Permute.apply(mixed, back).float() * weight_N[:, None]

    def _one_by_one(self, x_ND: Tensor, counts: list[int]) -> Tensor:
        """One product after the other: on a CPU as fast as a grouped one, and nothing is padded."""
        parts = list(x_ND.split(counts))
        skipped = parts.pop()
        pairs = zip(parts, self.gate_up_proj.unbind(), self.down_proj.unbind(), strict=True)
        outputs = [F.linear(_swiglu(F.linear(part, gate_up)), down) for part, gate_up, down in pairs]
        outputs.append((skipped if self.skip == "identity" else torch.zeros_like(skipped)).to(outputs[0].dtype))
        return torch.cat(outputs)

    def _grouped(self, x_ND: Tensor, counts: Tensor) -> Tensor:
        """All products in one launch, without waiting for the counts; rows of the skip class come out of it unset."""
        dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x_ND.dtype
        ends = counts.cumsum(0)[:-1].to(torch.int32)
        x = x_ND.to(dtype)
        hidden = _swiglu(F.grouped_mm(x, self.gate_up_proj.to(dtype).transpose(1, 2), offs=ends))
        out = F.grouped_mm(hidden, self.down_proj.to(dtype).transpose(1, 2), offs=ends)
        is_skip = (torch.arange(x.shape[0], device=x.device) >= ends[-1])[:, None]
        return torch.where(is_skip, x if self.skip == "identity" else torch.zeros_like(x), out)


class Permute(torch.autograd.Function):
    """Reorder rows; the gradient is reordered back by a gather, where autograd would scatter and add."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return torch.empty_like(gradient).index_copy_(0, order, gradient), None


def _swiglu(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up
