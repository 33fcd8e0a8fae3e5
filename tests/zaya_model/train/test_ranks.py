"""Several processes train what one process trains."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.zaya_model.conftest import TINY
from tests.zaya_model.runs import events, losses, records
from zaya_model.checkpoint.manifest import folder_of
from zaya_model.config import RunConfig
from zaya_model.presets import build, to_toml
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
    try:
        _, errors = process.communicate(timeout=120)
    finally:
        end(process)
    assert process.returncode == 0, errors


def end(process: subprocess.Popen[str]) -> None:
    """Let no process outlive its test."""
    if process.poll() is None:
        process.terminate()
        process.communicate(timeout=30)


def metrics(run_dir: Path, name: str) -> list[float]:
    return [r["values"][name] for r in records(run_dir, "metrics") if name in r["values"]]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the tiny config by two processes."""
    run_dir = tmp_path_factory.mktemp("two")
    run(build(TINY, {"parallel.processes_per_node": 2}), run_dir)
    return run_dir


def test_two_ranks_see_the_same_losses_norms_and_loads_as_one(tiny: Tiny, tmp_path: Path, two: Path) -> None:
    train(tiny(), tmp_path)
    assert losses(tmp_path) == pytest.approx(losses(two), abs=1e-5)
    for name in ("eval/loss", "grad_norm", "grad_norm/router"):
        assert metrics(tmp_path, name) == pytest.approx(metrics(two, name), rel=1e-4)
    loads = [[r["load"] for r in records(folder, "router")] for folder in (tmp_path, two)]
    assert loads[0] == loads[1]


def test_a_checkpoint_of_two_ranks_goes_on_with_one(tiny: Tiny, tmp_path: Path, two: Path) -> None:
    run_dir = shutil.copytree(two, tmp_path / "run")
    assert len(list(folder_of(run_dir, 3).glob("*.safetensors"))) == 2
    before = losses(run_dir)
    train(tiny(), run_dir, resume="3")
    assert records(run_dir, "metrics")[-1]["attempt"] == 2
    assert losses(run_dir) == pytest.approx(before, abs=1e-5)


UNEVEN = {
    "train.steps": 12, "checkpoint.keep_last": 4, "train.eval_every_steps": 12,
    "train.router_every_steps": 1,
}  # fmt: skip


@pytest.mark.parametrize("sharding", ["zero1", "fsdp"])
def test_a_sharded_run_goes_on_with_any_number_of_ranks_as_if_it_were_one(sharding: str, tmp_path: Path) -> None:
    """Four ranks, then two, three and one from ever later checkpoints: sequences of a step shared unevenly."""
    # FSDP gathers experts for each micro-batch, so every rank must have as many.
    batch = {"train.global_batch_size": 5, "train.micro_batch_size": 4 if sharding == "fsdp" else 1}
    shape = {**UNEVEN, **batch, "parallel.sharding": sharding}
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    train(build(TINY, {**shape, "parallel.sharding": "none"}), whole)
    for ranks, flags in ((4, ()), (2, ("--resume=3",)), (3, ("--resume=6",))):
        run(build(TINY, {**shape, "parallel.processes_per_node": ranks}), run_dir, *flags, ranks=ranks)
        assert len(list(folder_of(run_dir, 12).glob("*.safetensors"))) == ranks
    train(build(TINY, shape), run_dir, resume="9")
    assert losses(run_dir) == pytest.approx(losses(whole), abs=1e-5)
    for attempt, first in ((1, 1), (2, 4), (3, 7), (4, 10)):
        for name in ("loss", "grad_norm", "grad_norm/experts", "grad_norm/embedding", "lr/muon"):
            told = values_of(run_dir, name, attempt)
            assert told == pytest.approx(values_of(whole, name)[first - 1 :], rel=1e-4), (attempt, name)
        assert loads_of(run_dir, attempt) == loads_of(whole)[first - 1 :]


