"""Runs as jobs of a real Slurm: what happens to a job is said of its run, and nothing of it is lost."""

import sys

import pytest

from tests import slurm
from tests.stack import SMALL, wait_for
from tests.workers.test_gangs import another_node
from tests.workers.test_node import TRAINER
from webapp.fleet.models import Node
from webapp.metrics.models import LogLine
from webapp.runs.models import RunState
from webapp.runs.services import lose_node, request_stop
from workers import scheduler
from workers.launchers import slurm as launcher
from workers.launchers import slurm_client, slurm_script
from workers.launchers.place import place_of
from workers.launchers.slurm import Slurm, SlurmTrainer
from workers.node import Agent
from workers.shipper import Shipper

pytestmark = [pytest.mark.multirank, pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing())]
TINY = {name.replace(".", "__"): value for name, value in SMALL.items()} | {"train__steps": 3}


@pytest.fixture(scope="module")
def cluster():
    with slurm.cluster() as made:
        yield made


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(launcher, "_SECONDS_UNTIL_IT_IS_NOT_THERE", 0.5)
    monkeypatch.setattr(slurm_client, "_SECONDS_BETWEEN_CANCELS", 0.5)


@pytest.fixture
def gateway(cluster, db, tmp_path):
    """The agent of a gateway that has just started."""
    agent = Agent("gateway", Slurm(tmp_path, slots=3))
    agent.tick()
    yield agent
    cluster.end_jobs()


@pytest.fixture
def live(gateway):
    """Let everybody look until what is asked of the run holds; returns its reason."""

    def look_until(run, condition, what: str, *, by: Agent = gateway) -> str:
        shipper = Shipper(by.name, by.launcher)

        def look() -> bool:
            by.launcher.client.ask()
            scheduler.look()
            by.tick()
            shipper.tick()
            run.refresh_from_db()
            return condition()

        wait_for(look, what, seconds=30)
        return run.reason

    return look_until


@pytest.fixture
def until(live):
    """Let everybody look until the run is in one of these states."""
    return lambda run, *states, **by: live(run, lambda: run.state in states, f"{states}", **by)


@pytest.fixture
def trainer_is(monkeypatch):
    """Have another program in the trainer's stead."""

    def use(*words: str) -> None:
        monkeypatch.setattr(slurm_script, "command", lambda *_, **__: list(words))

    return use


@pytest.fixture
def small_trainer(monkeypatch):
    """A program that speaks like the trainer, on the first node, and trains for so many seconds."""

    def use(seconds: float) -> None:
        def words(place, *_, **__) -> list[str]:
            return [sys.executable, "-c", TRAINER, str(place.run_dir), str(place.attempt), str(seconds)]

        monkeypatch.setattr(slurm_script, "command", words)

    return use


def trainer_of(run, gateway) -> SlurmTrainer:
    return gateway.launcher.find(place_of(run.attempts.last().placements.get(), gateway.runs_dir))


def test_run_is_trained_by_a_job_and_says_where(make_run, gateway, until):
    run = make_run(**TINY)
    reason = until(run, RunState.FINISHED, RunState.FAILED)
    assert (run.state, run.step) == (RunState.FINISHED, 3), reason
    sentence = f"Slurm job {trainer_of(run, gateway).record.job} runs on c1."
    assert LogLine.objects.filter(run=run, source="launcher", text=sentence).exists()
    assert run.events.get(name="allocated").text == sentence
    assert run.attempts.get().held_seconds > 0
    assert run.attempts.get().placements.get().exit_code == 0


def test_run_that_waits_in_the_queue_says_why_and_is_taken_back_when_stopped(make_run, gateway, live, until):
    run = make_run(parallel__nodes=4)
    reason = live(run, lambda: "queue" in run.reason, "a reason")
    job = trainer_of(run, gateway).record.job
    # The first word of another release of Slurm, or the word after its next look.
    assert reason in {f"Slurm job {job} waits in the queue (Partition{word})." for word in ("Config", "NodeLimit")}
    assert run.attempts.get().held_seconds == 0
    request_stop(run, actor=run.owner)
    assert until(run, RunState.STOPPED) == "Stopped before it began."


def test_stopped_run_ends_with_what_its_trainer_says(run, until, small_trainer):
    small_trainer(60.0)
    until(run, RunState.RUNNING)
    request_stop(run, actor=run.owner)
    assert until(run, RunState.STOPPED) == "Is over."


def test_trainer_that_does_not_stop_is_ended_by_slurm(make_run, live, until, trainer_is, monkeypatch):
    monkeypatch.setattr("workers.node._SECONDS_FROM_TERM_TO_KILL", 0.2)
    trainer_is("sh", "-c", "trap '' TERM; echo deaf; while true; do sleep 0.1; done")
    run = make_run(recovery__stop_grace_seconds=0.1)
    live(run, lambda: LogLine.objects.filter(text="deaf").exists(), "it to run")
    request_stop(run, actor=run.owner)
    assert "CANCELLED" in until(run, RunState.STOPPED)


