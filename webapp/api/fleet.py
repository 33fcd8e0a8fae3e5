"""Nodes: list, drain, undrain."""

from typing import Any

from django.http import Http404, HttpRequest
from ninja import Router

from webapp.api.auth import require_operator
from webapp.fleet import selectors, services
from webapp.fleet.models import Node
from webapp.runs.selectors import runs_by_node

router = Router()


@router.get("/nodes")
def list_nodes(request: HttpRequest) -> dict[str, Any]:
    """Every node, whether it is alive, and the run it works on; a gateway works on several."""
    busy = runs_by_node()
    return {"items": [_node(node, busy) for node in selectors.nodes()]}


@router.post("/nodes/{name}/drain")
def drain(request: HttpRequest, name: str) -> dict[str, Any]:
    """Give the node no new runs; what runs on it may end."""
    require_operator(request)
    services.drain_node(_get(name))
    return _node(_get(name), runs_by_node())


@router.post("/nodes/{name}/undrain")
def undrain(request: HttpRequest, name: str) -> dict[str, Any]:
    """Give the node runs again."""
    require_operator(request)
    services.undrain_node(_get(name))
    return _node(_get(name), runs_by_node())


def _get(name: str) -> Node:
    node = selectors.find_node(name)
    if node is None:
        raise Http404(f"There is no node {name}.")
    return node


def _node(node: Node, busy: dict[int, list[int]]) -> dict[str, Any]:
    return {
        "name": node.name,
        "is_alive": node.is_alive,
        "is_draining": node.is_draining,
        "last_seen_at": node.last_seen_at,
        "num_devices": node.num_devices,
        "device_name": node.device_name,
        "num_cores": node.num_cores,
        "memory_bytes": node.memory_bytes,
        "run": next(iter(busy.get(node.pk, [])), None),
        "runs": busy.get(node.pk, []),
        "slots": node.slots,
    }
