"""Every write on runs, as people, schedulers, nodes and trainers ask for it."""

from datetime import UTC, datetime

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction

from webapp.runs import services, states
from webapp.runs.models import Outcome, RunState
from webapp.runs.selectors import waiting_runs


def report(run, attempt, name, **more):
    record = {"name": name, "text": f"{name}.", "step": 7, "data": {}, "time": datetime.now(UTC), **more}
    with transaction.atomic():
        services.record_event(states.lock_run(run.pk), attempt, record)


def leave(run, *, exit_code):
    services.placement_exited(services.open_placements(run)[0], exit_code=exit_code, last_words="the last line")
    run.refresh_from_db()


def test_new_run_waits_in_the_queue(run):
    assert run.state == RunState.QUEUED
    assert [event.name for event in run.events.all()] == ["queued"]


@pytest.mark.parametrize("name", ["", "   ", "x" * 201])
def test_run_needs_a_name_that_fits(make_run, name):
    with pytest.raises(ValidationError) as error:
        make_run(name)
    assert "name" in error.value.message_dict


def test_unprintable_characters_leave_the_name_and_markup_stays_text(make_run):
    assert make_run("a\x00b\x1b[31m<b>").name == "a b [31m<b>"


def test_tags_are_cleaned_and_kept_once(make_run):
    assert make_run(tags=("a", " a ", "", "b\n")).tags == ["a", "b"]


def test_stopping_a_queued_run_ends_it_at_once(run, operator):
    assert services.request_stop(run, actor=operator).state == RunState.STOPPED


def test_stopping_a_running_run_asks_it_to_save_first(run, start, operator):
    start(run)
    assert services.request_stop(run, actor=operator).state == RunState.STOPPING


def test_stopping_twice_is_the_same_as_once(run, start, operator):
    start(run)
    services.request_stop(run, actor=operator)
    assert services.request_stop(run, actor=operator).state == RunState.STOPPING


def test_ended_run_cannot_be_stopped(run, operator):
    services.request_stop(run, actor=operator)
    with pytest.raises(states.NotAllowed, match="stopped"):
        services.request_stop(run, actor=operator)


def test_resumed_run_waits_again_with_a_fresh_restart_budget(run, operator):
    services.request_stop(run, actor=operator)
    type(run).objects.filter(pk=run.pk).update(restarts=2)
    resumed = services.resume_run(run, actor=operator)
    assert (resumed.state, resumed.restarts) == (RunState.QUEUED, 0)


def test_trainer_that_finishes_finishes_the_run(run, start):
    report(run, start(run), "finished")
    leave(run, exit_code=0)
    assert (run.state, run.attempts.get().outcome) == (RunState.FINISHED, Outcome.FINISHED)


def test_trainer_that_says_why_it_failed_fails_the_run_without_a_restart(run, start):
    report(run, start(run), "failed", text="The disk is full.")
    leave(run, exit_code=5)
    assert (run.state, run.reason) == (RunState.FAILED, "The disk is full.")


def test_killed_trainer_goes_on_from_its_last_checkpoint(run, start):
    start(run)
    leave(run, exit_code=-9)
    assert run.state == RunState.QUEUED
    assert "signal 9" in run.reason


def test_killed_trainer_fails_the_run_when_no_restart_is_left(make_run, start):
    run = make_run(recovery__max_restarts=1)
    for _ in range(2):
        start(run)
        leave(run, exit_code=-9)
    assert run.state == RunState.FAILED
    assert "No restart is left" in run.reason
    assert "the last line" in run.reason


def test_trainer_stopped_on_request_stops_the_run(run, start, operator):
    attempt = start(run)
    services.request_stop(run, actor=operator)
    report(run, attempt, "stopped")
    leave(run, exit_code=0)
    assert run.state == RunState.STOPPED


@pytest.mark.parametrize("word", ["stopped", "preempted"])
def test_trainer_that_saved_and_made_way_is_preempted_and_waits_for_its_turn(run, start, word):
    report(run, start(run), word)
    leave(run, exit_code=0)
    assert (run.state, run.restarts) == (RunState.PREEMPTED, 0)
    assert list(waiting_runs()) == [run]


def test_trainer_preempted_while_it_is_asked_to_stop_stops(run, start, operator):
    attempt = start(run)
    services.request_stop(run, actor=operator)
    report(run, attempt, "preempted")
    leave(run, exit_code=0)
    assert run.state == RunState.STOPPED


def test_killed_while_stopping_counts_as_stopped(run, start, operator):
    start(run)
    services.request_stop(run, actor=operator)
    leave(run, exit_code=-9)
    assert run.state == RunState.STOPPED


def test_start_is_claimed_once(run, start):
    attempt = start(run)
    assert services.placement_started(attempt.placements.get()) is False


def test_exit_reported_twice_changes_nothing(run, start):
    placement = start(run).placements.get()
    services.placement_exited(placement, exit_code=-9)
    services.placement_exited(placement, exit_code=0)
    assert run.attempts.get().outcome == Outcome.KILLED


def test_lost_node_sends_its_run_back_to_the_queue(run, start, node):
    start(run)
    services.lose_node(node)
    run.refresh_from_db()
    assert (run.state, run.attempts.get().outcome) == (RunState.QUEUED, Outcome.LOST)


def test_event_text_with_nul_and_lone_surrogates_is_stored_readably(run, start):
    report(run, start(run), "odd", text="a\x00b\ud800", data={"k": "\x00"})
    assert run.events.last().text == "a\N{REPLACEMENT CHARACTER}b?"
