"""The write load of a cluster for ten minutes: sixteen runs, a transaction a second each, charts read meanwhile.

Where points come a few at a time rows are merged again and again, so this is where dead rows and write-ahead log show.
"""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from bench._rows import p95, row
from bench._servers import django_ready, make_run
from bench.ingest import chunk_bytes

_SECONDS = 600
_RUNS, _KEYS, _LAYERS, _EXPERTS = 16, 120, 40, 16
_THREADS = 8
_ROUTER_EVERY = 10


def measure() -> list[dict]:
    """Whether each second's points are durable within it, and what they cost."""
    with django_ready():
        runs = [make_run(steps=1, name=f"run {number}")[0] for number in range(_RUNS)]
        wal, begin = _wal(), time.monotonic()
        stored, read = [], []
        is_over = threading.Event()
        with ThreadPoolExecutor(_THREADS + 1) as pool:
            reader = pool.submit(_read, runs, read, is_over)
            writers = [pool.submit(_write, runs[n::_THREADS], begin, stored) for n in range(_THREADS)]
            for writer in writers:
                writer.result()
            is_over.set()
            reader.result()
        points = len(stored) * _KEYS
        seconds, size, logged = time.monotonic() - begin, chunk_bytes(), _wal() - wal
    return [
        row("points of 16 runs, a step a second", points / seconds, "points/s", "what was offered", _RUNS * _KEYS),
        row("due → durable, p95", 1e3 * p95(stored), "ms", "a second", 1000.0),
        row("4 charts read meanwhile, p95", 1e3 * p95(read), "ms", "a second", 1000.0),
        row("a point on disk, dead rows included", size / points, "bytes", "goal", 25.0),
        row("write-ahead log with router loads", logged / points, "bytes/point", "a point on disk", size / points),
    ]


def _write(runs: list, begin: float, stored: list[float]) -> None:
    """Each run's step when it is due, or as soon after as can be; seconds from due to durable."""
    from django.db import connections, transaction

    from webapp.metrics import services

    offset = random.random()
    for second in range(_SECONDS):
        due = begin + second + offset
        time.sleep(max(0.0, due - time.monotonic()))
        for run in runs:
            with transaction.atomic():
                services.store(run, _step(services.Batch(), second))
            stored.append(time.monotonic() - due)
    connections.close_all()


def _step(batch, step: int):
    at = {"attempt": 1, "step": step, "time": datetime.now(UTC)}
    batch.add_metrics({**at, "values": {f"key/{number}": random.gauss(2, 0.1) for number in range(_KEYS)}})
    if step % _ROUTER_EVERY == 0:
        load = [[random.randrange(4096) for _ in range(_EXPERTS)] for _ in range(_LAYERS)]
        bias = [[random.gauss(0, 0.01) for _ in range(_EXPERTS + 1)] for _ in range(_LAYERS)]
        batch.add_router({**at, "load": load, "skipped": [0] * _LAYERS, "bias": bias})
    return batch


def _read(runs: list, seconds: list[float], is_over: threading.Event) -> None:
    from django.db import connections

    from webapp.metrics.selectors import read_curves

    while not is_over.wait(1):
        start = time.perf_counter()
        read_curves(random.choice(runs), [f"key/{random.randrange(_KEYS)}" for _ in range(4)])
        seconds.append(time.perf_counter() - start)
    connections.close_all()


def _wal() -> int:
    from django.db import connection

    with connection.cursor() as sql:
        sql.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::int8")
        return sql.fetchone()[0]
