"""Give queued runs their nodes, whole gangs or nothing; take back what lost nodes held."""

from django.db import connection, transaction

from webapp.fleet.models import Node
from webapp.fleet.selectors import lost_nodes, usable_nodes
from webapp.fleet.services import service_heartbeat
from webapp.runs import services, states
from webapp.runs.models import Placement, Run, RunState
from webapp.runs.selectors import waiting_runs

SERVICE = "scheduler"
_LOCK = 0x5A415941  # any number of our own: one scheduler decides at a time


def look() -> None:
    """Reconcile, then allocate. May run at any time, any number of times."""
    service_heartbeat(SERVICE)
    reconcile()
    allocate()


def reconcile() -> None:
    """End what runs on nodes whose lease ran out; their runs go on elsewhere or fail."""
    held = Placement.objects.filter(ended_at=None).values("node")
    for node in lost_nodes().filter(pk__in=held):
        services.lose_node(node)


@transaction.atomic
def allocate() -> None:
    """Serve the queue in its order; a run that cannot be placed keeps its nodes free of those behind it."""
    with connection.cursor() as sql:
        sql.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    free = _free_nodes()
    for waiting in waiting_runs():
        wanted = waiting.config["parallel"]["nodes"]
        if wanted <= len(free):
            run = states.lock_run(waiting.pk)
            if run.state == RunState.QUEUED:
                services.allocate(run, free[:wanted])
                free = free[wanted:]
            continue
        _make_room(waiting, wanted - len(free))
        _say_why(waiting, wanted)
        # Smaller runs behind it must not starve a gang.
        free = []


def _free_nodes() -> list[Node]:
    busy = Placement.objects.filter(ended_at=None).values("node")
    return list(usable_nodes().exclude(pk__in=busy))


def _make_room(waiting: Run, missing: int) -> None:
    """Ask the least urgent runs to make way, if that would be enough; those asked before count too."""
    below = Run.objects.filter(
        priority__lt=waiting.priority, state__in=(RunState.STARTING, RunState.RUNNING, RunState.STOPPING)
    ).order_by("priority", "-queued_at")
    victims, gained = [], 0
    for run in below:
        if gained >= missing:
            break
        victims.append(run)
        gained += len(services.open_placements(run))
    if gained < missing:
        return
    for victim in victims:
        run = states.lock_run(victim.pk)
        if run.state == RunState.RUNNING and not run.is_yielding:
            services.make_way(run, waiting)


def _say_why(waiting: Run, wanted: int) -> None:
    alive = usable_nodes().count()
    if not alive:
        reason = "No node is alive: start a node worker."
    elif alive < wanted:
        reason = f"Needs {wanted} nodes, {alive} are alive and not draining."
    else:
        reason = "Waits for a busy node." if wanted == 1 else f"Waits for {wanted} nodes to be free at once."
    if waiting.reason != reason:
        Run.objects.filter(pk=waiting.pk, state=RunState.QUEUED).update(reason=reason)