def test_job_that_is_cancelled_goes_on_while_restarts_are_left(make_run, cluster, live, until, gateway, trainer_is):
    trainer_is("sleep", "60")
    run = make_run(recovery__max_restarts=1)
    live(run, lambda: "runs on" in run.reason, "it to run")
    number = trainer_of(run, gateway).record.job
    cluster.ask("scancel", str(number))
    reason = until(run, RunState.QUEUED, RunState.FAILED)
    assert reason.startswith(f"Slurm ended job {number}: CANCELLED.")
    assert reason.endswith("Goes on from the last checkpoint; 0 restarts are left.")


def test_trainer_that_can_save_before_slurm_ends_its_job_uses_no_restart(run, cluster, until, gateway, small_trainer):
    small_trainer(60.0)
    until(run, RunState.RUNNING)
    number = trainer_of(run, gateway).record.job
    cluster.ask("scancel", str(number))
    reason = until(run, RunState.PREEMPTED)
    assert (reason, run.restarts) == (f"Slurm ended job {number}: CANCELLED; goes on from the last checkpoint.", 0)


def test_job_whose_node_is_lost_says_so(make_run, live, until, gateway, cluster, trainer_is):
    trainer_is("sleep", "60")
    run = make_run(recovery__max_restarts=0)
    live(run, lambda: "runs on" in run.reason, "it to run")
    number = trainer_of(run, gateway).record.job
    for node in slurm.NODES:
        cluster.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=tests")
    reason = until(run, RunState.FAILED)
    for node in slurm.NODES:
        cluster.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert reason.startswith(f"Slurm ended job {number}: NODE_FAIL")


def test_trainer_that_dies_says_its_last_words(make_run, until, trainer_is):
    trainer_is("sh", "-c", "echo Out of luck; exit 3")
    run = make_run(recovery__max_restarts=0)
    assert until(run, RunState.FAILED) == (
        'The trainer ended with exit code 3 without a word. Last line of its log: "Out of luck". No restart is left.'
    )


def test_refused_job_is_one_sentence(run, gateway, until):
    gateway.launcher.options = ["--partition=nowhere"]
    assert until(run, RunState.FAILED) == (
        "Slurm refused the job: invalid partition specified: nowhere; Batch job submission failed: Invalid partition "
        "name specified. Check SLURM_OPTIONS of the gateway."
    )


@pytest.mark.parametrize("when", ["before its number was written", "afterwards"])
def test_gateway_that_died_finds_its_job_again_and_hands_in_no_second_one(
    run, gateway, cluster, until, small_trainer, when
):
    small_trainer(60.0)
    until(run, RunState.RUNNING)
    trainer = trainer_of(run, gateway)
    if when != "afterwards":
        launcher.Record(tried_at=trainer.record.tried_at).write(trainer.place.record)
    successor = Agent(gateway.name, Slurm(gateway.runs_dir, slots=3))
    successor.tick()
    request_stop(run, actor=run.owner)
    assert until(run, RunState.STOPPED, by=successor) == "Is over."
    assert cluster.ask("squeue", "--me", "--noheader", "--states=all", "--format=%i", f"--name={trainer.name}") == str(
        trainer.record.job
    )


def test_job_whose_attempt_ended_meanwhile_is_ended(run, gateway, cluster, until, small_trainer):
    small_trainer(60.0)
    until(run, RunState.RUNNING)
    trainer = trainer_of(run, gateway)
    lose_node(Node.objects.get())
    successor = Agent(gateway.name, Slurm(gateway.runs_dir, slots=3))
    successor.launcher.client.ask()
    successor.tick()
    wait_for(lambda: not cluster.ask("squeue", "--noheader", f"--name={trainer.name}"), "the job to be gone")


def test_controller_that_is_away_ends_nothing(make_run, gateway, cluster, live, until, small_trainer):
    small_trainer(60.0)
    run = make_run()
    until(run, RunState.RUNNING)
    cluster.stop_controller()
    later = make_run("later")
    reason = live(later, lambda: "answer" in later.reason, "a word about Slurm")
    assert reason.startswith("Slurm does not answer and is asked again: ")
    cluster.start_controller()
    until(later, RunState.RUNNING)
    for each in (run, later):
        request_stop(each, actor=each.owner)
        assert until(each, RunState.STOPPED) == "Is over."
        assert each.attempts.count() == 1
    assert run.events.filter(name="unknown").count() == 1


def test_gang_is_one_job_that_starts_torchrun_on_each_node(cluster, stack, monkeypatch):
    monkeypatch.setenv("LAUNCHER", "slurm")
    with another_node(stack, "gateway"):
        run = stack.start_run("by slurm", train__steps=10, parallel__nodes=2)
        found = stack.wait_for_state(run, "finished", "failed")
    assert (found["state"], found["step"], found["attempts"][0]["nodes"]) == ("finished", 10, ["gateway"]), found[
        "reason"
    ]
    stack.assert_shipped_once(run)
    logs = sorted(path.name for path in (stack.run_dir(run) / "logs").glob("*node*"))
    assert logs == ["attempt-0001-node-0000.log", "attempt-0001-node-0001.log"]
    assert any("2 processes" in event["text"] for event in stack.ask(f"/runs/{run}/events")["items"])
