"""Detectors on what each step measured: a loss that is no number or far above the recent ones, experts nobody asks.

Shapes: L blocks, E experts.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from zaya_model.config import WatchConfig

Action = Literal["stop", "roll_back", "go_on"]
# Median absolute deviation of a normal distribution to its standard deviation.
_TO_SIGMA = 1.4826
_LEAST_LOSSES = 16


@dataclass(frozen=True)
class Alarm:
    """What is wrong with a step, the event's name, and what the config wants done about it."""

    name: Literal["nan", "loss_spike"]
    text: str
    action: Action

    @property
    def spares_weights(self) -> bool:
        """Whether the step must leave the weights alone: always where its gradient is no number."""
        return self.name == "nan" or self.action != "go_on"


def judge(config: WatchConfig, loss: float, norm: float, recent: Sequence[float]) -> Alarm | None:
    """What to say of a step by its loss and gradient norm, before it moves the weights.

    A spike is judged by the median of the recent losses and their median absolute deviation, which a few outliers among
    them do not move.
    """
    if not math.isfinite(loss) or not math.isfinite(norm):
        what = f"The loss became {loss}" if not math.isfinite(loss) else f"The gradient's norm became {norm}"
        return Alarm("nan", what, config.on_nan)
    if not config.spike_deviations or len(recent) < _LEAST_LOSSES:
        return None
    middle = statistics.median(recent)
    # A floor, so that a flat curve does not make a spike of nothing.
    deviation = max(_TO_SIGMA * statistics.median(abs(value - middle) for value in recent), 1e-3 * abs(middle))
    times = (loss - middle) / deviation if deviation else 0.0
    if times <= config.spike_deviations:
        return None
    text = f"The loss {loss:.4g} is {times:.0f} deviations above the recent {middle:.4g}"
    return Alarm("loss_spike", text, config.on_spike)


class ExpertWatch:
    """Counts how long each expert has gone without a token."""

    def __init__(self, dead_after: int) -> None:
        self.dead_after = dead_after
        self._idle: Tensor | None = None

    def see(self, counts_LE: Tensor) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Take the tokens of a step (L, E); returns (layer, expert) of those that died and those that came back now."""
        if not self.dead_after:
            return [], []
        before = torch.zeros_like(counts_LE) if self._idle is None else self._idle
        self._idle = torch.where(counts_LE == 0, before + 1, 0)
        died = self._idle == self.dead_after
        revived = (before >= self.dead_after) & (counts_LE > 0)
        return _places(died), _places(revived)


def _places(mask_LE: Tensor) -> list[tuple[int, int]]:
    return [(layer, expert) for layer, expert in mask_LE.nonzero().tolist()]
