"""A checkpoint exists when its manifest does, and is what was saved."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from zaya_model.checkpoint.manifest import File, folder_of, list_checkpoints, read_manifest, verify
from zaya_model.checkpoint.restore import find_checkpoint, read_tensors, set_aside_newer
from zaya_model.checkpoint.save import Saver
from zaya_model.config import RunConfig
from zaya_model.errors import CheckpointError

Tiny = Callable[..., RunConfig]
Said = list[tuple[int, str, dict[str, object]]]


@pytest.fixture
def state() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {"a": torch.randn(64, 64), "b": torch.randn(100), "c": torch.arange(3), "step": torch.tensor(7.0)}


@pytest.fixture
def said() -> Said:
    return []


@pytest.fixture
def saver(tiny: Tiny, tmp_path: Path, said: Said) -> Saver:
    return Saver(tmp_path, tiny(checkpoint__keep_last=2), lambda step, status, **d: said.append((step, status, d)))


def save(saver: Saver, step: int, state: dict[str, Tensor]) -> None:
    saver.save(step, state)
    saver.wait()


def test_what_was_saved_is_read_back(saver: Saver, state: dict[str, Tensor], said: Said, tmp_path: Path) -> None:
    save(saver, 5, state)
    assert [status for _, status, _ in said] == ["saving", "durable", "verified"]
    found = find_checkpoint(tmp_path)
    assert found.manifest.step == 5
    read = read_tensors(found.folder, found.manifest)
    assert read.keys() == state.keys()
    assert all(torch.equal(read[name], state[name]) for name in state)
    assert said[-1][2]["bytes"] == sum(path.stat().st_size for path in found.folder.glob("*.safetensors"))
    assert said[-1][2]["seconds"] > 0


def test_training_on_while_it_is_written_changes_nothing(
    saver: Saver, state: dict[str, Tensor], tmp_path: Path
) -> None:
    expected = state["a"].clone()
    saver.save(1, state)
    state["a"].zero_()
    saver.wait()
    assert torch.equal(read_tensors(folder_of(tmp_path, 1), read_manifest(folder_of(tmp_path, 1)))["a"], expected)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_write_shares_that_make_the_whole(
    tiny: Tiny, state: dict[str, Tensor], said: Said, tmp_path: Path, ranks: int
) -> None:
    savers = [
        Saver(tmp_path, tiny(), lambda step, status, **d: said.append((step, status, d)), rank=rank, world_size=ranks)
        for rank in range(ranks)
    ]
    for saver in reversed(savers):
        saver.save(4, state)
    for saver in savers:
        saver.wait()
    folder = folder_of(tmp_path, 4)
    assert len(verify(folder).files) == ranks
    assert {path.suffix for path in folder.iterdir()} == {".safetensors", ".json"}
    read = read_tensors(folder, read_manifest(folder))
    assert all(torch.equal(read[name], state[name]) for name in state)
    assert said[-1][1] == "verified"


def test_a_rank_that_cannot_write_fails_the_checkpoint_and_says_why(
    tiny: Tiny, state: dict[str, Tensor], said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zaya_model.checkpoint import save as module

    real = module.write_shard

    def full_on_second(path: Path, tensors: dict[str, Tensor]) -> File:
        if "0001-of" in path.name:
            raise OSError(28, "No space left on device")
        return real(path, tensors)

    monkeypatch.setattr(module, "write_shard", full_on_second)
    savers = [
        Saver(tmp_path, tiny(), lambda step, status, **d: said.append((step, status, d)), rank=rank, world_size=2)
        for rank in (0, 1)
    ]
    for saver in savers:
        saver.save(4, state)
    for saver in savers:
        saver.wait()
    assert said[-1][1:] == ("failed", said[-1][2])
    assert said[-1][2]["reason"] == "No space left on device"
    assert find_checkpoint(tmp_path).manifest is None


def test_a_folder_that_cannot_be_written_fails_and_the_next_save_is_tried(
    saver: Saver, state: dict[str, Tensor], said: Said, tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    save(saver, 1, state)
    (tmp_path / "checkpoints").unlink()
    save(saver, 2, state)
    assert [(step, status) for step, status, _ in said if status != "saving"] == [
        (1, "failed"), (2, "durable"), (2, "verified"),
    ]  # fmt: skip


def test_the_newest_are_kept_and_half_done_ones_go(
    saver: Saver, state: dict[str, Tensor], said: Said, tmp_path: Path
) -> None:
    folder_of(tmp_path, 1).mkdir(parents=True)
    (folder_of(tmp_path, 1) / "state-0000-of-0001.safetensors").write_bytes(b"torn")
    for step in (2, 3, 4):
        save(saver, step, state)
    assert [step for step, _ in list_checkpoints(tmp_path)] == [4, 3]
    assert [step for step, status, _ in said if status == "removed"] == [2]


def test_nothing_is_pruned_when_the_new_one_failed(
    saver: Saver, state: dict[str, Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2):
        save(saver, step, state)
    monkeypatch.setattr("zaya_model.checkpoint.save.verify", _refuse)
    save(saver, 3, state)
    assert [step for step, _ in list_checkpoints(tmp_path)] == [3, 2, 1]


def _refuse(folder: Path) -> None:
    raise CheckpointError(f"{folder.name} is not whole")


def test_a_step_saved_again_replaces_the_old_one(saver: Saver, state: dict[str, Tensor], tmp_path: Path) -> None:
    save(saver, 1, state)
    folder = folder_of(tmp_path, 1)
    (folder / "state-0001-of-0002.safetensors").write_bytes(b"of a larger world")
    save(saver, 1, {**state, "b": torch.zeros(100)})
    assert torch.equal(read_tensors(folder, verify(folder))["b"], torch.zeros(100))
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), r"bytes instead of"),
        (lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]), "checksum"),
        (lambda path: (path.parent / "manifest.json").unlink(), "never finished"),
        (lambda path: (path.parent / "manifest.json").write_text("{"), "cannot be read"),
        (lambda path: (path.parent / "manifest.json").write_text("[]"), "cannot be read"),
    ],
    ids=["gone", "short", "flipped", "unfinished", "torn", "other"],
)
def test_a_damaged_checkpoint_is_passed_over_with_its_reason(
    saver: Saver, state: dict[str, Tensor], tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    for step in (1, 2):
        save(saver, step, state)
    damage(next(folder_of(tmp_path, 2).glob("*.safetensors")))
    found = find_checkpoint(tmp_path)
    assert found.manifest.step == 1
    assert found.refused[0].step == 2
    with pytest.raises(CheckpointError, match=message):
        find_checkpoint(tmp_path, 2)


def test_newer_ones_are_set_aside_and_not_deleted(saver: Saver, state: dict[str, Tensor], tmp_path: Path) -> None:
    for step in (1, 2):
        save(saver, step, state)
    assert set_aside_newer(tmp_path, 1, attempt=3) == [2]
    assert [step for step, _ in list_checkpoints(tmp_path)] == [1]
    assert verify(tmp_path / "checkpoints" / "aside" / "step-00000002-before-attempt-0003")


def test_a_second_save_waits_for_the_first(
    saver: Saver, state: dict[str, Tensor], said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zaya_model.checkpoint import save as module

    real, gate = module.write_shard, threading.Event()
    monkeypatch.setattr(module, "write_shard", lambda path, tensors: gate.wait(10) and real(path, tensors))
    assert saver.save(1, state) < 5
    threading.Timer(0.3, gate.set).start()
    assert saver.save(2, state) >= 0.2
    saver.wait()
    assert [(step, status) for step, status, _ in said if status == "verified"] == [(1, "verified"), (2, "verified")]
