"""One metric of many runs as a Plotly figure: a line for each run, or a mean with its band for each group of runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from webapp.metrics.figures import Figure, band, line, smoothed

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
            traces.append(line(track.label, track.index, track.x, track.y, role="raw", opacity=0.2, hoverinfo="skip"))
        y = smoothed(track.y, smoothing) if smoothing else track.y
        traces.append(line(track.label, track.index, track.x, y))
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
        low, mean, high = (of(values, axis=0).tolist() for of in (np.nanmin, np.nanmean, np.nanmax))
        bands.append(band(index, grid.tolist(), low, high))
        means.append(line(f"{name} ({len(tracks)})", index, grid.tolist(), mean))
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


def _layout(num_lines: int) -> Figure:
    """Many lines are told apart by pointing at one; few are read all at once."""
    return {
        "showlegend": False,
        "xaxis": {"tickformat": "~s"},
        "yaxis": {},
        "hovermode": "x unified" if num_lines <= 8 else "closest",
    }
