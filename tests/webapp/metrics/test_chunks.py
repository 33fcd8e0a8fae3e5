"""The table of packed points, against plain Python that knows every point."""

import math
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from django.db import connection, transaction

from webapp.metrics import chunks, selectors, services
from webapp.metrics.models import Series

_START = datetime(2026, 1, 1, tzinfo=UTC)


class Oracle:
    """Stores points as the shipper does, and remembers them in the simplest way."""

    def __init__(self, run):
        self.run, self.points, self.clock = run, [], 0

    def store(self, attempt, pairs):
        batch = services.Batch()
        for step, value in pairs:
            self.clock += 1
            at = {"attempt": attempt, "step": step, "time": _START + timedelta(milliseconds=self.clock)}
            batch.add_metrics({**at, "values": {"loss": value}})
            self.points.append((step, attempt, self.clock, value))
        with transaction.atomic():
            services.store(self.run, batch)

    def buckets(self, bits, first, last, last_steps):
        """What a chart is to show: (step, value, min, max, count, NaNs) by bucket."""
        groups = defaultdict(list)
        for point in sorted(self.points, key=lambda point: point[:3]):
            step, attempt, *_ = point
            if first <= step <= last and step <= last_steps[attempt]:
                groups[step >> bits].append(point)
        return [bucket(group) for _, group in sorted(groups.items())]


def bucket(points):
    numbers = [value for *_, value in points if not math.isnan(value)]
    return (points[-1][0], points[-1][3], min(numbers, default=math.nan), max(numbers, default=math.nan), len(points),
            len(points) - len(numbers))  # fmt: skip


def shown(curve):
    return list(zip(curve.steps, curve.values, curve.min, curve.max, curve.count, curve.nans, strict=True))


def assert_shows(oracle, *, max_points, first=-(2**61), last=2**61, last_steps=None):
    (curve,) = selectors.read_curves(
        oracle.run, ["loss"], max_points=max_points, first_step=first, last_step=last,
    )  # fmt: skip
    expected = next(
        (
            found
            for bits in range(15)
            if repr(found := oracle.buckets(bits, first, last, last_steps or {1: 2**62})) == repr(shown(curve))
        ),
        None,
    )
    assert expected is not None, "no width of a power of two gives this curve"
    assert len(curve.steps) <= max_points or all(count == 1 for count in curve.count)
    return curve


def random_values(random, count):
    values = random.normal(size=count)
    values[random.random(count) < 0.02] = math.nan
    values[random.random(count) < 0.01] = math.inf
    values[random.random(count) < 0.01] = -math.inf
    return values.tolist()


def levels(run):
    with connection.cursor() as sql:
        sql.execute(
            "SELECT level, count(*) FROM metrics_chunk WHERE run_id = %s AND cover = %s GROUP BY 1 ORDER BY 1",
            [run.pk, chunks.UNCOVERED],
        )
        return dict(sql.fetchall())


@pytest.fixture
def oracle(run, start):
    start(run)
    return Oracle(run)


@pytest.mark.parametrize("seed", range(4))
def test_steps_in_any_order_repeated_and_negative_are_shown_as_they_were_logged(oracle, seed):
    random = np.random.default_rng(seed)
    for size in [*random.integers(1, 40, 40), *random.integers(200, 2000, 8)]:
        steps = random.integers(-3000, 9000, int(size)).tolist()
        oracle.store(1, zip(steps, random_values(random, int(size)), strict=True))
    for max_points in (20, 300):
        assert_shows(oracle, max_points=max_points)
        first, last = sorted(random.integers(-3000, 9000, 2).tolist())
        assert_shows(oracle, max_points=max_points, first=first, last=last)


@pytest.mark.parametrize("seed", range(2))
def test_steps_in_order_in_batches_of_any_size_are_shown_as_they_were_logged(oracle, seed):
    random, step = np.random.default_rng(seed), 0
    for size in [1] * 50 + random.integers(1, 2500, 15).tolist():
        oracle.store(1, zip(range(step, step + size), random_values(random, size), strict=True))
        step += size
    for max_points in (10, 100, 2000):
        assert_shows(oracle, max_points=max_points)
        first, last = sorted(random.integers(0, step, 2).tolist())
        assert_shows(oracle, max_points=max_points, first=first, last=last)


