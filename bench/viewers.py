"""Five hundred open pages on one web process: its memory, how soon all hear a notice, how soon a step is drawn."""

import asyncio
import time
from datetime import UTC, datetime
from urllib.parse import urlsplit

import psutil

from bench._browser import chromium_page, session_of, web_process
from bench._rows import p95, row
from bench._servers import django_ready, make_run

_VIEWERS = 500
_NOTICES = 20
_STEPS = 20


def measure() -> list[dict]:
    """Real connections; the steps are stored as the shipper does, and seen in Chromium while 200 others listen."""
    with django_ready():
        run, owner = make_run(steps=500)
        with web_process() as (url, process):
            memory = psutil.Process(process.pid).memory_info
            cookie = session_of(owner)
            heard = asyncio.run(_hear(url, cookie, run.pk, lambda: memory().rss))
            drawn = asyncio.run(_beside_listeners(url, cookie, run, owner))
    each = (heard["rss"] - heard["before"]) / _VIEWERS
    return [
        row(f"web process with {_VIEWERS} viewers", heard["rss"] / 2**20, "MB", "goal", 200.0),
        row(f"memory of one viewer, of {_VIEWERS}", each / 2**10, "KB", "goal", 200.0),
        row(f"notice to the page, {_VIEWERS} viewers, p95", 1e3 * p95(heard["delays"]), "ms", "goal", 100.0),
        row("points stored to drawn in Chromium, 200 viewers, p95", 1e3 * p95(drawn), "ms", "goal", 300.0),
    ]


async def _hear(url: str, cookie: str, run_id: int, rss) -> dict:
    from webapp import messages

    before = rss()
    streams = await _open(url, cookie, run_id, _VIEWERS)
    delays: list[float] = []
    for _ in range(_NOTICES):
        start = time.perf_counter()
        waiting = [asyncio.create_task(_next_notice(reader)) for reader, _ in streams]
        await asyncio.to_thread(messages.publish, run_id, ["metrics"])
        delays += [at - start for at in await asyncio.gather(*waiting)]
        await asyncio.sleep(0.1)
    found = {"before": before, "rss": rss(), "delays": delays}
    _close(streams)
    return found


async def _beside_listeners(url: str, cookie: str, run, owner) -> list[float]:
    streams = await _open(url, cookie, run.pk, 200)
    drains = [asyncio.create_task(_drain(reader)) for reader, _ in streams]
    drawn = await asyncio.to_thread(_draw, url, run, owner)
    for task in drains:
        task.cancel()
    _close(streams)
    return drawn


def _draw(url: str, run, owner) -> list[float]:
    """Store a step, wait until the chart of the loss shows it; seconds from before its transaction."""
    with chromium_page(url, owner) as page:
        page.goto(f"/runs/{run.pk}")
        page.locator('[data-chart="loss"] path.js-line').first.wait_for()
        seconds = []
        for step in range(501, 501 + _STEPS):
            start = time.time()
            _run_apart(_store_step, run, step)
            seconds.append(page.evaluate(_SHOWN, step) / 1000 - start)
            time.sleep(0.5)
        return seconds


_SHOWN = """(step) => new Promise((done) => {
  const look = () => {
    const shown = document.querySelector('[data-chart=loss] .plot').data.find((trace) => trace.meta.role === "line");
    if (shown.x.at(-1) >= step) done(Date.now()); else requestAnimationFrame(look);
  };
  look();
})"""


def _run_apart(work, *arguments) -> None:
    """In a thread without Playwright's loop, which Django would take for an asynchronous caller."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work, *arguments).result()


def _store_step(run, step: int) -> None:
    from django.db import connection, transaction

    from webapp import messages
    from webapp.metrics import services

    batch = services.Batch()
    batch.add_metrics({"attempt": 1, "step": step, "time": datetime.now(UTC), "values": {"loss": 1.0 / step}})
    with transaction.atomic():
        services.store(run, batch)
        messages.publish(run.pk, ["metrics"])
    connection.close()


async def _open(url: str, cookie: str, run_id: int, count: int) -> list:
    """So many streams, each past its first words."""
    streams = []
    request = f"GET /live?run={run_id} HTTP/1.1\r\nHost: localhost\r\nCookie: sessionid={cookie}\r\n\r\n".encode()
    for _ in range(count):
        reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
        writer.write(request)
        await _next_notice(reader)
        streams.append((reader, writer))
    await asyncio.sleep(1.0)
    for reader, _ in streams:
        reader._buffer.clear()  # the word to read everything, of the first subscription
    return streams


async def _next_notice(reader: asyncio.StreamReader) -> float:
    while not (await reader.readline()).startswith(b"event: notice"):
        pass
    return time.perf_counter()


async def _drain(reader: asyncio.StreamReader) -> None:
    while await reader.read(4096):
        pass


def _close(streams: list) -> None:
    for _, writer in streams:
        writer.close()
