"""A run of twenty charts of three million points opened in Chromium: until the first is drawn, and until all are."""

import statistics
from datetime import UTC, datetime

import numpy as np

from bench._browser import chromium_page, web_process
from bench._rows import row
from bench._servers import django_ready, make_run

_CHARTS = 20
_POINTS = 3_000_000
_ROUNDS = 5
_FIRST_SECONDS, _ALL_SECONDS = 0.5, 2.0
# As wide as a desk's screen, and high enough for all of them.
_VIEWPORT = {"width": 1920, "height": 1500}


def measure() -> list[dict]:
    """Medians from the start of the navigation, by a browser that was never here and by one that was."""
    with django_ready():
        run, owner = make_run(steps=1)
        _fill(run, owner)
        with web_process() as (url, _):
            cold = [_seconds(url, owner, run, visits=1)[0] for _ in range(_ROUNDS + 1)][1:]
            warm = _seconds(url, owner, run, visits=_ROUNDS + 1)[1:]
    rows = []
    for name, found in (("first visit", cold), ("visited before", warm)):
        first, whole = (statistics.median(column) for column in zip(*found, strict=True))
        rows.append(
            row(f"{_CHARTS} × {_POINTS:,} points, {name}: first chart drawn", first, "s", "goal", _FIRST_SECONDS)
        )
        rows.append(row(f"{_CHARTS} × {_POINTS:,} points, {name}: all drawn", whole, "s", "goal", _ALL_SECONDS))
    return rows


def _fill(run, owner) -> None:
    """As many series as charts, stored as the shipper stores what it finds after a long break; all of them pinned."""
    from django.db import transaction

    from webapp.metrics import services
    from webapp.preferences.services import pin_charts

    draw, steps = np.random.default_rng(1), np.arange(1, _POINTS + 1)
    times = int(datetime.now(UTC).timestamp() * 1e6) + steps * 1000
    keys = [f"layer{number}/norm" for number in range(_CHARTS)]
    for key in keys:
        track = services.Track(steps, times, 8 / steps**0.3 + draw.normal(2, 0.1, _POINTS))
        with transaction.atomic():
            services.store(run, services.Batch(tracks={(key, 1): track}))
    pin_charts(owner, run, keys)


def _seconds(url: str, owner, run, *, visits: int) -> list[tuple[float, float]]:
    """Seconds from the start of each navigation to the first and to the last chart, as the page itself sees them."""
    with chromium_page(url, owner, **_VIEWPORT) as page:
        page.add_init_script(_WATCH)
        found = []
        for _ in range(visits):
            page.goto(f"/runs/{run.pk}")
            first, last = page.evaluate(_DRAWN, _CHARTS)
            found.append((first / 1000, last / 1000))
        return found


_DRAWN = """(count) => new Promise((done) => {
  const look = () => drawn.length < count ? requestAnimationFrame(look) : done([drawn[0], drawn[count - 1]]);
  look();
})"""
# When the first chart, the second and so on had a line, in ms since the navigation began, seen once a frame.
_WATCH = """
  window.drawn = [];
  const look = () => {
    const count = document.querySelectorAll("#charts .chart:has(path.js-line)").length;
    while (drawn.length < count) drawn.push(performance.now());
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
"""
