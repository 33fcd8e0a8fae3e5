"""Bytes that one rank keeps under ZeRO-1, measured for 1, 2 and 4 ranks, beside the formula of `plan`."""

import json
import os
import sys
from pathlib import Path

import torch

from bench._rows import row
from bench._torchrun import torchrun
from zaya_model.parallel.mesh import join_world
from zaya_model.plan import estimate_memory
from zaya_model.presets import load_preset
from zaya_model.train.feed import Feed
from zaya_model.train.state import TrainState
from zaya_model.train.step import train_step

_RANKS = (1, 2, 4)
_OVERRIDES = {
    "model.hidden_size": 256, "model.moe_intermediate_size": 256, "model.num_experts": 16, "parallel.sharding": "zero1",
    "train.global_batch_size": 4, "train.micro_batch_size": 1, "data.sequence_length": 32,
}  # fmt: skip


def measure() -> list[dict]:
    """Of the rank that keeps most."""
    rows = []
    for ranks in _RANKS:
        planned = estimate_memory(load_preset("tiny-cpu", {**_OVERRIDES, "parallel.processes_per_node": ranks}))
        found = torchrun("bench.zero", ranks)
        for part, formula in (("weights", planned.weights), ("optimizer", planned.optimizer)):
            rows.append(row(f"ZeRO-1, {ranks} ranks: {part}", found[part], "B", "formula", formula))
    return rows


def rank_main(folder: Path) -> None:
    """One step, then the bytes of the state."""
    config = load_preset("tiny-cpu", {**_OVERRIDES, "parallel.processes_per_node": int(os.environ["WORLD_SIZE"])})
    with join_world("cpu") as world:
        feed, state = Feed(config, folder / "data", world), TrainState(config, world)
        feed.enter(state.phase)
        train_step(state, feed.mixture.micro_batches(0, world.rank, world.size), world)
        kept = torch.zeros(world.size, dtype=torch.int64)
        kept[world.rank] = sum(t.nbytes for name, t in state.tensors().items() if name.startswith("optimizer/"))
        most = int(world.sum(kept).max())
        if world.is_first:
            weights = sum(parameter.nbytes for parameter in state.model.parameters())
            (folder / "found.json").write_text(json.dumps({"weights": weights, "optimizer": most}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    rank_main(Path(sys.argv[1]))
