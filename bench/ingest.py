"""Journal to Postgres by the shipper, and what a point costs on disk, against a bare COPY and MLflow in one run."""

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench._mlflow import mlflow_client
from bench._rows import row
from bench._servers import django_ready, make_run, records

_STEPS = 100_000
_LIVE_STEPS, _LIVE_KEYS = 2_000, 20


def measure() -> list[dict]:
    """Points a second, best of three; bytes a point with all indexes, buckets and dead rows, after bulk and live."""
    with django_ready(), tempfile.TemporaryDirectory() as folder:
        run, _ = make_run(steps=10)
        points = _write_journal(Path(folder) / str(run.pk))
        rate = max(_ship(run, Path(folder), points) for _ in range(3))
        bulk = chunk_bytes() / points
        bare, bare_size = _copy(points)
        _empty(run)
        live = _live(run)
        live_size = chunk_bytes() / (_LIVE_STEPS * _LIVE_KEYS)
        peer, peer_size, why_not = _mlflow()
    best = f"MLflow log_batch{why_not}"
    return [
        row("journal → Postgres, one shipper", rate, "points/s", "bare binary COPY of rows", bare),
        row("journal → Postgres, one shipper", rate, "points/s", best, peer),
        row("a point on disk, shipped in bulk", bulk, "bytes", "a bare row and its index", bare_size),
        row("a point on disk, shipped in bulk", bulk, "bytes", f"MLflow{why_not}", peer_size),
        row("a point on disk, shipped step by step", live_size, "bytes", "a bare row and its index", bare_size),
        row("step by step, a transaction a step of 20", live, "points/s", best, peer),
    ]


def _write_journal(run_dir: Path) -> int:
    """A journal of scalars alone, as the trainer writes it, each value with all its digits; returns its points."""
    import random

    from zaya_model.journal import Journal, journal_path

    draw, points = random.Random(1), 0
    with Journal(journal_path(run_dir, 1), 1) as journal:
        for record in records(_STEPS, datetime.now(UTC)):
            if record["kind"] == "metrics":
                values = {key: value * draw.random() for key, value in record["values"].items()}
                journal.metrics(record["step"], values)
                points += len(values)
    return points


def _ship(run, runs_dir: Path, points: int) -> float:
    from webapp.runs.models import Attempt
    from workers.launchers.place import Place
    from workers.launchers.processes import Processes
    from workers.shipper import Shipper

    _empty(run)
    attempt = Attempt.objects.get(run=run)
    start = time.perf_counter()
    Shipper("bench", Processes(runs_dir)).ship(Place(runs_dir / str(run.pk), 1, 0), attempt, is_over=False)
    seconds = time.perf_counter() - start
    assert _count() == points, "every point once"
    return points / seconds


def _live(run) -> float:
    """Points as a running trainer brings them: a step a transaction."""
    import random

    from django.db import transaction

    from webapp.metrics import services

    draw = random.Random(2)
    start = time.perf_counter()
    for step in range(_LIVE_STEPS):
        batch = services.Batch()
        values = {f"key/{number}": draw.random() for number in range(_LIVE_KEYS)}
        batch.add_metrics({"attempt": 1, "step": step, "time": datetime.now(UTC), "values": values})
        with transaction.atomic():
            services.store(run, batch)
        if step % 200 == 199:
            _vacuum()
    assert _count() == _LIVE_STEPS * _LIVE_KEYS, "every point once"
    return _LIVE_STEPS * _LIVE_KEYS / (time.perf_counter() - start)


def _copy(points: int) -> tuple[float, float]:
    """Rate and bytes of as many ready-made rows, copied in one statement into a table with one index."""
    from django.db import connection

    now = datetime.now(UTC)
    rows = [(step % 20, 1, step // 20, now, step / 3) for step in range(points)]
    with connection.cursor() as sql:
        sql.execute(
            "CREATE TABLE bare (series_id int8, attempt int4, step int8, time timestamptz, value float8);"
            "CREATE INDEX ON bare (series_id, step)"
        )
        start = time.perf_counter()
        with sql.copy("COPY bare FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(("int8", "int4", "int8", "timestamptz", "float8"))
            for row in rows:
                copy.write_row(row)
        seconds = time.perf_counter() - start
        sql.execute("SELECT pg_total_relation_size('bare')")
        size = sql.fetchone()[0]
        sql.execute("DROP TABLE bare")
    return points / seconds, size / points


def _mlflow() -> tuple[float | None, float | None, str]:
    """Rate of `log_batch` with a thousand scalars of ten keys a call, and bytes; or why there is none."""
    from django.db import connection

    try:
        with mlflow_client() as run_script:
            rate = run_script(_LOG_BATCHES)["points_per_second"]
            with connection.cursor() as sql:
                sql.execute("SELECT sum(pg_total_relation_size(format('mlflow.%I', relname))) FROM pg_stat_user_tables "
                            "WHERE schemaname = 'mlflow' AND relname IN ('metrics', 'latest_metrics')")  # fmt: skip
                size = float(sql.fetchone()[0]) / 20_000
        return rate, size, ""
    except RuntimeError as error:
        return None, None, f" not measured: {error}"


_LOG_BATCHES = """
import time
from mlflow.entities import Metric
run = client.create_run(client.create_experiment("ingest")).info.run_id
start = time.perf_counter()
for call in range(20):
    client.log_batch(run, [Metric(f"k{j % 10}", j / 3, 1764547200000, call * 100 + j // 10) for j in range(1000)])
answer = {"points_per_second": 20_000 / (time.perf_counter() - start)}
"""


def _vacuum() -> None:
    """What autovacuum does each minute; it would sleep through a bench that is over in one."""
    from django.db import connection

    with connection.cursor() as sql:
        sql.execute("VACUUM metrics_chunk")


def _empty(run) -> None:
    from django.db import connection

    from webapp.metrics.models import IngestCursor, Series

    IngestCursor.objects.all().delete()
    Series.objects.all().delete()
    with connection.cursor() as sql:
        sql.execute("TRUNCATE metrics_chunk")


def _count() -> int:
    from django.db import connection

    with connection.cursor() as sql:
        sql.execute("SELECT sum(count) FROM metrics_chunk WHERE level <= 2")
        return sql.fetchone()[0]


def chunk_bytes() -> int:
    """All that points take: chunks with their indexes, buckets, and rows that are dead and not yet reused."""
    from django.db import connection

    with connection.cursor() as sql:
        sql.execute(
            "SELECT sum(pg_total_relation_size(inhrelid))::int8 FROM pg_inherits "
            "WHERE inhparent = 'metrics_chunk'::regclass"
        )
        return sql.fetchone()[0]
