"""Reads on runs: lists, one run, who waits and who works where."""

from django.db.models import Q, QuerySet

from webapp.runs.models import ACTIVE, WAITING, Placement, Run, RunState

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


def runs_by_node() -> dict[int, list[int]]:
    """The runs each busy node works on: one, or as many as a gateway holds."""
    found: dict[int, list[int]] = {}
    open_placements = Placement.objects.filter(ended_at=None).order_by("attempt__run_id")
    for node, run in open_placements.values_list("node_id", "attempt__run_id"):
        found.setdefault(node, []).append(run)
    return found
