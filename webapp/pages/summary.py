"""What the head of a run's page and its row in the list say: progress, time left, the figures one looks at first."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webapp.metrics.selectors import last_values
from webapp.runs.attempts import Goodput
from webapp.runs.models import WAITING, Run, RunState
from webapp.runs.selectors import queue_position

KEYS = (
    "loss", "eval/loss", "tokens_per_second", "mfu", "router/max_violation", "router/dead_experts", "step_seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Tile:
    """One figure with its name."""

    name: str
    value: float | None
    unit: str = ""
    is_share: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Summary:
    """A run as it stands now."""

    run: Run
    values: dict[str, float]
    place_in_queue: int | None = None
    goodput: Goodput | None = None

    @property
    def percent(self) -> float:
        """Share of the steps done."""
        return min(100.0, 100.0 * self.run.step / max(1, self.run.total_steps))

    @property
    def seconds_left(self) -> float | None:
        """Time left at the newest rate, or None when nothing moves."""
        rate = self.values.get("tokens_per_second", 0.0)
        if self.run.state != RunState.RUNNING or not rate or not math.isfinite(rate):
            return None
        return (self.run.total_steps - self.run.step) * self.run.tokens_per_step / rate

    @property
    def tokens(self) -> int:
        """Tokens seen."""
        return self.run.step * self.run.tokens_per_step

    @property
    def tiles(self) -> list[Tile]:
        """Figures in the order one looks at them."""
        value = self.values.get
        return [
            Tile("Loss", value("loss")),
            Tile("Held out", value("eval/loss"), hint="Loss on data that is not trained on"),
            Tile("Throughput", value("tokens_per_second"), "tok/s"),
            Tile("Utilisation", value("mfu"), is_share=True, hint="Model FLOPs ÷ measured matmul peak of this machine"),
            Tile("Imbalance", value("router/max_violation"), hint="Most loaded expert ÷ fair share − 1, worst layer"),
            Tile("Dead experts", value("router/dead_experts"), hint="Experts that got no token in the last step"),
            Tile("Step", value("step_seconds"), "s"),
            *self._goodput_tile,
        ]

    @property
    def _goodput_tile(self) -> list[Tile]:
        if self.goodput is None or self.goodput.share is None:
            return []
        hint = "Time that moved the run forward ÷ time it held its devices"
        if self.goodput.lost_steps:
            hint += f"; {self.goodput.lost_steps:,} steps were done again"
        return [Tile("Goodput", self.goodput.share, is_share=True, hint=hint)]


def summarise(runs: Sequence[Run], keys: Iterable[str] = ()) -> list[Summary]:
    """Summaries of some runs with the values of `keys` too, in two queries and one more for each queued run."""
    values = last_values(runs, [*KEYS, *keys])
    return [Summary(run, values[run.pk], queue_position(run) if run.state in WAITING else None) for run in runs]
