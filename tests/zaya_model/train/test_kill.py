"""Whatever moment a trainer is killed at, the next start goes on exactly."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.zaya_model.runs import losses, records
from zaya_model.config import RunConfig
from zaya_model.presets import to_toml
from zaya_model.train.loop import train


def kill_at(step: int, config_file: Path, run_dir: Path) -> None:
    """Start the trainer and kill it without warning once its journal shows a step."""
    process = subprocess.Popen(
        [sys.executable, "-m", "zaya_model", "train", str(config_file), "--run-dir", str(run_dir), "--resume"],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while max(losses(run_dir), default=0) < step and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_a_run_that_was_killed_equals_one_that_never_was(tiny: Callable[..., RunConfig], tmp_path: Path) -> None:
    config = tiny(train__steps=60, checkpoint__every_steps=2, train__eval_every_steps=0)
    (tmp_path / "given.toml").write_text(to_toml(config))
    run_dir = tmp_path / "killed"
    run_dir.mkdir()
    kill_at(13, tmp_path / "given.toml", run_dir)
    assert train(config, run_dir, resume="latest") == "finished"
    train(config, tmp_path / "straight")
    assert losses(run_dir) == losses(tmp_path / "straight")
    assert [record["attempt"] for record in records(run_dir, "event") if record["name"] == "resumed"] == [2]
