"""What the run's page draws and tails, as JSON for the browser's session."""

import json
import math
from collections.abc import Callable, Iterator, Sequence

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from webapp.metrics import figures, selectors
from webapp.metrics.export import FORMATS
from webapp.pages.address import number
from webapp.pages.board import board_of
from webapp.pages.marks import marks_of
from webapp.pages.runs import get_run
from webapp.runs.models import Run
from webapp.streaming import stream

_MOST_CHARTS = 60


@require_GET
def chart_board(request: HttpRequest, run_id: int) -> HttpResponse:
    """Every chart that can be drawn, and which of them this user pinned."""
    return as_json(board_of(request.user, get_run(run_id)))


@require_GET
def chart_figures(request: HttpRequest, run_id: int) -> HttpResponse:
    """Figures: ?ids=loss&ids=mfu, smoothing=0…0.99, x=step|tokens|time|relative, from= and to= on that axis.

    With ?replaced=1 also what earlier attempts did that later ones did again.
    """
    run = get_run(run_id)
    axis = _axis(request, run)
    charts = [figures.chart_of(chart_id.replace("\x00", "")) for chart_id in request.GET.getlist("ids")[:_MOST_CHARTS]]
    keys = list(dict.fromkeys(key for chart in charts for key in chart.keys))
    first, last = _steps_in_view(request, run, keys, axis)
    found = selectors.read_curves(run, keys, max_points=_points(request), first_step=first, last_step=last)
    curves = {curve.key: curve for curve in found}
    replaced = _replaced(request, run, keys, axis, first, last)
    drawn = {
        chart.id: figures.line_figure(
            chart, [curves[key] for key in chart.keys], smoothing=smoothing(request), axis=axis,
            replaced={attempt: [found[key] for key in chart.keys] for attempt, found in replaced.items()},
        )
        for chart in charts
    }  # fmt: skip
    return as_json({"figures": drawn, "num_keys": selectors.count_keys(run)})


@require_GET
def chart_marks(request: HttpRequest, run_id: int) -> HttpResponse:
    """What happened at which step: checkpoints, restarts and incidents, for lines across the charts."""
    return as_json(marks_of(get_run(run_id)))


@require_GET
def log_lines(request: HttpRequest, run_id: int) -> HttpResponse:
    """Log lines: the newest, or ?after=ID or ?before=ID, with search and level."""
    lines = selectors.read_log(
        get_run(run_id), search=request.GET.get("search", "").replace("\x00", ""), level=request.GET.get("level", ""),
        before=number(request, "before"), after=number(request, "after"),
    )  # fmt: skip
    return as_json(
        [[line.pk, line.time.isoformat(), line.level, line.source, line.attempt, line.text] for line in lines]
    )


@require_GET
def log_file(request: HttpRequest, run_id: int) -> HttpResponse:
    """The whole log as text, in pieces so that its length does not matter."""
    run = get_run(run_id)
    return stream(request, _log_pieces(run), content_type="text/plain; charset=utf-8", filename=f"run-{run.pk}.log")


@require_GET
def export_file(request: HttpRequest, run_id: int, kind: str) -> HttpResponse:
    """Every point of a run: csv, json or parquet; ?keys= for some series, comma-separated."""
    run = get_run(run_id)
    if kind not in FORMATS:
        raise Http404(f"Points can be exported as {', '.join(FORMATS)}, not {kind}.")
    export, content_type = FORMATS[kind]
    keys = [key for key in request.GET.get("keys", "").replace("\x00", "").split(",") if key]
    return stream(request, export(run, keys or None), content_type=content_type, filename=f"run-{run.pk}.{kind}")


def _log_pieces(run: Run) -> Iterator[bytes]:
    after = -1
    while lines := selectors.read_log(run, after=after, limit=5000):
        yield "".join(f"{line.time.isoformat()} {line.level} {line.source}: {line.text}\n" for line in lines).encode()
        after = lines[-1].pk


def as_json(value: object) -> HttpResponse:
    return HttpResponse(json.dumps(value, allow_nan=False), content_type="application/json")


def smoothing(request: HttpRequest, most: float = 0.999) -> float:
    """The weight of an exponential mean, from none to `most`."""
    try:
        return max(0.0, min(float(request.GET.get("smoothing", "0")), most))
    except ValueError:
        return 0.0


def _axis(request: HttpRequest, run: Run) -> figures.Axis:
    origin = run.started_at.timestamp() if run.started_at else 0.0
    return figures.Axis(request.GET.get("x", ""), run.tokens_per_step, origin)


def _replaced(
    request: HttpRequest, run: Run, keys: Sequence[str], axis: figures.Axis, first: int | None, last: int | None
) -> dict[int, dict[str, selectors.Curve]]:
    """What was done again, by attempt and key, where it is asked for."""
    if "replaced" not in request.GET:
        return {}
    # The steps at a time are other ones in each attempt; what was done again is short enough to be read whole.
    if axis.is_time:
        first = last = None
    found = selectors.read_replaced(run, keys, max_points=_points(request), first_step=first, last_step=last)
    return {attempt: {curve.key: curve for curve in curves} for attempt, curves in found.items()}


def _steps_in_view(
    request: HttpRequest, run: Run, keys: Sequence[str], axis: figures.Axis
) -> tuple[int | None, int | None]:
    """The zoom as steps; None where it has no end, or one that is no place on the axis."""
    low, high = _place(request, "from"), _place(request, "to")
    if axis.is_time and (low, high) != (None, None):
        return _steps_between(run, keys, axis, low, high)
    scale = axis.tokens_per_step if axis.kind == "tokens" else 1
    return _whole(low, scale, math.floor), _whole(high, scale, math.ceil)


def _steps_between(
    run: Run, keys: Sequence[str], axis: figures.Axis, low: float | None, high: float | None
) -> tuple[int | None, int | None]:
    """Steps around two moments, found on the whole curves: the last one before and the first one after."""
    points = [at for curve in selectors.read_curves(run, keys) for at in zip(curve.times, curve.steps, strict=True)]
    before = [step for time, step in points if low is not None and time < axis.time_at(low)]
    after = [step for time, step in points if high is not None and time > axis.time_at(high)]
    return max(before, default=None), min(after, default=None)


def _place(request: HttpRequest, name: str) -> float | None:
    try:
        value = float(request.GET[name])
    except (KeyError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _whole(place: float | None, scale: int, rounded: Callable[[float], int]) -> int | None:
    return rounded(place / scale) if place is not None and abs(place / scale) < 2**62 else None


def _points(request: HttpRequest) -> int:
    return max(50, min(number(request, "points") or selectors.MAX_POINTS, selectors.MAX_POINTS))
