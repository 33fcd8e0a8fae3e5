"""Which parameter goes to Muon, which to AdamW, and what the parts of the model are called in the metrics.

Muon            matrices: projections, router, expert stacks (each expert, and its gate and up, on its own)
AdamW, decay    embedding, untied head, convolutions
AdamW           vectors: norms, biases, scales, temperatures
"""

from torch import Tensor, nn

from zaya_model.config import OptimizerConfig
from zaya_model.optim.adamw import AdamW
from zaya_model.optim.muon import Muon
from zaya_model.optim.optimizer import Group
from zaya_model.parallel.mesh import World
from zaya_model.parallel.pieces import Piece, Shards, cut, share_out, whole
from zaya_model.parallel.replicas import Replicas
from zaya_model.parallel.zero import Zero

PARTS = ("embedding", "attention", "router", "experts", "scales")


def part_of(name: str) -> str:
    """The part of the model a parameter belongs to."""
    if name.startswith(("embed_tokens", "untied_head", "head_bias")):
        return "embedding"
    for part in ("attention", "router", "experts"):
        if f".{part}." in name:
            return part
    return "scales"


def is_matrix(name: str, parameter: Tensor) -> bool:
    """Whether Muon moves it (arXiv 2511.17127 §IV: convolutions and embeddings go to AdamW)."""
    return parameter.ndim >= 2 and ".conv_" not in name and part_of(name) != "embedding"


def is_gate_and_up(name: str) -> bool:
    """Whether each matrix of a stack is two, gate above up: orthogonal together, they would lean on each other."""
    return name.endswith("experts.gate_up_proj")


def spread(model: nn.Module, sharding: str, world: World, *, precision: str = "fp32") -> Shards:
    """Give each rank the pieces it moves: all of them, or a share by the work of Muon and the size for AdamW."""
    named = list(model.named_parameters())
    if world.size == 1 or sharding == "none":
        return Replicas([whole(name, parameter) for name, parameter in named], world)
    if sharding == "zero1":
        return _share_out(named, world)
    # It loads torch's compiler, over a second, which no other run should wait for.
    from zaya_model.parallel.fsdp import Fsdp

    rest = [(name, parameter) for name, parameter in named if part_of(name) != "experts"]
    return Fsdp(model, _share_out(rest, world), world, precision)


def _share_out(named: list[tuple[str, Tensor]], world: World) -> Zero:
    matrices: list[Piece] = []
    others: list[Piece] = []
    for name, parameter in named:
        if is_matrix(name, parameter):
            # A stack may be parted between experts, a matrix must stay whole to be orthogonalised.
            matrices += cut(name, parameter, world.size if parameter.ndim > 2 else 1)
        else:
            others += cut(name, parameter, world.size)
    shares = zip(
        share_out(matrices, _orthogonalising_work, world.size),
        share_out(others, lambda piece: piece.values().numel(), world.size),
        strict=True,
    )
    return Zero([own + rest for own, rest in shares], world)


def build_optimizers(pieces: list[Piece], config: OptimizerConfig) -> tuple[Muon, AdamW]:
    """Split the pieces between the two optimisers."""
    matrices = [piece for piece in pieces if is_matrix(piece.parameter_name, piece.parameter)]
    others = [piece for piece in pieces if not is_matrix(piece.parameter_name, piece.parameter)]
    decay = config.weight_decay
    muon = Muon(
        [
            Group([piece for piece in matrices if not is_gate_and_up(piece.parameter_name)], decay),
            Group([piece for piece in matrices if is_gate_and_up(piece.parameter_name)], decay, fused=2),
        ],
        rate=config.muon_learning_rate,
        momentum=config.muon_momentum,
    )
    adamw = AdamW(
        [
            Group([piece for piece in others if piece.parameter.ndim >= 2], decay),
            Group([piece for piece in others if piece.parameter.ndim < 2]),
        ],
        rate=config.adamw_learning_rate,
        betas=(config.adamw_beta1, config.adamw_beta2),
        eps=config.adamw_eps,
    )
    return muon, adamw


def parts_of(pieces: list[Piece]) -> dict[str, list[Piece]]:
    """The pieces of each part of the model; a part without any has an empty list."""
    found: dict[str, list[Piece]] = {part: [] for part in PARTS}
    for piece in pieces:
        found[part_of(piece.parameter_name)].append(piece)
    return found


def _orthogonalising_work(piece: Piece) -> float:
    """Products of the Newton-Schulz iteration over its matrices, up to a factor."""
    rows, columns = piece.parameter.shape[-2:]
    fused = 2 if is_gate_and_up(piece.parameter_name) else 1
    narrow, wide = sorted((rows // fused, columns))
    return piece.values().numel() / (narrow * wide) * (2 * narrow**2 * wide + narrow**3)
