"""Fifty runs of ten thousand points over one another: the server's time, and Chromium's until they are drawn."""

import time
from datetime import UTC, datetime

from bench._browser import chromium_page, web_process
from bench._rows import row
from bench._servers import django_ready
from tests.browser import find_browser

_GOAL_SECONDS = 1.0
_RUNS = 50
_POINTS = 10_000


def measure() -> list[dict]:
    """Median of five for the server alone, and of three for a person with a browser."""
    with django_ready():
        owner, runs = make_sweep(_RUNS, _POINTS)
        address = f"runs={','.join(map(str, runs))}"
        rows = [_row(f"server: page, {_RUNS} runs", _server_seconds(owner, f"/compare?{address}"))]
        figures = f"/compare/figures?{address}&keys=loss"
        rows.append(_row(f"server: one chart, {_RUNS} × {_POINTS:,} points", _server_seconds(owner, figures)))
        rows.append(_row("server: the same in groups", _server_seconds(owner, f"{figures}&group=train.seed")))
        if find_browser() is not None:
            seconds = _browser_seconds(owner, address)
            rows.append(_row("Chromium: from the address to the drawn chart", seconds))
    return rows


def make_sweep(num_runs: int, num_points: int):
    """Runs that differ in seed and learning rate, each with a loss; their owner, and their numbers."""
    from webapp.accounts.models import User
    from webapp.metrics import services as metrics
    from webapp.runs.models import Attempt, Run, RunState
    from webapp.runs.services import create_run
    from zaya_model.presets import load_preset

    owner = User.objects.create_superuser("bench", password="bench")
    now = datetime.now(UTC)
    for number in range(num_runs):
        rate = 1e-4 * 2 ** (number % 5)
        config = load_preset("tiny-cpu", {"train.seed": number // 5, "optimizer.muon_learning_rate": rate})
        run = create_run(owner=owner, name=f"sweep {number % 10}", preset="tiny-cpu", config=config)
        Attempt.objects.create(run=run, number=1, from_step=0, ended_at=now)
        batch = metrics.Batch()
        for step in range(1, num_points + 1):
            values = {"loss": 2 + 50 * rate * number + 8 / step**0.3 + (step * 7919 % 97) / 400}
            batch.add_metrics({"attempt": 1, "step": step, "time": now, "values": values})
        metrics.store(run, batch)
    Run.objects.update(state=RunState.FINISHED, ended_at=now, step=num_points)
    return owner, list(Run.objects.order_by("pk").values_list("pk", flat=True))


def _server_seconds(owner, path: str) -> float:
    from django.test import Client

    client = Client(HTTP_HOST="localhost")
    client.force_login(owner)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        assert client.get(path).status_code == 200
        times.append(time.perf_counter() - start)
    return sorted(times[1:])[2]


def _browser_seconds(owner, address: str) -> float:
    with web_process() as (url, _), chromium_page(url, owner) as page:
        times = []
        for _ in range(4):
            start = time.perf_counter()
            page.goto(f"/compare?{address}")
            page.wait_for_selector(f'[data-key="loss"][data-drawn="{_RUNS}"]')
            times.append(time.perf_counter() - start)
    return sorted(times[1:])[1]


def _row(name: str, seconds: float) -> dict:
    return row(name, seconds, "s", "goal", _GOAL_SECONDS)
