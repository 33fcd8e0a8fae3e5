"""Server time of every page and of the questions its charts ask, against the 100 ms a person does not notice."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from bench._rows import row
from bench._servers import django_ready, make_run

_GOAL_MS = 100.0


def measure() -> list[dict]:
    """Medians over warm requests on demonstration-sized data, and with 10,000 runs in the list."""
    with django_ready():
        run, owner = make_run(steps=2000)
        from django.test import Client

        client = Client(HTTP_HOST="localhost")
        client.force_login(owner)
        paths = {
            "runs page": "/",
            "new run page": "/runs/new",
            "run page": f"/runs/{run.pk}",
            "nodes page": "/nodes",
            "run's charts, 3 of them": f"/runs/{run.pk}/charts?ids=loss&ids=throughput&ids=mfu&smoothing=0.6",
            "run's heat maps": f"/runs/{run.pk}/router",
            "API: series": f"/api/v1/runs/{run.pk}/metrics?keys=loss,grad_norm",
            "API: runs": "/api/v1/runs",
        }
        rows = [_row(name, _median_ms(lambda path=path: client.get(path))) for name, path in paths.items()]
        _add_runs(run, 10_000)
        paths = {
            "runs page, 10,000 runs": "/",
            "runs page, 10,000 runs, by a query": "/?query=(tag:x or run) train.steps>1 not loss<0.001 created>7d",
            "runs page, 10,000 runs, sorted by a metric": "/?sort=loss",
            "runs page, 10,000 runs, sorted by a config field": "/?sort=-train.steps",
            "API: runs, 10,000 runs, by a query": "/api/v1/runs?query=state:stopped model.hidden_size>1",
        }
        rows += [_row(name, _median_ms(lambda path=path: client.get(path))) for name, path in paths.items()]
    return [*rows, _check_time(), _web_memory()]


def _row(name: str, milliseconds: float) -> dict:
    return row(name, milliseconds, "ms", "goal", _GOAL_MS)


def _median_ms(ask: Callable, repeats: int = 15) -> float:
    times = []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        answer = ask()
        times.append((time.perf_counter() - start) * 1000)
        assert answer.status_code == 200, answer
    return statistics.median(times[2:])


def _add_runs(run, count: int) -> None:
    from django.db import connection

    kind = type(run)
    kind.objects.bulk_create(
        [
            kind(name=f"run {n}", owner=run.owner, preset=run.preset, config=run.config, state="stopped",
                 queued_at=run.queued_at)
            for n in range(count)
        ],
        batch_size=1000,
    )  # fmt: skip
    # What autovacuum does within a minute of so many new rows.
    with connection.cursor() as sql:
        sql.execute("ANALYZE")


def _check_time() -> dict:
    start = time.perf_counter()
    subprocess.run([sys.executable, "manage.py", "check"], check=True, capture_output=True)
    seconds = time.perf_counter() - start
    return row("manage.py check", seconds, "s", "goal", 2.0)


def _web_memory() -> dict:
    code = (
        "import resource, webapp.asgi; from django.urls import get_resolver; get_resolver().url_patterns;"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return row("web process, loaded", int(done.stdout) / 1024, "MB", "goal", 200.0)