def test_attempts_are_cut_exactly_within_a_bucket(run, start):
    from webapp.runs.services import open_placements, placement_exited

    oracle, last_steps = Oracle(run), {1: 7777, 2: 11_111, 3: 2**62}
    for number, from_step in ((1, 0), (2, 7777), (3, 11_111)):
        start(run, from_step=from_step)
        oracle.store(number, ((step, float(number)) for step in range(from_step + 1, from_step + 20_000)))
        if number < 3:
            placement_exited(open_placements(run)[0], exit_code=-9)
            run.refresh_from_db()
    for max_points in (10, 100, 1000):
        assert_shows(oracle, max_points=max_points, last_steps=last_steps)
    assert set(assert_shows(oracle, max_points=50, first=7770, last=7785, last_steps=last_steps).values) == {1.0, 2.0}


def test_an_older_attempt_can_be_read_alone(oracle):
    oracle.store(1, [(1, 1.0), (2, 1.0)])
    oracle.store(2, [(2, 2.0)])
    (curve,) = selectors.read_curves(oracle.run, ["loss"], attempt=2)
    assert (curve.steps, curve.values) == ([2], [2.0])


@pytest.mark.parametrize("at", [0, 12_345, 99_999])
def test_single_spike_is_seen_at_every_zoom(oracle, at):
    oracle.store(1, ((step, 1e9 if step == at else 1.0) for step in range(100_000)))
    for max_points in (2, 50, 700, 2000):
        (curve,) = selectors.read_curves(oracle.run, ["loss"], max_points=max_points)
        assert max(curve.max) == 1e9
        assert curve.count[curve.max.index(1e9)] > 1
    (curve,) = selectors.read_curves(oracle.run, ["loss"], first_step=at - 20, last_step=at + 20)
    assert dict(zip(curve.steps, curve.values, strict=True))[at] == 1e9


def test_points_far_apart_come_exactly_where_they_fit(oracle):
    oracle.store(1, [(step, 1.0) for step in [*range(100), 10**9]])
    (curve,) = selectors.read_curves(oracle.run, ["loss"])
    assert curve.steps == [*range(100), 10**9]


def test_steps_as_far_apart_as_they_may_be(oracle):
    farthest = 2**62 - 1
    oracle.store(1, [(step, 1.0) for step in [-farthest, *range(20_000), farthest]])
    (curve,) = selectors.read_curves(oracle.run, ["loss"], max_points=100)
    assert (curve.steps[0], curve.steps[-1], sum(curve.count)) == (-farthest, farthest, 20_002)


def test_one_step_logged_ten_thousand_times(oracle):
    oracle.store(1, ((5, float(number)) for number in range(10_000)))
    (curve,) = selectors.read_curves(oracle.run, ["loss"], max_points=100)
    assert (curve.steps, curve.values, curve.min, curve.max, curve.count) == ([5], [9999.0], [0.0], [9999.0], [10_000])


def test_rows_are_few_however_points_came(oracle):
    for step in range(600):
        oracle.store(1, [(step, 1.0)])
    assert sum(levels(oracle.run).values()) < 3 * chunks.FAN
    with connection.cursor() as sql:
        sql.execute("SELECT sum(count) FROM metrics_chunk WHERE level <= 2")
        assert sql.fetchone()[0] == 600


def test_every_point_is_found_once_at_any_width(oracle):
    oracle.store(1, ((step, 1.0) for step in range(140_001)))
    assert max(levels(oracle.run)) == 4
    series = Series.objects.get().pk
    for bits in range(20):
        (parts,) = chunks.read(oracle.run.pk, [series], [chunks.Span(1, -(2**62), 2**62 - 1, bits)]).values()
        assert sum(int(part.count.sum()) for part in parts) == 140_001


def test_exact_points_of_all_attempts_can_be_read_in_pieces(oracle):
    oracle.store(1, ((step, float(step)) for step in range(5000)))
    oracle.store(2, [(0, 7.0)])
    found = list(chunks.read_points(oracle.run.pk, Series.objects.get().pk))
    assert [value for attempt, points in found if attempt == 1 for value in points.value] == list(
        map(float, range(5000))
    )
    assert [points.value.tolist() for attempt, points in found if attempt == 2] == [[7.0]]


@pytest.mark.parametrize(("first", "last", "bits"), [(0, 100, 3), (-77, 1234, 8), (5, 5, 10), (-1, 0, 62), (3, 2, 4)])
def test_spans_cover_the_steps_once_in_whole_buckets(first, last, bits):
    spans = sorted(chunks.aligned(1, first, last, bits), key=lambda span: span.first)
    assert [step for span in spans for step in range(span.first, span.last + 1)] == list(range(first, last + 1))
    for span in spans:
        assert span.first % (1 << span.bits) == 0
        assert (span.last + 1) % (1 << span.bits) == 0
