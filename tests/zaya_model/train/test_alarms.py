"""What a run does when a batch ruins the loss: stop, leave the step out, or go back and leave out the data."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.zaya_model.runs import events, losses, records
from zaya_model.config import RunConfig
from zaya_model.data.loader import Mixture
from zaya_model.errors import TrainingError
from zaya_model.train import step as step_module
from zaya_model.train.loop import train

Tiny = Callable[..., RunConfig]


class Poison:
    """Batches by number, as they are read; the loss of some is multiplied by something."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[int] = []
        self.factors: dict[int, float] = {}
        real_read, real_pass = Mixture.micro_batches, step_module.forward_backward

        def read(mixture: Mixture, step: int, *where: int) -> object:
            self.read.append(step)
            return real_read(mixture, step, *where)

        def forward_backward(state: object, *rest: object) -> torch.Tensor:
            loss = real_pass(state, *rest)
            factor = self.factors.get(self.read[-1], 1.0)
            for parameter in state.model.parameters():
                parameter.grad.mul_(factor)
            return loss * factor

        monkeypatch.setattr(Mixture, "micro_batches", read)
        monkeypatch.setattr(step_module, "forward_backward", forward_backward)


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Poison:
    return Poison(monkeypatch)


def test_a_loss_that_is_no_number_ends_the_run_and_is_written_down(tiny: Tiny, tmp_path: Path, poison: Poison) -> None:
    poison.factors = {4: math.nan}
    with pytest.raises(TrainingError, match=r"became nan at step 5.*Lower the learning rates"):
        train(tiny(), tmp_path)
    assert math.isnan(float(losses(tmp_path)[5]))
    assert events(tmp_path)[-2:] == ["nan", "failed"]
    assert [r["step"] for r in records(tmp_path, "checkpoint") if r["status"] == "verified"] == [3]


def test_going_on_leaves_the_weights_as_they_were(tiny: Tiny, tmp_path: Path, poison: Poison) -> None:
    poison.factors = {4: math.inf}
    assert train(tiny(watch__on_nan="go_on"), tmp_path) == "finished"
    assert "its update was left out" in said(tmp_path, "nan")
    assert all(math.isfinite(loss) for step, loss in losses(tmp_path).items() if step != 5)
    assert poison.read == [0, 1, 2, 3, 4, 5]


def test_going_back_leaves_out_the_data_since_the_checkpoint(tiny: Tiny, tmp_path: Path, poison: Poison) -> None:
    poison.factors = {4: math.nan}
    assert train(tiny(watch__on_nan="roll_back"), tmp_path) == "finished"
    assert "went back to step 3" in said(tmp_path, "nan")
    assert poison.read == [0, 1, 2, 3, 4, 5, 6, 7]
    assert sorted(losses(tmp_path)) == [1, 2, 3, 4, 5, 6]
    assert all(math.isfinite(loss) for loss in losses(tmp_path).values())


def test_a_resumed_run_leaves_out_the_same_data(tiny: Tiny, tmp_path: Path, poison: Poison) -> None:
    poison.factors = {4: math.nan}
    train(tiny(watch__on_nan="roll_back"), tmp_path)
    before, poison.read = losses(tmp_path), []
    train(tiny(watch__on_nan="roll_back"), tmp_path, resume="3")
    assert poison.read == [5, 6, 7]
    assert losses(tmp_path) == before


def test_a_run_from_the_beginning_reads_all_of_its_data(tiny: Tiny, tmp_path: Path, poison: Poison) -> None:
    poison.factors = {4: math.nan}
    train(tiny(watch__on_nan="roll_back"), tmp_path)
    poison.read, poison.factors = [], {}
    train(tiny(), tmp_path)
    assert poison.read == [0, 1, 2, 3, 4, 5]


def test_a_run_goes_back_only_so_often(tiny: Tiny, tmp_path: Path, poison: Poison) -> None:
    poison.factors = dict.fromkeys(range(4, 100), math.nan)
    with pytest.raises(TrainingError, match="went back 2 times already"):
        train(tiny(watch__on_nan="roll_back", watch__max_roll_backs=2), tmp_path)
    assert events(tmp_path).count("nan") == 3


def test_without_a_checkpoint_there_is_nothing_to_go_back_to(tiny: Tiny, tmp_path: Path, poison: Poison) -> None:
    poison.factors = {1: math.nan}
    with pytest.raises(TrainingError, match="no checkpoint to go back to"):
        train(tiny(watch__on_nan="roll_back"), tmp_path)


@pytest.mark.parametrize(("action", "end"), [("go_on", "the step was taken"), ("roll_back", "went back to step 18")])
def test_a_spike_is_told_and_answered(tiny: Tiny, tmp_path: Path, poison: Poison, action: str, end: str) -> None:
    poison.factors = {19: 50.0}
    config = tiny(train__steps=24, train__eval_every_steps=0, watch__on_spike=action, checkpoint__every_steps=6)
    assert train(config, tmp_path) == "finished"
    assert end in said(tmp_path, "loss_spike")


@pytest.mark.parametrize(("name", "factor"), [("nan", math.nan), ("loss_spike", 50.0)])
def test_a_step_that_is_gone_on_from_is_evaluated_and_saved_as_any_other(
    tiny: Tiny, tmp_path: Path, poison: Poison, name: str, factor: float
) -> None:
    poison.factors = {19: factor}
    every = {"train__eval_every_steps": 20, "checkpoint__every_steps": 20}
    config = tiny(train__steps=21, watch__on_nan="go_on", watch__on_spike="go_on", **every)
    assert train(config, tmp_path) == "finished"
    assert name in events(tmp_path)
    assert [r["step"] for r in records(tmp_path, "metrics") if "eval/loss" in r["values"]] == [20]
    assert [r["step"] for r in records(tmp_path, "checkpoint") if r["status"] == "verified"] == [20, 21]


def said(run_dir: Path, name: str) -> str:
    return next(r["text"] for r in records(run_dir, "event") if r["name"] == name)
