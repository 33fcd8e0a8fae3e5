"""Read what a run measured: series at the screen's resolution with spikes kept, router loads, log lines."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.db import connection
from django.db.models import QuerySet

from webapp.metrics import chunks
from webapp.metrics.buckets import Buckets, Points
from webapp.metrics.models import LogLine, Series
from webapp.runs.attempts import segments
from webapp.runs.models import Run

MAX_POINTS = 2000
MOST_REPLACED = 20
_FAR = 2**62  # no step is so great


@dataclass
class Curve:
    """One series: a point for each bucket of steps, with the newest value in it; exact where `count` is 1 throughout.

    `times` are seconds since 1970 of the newest value; `min`, `max` and `mean` leave out NaN, which `nans` counts.
    """

    key: str
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    min: list[float] = field(default_factory=list)
    max: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    nans: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


# A row counts while its attempt was the newest one at its step.
_VISIBLE = "visible (attempt, last_step) AS (SELECT * FROM unnest(%(attempts)s::int4[], %(last_steps)s::int8[]))"


def list_keys(run: Run) -> list[str]:
    """Names of every scalar of a run."""
    return list(Series.objects.filter(run=run).order_by("key").values_list("key", flat=True))


def count_keys(run: Run) -> int:
    """How many scalars a run has by now."""
    return Series.objects.filter(run=run).count()


def last_values(runs: Sequence[Run], keys: Sequence[str]) -> dict[int, dict[str, float]]:
    """The newest value of some scalars, by run and key."""
    found: dict[int, dict[str, float]] = {run.pk: {} for run in runs}
    rows = Series.objects.filter(run__in=runs, key__in=keys).values_list("run_id", "key", "last_value")
    for run_id, key, value in rows:
        found[run_id][key] = value
    return found


def read_curves(
    run: Run,
    keys: Sequence[str],
    *,
    max_points: int = MAX_POINTS,
    first_step: int | None = None,
    last_step: int | None = None,
    attempt: int | None = None,
) -> list[Curve]:
    """Read series, each with at most `max_points` points; keys nobody logged give empty curves.

    Where that many points hold all there is, they are exact. Of the attempts those that count are shown, or one alone.
    """
    ids = dict(Series.objects.using(chunks.database()).filter(run=run, key__in=keys).values_list("key", "id"))
    bounds = _bounds(run, first_step, last_step, attempt)
    shown = _shown(run, ids.values(), bounds).values()
    num_steps = max(last for _, last in shown) - min(first for first, _ in shown) + 1 if shown else 1
    found = _read(run, ids.values(), bounds, _bucket_bits(num_steps, max_points))
    # Points that lie in few places of a long way need no buckets.
    found |= _read(run, [series for series, buckets in found.items() if _would_fit(buckets, max_points)], bounds, 0)
    return [_curve(key, found.get(ids.get(key))) for key in dict.fromkeys(keys)]


def read_replaced(
    run: Run, keys: Sequence[str], *, max_points: int = MAX_POINTS, first_step: int | None = None,
    last_step: int | None = None,
) -> dict[int, list[Curve]]:  # fmt: skip
    """By attempt the curves of the steps that a later one did again, of the newest few attempts that have such.

    A series has about `max_points` points in all of them together.
    """
    replaced = [segment for segment in segments(run) if segment.last_step < _FAR][-MOST_REPLACED:]
    first, last = _ends(first_step, last_step)
    if not replaced:
        return {}
    ids = dict(Series.objects.using(chunks.database()).filter(run=run, key__in=keys).values_list("key", "id"))
    bounds = {segment.attempt: (max(first, segment.last_step + 1), last) for segment in replaced}
    shown = _shown(run, ids.values(), bounds)
    bits = _bucket_bits(sum(end - start + 1 for start, end in shown.values()), max_points)
    found = {attempt: _read(run, ids.values(), {attempt: bounds[attempt]}, bits) for attempt in shown}
    return {
        attempt: [_curve(key, curves.get(ids.get(key))) for key in dict.fromkeys(keys)]
        for attempt, curves in found.items()
        if curves
    }


def export_points(run: Run, keys: Collection[str] | None = None) -> Iterator[tuple[str, int, Points]]:
    """Every point of a run, of all attempts, none bucketed: key, attempt and some thousand points at most at a time."""
    series = Series.objects.filter(run=run).order_by("key")
    for key, series_id in (series if keys is None else series.filter(key__in=keys)).values_list("key", "id"):
        yield from ((key, attempt, points) for attempt, points in chunks.read_points(run.pk, series_id))


_Bounds = Mapping[int, tuple[int, int]]


def _bounds(run: Run, first_step: int | None, last_step: int | None, attempt: int | None) -> _Bounds:
    """First and last step to read of each attempt: one attempt alone, or of each the steps at which it counts."""
    first, last = _ends(first_step, last_step)
    if attempt is not None:
        return {attempt: (first, last)}
    return {segment.attempt: (first, min(last, segment.last_step)) for segment in segments(run)}


def _ends(first_step: int | None, last_step: int | None) -> tuple[int, int]:
    return -_FAR if first_step is None else first_step, _FAR - 1 if last_step is None else last_step


def _shown(run: Run, series: Collection[int], bounds: _Bounds) -> _Bounds:
    """First and last step that the attempts logged within their bounds; those that logged none are left out."""
    logged = chunks.extent(run.pk, series)
    ends = {number: (max(logged[number][0], first), min(logged[number][1], last))
            for number, (first, last) in bounds.items() if number in logged}  # fmt: skip
    return {number: (first, last) for number, (first, last) in ends.items() if first <= last}


def _read(run: Run, series: Collection[int], bounds: _Bounds, bits: int) -> dict[int, Buckets]:
    spans = [span for number, (first, last) in bounds.items() for span in chunks.aligned(number, first, last, bits)]
    if not series or not spans:
        return {}
    return {
        series_id: Buckets.joined(parts).fold(bits) for series_id, parts in chunks.read(run.pk, series, spans).items()
    }


def _would_fit(buckets: Buckets, max_points: int) -> bool:
    return bool(buckets.count.sum() <= max_points and (buckets.first_step < buckets.last_step).any())


def _curve(key: str, buckets: Buckets | None) -> Curve:
    if buckets is None:
        return Curve(key)
    columns = {
        "steps": buckets.last_step, "values": buckets.last, "min": buckets.least, "max": buckets.most,
        "mean": buckets.mean(), "first": buckets.first, "count": buckets.count, "nans": buckets.nans,
        "times": buckets.last_time / 1e6,
    }  # fmt: skip
    return Curve(key, **{name: column.tolist() for name, column in columns.items()})


def _visible(run: Run) -> dict[str, list[int]]:
    """What _VISIBLE asks for."""
    counted = segments(run)
    return {
        "attempts": [segment.attempt for segment in counted],
        "last_steps": [segment.last_step for segment in counted],
    }


def _bucket_bits(num_steps: int, max_points: int) -> int:
    """The narrowest buckets of 2^bits steps that cut `num_steps` into `max_points`; alignment may add one bucket."""
    return max(0, math.ceil(math.log2(max(1, num_steps) / max(1, max_points - 1))))


@dataclass(frozen=True)
class RouterState:
    """Every layer's load at one step, with the figures people ask for."""

    step: int
    layers: list[list[int]]
    skipped: list[int]
    bias: list[list[float]]

    @property
    def max_violation(self) -> float:
        """Greatest (most loaded expert ÷ fair share − 1) over the layers; 0 is perfect (arXiv 2408.15664 eq. 4)."""
        return max((violation(load) for load in self.layers), default=0.0)

    @property
    def entropy(self) -> float:
        """Mean entropy of the layers' loads, 1 when every expert gets its fair share."""
        return sum(map(entropy, self.layers)) / len(self.layers) if self.layers else 0.0

    @property
    def dead_experts(self) -> int:
        """Experts that got no token."""
        return sum(load.count(0) for load in self.layers)

    @property
    def skip_share(self) -> float:
        """Share of the tokens that took the skip class."""
        total = sum(map(sum, self.layers)) + sum(self.skipped)
        return sum(self.skipped) / total if total else 0.0


