"""Write what a run measured: COPY for the rows, a locked cursor so that each line counts once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from webapp.metrics import chunks
from webapp.metrics.buckets import Points
from webapp.metrics.models import IngestCursor, Series
from webapp.runs.models import Run
from webapp.text import storable, storable_line
from zaya_model.journal import decode_number

_MAX_KEY = 250
_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass
class Track:
    """Points of one key and attempt, in the order of the journal: steps, times in µs since 1970, values."""

    steps: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


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

    tracks: dict[tuple[str, int], Track] = field(default_factory=dict)
    router_loads: list[RouterLoad] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def add_metrics(self, record: Mapping[str, Any]) -> None:
        """Take the scalars of a journal record. Raises ValueError for a value that is not a number."""
        numbers = [(storable(key)[:_MAX_KEY], decode_number(value)) for key, value in record["values"].items()]
        attempt, step, time = _attempt(record), record["step"], (record["time"] - _EPOCH) // _MICROSECOND
        for key, value in numbers:
            track = self.tracks.get((key, attempt)) or self.tracks.setdefault((key, attempt), Track())
            track.steps.append(step)
            track.times.append(time)
            track.values.append(value)

    def add_router(self, record: Mapping[str, Any]) -> None:
        """Take the router loads of a journal record."""
        if not all(isinstance(tokens, int) and 0 <= tokens < 2**62 for load in record["load"] for tokens in load):
            raise ValueError("router loads must be counts of tokens")
        at = (_attempt(record), record["step"])
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


def _attempt(record: Mapping[str, Any]) -> int:
    """The attempt of a record. Raises ValueError: one that Postgres cannot hold must not take a batch with it."""
    attempt = record["attempt"]
    if type(attempt) is not int or not 0 <= attempt < 2**31:
        raise ValueError(f"a record needs the number of its attempt, not {attempt!r}")
    return attempt


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
    if batch.tracks:
        _store_points(run, batch.tracks)
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


def delete_points(run: Run, limit: int = 1000) -> int:
    """Delete at most so many rows of packed points, 512 points each or fewer; returns how many: 0 when all are gone."""
    return chunks.delete(run.pk, list(Series.objects.filter(run=run).values_list("id", flat=True)), limit)


def delete_router_loads(run: Run, limit: int = 5000) -> int:
    """Delete at most so many rows of router loads; returns how many: 0 when all are gone."""
    return _delete("metrics_router", run, limit)


def delete_lines(run: Run, limit: int = 5000) -> int:
    """Delete at most so many log lines; returns how many: 0 when all are gone."""
    return _delete("metrics_logline", run, limit)


def _delete(table: str, run: Run, limit: int) -> int:
    with connection.cursor() as sql:
        sql.execute(
            f"DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE run_id = %s LIMIT %s))",
            [run.pk, limit],
        )
        return sql.rowcount


def _store_points(run: Run, tracks: Mapping[tuple[str, int], Track]) -> None:
    with connection.cursor() as sql:
        # Two nodes of a run may bring points of the same series, and must not merge the same rows.
        sql.execute("SELECT pg_advisory_xact_lock(hashtextextended('metrics', %s))", [run.pk])
    series = _series_ids(run, dict.fromkeys(key for key, _ in tracks))
    due = _keep_last(series, tracks)
    due |= chunks.add(
        run.pk,
        (
            (series[key], attempt, Points.sorted(track.steps, track.times, track.values))
            for (key, attempt), track in tracks.items()
        ),
    )
    if due:
        chunks.merge(run.pk, due)


def _series_ids(run: Run, keys: Iterable[str]) -> dict[str, int]:
    keys = list(keys)
    known = dict(Series.objects.filter(run=run, key__in=keys).values_list("key", "id"))
    if missing := [key for key in keys if key not in known]:
        Series.objects.bulk_create((Series(run=run, key=key) for key in missing), ignore_conflicts=True)
        known |= dict(Series.objects.filter(run=run, key__in=missing).values_list("key", "id"))
    return known


def _keep_last(series: Mapping[str, int], tracks: Mapping[tuple[str, int], Track]) -> set[int]:
    """Note the newest point of each series; returns those whose turn it is to be merged."""
    last = {series[key]: (track.steps[-1], track.values[-1]) for (key, _), track in tracks.items()}
    with connection.cursor() as sql:
        sql.execute(
            "UPDATE metrics_series SET last_step = new.step, last_value = new.value, batches = batches + 1 "
            "FROM unnest(%s::int8[], %s::int8[], %s::float8[]) AS new (id, step, value) "
            # By the hundred, not all in one batch: thousands of series would make each sixteenth slow.
            "WHERE metrics_series.id = new.id RETURNING new.id, (batches + new.id / 100) %% %s = 0",
            [list(last), *map(list, zip(*last.values(), strict=True)), chunks.FAN],
        )
        return {series_id for series_id, is_due in sql if is_due}


def _copy(target: str, types: tuple[str, ...], rows: Iterable[tuple]) -> None:
    with connection.cursor() as sql, sql.copy(f"COPY {target} FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
