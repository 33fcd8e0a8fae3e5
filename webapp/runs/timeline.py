"""The timeline of a run: kinds of events, how grave each is, pages of them, and how long each state lasted."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from django.db.models import Q
from django.utils import timezone

from webapp.runs.models import ENDED, Event, Run, RunState

PAGE_SIZE = 100
_ERRORS = {
    "nan", "stalled", "peer_lost", "checkpoint_failed", "checkpoint_refused", "unreadable", "failed", "superseded",
}  # fmt: skip
_WARNINGS = {"loss_spike", "lost_work", "expert_died", "preempted", "unknown"}
_GOOD = {"finished", "expert_revived", "checkpoint"}
INCIDENTS = (_ERRORS | _WARNINGS) - {"unknown"} | {"expert_revived"}
KINDS = {
    "incidents": Q(name__in=INCIDENTS),
    "checkpoints": Q(name__startswith="checkpoint"),
    "states": Q(name__in=RunState.values),
    "people": Q(actor__isnull=False),
}


@dataclass(frozen=True)
class Entry:
    """One event as it is shown."""

    event: Event
    lasted: float | None = None
    """Seconds until the next state, of an event that is one."""

    @property
    def title(self) -> str:
        """Its name in words."""
        return self.event.name.replace("_", " ")

    @property
    def gravity(self) -> str:
        """error, warning, good or note."""
        name = self.event.name
        return "error" if name in _ERRORS else "warning" if name in _WARNINGS else "good" if name in _GOOD else "note"


@dataclass(frozen=True)
class Page:
    """Events, newest first, and the number to ask for those before them with; None where there are none."""

    entries: list[Entry]
    earlier: int | None


def read_timeline(
    run: Run, *, kind: str = "", attempt: int | None = None, before: int | None = None, count: int = PAGE_SIZE
) -> Page:
    """The newest events of a run: of one kind, of one attempt, before an event's number."""
    events = run.events.filter(KINDS.get(kind, Q())).select_related("actor").order_by("-id")
    if attempt is not None:
        events = events.filter(attempt=attempt)
    if before is not None:
        events = events.filter(id__lt=before)
    found = list(events[: count + 1])
    shown = found[:count]
    lasted = _durations(run, [event.pk for event in shown if event.name in RunState.values])
    entries = [Entry(event, lasted.get(event.pk)) for event in shown]
    return Page(entries, shown[-1].pk if len(found) > count else None)


def _durations(run: Run, numbers: Sequence[int]) -> dict[int, float]:
    """Seconds that the states of some events lasted; a state that was told of twice lasted from the last word on."""
    if not numbers:
        return {}
    states = run.events.filter(KINDS["states"]).order_by("id").values_list("id", "name", "time")
    told = list(states.filter(id__range=(min(numbers), max(numbers))))
    after = states.filter(id__gt=max(numbers)).first()
    if after is None and told[-1][1] not in ENDED:
        after = (0, "", timezone.now())
    return {
        number: (end - start).total_seconds()
        for (number, name, start), (_, next_name, end) in pairwise([*told, after] if after else told)
        if name != next_name
    }
