"""Give queued runs their nodes, whole gangs or nothing; take back what lost nodes held."""

import time
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Q
from django.utils import timezone

from webapp.fleet.models import Node, Service
from webapp.fleet.selectors import lost_nodes, usable_gateways, usable_machines, usable_nodes
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
    free, slots = _free_machines(), _free_slots()
    num_machines, has_gateway = usable_machines().count(), usable_gateways().exists()
    for waiting in waiting_runs():
        wanted = waiting.config["parallel"]["nodes"]
        if services.open_placements(waiting):
            _say(waiting, "Waits for the processes of its last attempt to end.")
        elif gang := _take_gang(wanted, free, slots):
            run = states.lock_run(waiting.pk)
            if run.state in WAITING:
                services.allocate(run, gang)
        elif wanted > num_machines and not has_gateway:
            _say(waiting, _shortage(wanted, num_machines))
        else:
            _make_room(waiting, wanted - len(free))
            _say(waiting, _what_it_waits_for(wanted, has_gateway=has_gateway))
            # Smaller runs behind it must not starve a gang.
            free = []


def _free_machines() -> list[Node]:
    busy = Placement.objects.filter(ended_at=None).values("node")
    return list(usable_machines().exclude(pk__in=busy))


def _free_slots() -> list[Node]:
    """Each gateway as often as it can take one more run."""
    held = Count("placements", filter=Q(placements__ended_at=None))
    return [node for node in usable_gateways().annotate(held=held) for _ in range(node.slots - node.held)]


def _take_gang(wanted: int, machines: list[Node], slots: list[Node]) -> list[Node]:
    """Take as many machines as are wanted, or else a slot of a gateway; nothing while there is neither."""
    if wanted <= len(machines):
        gang = machines[:wanted]
        del machines[:wanted]
        return gang
    return [slots.pop()] if slots else []


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
        held = [placement.node for placement in services.open_placements(run) if placement.node_id in usable]
        if gain := sum(missing if node.is_gateway else 1 for node in held):
            # One that is enough spares the others.
            victims = [run] if gain >= missing else [*victims, run]
            gained += gain
    if gained < missing:
        return
    for victim in victims:
        run = states.lock_run(victim.pk)
        if run.state == RunState.RUNNING and not run.is_yielding:
            services.make_way(run, waiting)


def _shortage(wanted: int, num_machines: int) -> str:
    if not num_machines:
        return "No node is alive: start a node worker."
    return f"Needs {wanted} nodes, {num_machines} are alive and not draining."


def _what_it_waits_for(wanted: int, *, has_gateway: bool) -> str:
    if has_gateway:
        return "Waits for a gateway to have a slot free."
    return "Waits for a busy node." if wanted == 1 else f"Waits for {wanted} nodes to be free at once."


def _say(waiting: Run, reason: str) -> None:
    if waiting.reason != reason:
        Run.objects.filter(pk=waiting.pk, state__in=WAITING).update(reason=reason)
