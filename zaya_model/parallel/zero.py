"""ZeRO-1 (arXiv 1910.02054): each rank keeps the optimisers' state of its own pieces and moves only those.

Gradients are summed on the rank that owns the piece, half the traffic of summing them everywhere. The other half is the
moved weights, on their way while the trainer reads the next batch and writes its journal.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from zaya_model.parallel.mesh import World
from zaya_model.parallel.pieces import Piece, Shards, put_together
from zaya_model.parallel.replicas import gradient_of

# Smaller pieces of one owner share a message, larger ones travel where they lie.
_BUCKET_VALUES = 1 << 20


@dataclass(frozen=True)
class Bucket:
    """Pieces of one owner that travel together."""

    owner: int
    pieces: list[Piece]

    def pack(self, tensors: list[Tensor]) -> Tensor:
        """One flat message; a single contiguous tensor is its own."""
        flat = [tensor.reshape(-1) for tensor in tensors]
        return flat[0] if len(flat) == 1 else torch.cat(flat)

    def unpack(self, message: Tensor) -> list[Tensor]:
        """The message's parts in the shapes of the pieces."""
        values = [piece.values() for piece in self.pieces]
        parts = message.split([value.numel() for value in values])
        return [part.view_as(value) for part, value in zip(parts, values, strict=True)]


class Zero(Shards):
    """The pieces of every rank, their gradients on the way in and their values on the way out."""

    is_sharded = True

    def __init__(self, shares: list[list[Piece]], world: World) -> None:
        self.mine, self.world = shares[world.rank], world
        self.buckets = [Bucket(owner, pieces) for owner, share in enumerate(shares) for pieces in _messages(share)]
        self._on_the_way: list[tuple[Bucket, Tensor, dist.Work]] = []

    def collect(self) -> dict[Piece, Tensor]:
        """The gradient of each of `mine`, summed over all ranks; nobody keeps any other gradient."""
        sent = []
        for bucket in self.buckets:
            gradients = [gradient_of(piece.parameter)[piece.start : piece.stop] for piece in bucket.pieces]
            message = bucket.pack(gradients)
            sent.append((bucket, message, dist.reduce(message, bucket.owner, async_op=True)))
        found: dict[Piece, Tensor] = {}
        for bucket, message, work in sent:
            work.wait()
            if bucket.owner == self.world.rank:
                found |= dict(zip(bucket.pieces, bucket.unpack(message), strict=True))
        for bucket in self.buckets:
            for piece in bucket.pieces:
                piece.parameter.grad = None
        return {piece: found[piece] for piece in self.mine}

    def sum_over_pieces(self, figures: Tensor) -> Tensor:
        """Figures over all pieces from those over `mine`."""
        return self.world.sum(figures)

    def publish(self) -> None:
        """Send the moved pieces to all; `settle` says when they have arrived."""
        for bucket in self.buckets:
            values = [piece.values() for piece in bucket.pieces]
            is_filled_later = len(values) > 1 and bucket.owner != self.world.rank
            message = values[0].new_empty(sum(map(Tensor.numel, values))) if is_filled_later else bucket.pack(values)
            self._on_the_way.append((bucket, message, dist.broadcast(message, bucket.owner, async_op=True)))

    def settle(self) -> None:
        """Wait until the weights are those of this step everywhere: before anybody reads them."""
        for bucket, message, work in self._on_the_way:
            work.wait()
            if len(bucket.pieces) > 1 and bucket.owner != self.world.rank:
                torch._foreach_copy_([piece.values() for piece in bucket.pieces], bucket.unpack(message))
        self._on_the_way = []


def _messages(pieces: list[Piece]) -> list[list[Piece]]:
    """Large pieces first, each alone."""
    return list(put_together(sorted(pieces, key=_size, reverse=True), _size, _BUCKET_VALUES))


def _size(piece: Piece) -> int:
    return piece.values().numel()
