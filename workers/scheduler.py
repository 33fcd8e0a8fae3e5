"""Give queued runs their nodes, whole gangs or nothing; take back what lost nodes held."""

import time
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from webapp.fleet.models import Node, Service
from webapp.fleet.selectors import lost_nodes, usable_nodes
from webapp.fleet.services import service_heartbeat
from webapp.runs import services, states
from webapp.runs.models import WAITING, Placement, Run, RunState
from webapp.runs.selectors import waiting_runs

SERVICE = "scheduler"
_LOCK = 0x5A415941  # any number of our own: one scheduler decides at a time
_trusts_leases_at = 0.0


def look() -> None:
    """Reconcile, then allocate. May run at any time, any number of times."""
    if _may_judge():
        reconcile()
    allocate()


def _may_judge() -> bool:
    """Whether silence of a node means it: after an outage of our own, or of the database, all get a new lease."""
    global _trusts_leases_at
    last = Service.objects.filter(name=SERVICE).first()
    service_heartbeat(SERVICE)
    if last and timezone.now() - last.last_seen_at > timedelta(seconds=settings.LEASE_SECONDS / 2):
        _trusts_leases_at = time.monotonic() + settings.LEASE_SECONDS
    return time.monotonic() >= _trusts_leases_at


def reconcile() -> None:
    """End what runs on nodes whose lease ran out; their runs go on elsewhere or fail."""
    held = Placement.objects.filter(ended_at=None).values("node")
    for node in lost_nodes().filter(pk__in=held):
        services.lose_node(node)


@transaction.atomic
def allocate() -> None:
    """Serve the queue in its order; a run that must wait for busy nodes keeps free ones from those behind it."""
    with connection.cursor() as sql:
        sql.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    free, num_usable = _free_nodes(), usable_nodes().count()
    for waiting in waiting_runs():
        wanted = waiting.config["parallel"]["nodes"]
        if services.open_placements(waiting):
            _say(waiting, "Waits for the processes of its last attempt to end.")
        elif wanted <= len(free):
            run = states.lock_run(waiting.pk)
            if run.state in WAITING:
                services.allocate(run, free[:wanted])
                free = free[wanted:]
        elif wanted > num_usable:
            _say(waiting, _shortage(wanted, num_usable))
        else:
            _make_room(waiting, wanted - len(free))
            _say(waiting, "Waits for a busy node." if wanted == 1 else f"Waits for {wanted} nodes to be free at once.")
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
    usable = set(usable_nodes().values_list("pk", flat=True))
    victims, gained = [], 0
    for run in below:
        if gained >= missing:
            break
        if gain := sum(placement.node_id in usable for placement in services.open_placements(run)):
            victims.append(run)
            gained += gain
    if gained < missing:
        return
    for victim in victims:
        run = states.lock_run(victim.pk)
        if run.state == RunState.RUNNING and not run.is_yielding:
            services.make_way(run, waiting)


def _shortage(wanted: int, num_usable: int) -> str:
    if not num_usable:
        return "No node is alive: start a node worker."
    return f"Needs {wanted} nodes, {num_usable} are alive and not draining."


def _say(waiting: Run, reason: str) -> None:
    if waiting.reason != reason:
        Run.objects.filter(pk=waiting.pk, state__in=WAITING).update(reason=reason)
