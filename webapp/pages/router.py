"""What the run's page shows of its router, as JSON: heat maps, balance by layer, sums."""

from dataclasses import asdict

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from webapp.metrics import figures, routing, selectors
from webapp.pages.address import number
from webapp.pages.charts import as_json
from webapp.pages.runs import get_run


@require_GET
def router_now(request: HttpRequest, run_id: int) -> HttpResponse:
    """Loads and balance at ?step=N, by default the newest; over time of ?layer=N, by default the worst one."""
    run = get_run(run_id)
    state = selectors.read_router(run, number(request, "step"))
    if state is None:
        return as_json({"step": None})
    balance = routing.balance_of(state)
    worst = max(balance, key=lambda row: row.violation).layer
    layer = number(request, "layer")
    layer = worst if layer is None else min(layer, len(state.layers) - 1)
    steps, loads = selectors.read_layer(run, layer)
    return as_json(
        {
            "step": state.step,
            "steps": steps,
            "layer": layer,
            "worst_layer": worst,
            "balance": [asdict(row) for row in balance],
            "entropy": state.entropy,
            "dead_experts": state.dead_experts,
            "skip_share": state.skip_share,
            "tokens": sum(state.layers[0]) + state.skipped[0],
            "shortfall": routing.shortfall(state, routing.expected_tokens(run, state)),
            "load": figures.load_figure(state.layers),
            "layer_load": figures.layer_figure(steps, loads),
        }
    )


@require_GET
def router_history(request: HttpRequest, run_id: int) -> HttpResponse:
    """One measure of balance by layer over time: ?measure=violation|entropy|dead|overloaded|skip_share|bias_spread."""
    measure = request.GET.get("measure", "")
    if measure not in routing.MEASURES:
        measure = "violation"
    states = selectors.read_router_history(get_run(run_id))
    balances = [routing.balance_of(state) for state in states]
    layers = [[getattr(row, measure) for row in rows] for rows in zip(*balances, strict=True)]
    name, unit = routing.MEASURES[measure]
    figure = figures.history_figure([state.step for state in states], layers, name.lower())
    return as_json({"unit": unit, "figure": figure if layers else {"data": [], "layout": {}}})
