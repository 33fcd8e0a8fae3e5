"""Runs of several processes, on one node and on two: they train together, and no part outlives the rest."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from tests.stack import ROOT, Stack, wait_for
from workers.launchers.processes import running

pytestmark = pytest.mark.multirank
OFTEN = {"train__micro_batch_size": 2, "checkpoint__every_steps": 5}


@contextmanager
def more_nodes(stack: Stack, *names: str) -> Iterator[dict[str, subprocess.Popen]]:
    """More node workers of this stack, all alive; names of nodes are addresses, so they are this machine again."""
    with ExitStack() as opened:
        workers = {name: opened.enter_context(another_node(stack, name)) for name in names}
        wait_for(lambda: set(names) <= alive_nodes(stack), "the other nodes")
        yield workers


def alive_nodes(stack: Stack) -> set[str]:
    return {node["name"] for node in stack.ask("/nodes")["items"] if node["is_alive"]}


@contextmanager
def another_node(stack: Stack, name: str) -> Iterator[subprocess.Popen]:
    command = ["-m", "celery", "-A", "workers", "worker", "--pool=solo", "-Q", f"node.{name}", "-n", f"node@{name}"]
    environment = {**os.environ, "DATA": str(stack.data), "NODE_NAME": name, "OMP_NUM_THREADS": "1"}
    with (stack.data / "logs" / f"node-{name}.log").open("a") as log:
        worker = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield worker
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)


def processes_of(stack: Stack, run: int) -> list[psutil.Process]:
    places = running()
    return [psutil.Process(pid) for place in places if place.run_dir == stack.run_dir(run) for pid in places[place]]


def test_killed_torchrun_leaves_no_rank_behind_and_the_run_goes_on(stack: Stack) -> None:
    run = stack.start_run("two ranks", train__steps=30, parallel__processes_per_node=2, **OFTEN)
    stack.wait_for_step(run, 6)
    before = processes_of(stack, run)
    next(process for process in before if "torch.distributed.run" in process.cmdline()).kill()
    found = stack.wait_for_state(run, "finished", "failed", seconds=120)
    assert (found["state"], found["step"]) == ("finished", 30), found["reason"]
    # Where nobody reaps orphans, as in a bare container, the dead stay listed.
    assert [each for each in before if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []
    stack.assert_shipped_once(run)


def test_two_nodes_train_one_run_and_when_one_part_dies_both_start_again(stack: Stack) -> None:
    with more_nodes(stack, "127.0.0.2"):
        run = stack.start_run("two nodes", train__steps=30, parallel__nodes=2, **OFTEN)
        stack.wait_for_step(run, 6)
        trainers = [process for process in processes_of(stack, run) if "--node-rank=1" in " ".join(process.cmdline())]
        trainers[-1].kill()
        found = stack.wait_for_state(run, "finished", "failed", seconds=120)
    assert (found["state"], found["step"]) == ("finished", 30), found["reason"]
    assert processes_of(stack, run) == []
    stack.assert_shipped_once(run)


def test_a_node_that_vanishes_from_three_is_replaced_by_a_spare_one(stack: Stack) -> None:
    with more_nodes(stack, "127.0.0.2", "127.0.0.3", "127.0.0.4") as workers:
        run = stack.start_run("three nodes", train__steps=40, parallel__nodes=3, **OFTEN)
        stack.wait_for_step(run, 8)
        (first,) = stack.ask(f"/runs/{run}")["attempts"]
        rank, lost = next((rank, name) for rank, name in enumerate(first["nodes"]) if name in workers)
        workers[lost].kill()
        for process in processes_of(stack, run):
            if f"--node-rank={rank}" in process.cmdline():
                process.kill()
        found = stack.wait_for_state(run, "finished", "failed", seconds=180)
        assert (found["state"], found["step"]) == ("finished", 40), found["reason"]
        last = found["attempts"][-1]
        assert len(last["nodes"]) == 3
        assert lost not in last["nodes"]
        assert found["attempts"][0]["outcome"] in ("lost", "killed")
        assert found["goodput"]["lost_steps"] == sum(
            max(0, before["last_step"] - after["from_step"])
            for before, after in zip(found["attempts"], found["attempts"][1:], strict=False)
        )
    stack.assert_shipped_once(run)
