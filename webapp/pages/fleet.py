"""The page of nodes."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from webapp.fleet import selectors, services
from webapp.pages.access import require_operator
from webapp.runs.selectors import runs_by_node


@require_GET
def node_list(request: HttpRequest) -> HttpResponse:
    """Every node, whether it is alive, and what it works on."""
    busy = runs_by_node()
    rows = [(node, busy.get(node.pk, [])) for node in selectors.nodes()]
    return render(request, "fleet/_rows.html" if "rows" in request.GET else "fleet/nodes.html", {"rows": rows})


@require_POST
def set_drain(request: HttpRequest, name: str) -> HttpResponse:
    """The drain button and its opposite."""
    require_operator(request.user, to="drain nodes")
    node = selectors.find_node(name)
    if node is None:
        raise Http404(f"There is no node {name}.")
    (services.drain_node if request.POST.get("drain") == "1" else services.undrain_node)(node)
    return redirect("nodes")
