"""Runs of several processes, on one node and on two: they train together, and no part outlives the rest."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from tests.stack import ROOT, Stack, wait_for
from workers import launcher

pytestmark = pytest.mark.multirank
OFTEN = {"train__micro_batch_size": 2, "checkpoint__every_steps": 5}


@contextmanager
def second_node(stack: Stack, name: str = "127.0.0.2") -> Iterator[psutil.Process]:
    """Another node worker of this stack; names of nodes are addresses, so this one is this machine again."""
    command = ["-m", "celery", "-A", "workers", "worker", "--pool=solo", "-Q", f"node.{name}", "-n", f"node@{name}"]
    environment = {**os.environ, "DATA": str(stack.data), "NODE_NAME": name, "OMP_NUM_THREADS": "1"}
    with (stack.data / "logs" / "second-node.log").open("a") as log:
        worker = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield worker
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)


def processes_of(stack: Stack, run: int) -> list[psutil.Process]:
    places = launcher.running()
    return [psutil.Process(pid) for place in places if place.run_dir == stack.run_dir(run) for pid in places[place]]


def test_killed_torchrun_leaves_no_rank_behind_and_the_run_goes_on(stack: Stack) -> None:
    run = stack.start_run("two ranks", train__steps=30, parallel__processes_per_node=2, **OFTEN)
    stack.wait_for_step(run, 6)
    before = processes_of(stack, run)
    next(process for process in before if "torch.distributed.run" in process.cmdline()).kill()
    found = stack.wait_for_state(run, "finished", "failed", seconds=120)
    assert (found["state"], found["step"]) == ("finished", 30), found["reason"]
    assert [process for process in before if process.is_running()] == []
    stack.assert_shipped_once(run)


def test_two_nodes_train_one_run_and_when_one_part_dies_both_start_again(stack: Stack) -> None:
    with second_node(stack):
        wait_for(lambda: len([n for n in stack.ask("/nodes")["items"] if n["is_alive"]]) == 2, "the second node")
        run = stack.start_run("two nodes", train__steps=30, parallel__nodes=2, **OFTEN)
        stack.wait_for_step(run, 6)
        trainers = [process for process in processes_of(stack, run) if "--node-rank=1" in " ".join(process.cmdline())]
        trainers[-1].kill()
        found = stack.wait_for_state(run, "finished", "failed", seconds=120)
    assert (found["state"], found["step"]) == ("finished", 30), found["reason"]
    assert processes_of(stack, run) == []
    stack.assert_shipped_once(run)
