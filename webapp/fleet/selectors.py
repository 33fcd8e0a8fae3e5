"""Which nodes can be given work."""

from django.db.models import QuerySet

from webapp.fleet.models import Node, lease_start


def nodes() -> QuerySet[Node]:
    """Every node that ever registered."""
    return Node.objects.all()


def find_node(name: str) -> Node | None:
    """The node of this name, or None."""
    return Node.objects.filter(name=name).first()


def usable_nodes() -> QuerySet[Node]:
    """Nodes that are alive and not draining."""
    return Node.objects.filter(last_seen_at__gte=lease_start(), is_draining=False, is_leaving=False)


def usable_machines() -> QuerySet[Node]:
    """Usable nodes that hold one node's part of a run each."""
    return usable_nodes().filter(slots=0)


def usable_gateways() -> QuerySet[Node]:
    """Usable nodes that hold whole runs."""
    return usable_nodes().filter(slots__gt=0)


def lost_nodes() -> QuerySet[Node]:
    """Nodes whose lease has run out."""
    return Node.objects.exclude(last_seen_at__gte=lease_start())
