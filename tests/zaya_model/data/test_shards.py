"""Token files are found again as they were written, or not at all."""

import json
from pathlib import Path

import numpy as np
import pytest

from zaya_model.data.shards import Encoded, TokenFolder, write_token_folder
from zaya_model.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    blocks = [Encoded(np.arange(n, n + 7), np.array([0, 3]), 7) for n in range(0, 70, 7)]
    write_token_folder(tmp_path, blocks, tokenizer="bytes", vocab_size=257, shard_bytes=2 * 16)
    return tmp_path


def test_tokens_lie_over_several_files_and_read_as_one(folder: Path) -> None:
    opened = TokenFolder(folder)
    assert [shard.num_tokens for shard in opened.manifest.shards] == [16, 16, 16, 16, 6]
    assert opened.tokens.read(10, 55).tolist() == list(range(10, 55))
    assert opened.tokens.range(30, 40).read(2, 9).tolist() == list(range(32, 39))
    assert opened.documents.tolist()[:4] == [0, 3, 7, 10]
    opened.verify()


def test_a_changed_byte_is_found(folder: Path) -> None:
    path = folder / "tokens-00002.bin"
    raw = bytearray(path.read_bytes())
    raw[5] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"tokens-00002\.bin differs"):
        TokenFolder(folder).verify()


def test_a_file_cut_short_is_refused_at_once(folder: Path) -> None:
    path = folder / "tokens-00001.bin"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DataError, match="holds 15 tokens, its manifest says 16"):
        TokenFolder(folder)


@pytest.mark.parametrize("content", ["", "{}", "[]", json.dumps({"shards": [{"name": "x"}]})])
def test_a_spoilt_manifest_is_refused(folder: Path, content: str) -> None:
    (folder / "manifest.json").write_text(content)
    with pytest.raises(DataError, match="is not a folder made by prepare-data"):
        TokenFolder(folder)


def test_a_large_vocabulary_takes_four_bytes(tmp_path: Path) -> None:
    ids = np.array([70_000, 262_271])
    manifest = write_token_folder(
        tmp_path, [Encoded(ids, np.array([0]), 2)], tokenizer="tokenizer.json", vocab_size=262_272
    )
    assert manifest.dtype == "<u4"
    assert TokenFolder(tmp_path).tokens.read(0, 2).tolist() == ids.tolist()
