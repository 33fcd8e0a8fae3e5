"""The node's agent with real processes: what the rows say happens, once, and what happened is in the rows."""

import os
import signal
import sys

import pytest
from django.utils import timezone

from tests.stack import wait_for
from webapp.fleet.models import Node
from webapp.runs.models import Placement, RunState
from webapp.runs.services import lose_node, request_stop
from workers import node, scheduler
from workers.launchers import processes
from workers.launchers.place import place_of
from workers.launchers.processes import Processes, ProcessTrainer, find, running
from workers.node import Agent
from workers.shipper import Shipper

TRAINER = """
import signal, sys, time
from pathlib import Path
from zaya_model.journal import Journal, journal_path
folder, attempt, patience = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
with Journal(journal_path(folder, attempt), attempt) as journal:
    journal.event(0, "started", "Begins.")
    journal.metrics(1, {"loss": 1.0})
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append("preempted"))
    end = time.monotonic() + patience
    while time.monotonic() < end and not asked:
        time.sleep(0.01)
        if (folder / "stop").exists():
            asked.append("stopped")
    journal.event(1, asked[0] if asked else "finished", "Is over.")
"""


@pytest.fixture
def trainer_is(monkeypatch):
    """Have another program in the trainer's stead."""

    def use(*words: str) -> None:
        monkeypatch.setattr(processes, "command", lambda *_, **__: list(words))

    return use


@pytest.fixture
def small_trainer(monkeypatch):
    """A program that speaks like the trainer and trains for so many seconds."""

    def use(seconds: float) -> None:
        def words(place, *_, **__) -> list[str]:
            return [sys.executable, "-c", TRAINER, str(place.run_dir), str(place.attempt), str(seconds)]

        monkeypatch.setattr(processes, "command", words)

    return use


@pytest.fixture
def agent(db, tmp_path):
    """The agent of a node that has just started."""
    agent = Agent("test-node", Processes(tmp_path))
    agent.tick()
    yield agent
    for trainer in agent.launcher.alive():
        trainer.kill(signal.SIGKILL)


@pytest.fixture
def live(agent):
    """Let scheduler, agent and shipper look until the run is in one of these states."""
    shipper = Shipper(agent.name, agent.launcher)

    def look_until(run, *states: RunState, by: Agent = agent) -> str:
        def look() -> bool:
            by.tick()
            shipper.tick()
            run.refresh_from_db()
            return run.state in states

        scheduler.look()
        wait_for(look, f"the run to be {states}", seconds=20)
        return run.reason

    return look_until


def trainer_of(run, agent) -> ProcessTrainer:
    return find(place_of(run.attempts.last().placements.get(), agent.runs_dir))


def test_queued_run_is_trained_and_ends_with_all_it_wrote(run, agent, live, small_trainer):
    small_trainer(0.0)
    live(run, RunState.FINISHED)
    assert run.step == 1
    assert Placement.objects.get().exit_code == 0


def test_agent_that_died_finds_its_trainer_again_and_starts_no_second_one(run, agent, live, small_trainer):
    small_trainer(60.0)
    live(run, RunState.RUNNING)
    before = running()
    successor = Agent(agent.name, Processes(agent.runs_dir))
    successor.tick()
    assert running() == before
    request_stop(run, actor=run.owner)
    assert live(run, RunState.STOPPED, by=successor) == "Is over."


def test_trainer_that_does_not_stop_when_asked_is_killed(make_run, agent, live, trainer_is, monkeypatch):
    monkeypatch.setattr(node, "_SECONDS_FROM_TERM_TO_KILL", 0.2)
    trainer_is("sh", "-c", "trap '' TERM; while true; do sleep 0.1; done")
    run = make_run(recovery__stop_grace_seconds=0.1)
    live(run, RunState.STARTING)
    request_stop(run, actor=run.owner)
    assert "signal 9" in live(run, RunState.STOPPED)


def test_trainer_that_dies_goes_on_while_restarts_are_left_and_says_its_last_words(make_run, agent, live, trainer_is):
    trainer_is("sh", "-c", "echo Out of luck; exit 3")
    run = make_run(recovery__max_restarts=1)
    assert live(run, RunState.QUEUED).endswith("Goes on from the last checkpoint; 0 restarts are left.")
    reason = live(run, RunState.FAILED)
    assert reason == (
        'The trainer ended with exit code 3 without a word. Last line of its log: "Out of luck". No restart is left.'
    )
    assert run.attempts.count() == 2


def test_trainer_without_its_shell_is_ended_and_goes_on_from_its_checkpoint(run, agent, live, small_trainer):
    small_trainer(60.0)
    live(run, RunState.RUNNING)
    trainer = trainer_of(run, agent)
    os.kill(trainer.pid, signal.SIGKILL)
    assert "signal 9" in live(run, RunState.QUEUED)
    assert not trainer.is_alive


def test_run_that_cannot_be_started_fails_with_a_sentence(run, agent, live):
    (agent.runs_dir / str(run.pk)).write_text("in the way")
    assert live(run, RunState.FAILED).startswith("The trainer could not be started: ")


def test_stop_before_the_start_starts_nothing(run, agent, live):
    scheduler.look()
    request_stop(run, actor=run.owner)
    live(run, RunState.STOPPED)
    assert not (agent.runs_dir / str(run.pk)).exists()


def test_node_that_shuts_down_gives_its_run_back_and_takes_no_other(run, agent, live, small_trainer):
    small_trainer(60.0)
    live(run, RunState.RUNNING)
    agent.is_leaving = True
    assert "shut down" in live(run, RunState.PREEMPTED)
    scheduler.look()
    run.refresh_from_db()
    assert (run.state, run.restarts, agent.is_busy) == (RunState.PREEMPTED, 0, False)


@pytest.mark.parametrize("who", ["the same agent", "its successor"])
def test_trainer_whose_node_was_given_up_is_killed_by(who, run, agent, live, small_trainer):
    small_trainer(60.0)
    live(run, RunState.RUNNING)
    trainer = trainer_of(run, agent)
    lose_node(Node.objects.get())
    (agent if who == "the same agent" else Agent(agent.name, Processes(agent.runs_dir))).tick()
    wait_for(lambda: not trainer.is_alive, "the trainer to be gone")


def test_rest_of_a_gang_does_not_wait_for_a_part_that_failed(make_run, make_node, agent, live, small_trainer):
    small_trainer(60.0)
    gang, other = make_run(parallel__nodes=2), make_node("zz-other")
    live(gang, RunState.RUNNING)
    Placement.objects.filter(node=other).update(exit_code=1, ended_at=timezone.now())
    assert "signal 9" in live(gang, RunState.QUEUED)