def violation(load: Sequence[int]) -> float:
    """Most loaded expert ÷ fair share − 1."""
    total = sum(load)
    return max(load) * len(load) / total - 1 if total else 0.0


def entropy(load: Sequence[int]) -> float:
    """Entropy of a load, divided by that of an even one."""
    total = sum(load)
    if not total or len(load) < 2:
        return 1.0
    return -sum(n / total * math.log(n / total) for n in load if n) / math.log(len(load))


def read_router(run: Run, step: int | None = None) -> RouterState | None:
    """Loads at the newest recorded step, or at the newest one up to `step`; None before the first."""
    with connection.cursor() as sql:
        sql.execute(
            f"""
            WITH {_VISIBLE},
            newest AS (
                SELECT attempt, step FROM metrics_router JOIN visible USING (attempt)
                WHERE run_id = %(run)s AND layer = 0 AND step <= last_step AND step <= %(step)s
                ORDER BY step DESC, attempt DESC LIMIT 1
            )
            SELECT step, load, skipped, bias FROM metrics_router JOIN newest USING (attempt, step)
            WHERE run_id = %(run)s ORDER BY layer
            """,
            {**_visible(run), "run": run.pk, "step": 2**62 if step is None else step},
        )
        rows = sql.fetchall()
    if not rows:
        return None
    return RouterState(rows[0][0], [row[1] for row in rows], [row[2] for row in rows], [row[3] for row in rows])


