"""Children are started again when they die, and none is left behind, however their parent ends."""

import signal
import subprocess
import sys
import threading

import psutil
import pytest

from tests.stack import ROOT, wait_for
from workers.local.supervisor import Child, Supervisor


@pytest.fixture
def supervisor():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    said: list[str] = []
    made = Supervisor(said.append)
    made.said = said
    yield made
    made.num_signals = 2
    made.stop(())
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def child(tmp_path):
    def make(script: str, **settings) -> Child:
        return Child("child", ["sh", "-c", script], tmp_path / "child.log", **settings)

    return make


def test_child_that_dies_is_started_again(supervisor, child, tmp_path):
    supervisor.add(child(f"echo started >> {tmp_path}/starts; sleep 60"))
    starts = tmp_path / "starts"
    wait_for(starts.exists, "the first start")
    supervisor.children[0].process.kill()
    watch = threading.Thread(target=supervisor.watch)
    watch.start()
    wait_for(lambda: starts.read_text().count("started") == 2, "the second start")
    supervisor.num_signals = 1
    watch.join()
    assert supervisor.said == ["child died (exit code -9); starting it again"]


def test_child_that_will_not_end_is_killed_when_patience_ends(supervisor, child):
    stubborn = child("trap '' TERM; echo ready; while true; do sleep 0.1; done", patience=0.3)
    supervisor.add(stubborn)
    wait_for(lambda: stubborn.last_line() == "ready", "the trap")
    supervisor.stop(("child",))
    assert stubborn.process.returncode == -signal.SIGKILL


def test_second_signal_means_hurry(supervisor, child):
    stubborn = child("trap '' TERM; echo ready; while true; do sleep 0.1; done", patience=600.0)
    supervisor.add(stubborn)
    wait_for(lambda: stubborn.last_line() == "ready", "the trap")
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
    supervisor.stop(("child",))
    assert not stubborn.is_alive


def test_killed_parent_leaves_no_child(tmp_path):
    code = (
        "import time; from pathlib import Path; from workers.local.supervisor import Child\n"
        f"child = Child('child', ['sleep', '60'], Path({str(tmp_path / 'log')!r})); child.start()\n"
        "print(child.process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the child to end")
