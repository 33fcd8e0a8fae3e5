"""Every point of a run as CSV, JSON or Parquet, some thousand at a time.

Columns: key, attempt, step, time (UTC), value. In CSV and JSON what is no finite number is NaN, Infinity or -Infinity.
"""

import csv
import io
import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from webapp.metrics.buckets import Points
from webapp.metrics.selectors import export_points
from webapp.runs.models import Run
from zaya_model.journal import encode_number

# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_csv(run: Run, keys: Collection[str] | None = None) -> Iterator[bytes]:
    """A header, then a line a point."""
    yield _csv_lines([("key", "attempt", "step", "time", "value")])
    for key, attempt, points in export_points(run, keys):
        name = f"'{key}" if key.startswith(_FORMULA) else key
        columns = points.step.tolist(), _times(points), (encode_number(value) for value in points.value.tolist())
        yield _csv_lines((name, attempt, *row) for row in zip(*columns, strict=True))


def export_json(run: Run, keys: Collection[str] | None = None) -> Iterator[bytes]:
    """One object: the run's number, and runs of points that belong together by key and attempt."""
    yield f'{{"run": {run.pk}, "series": ['.encode()
    separator = ""
    for key, attempt, points in export_points(run, keys):
        values = [encode_number(value) for value in points.value.tolist()]
        part = {"key": key, "attempt": attempt, "steps": points.step.tolist(), "times": _times(points)}
        yield f"{separator}\n{json.dumps({**part, 'values': values}, allow_nan=False)}".encode()
        separator = ","
    yield b"\n]}\n"


def export_parquet(run: Run, keys: Collection[str] | None = None) -> Iterator[bytes]:
    """A row group for each run of points; a Parquet file is written front to back, so it can be sent so too."""
    # A heavy library that nothing else here needs.
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema(
        [("key", pa.string()), ("attempt", pa.int32()), ("step", pa.int64()), ("time", pa.timestamp("us", "UTC")),
         ("value", pa.float64())]
    )  # fmt: skip
    sink = _Sink()
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for key, attempt, points in export_points(run, keys):
            size = len(points.step)
            columns = [key] * size, [attempt] * size, points.step, points.time, points.value
            arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema))
            yield sink.take()
    yield sink.take()


class _Sink(io.RawIOBase):
    """A file that is taken away piece by piece."""

    def __init__(self) -> None:
        self._pieces, self._size = [], 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        self._size += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        """What was written since the last time."""
        piece, self._pieces = b"".join(self._pieces), []
        return piece


FORMATS: dict[str, tuple[Callable[..., Iterator[bytes]], str]] = {
    "csv": (export_csv, "text/csv; charset=utf-8"),
    "json": (export_json, "application/json"),
    "parquet": (export_parquet, "application/vnd.apache.parquet"),
}


def _times(points: Points) -> list[str]:
    return [f"{time}Z" for time in np.datetime_as_string(points.time.astype("datetime64[us]")).tolist()]


def _csv_lines(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
