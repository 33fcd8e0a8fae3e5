"""Journal to Postgres by the shipper, against a bare COPY of the same rows in the same run."""

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench._servers import django_ready, make_run, records

_STEPS = 20_000


def measure() -> list[dict]:
    """Points a second in pairs, best of three; bytes a point on disk."""
    with django_ready(), tempfile.TemporaryDirectory() as folder:
        run, _ = make_run(steps=10)
        write_journal(Path(folder) / str(run.pk))
        shipped, limit = [], []
        for _ in range(3):
            shipped.append(_ship(run, Path(folder)))
            limit.append(_copy(run))
        best, bare = max(shipped), max(limit)
        size = _bytes_per_point()
    return [
        {"name": "journal → Postgres, one shipper", "value": best, "unit": "points/s", "peer": "bare binary COPY",
         "peer_value": bare, "ratio": best / bare},
        {"name": "a point on disk, indexes included", "value": size, "unit": "bytes", "peer": "its own 36",
         "peer_value": 36.0, "ratio": size / 36},
    ]  # fmt: skip


def write_journal(run_dir: Path) -> None:
    """A journal of scalars alone, as the trainer writes it."""
    from zaya_model.journal import Journal, journal_path

    with Journal(journal_path(run_dir, 1), 1) as journal:
        for record in records(_STEPS, datetime.now(UTC)):
            if record["kind"] == "metrics":
                journal.metrics(record["step"], record["values"])


def _ship(run, runs_dir: Path) -> float:
    from webapp.metrics.models import IngestCursor
    from webapp.runs.models import Attempt
    from workers.launcher import Place
    from workers.shipper import Shipper

    _empty()
    IngestCursor.objects.all().delete()
    attempt = Attempt.objects.get(run=run)
    start = time.perf_counter()
    Shipper("bench", runs_dir).ship(Place(runs_dir / str(run.pk), 1, 0), attempt, is_over=False)
    return _count() / (time.perf_counter() - start)


def _copy(run) -> float:
    """The same number of rows of the same table, ready-made in memory."""
    from webapp.metrics.services import _copy as copy_rows

    _empty()
    now = datetime.now(UTC)
    rows = [(1, 1, step, now, float(step)) for step in range(_STEPS * 20)]
    start = time.perf_counter()
    types = ("int8", "int4", "int8", "timestamptz", "float8")
    copy_rows("metrics_point (series_id, attempt, step, time, value)", types, rows)
    return len(rows) / (time.perf_counter() - start)


def _empty() -> None:
    from django.db import connection

    with connection.cursor() as sql:
        sql.execute("TRUNCATE metrics_point")


def _count() -> int:
    from django.db import connection

    with connection.cursor() as sql:
        sql.execute("SELECT count(*) FROM metrics_point")
        return sql.fetchone()[0]


def _bytes_per_point() -> float:
    from django.db import connection

    with connection.cursor() as sql:
        sql.execute("SELECT pg_total_relation_size('metrics_point')")
        return sql.fetchone()[0] / _count()
