"""Several processes train what one process trains."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.zaya_model.runs import events, losses, records
from zaya_model.checkpoint.manifest import folder_of
from zaya_model.config import RunConfig
from zaya_model.presets import to_toml
from zaya_model.train.loop import train

pytestmark = pytest.mark.multirank
Tiny = Callable[..., RunConfig]


def start(config: RunConfig, run_dir: Path, *flags: str, ranks: int = 2) -> subprocess.Popen[str]:
    run_dir.mkdir(exist_ok=True)
    file = run_dir / "given.toml"
    file.write_text(to_toml(config))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return subprocess.Popen(
        [*launcher, "-m", "zaya_model", "train", str(file), "--run-dir", str(run_dir), *flags],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(config: RunConfig, run_dir: Path, *flags: str, ranks: int = 2) -> None:
    process = start(config, run_dir, *flags, ranks=ranks)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


def metrics(run_dir: Path, name: str) -> list[float]:
    return [r["values"][name] for r in records(run_dir, "metrics") if name in r["values"]]


def test_two_ranks_see_the_same_losses_norms_and_loads_as_one(tiny: Tiny, tmp_path: Path) -> None:
    train(tiny(), tmp_path / "one")
    run(tiny(parallel__processes_per_node=2), tmp_path / "two")
    assert losses(tmp_path / "one") == pytest.approx(losses(tmp_path / "two"), abs=1e-5)
    for name in ("eval/loss", "grad_norm", "grad_norm/router"):
        assert metrics(tmp_path / "one", name) == pytest.approx(metrics(tmp_path / "two", name), rel=1e-4)
    loads = [[r["load"] for r in records(tmp_path / folder, "router")] for folder in ("one", "two")]
    assert loads[0] == loads[1]


def test_a_checkpoint_of_two_ranks_goes_on_with_one(tiny: Tiny, tmp_path: Path) -> None:
    run(tiny(parallel__processes_per_node=2), tmp_path)
    assert len(list(folder_of(tmp_path, 3).glob("*.safetensors"))) == 2
    before = losses(tmp_path)
    train(tiny(), tmp_path, resume="3")
    assert records(tmp_path, "metrics")[-1]["attempt"] == 2
    assert losses(tmp_path) == pytest.approx(before, abs=1e-5)


def test_the_stop_file_ends_all_ranks_after_a_whole_checkpoint(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny(parallel__processes_per_node=2, train__steps=1_000_000, checkpoint__every_steps=0)
    process = start(config, tmp_path / "run", "--attempt", "1")
    try:
        deadline = time.monotonic() + 60
        while not losses(tmp_path / "run") and time.monotonic() < deadline:
            time.sleep(0.2)
        (tmp_path / "run" / "stop").touch()
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert events(tmp_path / "run")[-1] == "stopped"
    assert records(tmp_path / "run", "checkpoint")[-1]["status"] == "verified"


def test_a_rank_that_dies_ends_the_run_with_its_reason(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny(parallel__processes_per_node=2, train__steps=1_000_000, checkpoint__every_steps=0)
    process = start(config, tmp_path / "run", "--attempt", "1")
    try:
        deadline = time.monotonic() + 60
        while not losses(tmp_path / "run") and time.monotonic() < deadline:
            time.sleep(0.2)
        os.kill(second_rank(process.pid), signal.SIGKILL)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0
    assert events(tmp_path / "run")[-1] == "failed"


def second_rank(launcher: int) -> int:
    """The process that torchrun started as rank 1."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return next(
        int(child) for child in children if b"\0RANK=1\0" in b"\0" + Path(f"/proc/{child}/environ").read_bytes()
    )
