"""Plain data parallelism: every rank sums all gradients and keeps all of the optimisers' state."""

import torch
from torch import Tensor

from zaya_model.parallel.mesh import World
from zaya_model.parallel.pieces import Piece, Shards, put_together

# A message of 128 MB reaches about 90 % of the fabric's rate on eight MI300X.
_BUCKET_VALUES = 32 << 20


class Replicas(Shards):
    """Each rank moves every parameter, all of them alike."""

    is_sharded = False

    def __init__(self, pieces: list[Piece], world: World) -> None:
        self.mine, self.world = pieces, world

    def collect(self) -> dict[Piece, Tensor]:
        """The gradient of each of `mine`, summed over all ranks, many in a message."""
        gradients = [gradient_of(piece.parameter) for piece in self.mine]
        if self.world.size > 1:
            for bucket in put_together(gradients, Tensor.numel, _BUCKET_VALUES):
                flat = self.world.sum(torch.cat([gradient.flatten() for gradient in bucket]))
                parts = flat.split([gradient.numel() for gradient in bucket])
                torch._foreach_copy_(bucket, [p.view_as(g) for p, g in zip(parts, bucket, strict=True)])
        return dict(zip(self.mine, gradients, strict=True))

    def sum_over_pieces(self, figures: Tensor) -> Tensor:
        """Figures over all pieces from those over `mine`."""
        return figures

    def publish(self) -> None:
        """Nothing to tell: all ranks moved all parameters alike."""

    def settle(self) -> None:
        """Nothing to wait for."""


def gradient_of(parameter: Tensor) -> Tensor:
    """Its gradient; zero where no token came by."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
