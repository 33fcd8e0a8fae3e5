"""A Plotly figure from what was measured: pure functions from numbers to dictionaries; colours are the browser's."""

import html
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from webapp.metrics.selectors import Curve

Figure = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """One card of the run page: which series it draws, and how."""

    id: str
    title: str
    keys: tuple[str, ...]
    unit: str = ""
    names: tuple[str, ...] = ()
    is_stacked: bool = False
    tick_format: str = ""


CHARTS = (
    Chart("loss", "Loss", ("loss", "eval/loss"), "nats per token", ("train", "held out")),
    Chart("throughput", "Throughput", ("tokens_per_second",), "tokens/s", tick_format="~s"),
    Chart("grad_norm", "Gradient norm", ("grad_norm", "grad_norm/router", "grad_norm/experts", "grad_norm/attention"),
          "", ("all", "router", "experts", "attention")),
    Chart("violation", "Router imbalance", ("router/max_violation",), "max ÷ fair − 1"),
    Chart("entropy", "Router entropy", ("router/entropy", "router/skip_share"), "1 is even", ("entropy", "skip share")),
    Chart("time", "Step time", ("time/data", "time/forward_backward", "time/optimizer", "time/checkpoint"),
          "s", ("data", "fwd + bwd", "optimizer", "checkpoint"), is_stacked=True),
    Chart("mfu", "FLOPs utilisation", ("mfu", "mfu_spec"), "share of the peak", ("of measured peak", "of maker's peak"),
          tick_format=".0%"),
    Chart("rates", "Learning rates", ("lr/muon", "lr/adamw"), "", ("Muon", "AdamW"), tick_format="~e"),
)  # fmt: skip
CHARTS_BY_ID = {chart.id: chart for chart in CHARTS}


@dataclass(frozen=True)
class Axis:
    """What lies along x: steps, tokens, the time of day (UTC) or seconds since `origin`."""

    kind: str = "step"
    tokens_per_step: int = 1
    origin: float = 0.0

    @property
    def is_time(self) -> bool:
        """Whether places are moments rather than multiples of a step."""
        return self.kind in ("time", "relative")

    def places(self, curve: Curve) -> list[float]:
        """The place of each point; moments in milliseconds since 1970, as Plotly's dates."""
        if self.kind == "time":
            return [time * 1000 for time in curve.times]
        if self.kind == "relative":
            return [time - self.origin for time in curve.times]
        return [step * self.tokens_per_step for step in curve.steps] if self.kind == "tokens" else list(curve.steps)

    def time_at(self, place: float) -> float:
        """Seconds since 1970 of a place on an axis of time."""
        return place / 1000 if self.kind == "time" else place + self.origin


STEPS = Axis()
_DASHED = {"line": {"dash": "2px,3px", "width": 1.4}, "legendrank": 2000}


def chart_of(chart_id: str) -> Chart:
    """A card of the run page, or the card of any one series by its key."""
    return CHARTS_BY_ID.get(chart_id) or Chart(chart_id, chart_id, (chart_id,))


def charts_of(keys: Sequence[str]) -> list[Chart]:
    """Every card there can be: those made with care, then one for each other series."""
    drawn = {key for chart in CHARTS for key in chart.keys}
    return [*CHARTS, *(Chart(key, key, (key,)) for key in keys if key not in drawn)]


def line_figure(
    chart: Chart, curves: Sequence[Curve], *, smoothing: float = 0.0, axis: Axis = STEPS,
    replaced: Mapping[int, Sequence[Curve]] = MappingProxyType({}),
) -> Figure:  # fmt: skip
    """Lines over an axis; under them, faint, what of each attempt in `replaced` a later one did again.

    A smoothed line keeps the raw one faintly behind it; buckets show their least and greatest value as a band; what is
    no finite number is a gap with a cross where the line was last seen. The names as they were logged are in
    `layout.meta`; each trace says in `meta` of which series it is and in which role: line, raw, band or marks; and of
    which attempt, where that was replaced.
    """
    names = chart.names or tuple("" if len(chart.keys) == 1 else key for key in chart.keys)
    traces: list[Figure] = []
    for index, (name, curve) in enumerate(zip(names, curves, strict=True)):
        x = axis.places(curve)
        if not x:
            continue
        if chart.is_stacked:
            traces.append(line(name, index, x, curve.values, stackgroup="all"))
            continue
        traces += _traces(name, index, x, curve, smoothing)
    has_many = len({trace["meta"]["series"] for trace in traces}) > 1
    faint = [] if chart.is_stacked else _replaced_traces(names, replaced, smoothing, axis)
    if faint and not has_many:
        traces = [{**trace, "showlegend": False} for trace in traces]
    layout = _layout(chart, has_many or bool(faint))
    layout["meta"] = [name or chart.title for name in names]
    if axis.is_time:
        layout["xaxis"] = {"type": "date"} if axis.kind == "time" else {"ticksuffix": " s"}
    if not chart.is_stacked and (span := _constant_span([*curves, *itertools.chain(*replaced.values())])):
        layout["yaxis"]["range"] = span
    return {"data": [*faint, *traces], "layout": layout}


