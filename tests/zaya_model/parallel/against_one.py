"""Under torchrun: sequences split over 2, 3 and 4 ranks against one process. Writes how far they are apart, by case."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tests.zaya_model.conftest import TINY
from zaya_model.config import ModelConfig
from zaya_model.model import Model
from zaya_model.parallel.context import Context
from zaya_model.parallel.mesh import join_world
from zaya_model.parallel.recompute import recompute_blocks

# Over 2, 3 and 4 ranks 16 tokens and 13 divide evenly and unevenly, 8 leave each rank what the convolutions look back.
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "uneven": {"length": 13},
    "short": {"length": 8},
    "biases": {"attention_bias": True, "length": 13},
    "no look back": {"cca_time0": 1, "cca_time1": 1},
    "sliding": {"layer_types": ("full", "sliding"), "sliding_window": 6, "length": 13},
    "recomputed": {"is_recomputed": True, "length": 13},
    "bf16": {"precision": torch.bfloat16},
}


def compare(
    context: Context, *, length: int = 16, is_recomputed: bool = False, precision: Any = None, **model: Any
) -> Any:
    """The largest difference of loss and gradients, and whether the router's loads are the same."""
    config = ModelConfig(**TINY["model"] | model)
    one, split = Model(config), Model(config)
    stir(one)
    split.load_state_dict(one.state_dict())
    for block in split.blocks:
        block.attention.sequence = context
    if is_recomputed:
        recompute_blocks(split)
    batch = torch.randint(0, 257, (2, 3, length), generator=torch.Generator().manual_seed(1)).unbind()
    with torch.autocast("cpu", precision, enabled=precision is not None):
        expected, found = one.loss(*batch), part_of_loss(split, context, *batch)
    expected.backward()
    found.backward()
    found, loads = summed(found.detach(), context), summed(split.router_counts(), context)
    pairs = [
        (whole.grad, summed(own.grad, context)) for whole, own in zip(one.parameters(), split.parameters(), strict=True)
    ]
    return {
        "loss": (found - expected).abs().item(),
        "gradients": max(((own - one).abs().max() / one.abs().max().clamp_min(1e-3)).item() for one, own in pairs),
        "loads": torch.equal(loads, one.router_counts()),
    }


@torch.no_grad()
def stir(model: Model) -> None:
    """Let no bias be zero and no scale one."""
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)


def part_of_loss(model: Model, context: Context, inputs: Tensor, targets: Tensor) -> Tensor:
    own = context.split(inputs)
    return model.loss(own, context.split(targets)) * own.numel() / inputs.numel()


def summed(tensor: Tensor, context: Context) -> Tensor:
    dist.all_reduce(tensor, group=context.group)
    return tensor


if __name__ == "__main__":
    torch.set_num_threads(1)
    with join_world("cpu") as world:
        found = {}
        for size in (2, 3, 4):
            group = dist.new_group(list(range(size)))
            if world.rank < size:
                context = Context(world.rank, size, group)
                found |= {f"{name}, {size} parts": compare(context, **case) for name, case in CASES.items()}
        if world.is_first:
            Path(sys.argv[1]).write_text(json.dumps(found))
        world.wait()
