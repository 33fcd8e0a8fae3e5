"""Context parallelism: a sequence split over ranks, each with one run of its tokens.

Attention needs three things of earlier tokens: the last few latents for the convolutions and the last delayed value,
both from the left neighbour, and all keys and values. Gradients go back the same ways. All else is a token's own.

Shapes: B batch, S tokens of this rank, T tokens of all ranks, d head width.
"""

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
        """This rank's run (B, S) of whole sequences; the model goes forth and back with it before the next split."""
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

    def up_to_here(self, own: Tensor) -> Tensor:
        """The values (…, d) of all tokens up to this rank's last, where each rank has `own` (…, S, d)."""
        return Gathered.apply(own, self)[..., : self.start + own.shape[-2], :]

    def pass_on(self, values: Tensor, step: int) -> Tensor:
        """Send to the rank `step` places on; returns what comes from as far behind, zeros where nobody is there."""
        received, messages = torch.zeros_like(values, memory_format=torch.contiguous_format), []
        if 0 <= self.rank + step < self.size:
            messages.append(self._message(dist.isend, values.contiguous(), self.rank + step))
        if 0 <= self.rank - step < self.size:
            messages.append(self._message(dist.irecv, received, self.rank - step))
        for message in dist.batch_isend_irecv(messages):
            message.wait()
        return received

    def gather(self, own: Tensor) -> Tensor:
        """All ranks' values (…, S, d), one after another (…, T, d)."""
        padded = self._pad(own)
        found = padded.new_empty(self.size * padded.numel())
        dist.all_gather_single(found, padded.view(-1), group=self.group)
        parts = zip(found.view(self.size, *padded.shape), self._lengths, strict=True)
        return torch.cat([part[..., :length, :] for part, length in parts], dim=-2)

    def scatter_sum(self, whole: Tensor) -> Tensor:
        """This rank's tokens of the sum of all ranks' (…, T, d): the way back of `gather`."""
        padded = torch.stack([self._pad(part) for part in whole.split(self._lengths, dim=-2)])
        found = torch.empty_like(padded[0])
        dist.reduce_scatter_single(found.view(-1), padded.view(-1), group=self.group)
        return found[..., : self._lengths[self.rank], :]

    def _message(self, way: object, values: Tensor, peer: int) -> dist.P2POp:
        return dist.P2POp(way, values, group=self.group, group_peer=peer)

    def _pad(self, values: Tensor) -> Tensor:
        """To the most tokens that a rank has: messages are of one size."""
        return F.pad(values, (0, 0, 0, max(self._lengths) - values.shape[-2])).contiguous()


class FromLeft(torch.autograd.Function):
    """Hand a tensor to the right neighbour; hand its gradient to the left one."""

    @staticmethod
    def forward(ctx: FunctionCtx, last: Tensor, context: Context) -> Tensor:
        ctx.context = context
        return context.pass_on(last, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.context.pass_on(gradient, -1), None


class Gathered(torch.autograd.Function):
    """All ranks' tokens, one after another; each one's gradient is the sum over all ranks that used it."""

    @staticmethod
    def forward(ctx: FunctionCtx, own: Tensor, context: Context) -> Tensor:
        ctx.context = context
        return context.gather(own)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.context.scatter_sum(gradient), None
