"""What the trainer says in the journal and on the terminal, sentence by sentence."""

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from zaya_model.checkpoint.restore import Found
from zaya_model.config import RunConfig
from zaya_model.data.loader import Mixture
from zaya_model.journal import Journal
from zaya_model.plan import count_parameters, training_flops_per_token
from zaya_model.train.state import TrainState


class PatientJournal(Journal):
    """A journal that, once open, never stops the training: what the disk refuses is lost, and said on the terminal."""

    was_refused = False

    def write(self, kind: str, step: int, **body: Any) -> None:
        """Append one record, or say that it is lost."""
        try:
            if self.was_refused:
                # The refused record may have left its beginning behind.
                os.write(self._file, b"\n")
            super().write(kind, step, **body)
            self.was_refused = False
        except OSError as error:
            if not self.was_refused:
                print(f"The journal cannot be written ({error.strerror}): records are being lost.", file=sys.stderr)
            self.was_refused = True


def tell_start(
    journal: Journal, config: RunConfig, state: TrainState, found: Found, *, resume: str | None, device: str,
    peaks: dict[str, float], world_size: int,
) -> None:  # fmt: skip
    """Say that training starts, or from where it goes on, and what a reader needs to judge the figures."""
    parameters = count_parameters(config.model)
    facts: dict[str, Any] = {
        "parameters": parameters.total,
        "active_parameters": parameters.active,
        "tokens_per_step": state.phase.tokens_per_step,
        "total_steps": config.train.steps,
        "flops_per_token": training_flops_per_token(config.model, state.phase.sequence_length),
        "processes": world_size,
        "device": device,
        "peak_flops": peaks,
        "from_step": state.step,
        "torch": torch.__version__,
    }
    for refused in found.refused:
        journal.event(state.step, "checkpoint_refused", refused.reason, checkpoint=refused.step)
    where = f"on {device}, {world_size} process{'es' if world_size > 1 else ''}"
    if found.folder is None:
        text = f"Trains {parameters.total:,} parameters {where}."
        if resume is not None:
            text += " There is no whole checkpoint to go on from, so it starts from the beginning."
        journal.event(0, "started", text, **facts)
    else:
        text = f"Goes on from step {state.step:,} ({found.folder.name}) {where}."
        journal.event(state.step, "resumed", text, checkpoint=found.folder.name, **facts)


def tell_phase(journal: Journal, step: int, mixture: Mixture) -> None:
    """Say which phase begins, how much data it has, and what of the data no window covers."""
    phase = mixture.phase
    windows = sum(split.num_windows for split in mixture.sources)
    tokens = sum(len(split.tokens) for split in mixture.sources)
    text = (
        f"Phase {phase.name!r}, steps {phase.first_step + 1:,} to {phase.end:,}: {tokens:,} tokens of training data in "
        f"{windows:,} sequences of {phase.sequence_length:,}."
    )
    facts = {"phase": phase.name, "index": phase.index, "first_step": phase.first_step, "end": phase.end}
    facts |= {"sequence_length": phase.sequence_length, "rope_theta": phase.rope_theta, "mix": phase.mix}
    left_out = tokens - windows * phase.sequence_length
    journal.event(step, "phase", text, data_tokens=tokens, sequences=windows, tokens_left_out=left_out, **facts)


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


def tell_experts(
    journal: Journal, step: int, died: list[tuple[int, int]], revived: list[tuple[int, int]], *, dead_after: int
) -> None:
    """Say which experts got no token for so many steps, and which of those got one again."""
    if died:
        text = f"No token for {dead_after} steps: {_experts(died)}."
        journal.event(step, "expert_died", text, experts=died)
    if revived:
        journal.event(step, "expert_revived", f"Gets tokens again: {_experts(revived)}.", experts=revived)


def _experts(places: list[tuple[int, int]]) -> str:
    """`expert 3 of layer 0, expert 7 of layer 1 and 12 more`; people count layers as the charts do, from 0."""
    named = [f"expert {expert} of layer {layer}" for layer, expert in places[:4]]
    more = f" and {len(places) - 4} more" if len(places) > 4 else ""
    return ", ".join(named) + more


class Terminal:
    """A line about the training now and then: often for a person at a terminal, seldom for a log file."""

    def __init__(self, total_steps: int) -> None:
        self.total_steps = total_steps
        self.pause_seconds = 1.0 if sys.stderr.isatty() else 10.0
        self._next = 0.0

    def tell(self, step: int, scalars: Mapping[str, float]) -> None:
        """Print the step's figures unless a line was printed just now."""
        now = time.monotonic()
        if now >= self._next or step == self.total_steps:
            self._next = now + self.pause_seconds
            rate = scalars["tokens_per_second"]
            print(
                f"step {step:,}/{self.total_steps:,}  loss {scalars['loss']:.4f}  {rate:,.0f} tokens/s", file=sys.stderr
            )
