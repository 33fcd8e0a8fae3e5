"""One metric of many runs as a Plotly figure: a line for each run, or a mean with its band for each group of runs."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from webapp.metrics.figures import Figure, smoothed

MOST_GRID_POINTS = 500


@dataclass(frozen=True)
class Track:
    """A run's values over x; `index` gives it its colour, wherever it is drawn."""

    label: str
    index: int
    x: Sequence[float]
    y: Sequence[float]


def overlay_figure(tracks: Sequence[Track], *, smoothing: float = 0.0) -> Figure:
    """A line for each run; while smoothing, faintly what was measured behind it."""
    traces = []
    for track in tracks:
        if smoothing and len(track.x) > 1:
            traces.append(_line(track, track.y, role="raw", opacity=0.2, hoverinfo="skip"))
        traces.append(_line(track, smoothed(track.y, smoothing) if smoothing else track.y))
    return {"data": traces, "layout": _layout(len(tracks))}


def group_figure(groups: Mapping[str, Sequence[Track]], *, smoothing: float = 0.0) -> Figure:
    """For each group the mean of its runs, and a band from the least to the greatest of them.

    Between its points a run is taken to be straight; before its first and after its last it does not count.
    """
    bands, means = [], []
    for index, (name, tracks) in enumerate(groups.items()):
        grid, values = _on_one_grid(tracks, smoothing)
        if not len(grid):
            continue
        at = Track(f"{name} ({len(tracks)})", index, grid.tolist(), np.nanmean(values, axis=0).tolist())
        low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        bands.append(_band(at, low.tolist(), high.tolist()))
        means.append(_line(at, at.y))
    return {"data": bands + means, "layout": {**_layout(len(means)), "showlegend": True}}


def _on_one_grid(tracks: Sequence[Track], smoothing: float) -> tuple[np.ndarray, np.ndarray]:
    """The x that any of the runs has, thinned; and each run's values there, NaN where it has none."""
    curves = []
    for track in tracks:
        pairs = [(x, y) for x, y in zip(track.x, track.y, strict=True) if math.isfinite(y)]
        if pairs:
            x, y = zip(*pairs, strict=True)
            curves.append((x, smoothed(y, smoothing) if smoothing else y))
    if not curves:
        return np.empty(0), np.empty((0, 0))
    grid = np.unique(np.concatenate([x for x, _ in curves]))
    grid = grid[np.unique(np.linspace(0, len(grid) - 1, MOST_GRID_POINTS).round().astype(int))]
    return grid, np.array([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in curves])


def _line(track: Track, y: Sequence[float], *, role: str = "line", **more: object) -> Figure:
    return {
        "type": "scatter",
        # A single point has no line to be seen by.
        "mode": "lines" if len(track.x) > 1 else "markers",
        "name": html.escape(track.label),
        "meta": {"series": track.index, "role": role},
        "x": track.x,
        "y": [value if math.isfinite(value) else None for value in y],
        **more,
    }


def _band(track: Track, low: list[float], high: list[float]) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "meta": {"series": track.index, "role": "band"},
        "x": [*track.x, *track.x[::-1]],
        "y": [*high, *low[::-1]],
        "fill": "toself",
        "opacity": 0.18,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _layout(num_lines: int) -> Figure:
    """Many lines are told apart by pointing at one; few are read all at once."""
    return {
        "showlegend": False,
        "xaxis": {"tickformat": "~s"},
        "yaxis": {},
        "hovermode": "x unified" if num_lines <= 8 else "closest",
    }
