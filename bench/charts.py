"""A chart of a million and of ten million points at 2,000 pixels: the service, through HTTP, and MLflow's own call."""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime

from bench._mlflow import mlflow_client
from bench._rows import p95, row
from bench._servers import django_ready, make_run

_PIXELS = 2000
_READS = 50
_BATCH = 5000
_MILLION = 1_000_000


def measure() -> list[dict]:
    """95th percentile of 50 reads, in milliseconds; the views move, so that nothing is answered from memory."""
    with django_ready():
        run, owner = make_run(steps=10)
        _fill(run, "million", _MILLION)
        _fill(run, "ten millions", 10 * _MILLION)
        get = _browser(owner)
        million, ten, zoomed, exact, over_http, ten_over_http = _p95s(
            lambda: _read(run, "million"),
            lambda: _read(run, "ten millions"),
            lambda: _read(run, "ten millions", window=100_000),
            lambda: _read(run, "ten millions", window=1500),
            lambda: get(run, "million"),
            lambda: get(run, "ten millions"),
        )
        peer, why_not = _mlflow()
    return [
        _row("chart of 1 M points, service", million, "goal", 20.0),
        _row("chart of 1 M points, HTTP", over_http, f"MLflow's interval call{why_not}", peer),
        _row("chart of 10 M points, service", ten, "1 M points", million),
        _row("chart of 10 M points, HTTP", ten_over_http, "1 M points", over_http),
        _row("100,000 steps of 10 M, service", zoomed, "all of 1 M", million),
        _row("1,500 exact points of 10 M, service", exact, "all of 1 M", million),
    ]


def _row(name: str, value: float, peer: str, peer_value: float | None) -> dict:
    return row(f"{name}, p95", value, "ms", peer, peer_value)


def _fill(run, key: str, count: int) -> None:
    """As a trainer's points come: step by step, each value with all its digits."""
    from django.db import transaction

    from webapp.metrics import services

    draw, now = random.Random(count), int(datetime.now(UTC).timestamp() * 1e6)
    for start in range(0, count, _BATCH):
        steps = list(range(start, start + _BATCH))
        track = services.Track(steps, [now + step * 1000 for step in steps], [draw.gauss(2, 0.1) for _ in steps])
        with transaction.atomic():
            services.store(run, services.Batch(tracks={(key, 1): track}))


def _read(run, key: str, window: int | None = None) -> None:
    from webapp.metrics.selectors import read_curves

    first = None if window is None else random.randrange(9 * _MILLION)
    last = None if window is None else first + window
    (curve,) = read_curves(run, [key], max_points=_PIXELS, first_step=first, last_step=last)
    assert 400 < len(curve.steps) <= _PIXELS


def _browser(owner) -> Callable:
    """Reads as a browser does, through every layer of the web process but its socket."""
    from django.test import Client

    client = Client()
    client.force_login(owner)

    def get(run, key: str) -> None:
        path = f"/api/v1/runs/{run.pk}/metrics"
        assert client.get(path, {"keys": key, "max_points": _PIXELS}).status_code == 200

    return get


def _p95s(*reads: Callable[[], None]) -> list[float]:
    """Of each read; in turns, so that what else the machine does meets all of them alike."""
    seconds: list[list[float]] = [[] for _ in reads]
    for _ in range(_READS):
        for taken, read in zip(seconds, reads, strict=True):
            start = time.perf_counter()
            read()
            taken.append(time.perf_counter() - start)
    return [1e3 * p95(taken) for taken in seconds]


def _mlflow() -> tuple[float | None, str]:
    """The call its page makes for a million points, which are put straight into its table; or why there is none."""
    from django.db import connection

    try:
        with mlflow_client() as run_script:
            made = run_script(_MAKE)
            with connection.cursor() as sql:
                sql.execute(
                    "INSERT INTO mlflow.metrics (key, value, timestamp, run_uuid, step, is_nan) "
                    "SELECT 'loss', random(), 1764547200000 + n, %s, n, false FROM generate_series(1, %s) AS n",
                    [made["run"], _MILLION - 1],
                )
                sql.execute("ANALYZE mlflow.metrics")
            return run_script(_ASK.replace("RUN", made["run"]))["p95"], ""
    except RuntimeError as error:
        return None, f" not measured: {error}"


_MAKE = """
run = client.create_run(client.create_experiment("charts")).info.run_id
client.log_metric(run, "loss", 1.0, step=0)
answer = {"run": run}
"""
_ASK = f"""
import statistics, time, requests
url, seconds = uri + "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval", []
for _ in range(10):
    start = time.perf_counter()
    answered = requests.get(url, params={{"run_ids": ["RUN"], "metric_key": "loss", "max_results": {_PIXELS}}})
    answered.raise_for_status()
    seconds.append(time.perf_counter() - start)
answer = {{"p95": statistics.quantiles(seconds, n=20, method="inclusive")[-1] * 1e3}}
"""
