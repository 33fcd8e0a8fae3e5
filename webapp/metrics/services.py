"""Write what a run measured: COPY for the rows, a locked cursor so that each line counts once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from webapp.metrics.models import IngestCursor, Series
from webapp.runs.models import Run
from webapp.text import storable, storable_line
from zaya_model.journal import decode_number

_MAX_KEY = 250


class Point(NamedTuple):
    """One scalar of one step."""

    key: str
    attempt: int
    step: int
    time: datetime
    value: float


class RouterLoad(NamedTuple):
    """What one layer's router did since the last record."""

    attempt: int
    step: int
    layer: int
    time: datetime
    load: list[int]
    skipped: int
    bias: list[float]


class Line(NamedTuple):
    """One log line."""

    attempt: int
    source: str
    time: datetime
    level: str
    text: str


@dataclass
class Batch:
    """What is to be stored together, in the order of the journal."""

    points: list[Point] = field(default_factory=list)
    router_loads: list[RouterLoad] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def add_metrics(self, record: Mapping[str, Any]) -> None:
        """Take the scalars of a journal record. Raises ValueError for a value that is not a number."""
        numbers = {storable(key)[:_MAX_KEY]: decode_number(value) for key, value in record["values"].items()}
        at = (record["attempt"], record["step"], record["time"])
        self.points += [Point(key, *at, value) for key, value in numbers.items()]

    def add_router(self, record: Mapping[str, Any]) -> None:
        """Take the router loads of a journal record."""
        if not all(isinstance(tokens, int) and 0 <= tokens < 2**62 for load in record["load"] for tokens in load):
            raise ValueError("router loads must be counts of tokens")
        at = (record["attempt"], record["step"])
        skipped, bias = record.get("skipped") or [], record.get("bias") or []
        self.router_loads += [
            RouterLoad(
                *at, layer, record["time"], load,
                skipped[layer] if layer < len(skipped) else 0,
                bias[layer] if layer < len(bias) else [],
            )
            for layer, load in enumerate(record["load"])
        ]  # fmt: skip

    def add_line(self, attempt: int, source: str, time: datetime, level: str, text: object) -> None:
        """Take one log line."""
        self.lines.append(Line(attempt, storable(source)[:60], time, storable(level)[:10], storable_line(text)))


def lock_cursor(run: Run, path: str) -> IngestCursor:
    """Take the cursor of one file for this transaction; a second shipper waits here and then finds nothing new."""
    IngestCursor.objects.get_or_create(run=run, path=path)
    return IngestCursor.objects.select_for_update().get(run=run, path=path)


def advance(cursor: IngestCursor, *, offset: int, lines: int) -> None:
    """Say that everything before `offset` is stored, in the transaction that stored it."""
    cursor.offset, cursor.lines = offset, cursor.lines + lines
    cursor.save(update_fields=["offset", "lines"])


def store(run: Run, batch: Batch) -> None:
    """Write a batch, inside the caller's transaction."""
    if batch.points:
        series = _series_ids(run, dict.fromkeys(point.key for point in batch.points))
        _copy(
            "metrics_point (series_id, attempt, step, time, value)",
            ("int8", "int4", "int8", "timestamptz", "float8"),
            ((series[point.key], *point[1:]) for point in batch.points),
        )
        _keep_last(series, batch.points)
    if batch.router_loads:
        _copy(
            "metrics_router (run_id, attempt, step, layer, time, load, skipped, bias)",
            ("int8", "int4", "int8", "int4", "timestamptz", "int8[]", "int8", "float4[]"),
            ((run.pk, *load) for load in batch.router_loads),
        )
    if batch.lines:
        _copy(
            "metrics_logline (run_id, attempt, source, time, level, text)",
            ("int8", "int4", "text", "timestamptz", "text", "text"),
            ((run.pk, *line) for line in batch.lines),
        )


def _series_ids(run: Run, keys: Iterable[str]) -> dict[str, int]:
    keys = list(keys)
    known = dict(Series.objects.filter(run=run, key__in=keys).values_list("key", "id"))
    if missing := [key for key in keys if key not in known]:
        Series.objects.bulk_create((Series(run=run, key=key) for key in missing), ignore_conflicts=True)
        known |= dict(Series.objects.filter(run=run, key__in=missing).values_list("key", "id"))
    return known


def _keep_last(series: Mapping[str, int], points: list[Point]) -> None:
    last = {point.key: point for point in points}
    with connection.cursor() as sql:
        sql.execute(
            "UPDATE metrics_series SET last_step = new.step, last_value = new.value "
            "FROM unnest(%s::int8[], %s::int8[], %s::float8[]) AS new (id, step, value) "
            "WHERE metrics_series.id = new.id",
            [
                [series[key] for key in last],
                [point.step for point in last.values()],
                [point.value for point in last.values()],
            ],
        )


def _copy(target: str, types: tuple[str, ...], rows: Iterable[tuple]) -> None:
    with connection.cursor() as sql, sql.copy(f"COPY {target} FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
