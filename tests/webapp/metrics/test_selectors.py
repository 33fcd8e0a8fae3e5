"""What a chart is given: exact points where they fit, spikes at every zoom, one curve over all attempts."""

import math

import pytest
from django.db import connections
from django.test.testcases import DatabaseOperationForbidden

from webapp.metrics import selectors


def values_at(curve):
    return dict(zip(curve.steps, curve.values, strict=True))


def test_short_series_come_exactly(run, start, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(1, 3.0), (2, 2.5), (5, 2.0)])
    (curve,) = selectors.read_curves(run, ["loss"])
    assert (curve.steps, curve.values) == ([1, 2, 5], [3.0, 2.5, 2.0])


@pytest.mark.parametrize("max_points", [10, 100, 1000])
def test_single_spike_is_seen_at_every_resolution(run, start, log_metrics, max_points):
    start(run)
    log_metrics(run, 1, loss=[(step, 1e6 if step == 1234 else 1.0) for step in range(5000)])
    (curve,) = selectors.read_curves(run, ["loss"], max_points=max_points)
    assert len(curve.steps) <= max_points + 1
    assert max(curve.max) == 1e6


def test_buckets_do_not_move_while_the_run_grows(run, start, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(step, float(step)) for step in range(2500)])
    (before,) = selectors.read_curves(run, ["loss"], max_points=100)
    log_metrics(run, 1, loss=[(step, float(step)) for step in range(2500, 3000)])
    (after,) = selectors.read_curves(run, ["loss"], max_points=100)
    assert before.steps[:-1] == after.steps[: len(before.steps) - 1]


def test_zoom_gives_exact_points_again(run, start, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(step, float(step)) for step in range(3000)])
    (curve,) = selectors.read_curves(run, ["loss"], max_points=100, first_step=1000, last_step=1050)
    assert curve.steps == list(range(1000, 1051))


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_numbers_are_kept(run, start, log_metrics, odd):
    start(run)
    log_metrics(run, 1, loss=[(1, 1.0), (2, odd), (3, 3.0)])
    (curve,) = selectors.read_curves(run, ["loss"])
    assert repr(values_at(curve)[2]) == repr(odd)
    assert values_at(curve)[3] == 3.0


def test_later_attempt_wins_from_its_first_step_on(run, start, log_metrics):
    from webapp.runs.services import open_placements, placement_exited

    start(run)
    log_metrics(run, 1, loss=[(step, 1.0) for step in range(1, 101)])
    placement_exited(open_placements(run)[0], exit_code=-9)
    run.refresh_from_db()
    start(run, from_step=50)
    log_metrics(run, 2, loss=[(step, 2.0) for step in range(51, 81)])
    (curve,) = selectors.read_curves(run, ["loss"])
    assert curve.steps == list(range(1, 81))
    assert values_at(curve)[50] == 1.0
    assert values_at(curve)[51] == 2.0


def test_repeated_step_shows_its_last_value(run, start, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(1, 1.0)])
    log_metrics(run, 1, loss=[(1, 9.0)])
    (curve,) = selectors.read_curves(run, ["loss"])
    assert curve.values == [9.0]


def test_unknown_key_gives_an_empty_curve(run, start):
    start(run)
    (curve,) = selectors.read_curves(run, ["nothing"])
    assert curve.steps == []


def test_newest_values_are_known_without_reading_points(run, start, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(1, 3.0), (2, 2.0)])
    assert selectors.last_values([run], ["loss", "mfu"]) == {run.pk: {"loss": 2.0}}


@pytest.mark.parametrize(
    ("load", "violation", "entropy"), [([5, 5], 0.0, 1.0), ([10, 0], 1.0, 0.0), ([0, 0], 0.0, 1.0), ([7], 0.0, 1.0)]
)
def test_balance_of_a_load(load, violation, entropy):
    assert selectors.violation(load) == pytest.approx(violation)
    assert selectors.entropy(load) == pytest.approx(entropy)


def test_curve_knows_of_each_bucket_what_a_chart_may_want(run, start, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(0, 4.0), (1, math.nan), (2, 8.0), (4, 1.0)])
    (curve,) = selectors.read_curves(run, ["loss"], max_points=3)
    assert (curve.first, curve.values, curve.min, curve.max) == ([4.0, 1.0], [8.0, 1.0], [4.0, 1.0], [8.0, 1.0])
    assert (curve.mean, curve.count, curve.nans) == ([6.0, 1.0], [3, 1], [1, 0])
    assert all(time > 1.7e9 for time in curve.times)


def test_buckets_stay_where_they_are_while_the_view_moves(run, start, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(step, float(step % 7)) for step in range(20_000)])
    (one,) = selectors.read_curves(run, ["loss"], max_points=100, first_step=1000, last_step=11_000)
    (other,) = selectors.read_curves(run, ["loss"], max_points=100, first_step=1100, last_step=11_100)
    assert set(one.steps[1:-1]) - {step for step in one.steps if step < 1300} <= set(other.steps)


def test_charts_are_read_from_the_replica_where_there_is_one(run, start, log_metrics):
    start(run)
    log_metrics(run, 1, loss=[(1, 1.0)])
    connections.settings["replica"] = connections.settings["default"]
    try:
        # A test may ask the default database alone, so being refused tells which was asked.
        with pytest.raises(DatabaseOperationForbidden, match="replica"):
            selectors.read_curves(run, ["loss"])
    finally:
        del connections["replica"], connections.settings["replica"]


@pytest.fixture
def thrice(run, start, log_metrics):
    """100 steps, then again from 60 to 90, then again from 40 on."""
    from webapp.runs.services import open_placements, placement_exited

    for attempt, (first, last) in enumerate([(0, 100), (60, 90), (40, 120)], 1):
        start(run, from_step=first)
        log_metrics(
            run, attempt, loss=[(step, float(attempt)) for step in range(first + 1, last + 1)], eval=[(first, 0)]
        )
        if attempt < 3:
            placement_exited(open_placements(run)[0], exit_code=-9)
            run.refresh_from_db()
    return run


def test_what_was_done_again_is_found_by_attempt(thrice):
    found = selectors.read_replaced(thrice, ["loss", "eval", "nothing"])
    assert {attempt: curves[0].steps for attempt, curves in found.items()} == {
        1: list(range(41, 101)), 2: list(range(61, 91)),
    }  # fmt: skip
    assert [curve.steps for curve in found[2][1:]] == [[60], []]


def test_what_was_done_again_has_no_more_points_than_pixels_and_keeps_its_spikes(thrice, log_metrics):
    log_metrics(thrice, 2, loss=[(77, 1e6)])
    found = selectors.read_replaced(thrice, ["loss"], max_points=20)
    assert sum(len(curves[0].steps) for curves in found.values()) <= 24
    assert max(found[2][0].max) == 1e6


def test_what_was_done_again_is_zoomed_to(thrice):
    found = selectors.read_replaced(thrice, ["loss"], first_step=85, last_step=95)
    assert {attempt: curves[0].steps for attempt, curves in found.items()} == {
        1: list(range(85, 96)), 2: list(range(85, 91)),
    }  # fmt: skip