def load_figure(layers: Sequence[Sequence[int]]) -> Figure:
    """Layer × expert heat map of load ÷ fair share; 1 is the middle of the scale."""
    return _heat_map(
        [[f"{index}" for index in range(len(layers[0]))], [f"{index}" for index in range(len(layers))]],
        [_shares(load) for load in layers],
        [list(load) for load in layers],
        ("expert", "layer"),
    )


def layer_figure(steps: Sequence[int], loads: Sequence[Sequence[int]]) -> Figure:
    """Expert × time heat map of one layer."""
    experts = range(len(loads[0])) if loads else range(0)
    shares = [_shares(load) for load in loads]
    figure = _heat_map(
        [list(steps), [f"{expert}" for expert in experts]],
        [[share[expert] for share in shares] for expert in experts],
        [[load[expert] for load in loads] for expert in experts],
        ("step", "expert"),
    )
    figure["layout"]["xaxis"]["type"] = "linear"
    return figure


def history_figure(steps: Sequence[int], layers: Sequence[Sequence[float]], hover: str) -> Figure:
    """Layer × time heat map of one figure, a row of values for each layer; from zero, so that it does not flicker."""
    top = max((max(row, default=0.0) for row in layers), default=0.0) or 1.0
    return {
        "data": [
            {
                "type": "heatmap",
                "x": list(steps),
                "y": [f"{layer}" for layer in range(len(layers))],
                "z": [list(row) for row in layers],
                "zmin": 0,
                "zmax": top,
                "hovertemplate": f"layer %{{y}}, step %{{x}}<br>%{{z:.3~g}} {hover}<extra></extra>",
                "ygap": 1,
                "colorbar": {"thickness": 10, "outlinewidth": 0},
            }
        ],
        "layout": {
            "xaxis": {"title": {"text": "step"}, "type": "linear", "showgrid": False},
            "yaxis": {"title": {"text": "layer"}, "type": "category", "autorange": "reversed", "showgrid": False},
        },
    }


def smoothed(values: Sequence[float], weight: float) -> list[float]:
    """Exponential mean without the bias of its start; what is not finite is passed through and not counted."""
    mean, share, result = 0.0, 0.0, []
    for value in values:
        if not math.isfinite(value):
            result.append(value)
            continue
        mean = weight * mean + (1 - weight) * value
        share = weight * share + (1 - weight)
        result.append(mean / share)
    return result


def _traces(name: str, index: int, x: Sequence[float], curve: Curve, smoothing: float) -> list[Figure]:
    """A series: its band, its raw line where it is smoothed, its line, its crosses."""
    traces = [band(index, x, curve.min, curve.max)] if curve.min != curve.max else []
    if smoothing and len(x) > 1:
        raw = line(name, index, x, curve.values, role="raw", opacity=0.25, showlegend=False, hoverinfo="skip")
        traces.append(raw)
    traces.append(line(name, index, x, smoothed(curve.values, smoothing) if smoothing else curve.values))
    marks = _marks(name, index, x, curve)
    return [*traces, marks] if marks else traces


def _replaced_traces(
    names: Sequence[str], replaced: Mapping[int, Sequence[Curve]], smoothing: float, axis: Axis
) -> list[Figure]:
    """Dashes for what was done again; the legend has one entry for all of it, hovering tells them apart."""
    traces = [
        {**trace, **_faint(trace), "meta": {**trace["meta"], "attempt": attempt}}
        for attempt, curves in replaced.items()
        for index, (name, curve) in enumerate(zip(names, curves, strict=True))
        if curve.steps
        for trace in _traces(
            f"{name}, attempt {attempt}".removeprefix(", "), index, axis.places(curve), curve, smoothing
        )
    ]
    if not traces:
        return []
    key = line("earlier attempts", traces[0]["meta"]["series"], [None, None], [], role="key", legendgroup="replaced")
    return [*traces, {**key, "y": [None, None], **_DASHED}]


