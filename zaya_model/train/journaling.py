"""What the trainer says in the journal, sentence by sentence."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zaya_model.checkpoint.restore import Found
from zaya_model.config import RunConfig
from zaya_model.journal import Journal
from zaya_model.plan import count_parameters, training_flops_per_token
from zaya_model.train.state import TrainState


def next_attempt(run_dir: Path) -> int:
    """One more than the newest attempt of a run folder."""
    numbers = [int(path.name.split("-")[1]) for path in (run_dir / "journal").glob("attempt-*-node-*.jsonl")]
    return max(numbers, default=0) + 1


def tell_start(
    journal: Journal, config: RunConfig, state: TrainState, found: Found, *, device: str, peaks: dict[str, float],
    world_size: int,
) -> None:  # fmt: skip
    """Say that training starts, or from where it goes on, and what a reader needs to judge the figures."""
    parameters = count_parameters(config.model)
    facts: dict[str, Any] = {
        "parameters": parameters.total,
        "active_parameters": parameters.active,
        "tokens_per_step": config.tokens_per_step,
        "total_steps": config.train.steps,
        "flops_per_token": training_flops_per_token(config),
        "processes": world_size,
        "device": device,
        "peak_flops": peaks,
        "from_step": state.step,
        "torch": torch.__version__,
    }
    for sentence in found.refused:
        journal.event(state.step, "checkpoint_refused", sentence)
    where = f"on {device}, {world_size} process{'es' if world_size > 1 else ''}"
    if found.manifest is None:
        journal.event(0, "started", f"Trains {parameters.total:,} parameters {where}.", **facts)
    else:
        journal.event(state.step, "resumed", f"Goes on from step {state.step:,} {where}.", **facts)


def tell_router(journal: Journal, step: int, counts_LE: Tensor, biases: list[Tensor]) -> None:
    """Record the tokens of every class since the last record, and the biases."""
    rows = counts_LE.tolist()
    journal.write(
        "router",
        step,
        load=[row[:-1] for row in rows],
        skipped=[row[-1] for row in rows],
        bias=[[round(value, 6) for value in bias] for bias in torch.stack(biases).tolist()],
        tokens=sum(rows[0]),
    )
