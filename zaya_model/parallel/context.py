"""Context parallelism: a sequence split over ranks, each with one run of its tokens.

Attention needs three things of earlier tokens: the last few latents for the convolutions and the last delayed value,
both from the left neighbour, and all keys and values. Gradients go back the same ways. All else is a token's own.

Shapes: B batch, S tokens of this rank, T tokens of all ranks.
"""

from itertools import accumulate

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F


class Context:
    """This rank's part of each sequence, and the ways to the other parts."""

    def __init__(self, rank: int, size: int, group: dist.ProcessGroup) -> None:
        self.rank, self.size, self.group = rank, size, group
        self._lengths = [0] * size

    def split(self, tokens_BT: Tensor) -> Tensor:
        """This rank's run (B, S) of whole sequences; what follows is of their length."""
        parts = tokens_BT.tensor_split(self.size, dim=1)
        self._lengths = [part.shape[1] for part in parts]
        return parts[self.rank]

    @property
    def start(self) -> int:
        """Tokens before this rank's own."""
        return sum(self._lengths[: self.rank])

    def from_left(self, last: Tensor) -> Tensor:
        """What the left neighbour gives as its `last`; zeros where this rank has the first tokens."""
        return FromLeft.apply(last, self)

    def up_to_here(self, own: Tensor, dim: int) -> Tensor:
        """Of all ranks up to this one, along `dim`."""
        return Gathered.apply(own, self, dim).narrow(dim, 0, self.start + own.shape[dim])

    def all_gather(self, own: Tensor) -> list[Tensor]:
        """One tensor of each rank, all of one shape."""
        found = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(found, own, group=self.group)
        return found

    def pad(self, own: Tensor, dim: int) -> Tensor:
        """Lengthened to the longest part."""
        missing = max(self._lengths) - own.shape[dim]
        return F.pad(own, (0, 0) * (own.ndim - 1 - dim) + (0, missing)).contiguous()

    def cut(self, parts: list[Tensor], dim: int) -> list[Tensor]:
        """Without the padding."""
        return [part.narrow(dim, 0, length) for part, length in zip(parts, self._lengths, strict=True)]

    def bounds(self) -> tuple[int, int]:
        """First and last + 1 of this rank's tokens."""
        ends = list(accumulate(self._lengths))
        return ends[self.rank] - self._lengths[self.rank], ends[self.rank]


class FromLeft(torch.autograd.Function):
    """Hand a tensor to the right neighbour; hand its gradient to the left one."""

    @staticmethod
    def forward(ctx: FunctionCtx, last: Tensor, context: Context) -> Tensor:
        ctx.context = context
        given = context.all_gather(last.contiguous())
        return given[context.rank - 1] if context.rank else torch.zeros_like(last)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        context: Context = ctx.context
        given = context.all_gather(gradient.contiguous())
        return given[context.rank + 1] if context.rank + 1 < context.size else torch.zeros_like(gradient), None


class Gathered(torch.autograd.Function):
    """All ranks' parts, one after another; each part's gradient is the sum over all ranks that used it."""

    @staticmethod
    def forward(ctx: FunctionCtx, own: Tensor, context: Context, dim: int) -> Tensor:
        ctx.context, ctx.dim, ctx.bounds = context, dim, context.bounds()
        return torch.cat(context.cut(context.all_gather(context.pad(own, dim)), dim), dim=dim)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None, None]:
        total = gradient.contiguous()
        dist.all_reduce(total, group=ctx.context.group)
        first, end = ctx.bounds
        return total.narrow(ctx.dim, first, end - first), None, None
