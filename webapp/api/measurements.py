"""What a run measured: series, router load, checkpoints, log lines."""

from typing import Any

from django.http import Http404, HttpRequest, StreamingHttpResponse
from ninja import Query, Router
from ninja.errors import HttpError

from webapp.api.runs import bounded, get_run
from webapp.checkpoints.selectors import list_checkpoints
from webapp.metrics import selectors
from webapp.metrics.export import FORMATS
from webapp.streaming import stream

router = Router()

_MOST_POINTS = 20_000
_MOST_KEYS = 100
_MOST_LINES = 5_000


@router.get("/{int:run_id}/metrics")
def read_metrics(
    request: HttpRequest,
    run_id: int,
    # The name in the query; as an argument's own it would hide the method that ninja calls.
    wanted: str = Query(..., alias="keys"),
    max_points: int = selectors.MAX_POINTS,
    first_step: int | None = None,
    last_step: int | None = None,
    attempt: int | None = None,
) -> dict[str, Any]:
    """Series by key (comma-separated), exact or in buckets that keep every spike in `min` and `max`.

    One curve over all attempts, of which later ones win; or all that one attempt did.
    """
    names = list(dict.fromkeys(key for key in wanted.split(",") if key))
    if not names or len(names) > _MOST_KEYS:
        raise HttpError(400, f"keys: give 1 to {_MOST_KEYS} names, comma-separated; /metrics/keys lists them.")
    run = get_run(run_id)
    if attempt is not None and not run.attempts.filter(number=bounded(attempt)).exists():
        raise Http404(f"Run {run_id} has no attempt {attempt}; /runs/{run_id}/attempts lists them.")
    curves = selectors.read_curves(
        run, names, max_points=max(2, min(max_points, _MOST_POINTS)),
        first_step=bounded(first_step), last_step=bounded(last_step), attempt=attempt,
    )  # fmt: skip
    return {"series": [vars(curve) for curve in curves]}


@router.get("/{int:run_id}/metrics/keys")
def list_keys(request: HttpRequest, run_id: int) -> dict[str, Any]:
    """Names of every series of a run."""
    return {"keys": selectors.list_keys(get_run(run_id))}


@router.get("/{int:run_id}/export")
def export_points(
    request: HttpRequest, run_id: int, wanted_format: str = Query("csv", alias="format"), keys: str = ""
) -> StreamingHttpResponse:
    """Every point, or those of some keys (comma-separated), of all attempts, as csv, json or parquet."""
    run = get_run(run_id)
    if wanted_format not in FORMATS:
        raise HttpError(400, f"format: write {', '.join(FORMATS)}, not {wanted_format!r}.")
    export, content_type = FORMATS[wanted_format]
    pieces = export(run, [key for key in keys.split(",") if key] or None)
    return stream(request, pieces, content_type=content_type, filename=f"run-{run.pk}.{wanted_format}")


@router.get("/{int:run_id}/router")
def read_router(request: HttpRequest, run_id: int, step: str = "latest") -> dict[str, Any]:
    """Tokens per expert of every layer, at the newest record or the newest one up to `step`."""
    if step != "latest" and not (step.isascii() and step.isdecimal() and len(step) < 19):
        raise HttpError(400, f"step: write `latest` or a step number, not {step!r}.")
    state = selectors.read_router(get_run(run_id), None if step == "latest" else int(step))
    if state is None:
        raise Http404(f"Run {run_id} has no router load up to {'now' if step == 'latest' else f'step {step}'}.")
    return {
        "step": state.step,
        "layers": state.layers,
        "skipped": state.skipped,
        "bias": state.bias,
        "max_violation": state.max_violation,
        "entropy": state.entropy,
        "dead_experts": state.dead_experts,
        "skip_share": state.skip_share,
    }


@router.get("/{int:run_id}/router/layers/{int:layer}")
def read_layer(request: HttpRequest, run_id: int, layer: int, max_points: int = 300) -> dict[str, Any]:
    """Tokens per expert of one layer over time."""
    run = get_run(run_id)
    if layer >= run.config["model"]["num_hidden_layers"]:
        raise Http404(f"Run {run_id} has layers 0 to {run.config['model']['num_hidden_layers'] - 1}.")
    steps, load = selectors.read_layer(run, layer, max_points=max(2, min(max_points, 5000)))
    return {"layer": layer, "steps": steps, "load": load}


@router.get("/{int:run_id}/checkpoints")
def read_checkpoints(request: HttpRequest, run_id: int, with_removed: bool = False) -> dict[str, Any]:
    """Checkpoints, newest step first."""
    fields = ("step", "status", "bytes", "seconds", "stall_seconds", "path", "reason", "attempt", "updated_at")
    found = list_checkpoints(get_run(run_id), with_removed=with_removed)
    return {"items": [{field: getattr(checkpoint, field) for field in fields} for checkpoint in found]}


@router.get("/{int:run_id}/logs")
def read_logs(
    request: HttpRequest, run_id: int, search: str = "", level: str = "", before: int | None = None,
    after: int | None = None, limit: int = 500,
) -> dict[str, Any]:  # fmt: skip
    """Log lines, oldest first: the newest ones, those before an id, or those after one."""
    lines = selectors.read_log(
        get_run(run_id), search=search, level=level, before=bounded(before), after=bounded(after),
        limit=max(1, min(limit, _MOST_LINES)),
    )  # fmt: skip
    fields = ("id", "attempt", "source", "time", "level", "text")
    return {"items": [{field: getattr(line, field) for field in fields} for line in lines]}
