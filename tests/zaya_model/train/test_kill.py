"""Whatever moment a trainer is killed at, while training or saving, the next start goes on exactly."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.zaya_model.runs import losses, records
from zaya_model.config import RunConfig
from zaya_model.presets import to_toml
from zaya_model.train.loop import train

Tiny = Callable[..., RunConfig]
KILLS = int(os.environ.get("KILLS", "2"))


def command(config_file: Path, run_dir: Path, ranks: int = 1) -> list[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    verb = ["-m", "zaya_model", "train", str(config_file), "--run-dir", str(run_dir), "--resume"]
    return [sys.executable, *launcher, *verb]


def kill_after(seconds: float, steps: int, config_file: Path, run_dir: Path, ranks: int) -> None:
    """Start the trainer, let its journal show some new steps, and kill all of it a moment later."""
    target = max(losses(run_dir), default=0) + steps
    process = subprocess.Popen(
        command(config_file, run_dir, ranks), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while max(losses(run_dir), default=0) < target and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(seconds)
    finally:
        for pid in processes_of(run_dir):
            os.kill(pid, signal.SIGKILL)
        process.wait()


def processes_of(run_dir: Path) -> list[int]:
    """Every process that was told to train into a folder, wherever torchrun put it."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.fsencode(run_dir) in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
    return found


@pytest.mark.multirank
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_that_was_killed_again_and_again_equals_one_that_never_was(
    tiny: Tiny, tmp_path: Path, ranks: int
) -> None:
    """KILLS=100 does it a hundred times."""
    moments = random.Random(ranks)
    config = tiny(
        train__steps=30 * KILLS, checkpoint__every_steps=2, train__eval_every_steps=0, parallel__sharding="zero1",
        parallel__processes_per_node=ranks, recovery__max_restarts=KILLS,
    )  # fmt: skip
    given, run_dir = tmp_path / "given.toml", tmp_path / "killed"
    given.write_text(to_toml(config))
    run_dir.mkdir()
    for _ in range(KILLS):
        kill_after(moments.random() * 0.1, moments.randint(1, 6), given, run_dir, ranks)
    subprocess.run(
        command(given, run_dir, ranks), check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    train(config.model_copy(update={"parallel": tiny().parallel}), tmp_path / "straight")
    assert losses(run_dir) == pytest.approx(losses(tmp_path / "straight"), abs=0 if ranks == 1 else 1e-5)
    begun = [record["attempt"] for record in records(run_dir, "event") if record["name"] in ("started", "resumed")]
    assert begun == list(range(1, KILLS + 2))
