"""Which checkpoints stay: the newest, milestones, and the best by what was measured at their very step."""

from pathlib import Path

import pytest

from tests.zaya_model.runs import records
from zaya_model.checkpoint.keep import kept, prune
from zaya_model.checkpoint.manifest import NAME, Manifest, folder_of, list_checkpoints, write_manifest
from zaya_model.config import CheckpointConfig
from zaya_model.train.loop import train

LOSSES = {10: 3.0, 20: 1.0, 30: float("nan"), 40: 2.0, 50: None, 60: 2.5}


def saved(step: int, loss: float | None) -> Manifest:
    return Manifest(step, {}, [], {} if loss is None else {"eval/loss": loss})


@pytest.mark.parametrize(
    ("rules", "steps"),
    [
        ({"keep_last": 2}, {50, 60}),
        ({"keep_last": 1, "keep_every_steps": 20}, {20, 40, 60}),
        ({"keep_last": 1, "keep_best": 1}, {20, 60}),
        ({"keep_last": 1, "keep_best": 2}, {20, 40, 60}),
        ({"keep_last": 1, "keep_best": 1, "best_is": "highest"}, {10, 60}),
        ({"keep_last": 1, "keep_best": 3, "best_metric": "accuracy"}, {60}),
    ],
)
def test_rules_add_up(rules: dict, steps: set[int]) -> None:
    assert kept([saved(step, loss) for step, loss in LOSSES.items()], CheckpointConfig(**rules)) == steps


def test_pruning_removes_the_rest_and_what_was_left_half_done(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        folder_of(tmp_path, step).mkdir(parents=True)
        if step != 2:
            write_manifest(folder_of(tmp_path, step), saved(step, None))
    assert prune(tmp_path, CheckpointConfig(keep_last=2), newest=4) == [1]
    assert [step for step, _ in list_checkpoints(tmp_path)] == [4, 3]


def test_nothing_newer_than_the_save_that_prunes_is_touched(tmp_path: Path) -> None:
    folder_of(tmp_path, 9).mkdir(parents=True)
    assert prune(tmp_path, CheckpointConfig(keep_last=1), newest=5) == []
    assert not (folder_of(tmp_path, 9) / NAME).exists()
    assert folder_of(tmp_path, 9).exists()


def test_a_run_keeps_the_one_its_evaluation_found_best(tiny, tmp_path: Path) -> None:
    config = tiny(train__steps=8, train__eval_every_steps=2, checkpoint__every_steps=2, checkpoint__keep_last=1,
                  checkpoint__keep_best=1)  # fmt: skip
    train(config, tmp_path)
    measured = {r["step"]: r["values"]["eval/loss"] for r in records(tmp_path, "metrics") if "eval/loss" in r["values"]}
    assert {step for step, _ in list_checkpoints(tmp_path)} == {8, min(measured, key=measured.__getitem__)}
