"""The page that compares runs: their curves over one another, their last values, their configs."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.metrics.compare_figures import Track, group_figure, overlay_figure
from webapp.metrics.keys import keys_of
from webapp.metrics.selectors import Curve, last_values, read_curves
from webapp.pages.charts import smoothing
from webapp.pages.summary import summarise
from webapp.runs import comparison
from webapp.runs.models import Run
from webapp.text import storable

USUAL_KEYS = ("loss", "eval/loss", "router/max_violation", "tokens_per_second")
X_AXES = {"step": "steps", "tokens": "tokens", "time": "hours"}
_MOST_KEYS = 60
_POINTS = 20_000
_COLORS = 6
_MOST_AXES = 8
_MOST_TABLE_KEYS = 12
_MOST_SMOOTHING = 0.99


@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """Any runs side by side: ?runs=1,2,3, with keys, x, smoothing, group and hide as the page left them."""
    numbers = _numbers(request, "runs")
    if len(numbers) > comparison.MOST_RUNS:
        sentence = f"{len(numbers)} runs were chosen; the first {comparison.MOST_RUNS} of them are compared."
        messages.warning(request, sentence)
    runs = comparison.runs_to_compare(numbers)
    if not runs:
        return render(request, "compare/empty.html")
    keys = keys_of(runs)
    shown = _keys(request) or [key for key in USUAL_KEYS if key in keys] or keys[:4]
    context = {
        "address": ",".join(str(run.pk) for run in runs),
        "keys": keys,
        "shown": shown,
        "x_axes": X_AXES,
        "x": request.GET.get("x", "step"),
        "smoothing": smoothing(request, _MOST_SMOOTHING),
        "groups": comparison.group_names(runs),
        "group": request.GET.get("group", ""),
        "config_rows": comparison.config_rows(runs),
        "is_live": any(run.is_active for run in runs),
    }
    return render(request, "compare/compare.html", context | _tables(runs, keys, set(_numbers(request, "hide"))))


@require_GET
def compare_figures(request: HttpRequest) -> HttpResponse:
    """Figures by key of ?runs=1,2 without those to ?hide=2; a run's place among `runs` is its colour."""
    runs = comparison.runs_to_compare(_numbers(request, "runs"))
    hidden, keys, group = set(_numbers(request, "hide")), _keys(request), request.GET.get("group", "")
    shown = [entry for entry in zip(runs, comparison.labels(runs), strict=True) if entry[0].pk not in hidden]
    tracks: dict[str, list[tuple[Run, Track]]] = {key: [] for key in keys}
    for run, label in shown:
        for curve in read_curves(run, keys, max_points=max(200, min(2000, _POINTS // len(shown)))):
            if curve.steps:
                x = _x(request.GET.get("x", "step"), run, curve)
                track = Track(label, runs.index(run), x, curve.values, curve.min, curve.max)
                tracks[curve.key].append((run, track))
    weight = smoothing(request, _MOST_SMOOTHING)
    if group in comparison.group_names(runs):
        names = list(dict.fromkeys(comparison.group_of(run, group) for run in runs))
        figures = {key: group_figure(_grouped(found, group, names), smoothing=weight)
                   for key, found in tracks.items()}  # fmt: skip
    else:
        figures = {key: overlay_figure([track for _, track in found], smoothing=weight)
                   for key, found in tracks.items()}  # fmt: skip
    return HttpResponse(json.dumps(figures, allow_nan=False), content_type="application/json")


def _x(axis: str, run: Run, curve: Curve) -> list[float]:
    """Steps, tokens, or hours since the run first began, waiting included."""
    if axis == "tokens":
        return [step * run.tokens_per_step for step in curve.steps]
    if axis == "time":
        start = run.started_at.timestamp() if run.started_at else curve.times[0]
        return [(time - start) / 3600 for time in curve.times]
    return list(curve.steps)


def _grouped(found: Iterable[tuple[Run, Track]], by: str, names: Sequence[str]) -> dict[str, list[Track]]:
    """Tracks by group, in the order of all groups, so that a group keeps its colour while runs are hidden."""
    groups: dict[str, list[Track]] = {name: [] for name in names}
    for run, track in found:
        groups[comparison.group_of(run, by)].append(track)
    return groups


def _tables(runs: Sequence[Run], keys: Sequence[str], hidden: set[int]) -> dict[str, Any]:
    """Runs as rows with their last values; and the same as lines through the axes of what differs."""
    columns = [*(key for key in USUAL_KEYS if key in keys), *(key for key in keys if key not in USUAL_KEYS)]
    columns = columns[:_MOST_TABLE_KEYS]
    values = last_values(runs, keys)
    differing = comparison.differing_rows(runs)
    rows = [
        {
            "run": run,
            "label": label,
            "summary": summary,
            "color": index % _COLORS,
            "is_hidden": run.pk in hidden,
            "values": [values[run.pk].get(key) for key in columns],
            "differences": [(row.name, row.values[index]) for row in differing[:3]],
        }
        for index, (run, label, summary) in enumerate(zip(runs, comparison.labels(runs), summarise(runs), strict=True))
    ]
    sweep = {
        "axes": [{"name": row.name, "values": list(map(_plain, row.values))} for row in differing[:_MOST_AXES]],
        "metrics": [{"name": key, "values": [_plain(values[run.pk].get(key)) for run in runs]} for key in keys],
        "runs": [{"id": run.pk, "label": row["label"]} for run, row in zip(runs, rows, strict=True)],
    }
    return {"rows": rows, "columns": columns, "differing": differing, "sweep": json.dumps(sweep, allow_nan=False)}


def _plain(value: Any) -> Any:
    """A number or a short text; what is no number that can be placed on an axis is None."""
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        return json.dumps(value)[:40] if not isinstance(value, str) else value[:40]
    return value if value is None or math.isfinite(value) else None


def _numbers(request: HttpRequest, name: str) -> list[int]:
    words = [word for text in request.GET.getlist(name) for word in text.split(",")]
    return list(dict.fromkeys(int(word) for word in words if word.isascii() and word.isdecimal() and len(word) < 19))


def _keys(request: HttpRequest) -> list[str]:
    return list(dict.fromkeys(storable(key)[:250] for key in request.GET.getlist("keys")))[:_MOST_KEYS]
