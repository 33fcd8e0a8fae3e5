"""Reads on runs: lists, one run, its attempts as segments of one curve, its timeline."""

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from webapp.runs.models import ACTIVE, WAITING, Event, Placement, Run, RunState

SORTS = {
    "newest": "-id",
    "oldest": "id",
    "name": "name",
    "state": "state",
    "step": "-step",
    "ended": "-ended_at",
}


def list_runs(*, search: str = "", state: str = "", tag: str = "", sort: str = "newest") -> QuerySet[Run]:
    """Runs whose name, number, tag or owner matches; unknown words for `state` and `sort` mean no filter."""
    runs = Run.objects.select_related("owner").order_by(SORTS.get(sort, "-id"), "-id")
    if search:
        number = Q(pk=int(search.lstrip("#"))) if search.lstrip("#").isdecimal() and len(search) < 18 else Q()
        runs = runs.filter(
            Q(name__icontains=search) | Q(tags__contains=[search]) | Q(owner__username__iexact=search) | number
        )
    if state in RunState.values:
        runs = runs.filter(state=state)
    elif state == "active":
        runs = runs.filter(state__in=(*WAITING, *ACTIVE))
    if tag:
        runs = runs.filter(tags__contains=[tag])
    return runs


def find_run(number: int) -> Run | None:
    """The run of this number, or None; any number may be asked for."""
    return Run.objects.select_related("owner").filter(pk=number).first() if number < 2**63 else None


def waiting_runs() -> QuerySet[Run]:
    """Runs without nodes, the one to be served first in front."""
    return Run.objects.filter(state__in=WAITING).order_by("-priority", "queued_at", "id")


def deleted_runs() -> QuerySet[Run]:
    """Runs whose rows or files are still to be removed."""
    return Run.everything.exclude(deleted_at=None)


def queue_position(run: Run) -> int:
    """1 for the next run to be served."""
    ahead = Q(priority__gt=run.priority) | Q(priority=run.priority, queued_at__lt=run.queued_at)
    return waiting_runs().filter(ahead).count() + 1


def node_placements(node_name: str) -> QuerySet[Placement]:
    """Open placements of one node, with all that is needed to start or stop them."""
    return Placement.objects.filter(node__name=node_name, ended_at=None).select_related("attempt__run", "node")


@dataclass(frozen=True)
class Segment:
    """The steps of one attempt that count: a later attempt wins from its first step on."""

    attempt: int
    last_step: int


def segments(run: Run) -> list[Segment]:
    """The attempts that reached a step, oldest first, each with the last step at which it still counts."""
    attempts = list(run.attempts.exclude(from_step=None).order_by("number").values_list("number", "from_step"))
    found, limit = [], 2**62
    for number, from_step in reversed(attempts):
        found.append(Segment(number, limit))
        limit = min(limit, from_step)
    return found[::-1]


@dataclass(frozen=True)
class Goodput:
    """Of the device time a run held, what moved it forward; the rest was starting, saving, and work done twice."""

    held_seconds: float
    useful_seconds: float
    lost_steps: int

    @property
    def share(self) -> float | None:
        """Useful time ÷ held time."""
        return min(1.0, self.useful_seconds / self.held_seconds) if self.held_seconds else None


def goodput(run: Run) -> Goodput:
    """Device-seconds of all attempts so far, and the steps that were done more than once."""
    attempts = list(run.attempts.order_by("number"))
    for attempt in attempts:
        attempt.run = run
    useful, lost_steps, next_from = 0.0, 0, 2**62
    for attempt in reversed(attempts):
        useful += attempt.stepping_seconds - attempt.lost_seconds(next_from)
        lost_steps += max(0, (attempt.last_step or 0) - max(next_from, attempt.from_step or 0))
        next_from = next_from if attempt.from_step is None else min(next_from, attempt.from_step)
    return Goodput(sum(attempt.held_seconds for attempt in attempts), useful, lost_steps)


def timeline(run: Run, limit: int = 200) -> list[Event]:
    """The newest events of a run, newest first."""
    return list(run.events.select_related("actor").order_by("-id")[:limit])


def runs_by_node() -> dict[int, list[int]]:
    """The runs each busy node works on: one, or as many as a gateway holds."""
    found: dict[int, list[int]] = {}
    open_placements = Placement.objects.filter(ended_at=None).order_by("attempt__run_id")
    for node, run in open_placements.values_list("node_id", "attempt__run_id"):
        found.setdefault(node, []).append(run)
    return found
