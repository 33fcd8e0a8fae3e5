"""The one state machine: what may follow what, and the trace each step leaves."""

import itertools

import pytest
from django.db import transaction

from webapp.runs import states
from webapp.runs.models import RunState

ALLOWED = [(name, source) for name, (sources, _) in states.TRANSITIONS.items() for source in sources]
REFUSED = [pair for pair in itertools.product(states.TRANSITIONS, RunState) if pair not in ALLOWED]


def put(run, state):
    type(run).objects.filter(pk=run.pk).update(state=state)


@pytest.mark.parametrize(("transition", "source"), ALLOWED)
def test_allowed_transition_moves_the_run_and_leaves_an_event(run, transition, source):
    put(run, source)
    with transaction.atomic():
        states.move(states.lock_run(run.pk), transition, "Because.")
    run.refresh_from_db()
    assert run.state == states.TRANSITIONS[transition][1]
    assert run.reason == "Because."
    assert run.events.last().text == "Because."


@pytest.mark.parametrize(("transition", "source"), REFUSED)
def test_any_other_transition_is_refused_and_changes_nothing(run, transition, source):
    put(run, source)
    before = run.events.count()
    with pytest.raises(states.NotAllowed, match=str(source)), transaction.atomic():
        states.move(states.lock_run(run.pk), transition, "Because.")
    run.refresh_from_db()
    assert (run.state, run.events.count()) == (source, before)


def test_resumed_run_forgets_when_it_ended(run):
    put(run, RunState.FAILED)
    with transaction.atomic():
        states.move(states.lock_run(run.pk), "resume", "Again.")
    run.refresh_from_db()
    assert run.ended_at is None
