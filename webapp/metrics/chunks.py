"""The table of packed points: sixteen rows of one level become a row of the next, so a chart reads few at any zoom.

    metrics_chunk (id, run_id, series_id, attempt, level, bits, cover, first_step, last_step, count, data)

    level 0  points as a batch brought them    → merged into level 1 and gone
    level 1  16 to 255 points                  → merged into level 2 and gone
    level 2  256 to 512 points                 kept for ever, and summed up in level 3
    level 3  buckets of about sixteen points   kept, and summed up in level 4, whose buckets are sixteen times as wide
    …

A row is the one to read for buckets of 2^n steps while `bits` ≤ n < `cover`: its own are narrow enough, and nothing
that sums it up is. So each point is found exactly once at any zoom, in whatever order it came. Rows are only added,
merged and summed up: each point is written three times on its way, and a late one needs no old row rewritten.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from django.db import connection, connections

from webapp.metrics.buckets import Buckets, Points

FAN = 16
_FULL = 2  # the level at which points stay
_FULL_POINTS = 512
UNCOVERED = 127
_MOST_BITS = 62

_TYPES = ("int8", "int8", "int4", "int2", "int2", "int8", "int8", "int4", "bytea")
_COLUMNS = "run_id, series_id, attempt, level, bits, first_step, last_step, count, data"


class Chunk(NamedTuple):
    """One row: points or buckets of one series and attempt."""

    id: int
    series_id: int
    attempt: int
    level: int
    bits: int
    data: bytes

    def points(self) -> Points:
        return Points.unpacked(self.data)

    def buckets(self) -> Buckets:
        return Buckets.of(self.points()) if self.level <= _FULL else Buckets.unpacked(self.data)


class Span(NamedTuple):
    """Steps of one attempt, `first` to `last`, to be read in buckets of at most 2^bits steps."""

    attempt: int
    first: int
    last: int
    bits: int


def database() -> str:
    """Where charts are read: the read replica, where there is one."""
    return "replica" if "replica" in connections else "default"


def add(run_id: int, batch: Iterable[tuple[int, int, Points]]) -> set[int]:
    """Add points by series and attempt; returns the series that got so many that `merge` should look at them."""
    rows, large = [], set()
    for series_id, attempt, points in batch:
        level = min(_FULL, (len(points.step).bit_length() - 1) // 4)
        rows += _point_rows((run_id, series_id, attempt), level, points)
        if level:
            large.add(series_id)
    _insert(rows)
    return large


def merge(run_id: int, series: Collection[int]) -> None:
    """Turn every sixteen rows of a level into one of the next, as often as there are sixteen."""
    while crowded := _crowded(run_id, series):
        rows, merged, covered = [], [], []
        for children in crowded:
            level, ids = children[0].level, [child.id for child in children]
            at = (run_id, children[0].series_id, children[0].attempt)
            if level < _FULL:
                rows += _point_rows(at, level + 1, Points.joined([child.points() for child in children]))
                merged += ids
            else:
                row = _bucket_row(at, children)
                rows.append(row)
                covered += [(child_id, row[4]) for child_id in ids]
        if merged:
            _drop(run_id, series, merged)
        if covered:
            _cover(run_id, series, covered)
        _insert(rows)


def extent(run_id: int, series: Collection[int]) -> dict[int, tuple[int, int]]:
    """First and last step of some series together, by attempt."""
    with connections[database()].cursor() as sql:
        sql.execute(
            "SELECT attempt, min(first_step), max(last_step) FROM metrics_chunk "
            "WHERE run_id = %s AND series_id = ANY(%s) AND cover = %s GROUP BY attempt",
            [run_id, list(series), UNCOVERED],
        )
        return {attempt: (first, last) for attempt, first, last in sql}


def read(run_id: int, series: Collection[int], spans: Sequence[Span]) -> dict[int, list[Buckets]]:
    """What is known of the spans, by series, in parts that are still to be folded."""
    found: dict[int, list[Buckets]] = {}
    with connections[database()].cursor() as sql:
        # OFFSET keeps the planner at one short walk of the index for each span.
        sql.execute(
            """
            SELECT span.first, span.last, chunk.*
            FROM unnest(%s::int4[], %s::int8[], %s::int8[], %s::int2[]) AS span (attempt, first, last, bits),
            LATERAL (
                SELECT id, series_id, attempt, level, bits, data FROM metrics_chunk
                WHERE run_id = %s AND series_id = ANY(%s) AND cover > span.bits AND last_step >= span.first
                  AND first_step <= span.last AND bits <= span.bits AND attempt = span.attempt OFFSET 0
            ) AS chunk
            """,
            [*map(list, zip(*spans, strict=True)), run_id, list(series)],
        )
        for first, last, *row in sql:
            chunk = Chunk(*row)
            found.setdefault(chunk.series_id, []).append(chunk.buckets().within(first, last))
    return found


def read_points(run_id: int, series_id: int) -> Iterator[tuple[int, Points]]:
    """Every point of a series with its attempt, some hundred at a time, none left out while others are merged."""
    with connections[database()].chunked_cursor() as rows:
        rows.execute(
            "SELECT attempt, data FROM metrics_chunk WHERE run_id = %s AND series_id = %s AND level <= %s "
            "ORDER BY attempt, first_step, id",
            [run_id, series_id, _FULL],
        )
        for attempt, data in rows:
            yield attempt, Points.unpacked(data)


def delete(run_id: int, series: Collection[int], limit: int) -> int:
    """Delete at most so many rows; returns how many there were. A run is gone when it is 0."""
    with connection.cursor() as sql:
        # A run lies in one partition, so the place of a row is unambiguous.
        sql.execute(
            "DELETE FROM metrics_chunk WHERE run_id = %(run)s AND ctid = ANY(ARRAY("
            "SELECT ctid FROM metrics_chunk WHERE run_id = %(run)s AND series_id = ANY(%(series)s) LIMIT %(limit)s))",
            {"run": run_id, "series": list(series), "limit": limit},
        )
        return sql.rowcount


def aligned(attempt: int, first: int, last: int, bits: int) -> Iterator[Span]:
    """Cut `first`…`last` where whole buckets begin and end, and the ends again into narrower ones."""
    width = 1 << bits
    start, end = -(-first // width) * width, (last + 1) // width * width
    if start >= end:
        if first <= last:
            yield from aligned(attempt, first, last, max(0, bits - 4))
        return
    yield Span(attempt, start, end - 1, bits)
    yield from aligned(attempt, first, start - 1, max(0, bits - 4))
    yield from aligned(attempt, end, last, max(0, bits - 4))


def _point_rows(at: tuple[int, int, int], level: int, points: Points) -> list[tuple]:
    return [
        (*at, level, 0, int(piece.step[0]), int(piece.step[-1]), len(piece.step), piece.pack())
        for piece in points.split(_FULL_POINTS)
    ]


def _bucket_row(at: tuple[int, int, int], children: Sequence[Chunk]) -> tuple:
    """Sum up sixteen rows in buckets of about sixteen of theirs."""
    parts = Buckets.joined([child.buckets() for child in children])
    first, last = int(parts.first_step.min()), int(parts.last_step.max())
    if children[0].level == _FULL:
        bits = max(0, math.ceil(math.log2((last - first + 1) / len(parts.count) * FAN)))
    else:
        bits = max(child.bits for child in children) + 4
    bits = min(bits, _MOST_BITS)
    folded = parts.fold(bits)
    return (*at, children[0].level + 1, bits, first, last, len(folded.count), folded.pack())


def _crowded(run_id: int, series: Collection[int]) -> list[list[Chunk]]:
    """Rows that nothing sums up yet, by sixteen of one series, attempt and level, oldest steps first."""
    with connection.cursor() as sql:
        sql.execute(
            """
            WITH open AS (
                SELECT id, series_id, attempt, level, first_step FROM metrics_chunk
                WHERE run_id = %(run)s AND series_id = ANY(%(series)s) AND cover = %(uncovered)s
            ),
            crowded AS (SELECT series_id, attempt, level FROM open GROUP BY 1, 2, 3 HAVING count(*) >= %(fan)s)
            SELECT id, series_id, attempt, level, bits, data FROM metrics_chunk
            WHERE run_id = %(run)s AND series_id = ANY(%(series)s) AND cover = %(uncovered)s
              AND (series_id, attempt, level) IN (SELECT * FROM crowded)
            ORDER BY series_id, attempt, level, first_step, id
            """,
            {"run": run_id, "series": list(series), "uncovered": UNCOVERED, "fan": FAN},
        )
        rows = [Chunk(*row) for row in sql]
    alike = [list(group) for _, group in groupby(rows, attrgetter("series_id", "attempt", "level"))]
    return [group[at : at + FAN] for group in alike for at in range(0, len(group) - FAN + 1, FAN)]


def _insert(rows: Iterable[tuple]) -> None:
    with connection.cursor() as sql, sql.copy(f"COPY metrics_chunk ({_COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(_TYPES)
        for row in rows:
            copy.write_row(row)


def _drop(run_id: int, series: Collection[int], ids: list[int]) -> None:
    with connection.cursor() as sql:
        sql.execute(
            "DELETE FROM metrics_chunk WHERE run_id = %s AND series_id = ANY(%s) AND cover = %s AND id = ANY(%s)",
            [run_id, list(series), UNCOVERED, ids],
        )


def _cover(run_id: int, series: Collection[int], covered: list[tuple[int, int]]) -> None:
    """Say of rows how wide the buckets are that sum them up."""
    with connection.cursor() as sql:
        sql.execute(
            "UPDATE metrics_chunk SET cover = new.bits FROM unnest(%s::int8[], %s::int2[]) AS new (id, bits) "
            "WHERE run_id = %s AND series_id = ANY(%s) AND cover = %s AND metrics_chunk.id = new.id",
            [[row[0] for row in covered], [row[1] for row in covered], run_id, list(series), UNCOVERED],
        )
