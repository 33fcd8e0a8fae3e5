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


def build_optimizers(model: nn.Module, config: OptimizerConfig) -> tuple[Muon, AdamW]:
    """Split the parameters between the two optimisers."""
    named = list(model.named_parameters())
    matrices = [(name, parameter) for name, parameter in named if is_matrix(name, parameter)]
    others = [parameter for name, parameter in named if not is_matrix(name, parameter)]
    decay = config.weight_decay
    muon = Muon(
        [
            Group([parameter for name, parameter in matrices if not is_gate_and_up(name)], decay),
            Group([parameter for name, parameter in matrices if is_gate_and_up(name)], decay, fused=2),
        ],
        rate=config.muon_learning_rate,
        momentum=config.muon_momentum,
    )
    adamw = AdamW(
        [Group([p for p in others if p.ndim >= 2], decay), Group([p for p in others if p.ndim < 2])],
        rate=config.adamw_learning_rate,
        betas=(config.adamw_beta1, config.adamw_beta2),
        eps=config.adamw_eps,
    )
    return muon, adamw


def parts_of(model: nn.Module) -> dict[str, list[Tensor]]:
    """The parameters of each part."""
    found: dict[str, list[Tensor]] = {part: [] for part in PARTS}
    for name, parameter in model.named_parameters():
        found[part_of(name)].append(parameter)
    return {part: parameters for part, parameters in found.items() if parameters}
