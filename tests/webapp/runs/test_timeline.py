"""What happened to a run: kinds, gravity, pages, and how long it was in which state."""

from datetime import UTC, datetime, timedelta

import pytest

from webapp.runs.timeline import KINDS, read_timeline

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def told(run, operator):
    """A run that was killed once: names of events with the minute they happened in."""
    run.events.all().delete()
    story = [
        ("queued", 0, None), ("starting", 10, 1), ("running", 11, 1), ("checkpoint", 20, 1), ("loss_spike", 25, 1),
        ("queued", 30, 1), ("starting", 33, 2), ("running", 34, 2), ("stopping", 50, 2), ("stopped", 51, 2),
        ("stopped", 52, 2),
    ]  # fmt: skip
    for name, minute, attempt in story:
        actor = operator if name == "stopping" or attempt is None else None
        time = NOON + timedelta(minutes=minute)
        run.events.create(name=name, time=time, attempt=attempt, actor=actor, text=name)
    return run


def names(page):
    return [entry.event.name for entry in page.entries]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("incidents", ["loss_spike"]),
        ("checkpoints", ["checkpoint"]),
        ("people", ["stopping", "queued"]),
        ("states", 2 * ["stopped"] + ["stopping"] + 2 * ["running", "starting", "queued"]),
    ],
)
def test_each_kind_is_found_alone(told, kind, found):
    assert names(read_timeline(told, kind=kind)) == found


def test_an_attempt_is_found_alone(told):
    assert names(read_timeline(told, attempt=2, kind="states"))[-1] == "starting"
    assert len(read_timeline(told, attempt=1).entries) == 5


@pytest.mark.parametrize("kind", ["", "people"])
def test_a_state_lasted_until_the_next_whatever_is_shown(told, kind):
    lasted = {entry.event.name: entry.lasted for entry in read_timeline(told, kind=kind).entries[::-1]}
    assert lasted["stopping"] == 60
    assert lasted.get("loss_spike") is None


def test_an_end_told_of_twice_lasts_for_ever_and_a_state_now_lasts_so_far(told):
    assert [entry.lasted for entry in read_timeline(told).entries[:2]] == [None, None]
    told.events.create(name="queued", time=datetime.now(UTC) - timedelta(hours=1))
    assert read_timeline(told).entries[0].lasted == pytest.approx(3600, abs=60)


def test_pages_follow_each_other_without_a_gap_whatever_comes_meanwhile(told):
    first = read_timeline(told, count=4)
    told.events.create(name="phase", time=NOON)
    second = read_timeline(told, count=4, before=first.earlier)
    third = read_timeline(told, count=4, before=second.earlier)
    assert [len(page.entries) for page in (first, second, third)] == [4, 4, 3]
    assert third.earlier is None
    assert len({entry.event.pk for page in (first, second, third) for entry in page.entries}) == 11


def test_ten_thousand_events_are_read_by_the_page(told, django_assert_max_num_queries):
    event = told.events.model
    event.objects.bulk_create(event(run=told, name="expert_died", time=NOON, attempt=1) for _ in range(10_000))
    for kind in ("", *KINDS):
        with django_assert_max_num_queries(3):
            assert len(read_timeline(told, kind=kind).entries) <= 100


def test_a_whole_checkpoint_is_told_of_once(run, start):
    from webapp.checkpoints.services import record_checkpoint

    start(run)
    for status in ("saving", "durable", "verified", "removed"):
        record_checkpoint(run, {"status": status, "step": 50, "attempt": 1, "time": NOON})
    (entry,) = read_timeline(run, kind="checkpoints").entries
    assert (entry.event.step, entry.gravity) == (50, "good")


def test_a_run_that_goes_on_says_from_which_step(run, start):
    start(run, from_step=40)
    assert read_timeline(run).entries[0].event.step == 40