def _faint(trace: Figure) -> Figure:
    look = {"opacity": 0.7 * trace.get("opacity", 1.0), "showlegend": False, "legendgroup": "replaced"}
    return {**look, **_DASHED} if trace["meta"]["role"] == "line" else look


def line(name: str, index: int, x: Sequence[float], y: Sequence[float], *, role: str = "line", **more: Any) -> Figure:
    """The trace of a series; the browser has a colour and a dash for each number of a series."""
    return {
        "type": "scatter",
        # A single point has no line to be seen by.
        "mode": "lines" if len(x) > 1 else "markers",
        "name": html.escape(name),
        "meta": {"series": index, "role": role},
        "x": x,
        "y": [value if math.isfinite(value) else None for value in y],
        **more,
    }


def band(index: int, x: Sequence[float], low: Sequence[float], high: Sequence[float]) -> Figure:
    """The area between two lines where both are finite: along the upper edge, and back along the lower one."""
    pairs = [each for each in zip(x, low, high, strict=True) if math.isfinite(each[1]) and math.isfinite(each[2])]
    return {
        "type": "scatter",
        "mode": "lines",
        "meta": {"series": index, "role": "band"},
        "x": [at for at, _, _ in pairs] + [at for at, _, _ in reversed(pairs)],
        "y": [most for _, _, most in pairs] + [least for _, least, _ in reversed(pairs)],
        "fill": "toself",
        "opacity": 0.18,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _marks(name: str, index: int, x: Sequence[float], curve: Curve) -> Figure | None:
    """Crosses where a value was NaN or infinite, or a bucket holds NaN, at the height of the last finite one."""
    at, heights, words, last = [], [], [], 0.0
    counts = curve.nans or [0] * len(x)
    for place, value, count in zip(x, curve.values, counts, strict=True):
        if math.isfinite(value):
            last = value
        if math.isfinite(value) and not count:
            continue
        at.append(place)
        heights.append(last)
        words.append(("∞" if value > 0 else "−∞") if math.isinf(value) else f"{count} × NaN" if count > 1 else "NaN")
    if not at:
        return None
    return {
        "type": "scatter",
        "mode": "markers",
        "name": html.escape(name),
        "meta": {"series": index, "role": "marks"},
        "x": at,
        "y": heights,
        "text": words,
        "marker": {"symbol": "x-thin-open", "size": 8, "line": {"width": 2}},
        "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
    }


def _constant_span(curves: Sequence[Curve]) -> list[float] | None:
    """A range that a level line is seen in; Plotly's own is ±1, in which 3e-4 is zero."""
    values = {value for curve in curves for value in curve.values if math.isfinite(value)}
    if len(values) != 1 or any(curve.min != curve.max for curve in curves):
        return None
    (level,) = values
    half = abs(level) / 10
    return [level - half, level + half] if 0 < half < 1e307 else None


def _layout(chart: Chart, has_legend: bool) -> Figure:
    return {
        "showlegend": has_legend,
        "xaxis": {"tickformat": "~s"},
        "yaxis": {"tickformat": chart.tick_format, "rangemode": "tozero" if chart.is_stacked else "normal"},
        "hovermode": "x unified",
    }


def _shares(load: Sequence[int]) -> list[float]:
    total = sum(load)
    return [tokens * len(load) / total if total else 0.0 for tokens in load]


def _heat_map(axes: list[list], shares: list[list[float]], tokens: list[list[int]], titles: tuple[str, str]) -> Figure:
    across, down = titles
    return {
        "data": [
            {
                "type": "heatmap",
                "x": axes[0],
                "y": axes[1],
                "z": shares,
                "customdata": tokens,
                "zmin": 0,
                "zmid": 1,
                "zmax": max(2.0, max((max(row, default=0.0) for row in shares), default=0.0)),
                "hovertemplate": f"{down} %{{y}}, {across} %{{x}}<br>"
                "%{z:.2f} × fair share, %{customdata:,} tokens<extra></extra>",
                "xgap": 1,
                "ygap": 1,
                "colorbar": {"thickness": 10, "outlinewidth": 0, "title": {"text": "× fair"}},
            }
        ],
        "layout": {
            "xaxis": {"title": {"text": across}, "type": "category", "showgrid": False},
            "yaxis": {"title": {"text": down}, "type": "category", "autorange": "reversed", "showgrid": False},
        },
    }