def read_router_history(run: Run, *, max_points: int = 200) -> list[RouterState]:
    """Every layer's load over time, the newest record of each bucket of steps; the cost follows `max_points`."""
    with connection.cursor() as sql:
        sql.execute(
            f"""
            WITH {_VISIBLE},
            records AS (
                SELECT step, attempt FROM metrics_router JOIN visible USING (attempt)
                WHERE run_id = %(run)s AND layer = 0 AND step <= last_step
            ),
            span AS (
                SELECT (2 ^ greatest(0, ceil(log(2, (max(step) - min(step) + 1)::numeric / %(points)s))))::int8 AS width
                FROM records
            ),
            picked AS (
                SELECT DISTINCT ON (step / width) step, attempt FROM records, span
                ORDER BY step / width, step DESC, attempt DESC
            )
            SELECT step, array_agg(load ORDER BY layer), array_agg(skipped ORDER BY layer),
                   array_agg(bias ORDER BY layer)
            FROM picked CROSS JOIN generate_series(0, %(layers)s - 1) AS each (layer)
            JOIN metrics_router USING (step, attempt, layer) WHERE run_id = %(run)s GROUP BY step ORDER BY step
            """,
            {**_visible(run), "run": run.pk, "points": max_points, "layers": run.config["model"]["num_hidden_layers"]},
        )
        return [RouterState(*row) for row in sql]


def read_layer(run: Run, layer: int, *, max_points: int = 300) -> tuple[list[int], list[list[int]]]:
    """One layer's load over time: the steps, and for each the tokens of every expert, summed within a bucket."""
    bounds = {**_visible(run), "run": run.pk, "layer": layer}
    visible = f"""
        WITH {_VISIBLE},
        counted AS (
            SELECT router.* FROM metrics_router AS router JOIN visible USING (attempt)
            WHERE run_id = %(run)s AND layer = %(layer)s AND step <= last_step
        )
    """
    with connection.cursor() as sql:
        sql.execute(f"{visible} SELECT min(step), max(step) FROM counted", bounds)
        low, high = sql.fetchone()
        if low is None:
            return [], []
        sql.execute(
            f"""
            {visible}, summed AS (
                SELECT step / %(width)s AS bucket, max(step) AS step, expert, sum(tokens)::int8 AS tokens
                FROM counted, unnest(load) WITH ORDINALITY AS cell (tokens, expert) GROUP BY 1, 3
            )
            SELECT max(step), array_agg(tokens ORDER BY expert) FROM summed GROUP BY bucket ORDER BY 1
            """,
            {**bounds, "width": 1 << _bucket_bits(high - low + 1, max_points)},
        )
        rows = sql.fetchall()
    return [row[0] for row in rows], [row[1] for row in rows]


def last_words(run: Run) -> str:
    """The last line a run printed that says something, for its epitaph."""
    lines = LogLine.objects.filter(run=run, source="output").exclude(text="").order_by("-id")[:1]
    return lines[0].text.strip()[:500] if lines else ""


def read_log(
    run: Run, *, search: str = "", level: str = "", before: int | None = None, after: int | None = None,
    limit: int = 500,
) -> list[LogLine]:  # fmt: skip
    """The newest lines of a run's log, oldest first; `before` and `after` are line ids to page with."""
    lines: QuerySet[LogLine] = LogLine.objects.filter(run=run)
    if search:
        lines = lines.filter(text__icontains=search)
    if level:
        lines = lines.filter(level=level)
    if before is not None:
        lines = lines.filter(id__lt=before)
    if after is not None:
        return list(lines.filter(id__gt=after).order_by("id")[:limit])
    return list(lines.order_by("-id")[:limit])[::-1]
