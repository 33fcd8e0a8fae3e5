"""One file of tensors: readable by the library of its format, its checksum that of what is on disk."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from zaya_model.checkpoint.manifest import describe
from zaya_model.checkpoint.shard import write_shard

TENSORS = {
    "a flag": torch.tensor(True),
    "count": torch.tensor(7),
    "empty": torch.zeros(0, 3),
    "half": torch.randn(3, 5).bfloat16(),
    "matrix": torch.randn(64, 33),
    "state": torch.arange(5, dtype=torch.uint8),
}


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.safetensors", TENSORS)
    found = load_file(tmp_path / "a.safetensors")
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_the_checksum_is_that_of_the_bytes_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    written = write_shard(path, TENSORS)
    assert written == describe(path, from_disk=True)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    assert written != describe(path)


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_shard(tmp_path / "gone" / "a.safetensors", TENSORS)
