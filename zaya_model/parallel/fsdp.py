"""Sharded experts (FSDP2): each rank keeps the weights of some experts of every block, and moves those alone.

Before a block's experts are needed their stacks are gathered from all ranks, and let go after that; their gradients
are scattered as they are summed. Stacks are cut between experts, so Muon finds whole matrices. All other parameters, a
tenth of a model, stay on every rank, their optimisers' state shared out by ZeRO-1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import Shard, distribute_tensor

from zaya_model.model import Model
from zaya_model.parallel.mesh import World
from zaya_model.parallel.pieces import Piece, Shards
from zaya_model.parallel.zero import Zero


@dataclass(frozen=True, eq=False)
class LocalPiece(Piece):
    """Rows of a DTensor, of which this rank has no others."""

    def values(self) -> Tensor:
        """The rows themselves."""
        return self.parameter.detach().to_local()


class Fsdp(Shards):
    """This rank's experts, and its share of the rest."""

    is_sharded = True

    def __init__(self, model: Model, rest: Zero, world: World, precision: str) -> None:
        self.rest, self.mesh = rest, init_device_mesh(world.device.type, (world.size,))
        _shard_experts(model, self.mesh, precision)
        self.weights = [
            _own_rows(name, parameter, world) for name, parameter in model.named_parameters() if is_expert_stack(name)
        ]
        self.mine = [piece for piece in self.weights if piece.start < piece.stop] + rest.mine

    def collect(self) -> dict[Piece, Tensor]:
        """The gradient of each of `mine`, summed over all ranks; the experts' were at the end of the backward pass."""
        found = self.rest.collect()
        return {piece: found[piece] if piece in found else piece.parameter.grad.to_local() for piece in self.mine}

    def sum_over_pieces(self, figures: Tensor) -> Tensor:
        """Figures over all pieces from those over `mine`."""
        return self.rest.sum_over_pieces(figures)

    def publish(self) -> None:
        """Send the moved pieces of the rest to all; the experts are gathered when they are needed."""
        self.rest.publish()

    def settle(self) -> None:
        """Wait until the weights of the rest have arrived."""
        self.rest.settle()

    def placed(self, saved: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole weights, the experts' cut as the model has them."""
        names = {piece.parameter_name for piece in self.weights}
        return {name: self._cut(value) if name in names else value for name, value in saved.items()}

    def _cut(self, whole: Tensor) -> Tensor:
        return distribute_tensor(whole, self.mesh, [Shard(0)], src_data_rank=None)


def is_expert_stack(name: str) -> bool:
    """Whether FSDP shares this parameter out."""
    return ".experts." in name


def _shard_experts(model: Model, mesh: DeviceMesh, precision: str) -> None:
    """Shard in place; the model is the root that gathers the next block's experts while one is computed."""
    others = {parameter for name, parameter in model.named_parameters() if not is_expert_stack(name)}
    # In the precision of the products: what is gathered needs no second copy.
    dtype = torch.bfloat16 if precision == "bf16" else None
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for block in model.blocks:
        fully_shard(block.experts, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, ignored_params=others)
    register_fsdp_forward_method(model, "loss")
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # The loss is a sum over ranks already, and gloo knows no other.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


def _own_rows(name: str, parameter: Tensor, world: World) -> LocalPiece:
    most = -(-len(parameter) // world.size)
    start = min(most * world.rank, len(parameter))
    return LocalPiece(name, parameter, start, min(start + most, len(parameter)))
