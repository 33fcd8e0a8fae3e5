"""One metric of many runs as a Plotly figure: a line for each run, or a mean with its band for each group of runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from webapp.metrics.figures import Figure, band, line, smoothed

MOST_GRID_POINTS = 500


@dataclass(frozen=True)
class Track:
    """A run's values over x with the extremes of each bucket; `index` is its colour, wherever it is drawn."""

    label: str
    index: int
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()

    def outline(self) -> tuple[list[float], list[float]]:
        """The line through both extremes of each bucket, the nearer one first: no spike is left out."""
        if not self.low:
            return list(self.x), list(self.y)
        x, y = [], []
        for at, low, high in zip(self.x, self.low, self.high, strict=True):
            ends = (low,) if low == high else (high, low) if y and y[-1] * 2 > low + high else (low, high)
            x += [at] * len(ends)
            y += ends
        if y and y[-1] != self.y[-1]:
            x.append(self.x[-1])
            y.append(self.y[-1])
        return x, y


def overlay_figure(tracks: Sequence[Track], *, smoothing: float = 0.0) -> Figure:
    """A line for each run; while smoothing, faintly what was measured behind it."""
    traces = []
    for track in tracks:
        x, y = track.outline()
        if smoothing and len(track.x) > 1:
            traces.append(line(track.label, track.index, x, y, role="raw", opacity=0.2, hoverinfo="skip"))
            x, y = track.x, smoothed(track.y, smoothing)
        traces.append(line(track.label, track.index, x, y))
    return {"data": traces, "layout": _layout(len(tracks))}


def group_figure(groups: Mapping[str, Sequence[Track]], *, smoothing: float = 0.0) -> Figure:
    """For each group the mean of its runs, and a band from the least to the greatest that any of them measured.

    Between its points a run is taken to be straight; before its first and after its last it does not count.
    """
    bands, means = [], []
    for index, (name, tracks) in enumerate(groups.items()):
        grid = _grid(tracks)
        if not len(grid):
            continue
        low = np.fmin.reduce([_extremes(grid, track.x, track.low or track.y, np.fmin) for track in tracks])
        high = np.fmax.reduce([_extremes(grid, track.x, track.high or track.y, np.fmax) for track in tracks])
        mean = np.nanmean([_between(grid, track, smoothing) for track in tracks], axis=0)
        bands.append(band(index, grid.tolist(), low.tolist(), high.tolist()))
        means.append(line(f"{name} ({len(tracks)})", index, grid.tolist(), mean.tolist()))
    return {"data": bands + means, "layout": {**_layout(len(means)), "showlegend": True}}


def _grid(tracks: Sequence[Track]) -> np.ndarray:
    """The x at which any of the runs has a number, thinned with both ends kept."""
    grid = np.unique(np.concatenate([np.empty(0), *(_finite(track.x, track.y)[0] for track in tracks)]))
    return grid[np.unique(np.linspace(0, len(grid) - 1, MOST_GRID_POINTS).round().astype(int))] if len(grid) else grid


def _between(grid: np.ndarray, track: Track, smoothing: float) -> np.ndarray:
    """A run's values on the grid, NaN where it has none."""
    x, y = _finite(track.x, track.y)
    if not len(x):
        return np.full(len(grid), np.nan)
    return np.interp(grid, x, smoothed(y, smoothing) if smoothing else y, left=np.nan, right=np.nan)


def _extremes(grid: np.ndarray, x: Sequence[float], y: Sequence[float], of: Callable) -> np.ndarray:
    """The extremes of a run on the grid; what lies between two places of it counts at the later one."""
    x, y = _finite(x, y)
    if not len(x):
        return np.full(len(grid), np.nan)
    found = np.interp(grid, x, y, left=np.nan, right=np.nan)
    of.at(found, np.searchsorted(grid, x).clip(max=len(grid) - 1), y)
    return found


def _finite(x: Sequence[float], y: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(x, float), np.asarray(y, float)
    return x[np.isfinite(y)], y[np.isfinite(y)]


def _layout(num_lines: int) -> Figure:
    """Many lines are told apart by pointing at one; few are read all at once."""
    return {
        "showlegend": False,
        "xaxis": {"tickformat": "~s"},
        "yaxis": {},
        "hovermode": "x unified" if num_lines <= 8 else "closest",
    }
