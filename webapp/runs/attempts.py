"""The attempts of a run as segments of one curve: which steps of each count, and what of its device time did."""

from collections.abc import Sequence
from dataclasses import dataclass

from webapp.runs.models import Attempt, Run

_FAR = 2**62  # no step is so great


@dataclass(frozen=True)
class Segment:
    """The steps of one attempt that count: a later attempt wins from its first step on."""

    attempt: int
    last_step: int


@dataclass(frozen=True)
class Account:
    """One attempt, and what of it later ones did again."""

    attempt: Attempt
    lost_steps: int
    lost_seconds: float
    """Device-seconds of these steps."""

    @property
    def seconds(self) -> float:
        """How long it has held its nodes."""
        return self.attempt.held_seconds / self.attempt.num_devices

    @property
    def useful_seconds(self) -> float:
        """Device-seconds of its steps that count."""
        return self.attempt.stepping_seconds - self.lost_seconds

    @property
    def share(self) -> float | None:
        """Useful time ÷ held time."""
        return _share(self.useful_seconds, self.attempt.held_seconds)


@dataclass(frozen=True)
class Goodput:
    """Of the device time a run held, what moved it forward; the rest was starting, saving, and work done twice."""

    held_seconds: float
    useful_seconds: float
    lost_steps: int

    @property
    def share(self) -> float | None:
        """Useful time ÷ held time."""
        return _share(self.useful_seconds, self.held_seconds)


def segments(run: Run) -> list[Segment]:
    """The attempts that reached a step, oldest first, each with the last step at which it still counts."""
    attempts = list(run.attempts.exclude(from_step=None).order_by("number").values_list("number", "from_step"))
    found, limit = [], _FAR
    for number, from_step in reversed(attempts):
        found.append(Segment(number, limit))
        limit = min(limit, from_step)
    return found[::-1]


def list_attempts(run: Run, *, with_nodes: bool = False) -> list[Account]:
    """Every attempt, oldest first."""
    attempts = run.attempts.order_by("number")
    found, next_from = [], _FAR
    for attempt in reversed(list(attempts.prefetch_related("placements__node") if with_nodes else attempts)):
        attempt.run = run
        lost_steps = max(0, (attempt.last_step or 0) - max(next_from, attempt.from_step or 0))
        found.append(Account(attempt, lost_steps, attempt.lost_seconds(next_from)))
        next_from = next_from if attempt.from_step is None else min(next_from, attempt.from_step)
    return found[::-1]


def goodput(attempts: Sequence[Account]) -> Goodput:
    """Device-seconds of all attempts of a run so far, and the steps that were done more than once."""
    return Goodput(
        sum(account.attempt.held_seconds for account in attempts),
        sum(account.useful_seconds for account in attempts),
        sum(account.lost_steps for account in attempts),
    )


def _share(useful: float, held: float) -> float | None:
    return min(1.0, useful / held) if held else None
