"""Going on from a chosen checkpoint: which can be used, what a fork may change, what is remembered."""

from datetime import UTC, datetime

import pytest

from webapp.checkpoints.services import fork_run, record_checkpoint, resume_from
from webapp.runs import states
from webapp.runs.models import RunState
from webapp.runs.services import allocate
from zaya_model.errors import ConfigError
from zaya_model.presets import build


@pytest.fixture
def ended(run):
    """A stopped run with a whole checkpoint of step 250 and one of 500 that was removed."""
    states.move(run, "cancel", "")
    for step, status in ((250, "verified"), (500, "removed")):
        record_checkpoint(run, {"status": status, "step": step, "attempt": 1, "time": datetime.now(UTC)})
    return run


def changed(run, **overrides):
    return build(run.config, {name.replace("__", "."): value for name, value in overrides.items()})


def test_a_run_goes_on_from_a_chosen_checkpoint_once(ended, operator, node):
    resume_from(ended, 250, actor=operator)
    ended.refresh_from_db()
    assert (ended.state, ended.resume_step) == (RunState.QUEUED, 250)
    assert allocate(ended, [node]).resume_step == 250
    ended.refresh_from_db()
    assert ended.resume_step is None


@pytest.mark.parametrize("step", [0, 500, 7])
def test_a_checkpoint_that_is_not_there_is_refused(ended, operator, step):
    with pytest.raises(states.NotAllowed, match="has no whole checkpoint"):
        resume_from(ended, step, actor=operator)


def test_a_fork_remembers_where_it_came_from(ended, operator):
    config = changed(ended, optimizer__muon_learning_rate=1e-3)
    fork = fork_run(ended, 250, owner=operator, name="lower", config=config)
    assert (fork.parent, fork.parent_step, fork.step) == (ended, 250, 250)
    assert fork.config["optimizer"]["muon_learning_rate"] == 1e-3
    assert "step 250 of run" in fork.events.get().text


def test_a_running_run_can_be_forked(ended, operator, node):
    resume_from(ended, 250, actor=operator)
    assert fork_run(ended, 250, owner=operator, name="beside", config=changed(ended)).state == RunState.QUEUED


@pytest.mark.parametrize(
    ("overrides", "field", "words"),
    [
        ({"model__num_experts": 16}, "model.num_experts", "must stay 8"),
        ({"model__router": "linear"}, "model.router", "must stay mlp"),
        ({"train__steps": 250}, "train.steps", "must be above 250"),
    ],
)
def test_what_does_not_fit_the_weights_is_refused_at_its_field(ended, operator, overrides, field, words):
    with pytest.raises(ConfigError) as caught:
        fork_run(ended, 250, owner=operator, name="x", config=changed(ended, **overrides))
    (problem,) = caught.value.problems
    assert problem.path == field
    assert words in problem.message


@pytest.mark.parametrize("overrides", [{"model__rope_theta": 1e6}, {"data__sequence_length": 64}])
def test_what_changes_no_weight_may_be_changed(ended, operator, overrides):
    assert fork_run(ended, 250, owner=operator, name="x", config=changed(ended, **overrides)).pk
