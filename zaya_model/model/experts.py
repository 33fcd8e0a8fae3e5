"""SwiGLU experts over tokens sorted by expert; a token of the skip class costs no product.

Shapes: N tokens, D hidden, F expert width, E experts.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from zaya_model.config import ModelConfig
from zaya_model.model.layers import count_choices, product_dtype

Skip = Literal["identity", "zero"]


class Experts(nn.Module):
    """down_e(silu(gate_e x) · up_e x) for the one expert each token chose, times its weight."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        E, D, width = config.num_experts, config.hidden_size, config.moe_intermediate_size
        self.skip: Skip = config.skip
        self.gate_up_proj = nn.Parameter(torch.empty(E, 2 * width, D))
        self.down_proj = nn.Parameter(torch.empty(E, D, width))

    def forward(self, x_ND: Tensor, choice_N: Tensor, weight_N: Tensor) -> Tensor:
        """Mix; a token of the skip class gives itself or nothing. fp32 in and out."""
        dtype = product_dtype(x_ND)
        gate_up, down = self.gate_up_proj.to(dtype), self.down_proj.to(dtype)
        order = choice_N.argsort(stable=True)
        counts = count_choices(choice_N, gate_up.shape[0] + 1)
        # Grouped products want rows of whole 16 bytes.
        if x_ND.is_cuda and all(size * dtype.itemsize % 16 == 0 for size in down.shape[1:]):
            return grouped(x_ND, weight_N, gate_up, down, order, counts, self.skip)
        return OneByOne.apply(x_ND, weight_N, gate_up, down, order, counts.tolist(), self.skip)


class OneByOne(torch.autograd.Function):
    """One product after the other: on a CPU as fast as a grouped one, and every result lands where it is needed."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: Tensor,
        weight: Tensor,
        gate_up: Tensor,
        down: Tensor,
        order: Tensor,
        counts: list[int],
        skip: Skip,
    ) -> Tensor:
        ctx.counts, ctx.skip = counts, skip
        back = _inverse(order)
        tokens = x.index_select(0, order).to(gate_up.dtype)
        sides = _each(counts, tokens, gate_up.mT)
        gate, up = sides.chunk(2, dim=-1)
        active = F.silu(gate)
        out = _each(counts, active * up, down.mT)
        _pass_on(tokens, out, counts[-1], skip)
        ctx.save_for_backward(weight, gate_up, down, order, back, tokens, sides, active, out)
        return out.index_select(0, back).to(x.dtype).mul_(weight[:, None])

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, gate_up, down, order, back, tokens, sides, active, out = ctx.saved_tensors
        gradient = gradient.index_select(0, order)
        d_weight = (gradient * out).sum(dim=-1).index_select(0, back)
        d_out = gradient.mul_(weight.index_select(0, order)[:, None]).to(out.dtype)
        gate, up = sides.chunk(2, dim=-1)
        d_down = _each_transposed(ctx.counts, d_out, active * up, down)
        d_hidden = _each(ctx.counts, d_out, down)
        d_sides = torch.empty_like(sides)
        d_gate, d_up = d_sides.chunk(2, dim=-1)
        torch.mul(active, d_hidden, out=d_up)
        torch.ops.aten.silu_backward(d_hidden.mul_(up), gate, grad_input=d_gate)
        d_gate_up = _each_transposed(ctx.counts, d_sides, tokens, gate_up)
        d_tokens = _each(ctx.counts, d_sides, gate_up)
        _pass_on(d_out, d_tokens, ctx.counts[-1], ctx.skip)
        return d_tokens.index_select(0, back).to(weight.dtype), d_weight, d_gate_up, d_down, None, None, None


def _inverse(order: Tensor) -> Tensor:
    """The order that undoes `order`."""
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))


def _pass_on(rows: Tensor, out: Tensor, num_skipped: int, skip: Skip) -> None:
    """Fill the last rows, those of the skip class, with themselves or nothing."""
    if num_skipped:
        last = out[-num_skipped:]
        last.copy_(rows[-num_skipped:]) if skip == "identity" else last.zero_()


def _each(counts: list[int], rows_NK: Tensor, matrices_EKM: Tensor) -> Tensor:
    """Rows of each expert times its matrix; (N, M), the rows of no expert unset."""
    out = rows_NK.new_empty(rows_NK.shape[0], matrices_EKM.shape[2])
    for rows, matrix, target in zip(rows_NK.split(counts), matrices_EKM.unbind(), out.split(counts), strict=False):
        torch.mm(rows, matrix, out=target)
    return out


def _each_transposed(counts: list[int], left_NM: Tensor, right_NK: Tensor, like_EMK: Tensor) -> Tensor:
    """The gradient of each expert's matrix; (E, M, K)."""
    out = torch.empty_like(like_EMK)
    for left, right, target in zip(left_NM.split(counts), right_NK.split(counts), out.unbind(), strict=False):
        torch.mm(left.T, right, out=target)
    return out


def grouped(
    x_ND: Tensor, weight_N: Tensor, gate_up: Tensor, down: Tensor, order: Tensor, counts: Tensor, skip: Skip
) -> Tensor:  # fmt: skip
    """All products in one launch, without waiting for the counts; they leave rows of the skip class unset both ways."""
    tokens = Permute.apply(x_ND, order)
    ends = counts.cumsum(0)[:-1].to(torch.int32)
    is_skipped = (torch.arange(len(order), device=order.device) >= ends[-1])[:, None]
    # Filling lets nothing of an unset gradient through.
    rows = tokens.masked_fill(is_skipped, 0.0).to(gate_up.dtype)
    gate, up = F.grouped_mm(rows, gate_up.mT, offs=ends).chunk(2, dim=-1)
    out = F.grouped_mm(F.silu(gate) * up, down.mT, offs=ends)
    out = torch.where(is_skipped, tokens if skip == "identity" else torch.zeros_like(tokens), out.to(tokens.dtype))
    return Permute.apply(out, _inverse(order)) * weight_N[:, None]


class Permute(torch.autograd.Function):
    """Reorder rows; the gradient is copied back, where autograd would scatter and add."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return torch.empty_like(gradient).index_copy_(0, order, gradient), None
