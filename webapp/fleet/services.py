"""Heartbeats and drains."""

from dataclasses import dataclass

from django.utils import timezone

from webapp import messages
from webapp.fleet.models import Node, Service


@dataclass(frozen=True)
class Machine:
    """What a node says of itself."""

    num_cores: int
    memory_bytes: int
    num_devices: int = 0
    device_name: str = ""
    slots: int = 0


def register_node(name: str, machine: Machine) -> Node:
    """Make the node known, or renew what is known of it; a drain stays."""
    facts = {field: getattr(machine, field) for field in Machine.__dataclass_fields__}
    node, _ = Node.objects.update_or_create(
        name=name, defaults={**facts, "last_seen_at": timezone.now(), "is_leaving": False}
    )
    messages.call_scheduler()
    return node


def node_heartbeat(name: str, *, is_leaving: bool = False) -> None:
    """Renew the node's lease; one whose worker is shutting down gets no new runs."""
    Node.objects.filter(name=name).update(last_seen_at=timezone.now(), is_leaving=is_leaving)


def service_heartbeat(name: str) -> None:
    """Renew a service's lease."""
    Service.objects.update_or_create(name=name, defaults={"last_seen_at": timezone.now()})


def drain_node(node: Node) -> None:
    """Give the node no new runs."""
    Node.objects.filter(pk=node.pk).update(is_draining=True)


def undrain_node(node: Node) -> None:
    """Give the node runs again."""
    Node.objects.filter(pk=node.pk).update(is_draining=False)
    messages.call_scheduler()