SPLIT = {
    "model.cca_time0": 3, "model.attention_bias": True, "model.layer_types": ["full", "sliding"],
    "model.sliding_window": 5, "train.steps": 3, "train.router_every_steps": 1, "parallel.sharding": "zero1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("ranks", "context", "more"),
    [
        pytest.param(3, 3, {}, id="three parts of 6, 5 and 5 tokens"),
        pytest.param(4, 2, {"data.sequence_length": 15, "train.activation_checkpointing": True}, id="two parts, twice"),
    ],
)
def test_a_sequence_split_over_ranks_trains_as_a_whole_one(
    ranks: int, context: int, more: dict, tmp_path: Path
) -> None:
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    train(build(TINY, {**SPLIT, **more}), whole)
    split = {"parallel.processes_per_node": ranks, "parallel.context": context}
    run(build(TINY, {**SPLIT, **more, **split}), run_dir, ranks=ranks)
    for name in ("loss", "eval/loss", "grad_norm", "grad_norm/attention", "grad_norm/router", "grad_norm/embedding"):
        assert values_of(run_dir, name) == pytest.approx(values_of(whole, name), rel=2e-5), name
    assert loads_of(run_dir) == loads_of(whole)


def values_of(run_dir: Path, name: str, attempt: int = 1) -> list[float]:
    return [r["values"][name] for r in records(run_dir, "metrics") if r["attempt"] == attempt and name in r["values"]]


def loads_of(run_dir: Path, attempt: int = 1) -> list[list[list[int]]]:
    return [r["load"] for r in records(run_dir, "router") if r["attempt"] == attempt]


def wait_for_a_step(run_dir: Path) -> None:
    deadline = time.monotonic() + 60
    while not losses(run_dir) and time.monotonic() < deadline:
        time.sleep(0.2)


def test_the_stop_file_ends_all_ranks_after_a_whole_checkpoint(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny(parallel__processes_per_node=2, train__steps=1_000_000, checkpoint__every_steps=0)
    process = start(config, tmp_path / "run", "--attempt", "1")
    try:
        wait_for_a_step(tmp_path / "run")
        (tmp_path / "run" / "stop").touch()
        process.communicate(timeout=60)
    finally:
        end(process)
    assert process.returncode == 0
    assert events(tmp_path / "run")[-1] == "stopped"
    assert records(tmp_path / "run", "checkpoint")[-1]["status"] == "verified"


def test_a_machine_that_is_taken_away_gets_its_run_saved(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny(parallel__processes_per_node=2, train__steps=1_000_000, checkpoint__every_steps=0)
    process = start(config, tmp_path / "run", "--attempt", "1")
    try:
        wait_for_a_step(tmp_path / "run")
        process.terminate()
        process.communicate(timeout=60)
    finally:
        end(process)
    assert events(tmp_path / "run")[-1] == "preempted"
    assert records(tmp_path / "run", "checkpoint")[-1]["status"] == "verified"


def test_a_rank_that_dies_ends_the_run_with_its_reason(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny(parallel__processes_per_node=2, train__steps=1_000_000, checkpoint__every_steps=0)
    process = start(config, tmp_path / "run", "--attempt", "1")
    try:
        wait_for_a_step(tmp_path / "run")
        os.kill(second_rank(process.pid), signal.SIGKILL)
        process.communicate(timeout=60)
    finally:
        end(process)
    assert process.returncode != 0
    assert events(tmp_path / "run")[-1] == "peer_lost"


def test_a_rank_that_was_stopped_is_named_with_the_stacks_of_the_others_and_ended(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny(
        parallel__processes_per_node=2, train__steps=1_000_000, checkpoint__every_steps=0, watch__stall_seconds=3.0
    )
    process = start(config, tmp_path / "run", "--attempt", "1")
    try:
        wait_for_a_step(tmp_path / "run")
        stopped = second_rank(process.pid)
        os.kill(stopped, signal.SIGSTOP)
        _, errors = process.communicate(timeout=60)
    finally:
        end(process)
    assert process.returncode != 0
    told = next(r for r in records(tmp_path / "run", "event") if r["name"] == "stalled")
    assert "process 1 gives no sign of life" in told["text"]
    assert told["data"]["silent"] == [1]
    assert "most recent call first" in errors
    assert not Path(f"/proc/{stopped}").exists()


def second_rank(launcher: int) -> int:
    """The process that torchrun started as rank 1."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return next(
        int(child) for child in children if b"\0RANK=1\0" in b"\0" + Path(f"/proc/{child}/environ").read_bytes()
    )
