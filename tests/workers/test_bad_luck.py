"""What is killed comes back, and every journal line is in Postgres exactly once."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.stack import ROOT, Stack, free_port, wait_for

STEPS = 160


def kill_trainer(stack: Stack, run: int) -> None:
    stack.trainer(run).kill()


def kill_node_worker(stack: Stack, run: int) -> None:
    stack.child("celery", "node.").kill()


def kill_scheduler(stack: Stack, run: int) -> None:
    stack.child("celery", "scheduler@").kill()


def kill_web(stack: Stack, run: int) -> None:
    stack.child("uvicorn").kill()


def kill_broker(stack: Stack, run: int) -> None:
    """Its memory goes with it: nothing is kept on disk."""
    stack.child("valkey-server").kill()


def restart_database(stack: Stack, run: int) -> None:
    stack.child("postgres", "-D").send_signal(signal.SIGINT)


@pytest.mark.multirank
@pytest.mark.parametrize(
    "harm", [kill_trainer, kill_node_worker, kill_scheduler, kill_web, kill_broker, restart_database]
)
def test_run_outlives(stack: Stack, harm) -> None:
    run = stack.start_run(harm.__name__, train__steps=STEPS)
    stack.wait_for_step(run, 25)
    harm(stack, run)
    found = stack.wait_for_state(run, "finished", "failed", seconds=120)
    assert (found["state"], found["step"]) == ("finished", STEPS), found["reason"]
    stack.assert_shipped_once(run)


def test_trainer_killed_beyond_its_restarts_fails_with_its_reason(stack: Stack) -> None:
    run = stack.start_run("killed for good", train__steps=5000, recovery__max_restarts=0)
    stack.wait_for_step(run, 5)
    stack.trainer(run).kill()
    found = stack.wait_for_state(run, "failed")
    assert "signal 9" in found["reason"]
    stack.assert_shipped_once(run)


def test_unreadable_data_fails_with_a_sentence(stack: Stack) -> None:
    run = stack.start_run("no data", data__path="/nowhere/text.txt")
    found = stack.wait_for_state(run, "failed")
    assert "/nowhere/text.txt" in found["reason"]
    assert found["reason"].endswith(".")
    assert "\n" not in found["reason"]


def test_more_nodes_than_there_are_wait_with_a_reason(stack: Stack) -> None:
    run = stack.start_run("too many", parallel__nodes=2)
    found = wait_for(lambda: (r := stack.ask(f"/runs/{run}"))["reason"].startswith("Needs") and r, "a reason")
    assert found["reason"] == "Needs 2 nodes, 1 are alive and not draining."
    assert stack.ask(f"/runs/{run}/stop", {})["state"] == "stopped"


def test_urgent_run_goes_first_and_the_other_goes_on_afterwards(stack: Stack) -> None:
    low = stack.ask("/runs", {"name": "low", "preset": "tiny-cpu", "priority": -1,
                              "overrides": {"train.steps": 100_000, "train.eval_every_steps": 0}})["id"]  # fmt: skip
    stack.wait_for_step(low, 2)
    urgent = stack.start_run("urgent", train__steps=20)
    stack.wait_for_state(urgent, "finished")
    stack.wait_for_state(low, "running")
    stack.ask(f"/runs/{low}/stop", {})
    assert stack.wait_for_state(low, "stopped")["step"] >= 2


def test_ctrl_c_saves_the_run_leaves_no_process_and_the_next_start_goes_on(tmp_path_factory) -> None:
    stack = Stack(tmp_path_factory.mktemp("c") / "var")
    stack.data.mkdir()
    stack.start()
    run = stack.start_run("interrupted", train__steps=150)
    stack.wait_for_step(run, 10)
    family = psutil.Process(stack.process.pid).children(recursive=True)
    family.append(stack.trainer(run))
    assert stack.stop(signal.SIGINT) == 0
    assert [process for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE] == []
    stack.start()
    try:
        found = stack.wait_for_state(run, "finished", seconds=120)
        assert found["step"] == 150
        assert [event["name"] for event in stack.ask(f"/runs/{run}/events")["items"]].count("running") == 2
        stack.assert_shipped_once(run)
    finally:
        stack.stop()


@pytest.mark.parametrize("kind", ["port", "data", "twice"])
def test_start_that_cannot_work_says_why_in_one_sentence(stack: Stack, tmp_path, kind) -> None:
    data, port = tmp_path / "var", free_port()
    if kind == "port":
        port = stack.port
    if kind == "data":
        data = tmp_path / ("x" * 100)
    if kind == "twice":
        data = stack.data
    environment = {**os.environ, "DATA": str(data), "PORT": str(port)}
    done = subprocess.run(
        [sys.executable, "-m", "workers.local"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
