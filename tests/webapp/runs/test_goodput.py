"""How much of the time a run held its devices moved it forward, and what a death cost."""

from datetime import UTC, datetime, timedelta

import pytest

from webapp.runs.attempts import goodput, list_attempts
from webapp.runs.models import Attempt
from webapp.runs.services import placement_exited, record_progress

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def stretch(attempt: Attempt, *, held: tuple[float, float], steps: list[tuple[int, float]]) -> None:
    """Let an attempt have held its node and told of some steps at these seconds after noon."""
    record_progress(attempt.run, attempt, [(step, at(seconds)) for step, seconds in steps])
    Attempt.objects.filter(pk=attempt.pk).update(held_from=at(held[0]), ended_at=at(held[1]))


@pytest.fixture
def twice(run, start):
    """100 steps, then a death; resumed from step 60, up to 110."""
    first = start(run)
    record_progress(run, first, [(1, at(10)), (100, at(110))])
    placement_exited(first.placements.get(), exit_code=-9)
    second = start(run, from_step=60)
    stretch(first, held=(0, 120), steps=[(1, 10), (100, 110)])
    stretch(second, held=(120, 200), steps=[(61, 140), (110, 190)])
    return run


def test_steps_done_again_count_once(twice):
    found = goodput(list_attempts(twice))
    assert found.lost_steps == 40
    assert found.held_seconds == 200
    assert found.useful_seconds == pytest.approx(100 * 0.6 + 50)
    assert found.share == pytest.approx(0.55)


def test_each_attempt_has_an_account_of_its_own(twice):
    first, second = list_attempts(twice)
    assert (first.lost_steps, first.lost_seconds, first.seconds) == (40, pytest.approx(40.0), 120)
    assert (second.lost_steps, second.lost_seconds) == (0, 0)
    assert (first.share, second.share) == (pytest.approx(60 / 120), pytest.approx(50 / 80))


def test_the_timeline_says_what_a_death_cost(twice):
    told = twice.events.get(name="lost_work")
    assert "40 steps of attempt 1 after step 60 are done again" in told.text
    assert told.data == {"steps": 40, "device_seconds": pytest.approx(40.0)}


def test_a_run_that_never_held_a_node_has_no_goodput(run):
    assert goodput(list_attempts(run)).share is None


def test_every_process_counts(make_run, start):
    run = make_run(parallel__processes_per_node=2)
    attempt = start(run)
    stretch(attempt, held=(0, 100), steps=[(1, 50), (50, 100)])
    assert (goodput(list_attempts(run)).held_seconds, goodput(list_attempts(run)).useful_seconds) == (200, 100)


def test_a_late_word_of_an_ended_attempt_does_not_set_the_run_back(twice):
    first = twice.attempts.get(number=1)
    record_progress(twice, first, [(101, at(111))])
    twice.refresh_from_db()
    assert twice.step == 110
