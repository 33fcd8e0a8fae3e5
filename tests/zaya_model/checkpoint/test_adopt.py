"""A run that begins with another one's checkpoint goes on as that one did, and keeps it when the other is gone."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.zaya_model.runs import losses
from zaya_model.__main__ import main
from zaya_model.checkpoint.adopt import adopt
from zaya_model.checkpoint.manifest import folder_of, verify
from zaya_model.config import RunConfig
from zaya_model.errors import CheckpointError
from zaya_model.presets import to_toml
from zaya_model.train.loop import train
from zaya_model.train.skips import Skip, add_skip, read_skips

Tiny = Callable[..., RunConfig]


@pytest.fixture
def parent(tiny: Tiny, tmp_path: Path) -> Path:
    train(tiny(), tmp_path / "parent")
    return tmp_path / "parent"


def fork(parent: Path, config: RunConfig, run_dir: Path) -> int:
    file = run_dir.parent / "given.toml"
    file.write_text(to_toml(config))
    return main(["train", str(file), "--run-dir", str(run_dir), "--from", str(folder_of(parent, 3))])


def test_without_changes_it_goes_on_as_its_parent_did(parent: Path, tiny: Tiny, tmp_path: Path) -> None:
    assert fork(parent, tiny(), tmp_path / "fork") == 0
    assert losses(tmp_path / "fork") == {step: loss for step, loss in losses(parent).items() if step > 3}


def test_its_checkpoint_outlives_the_parent(parent: Path, tmp_path: Path) -> None:
    assert adopt(folder_of(parent, 3), tmp_path / "fork") == 3
    shutil.rmtree(parent)
    assert verify(folder_of(tmp_path / "fork", 3)).step == 3


def test_a_second_start_goes_on_from_its_own_checkpoints(parent: Path, tiny: Tiny, tmp_path: Path) -> None:
    fork(parent, tiny(), tmp_path / "fork")
    assert fork(parent, tiny(train__steps=8), tmp_path / "fork") == 0
    assert sorted(losses(tmp_path / "fork")) == [4, 5, 6, 7, 8]


def test_one_that_was_killed_while_taking_over_does_so_at_its_next_start(
    parent: Path, tiny: Tiny, tmp_path: Path
) -> None:
    half = folder_of(tmp_path / "fork", 3)
    half.mkdir(parents=True)
    shard = next(folder_of(parent, 3).glob("*.safetensors"))
    (half / shard.name).write_bytes(shard.read_bytes()[:1000])
    assert fork(parent, tiny(), tmp_path / "fork") == 0
    assert sorted(losses(tmp_path / "fork")) == [4, 5, 6]
    assert verify(half).step == 3


def test_where_nothing_can_be_linked_it_is_copied(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_another_disk(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("os.link", on_another_disk)
    assert adopt(folder_of(parent, 3), tmp_path / "fork") == 3
    assert verify(folder_of(tmp_path / "fork", 3)).step == 3


def test_it_leaves_out_the_data_its_parent_left_out_so_far(parent: Path, tiny: Tiny, tmp_path: Path) -> None:
    for skip in (Skip(2, 1), Skip(5, 1)):
        add_skip(parent, skip)
    fork(parent, tiny(), tmp_path / "fork")
    assert read_skips(tmp_path / "fork") == [Skip(2, 1)]


def test_a_damaged_one_is_refused_by_name(parent: Path, tmp_path: Path) -> None:
    shard = next(folder_of(parent, 3).glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=shard.name):
        adopt(folder_of(parent, 3), tmp_path / "fork")


def test_one_that_is_not_there_ends_with_a_sentence(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fork(tmp_path / "nobody", tiny(), tmp_path / "fork") == 4
    assert "no manifest" in capsys.readouterr().err
