"""Muon's share of a training step at the smallest preset's batch."""

import statistics
import time

from bench._rows import row
from bench._training import training
from zaya_model.optim.optimizer import Gradients

_STEPS = 40


def measure() -> list[dict]:
    """Medians over some steps."""
    with training() as run:
        muon, whole, move = [], [], run.state.muon.step

        def timed_move(gradients: Gradients) -> None:
            begin = time.perf_counter()
            move(gradients)
            muon.append(time.perf_counter() - begin)

        run.state.muon.step = timed_move
        for _ in range(_STEPS):
            begin = time.perf_counter()
            run.step()
            whole.append(time.perf_counter() - begin)
    share = statistics.median(part / step for part, step in zip(muon, whole, strict=True))
    return [row("Muon, share of a step at tiny-cpu", share, "", "goal", 0.1)]
