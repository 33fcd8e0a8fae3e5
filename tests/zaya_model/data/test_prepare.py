"""Text in, tokens out: nothing is lost in silence, whatever the text."""

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from zaya_model.data.prepare import open_data, prepare, tokenizer_of
from zaya_model.data.shards import TokenFolder
from zaya_model.data.tokenizer import load_tokenizer
from zaya_model.errors import DataError


def tokens(folder: Path) -> list[int]:
    opened = TokenFolder(folder)
    return opened.tokens.read(0, len(opened.tokens)).tolist()


def documents(folder: Path) -> list[str]:
    opened = TokenFolder(folder)
    tool = load_tokenizer(opened.tokenizer)
    bounds = [*opened.documents.tolist(), len(opened.tokens)]
    return [tool.decode(opened.tokens.read(a, b)) for a, b in itertools.pairwise(bounds)]


def json_lines(path: Path, rows: list[object]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a whale\n", "a whale\n"),
        (b"\xef\xbb\xbfa whale", "a whale"),
        (b"one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("ein Wál".encode("utf-16"), "ein Wál"),
        (b"nul\0here and there", "nul\0here and there"),
        ("Wál 鯨 \U0001f40b".encode(), "Wál 鯨 \U0001f40b"),
    ],
    ids=["plain", "bom", "line-ends", "utf-16", "nul", "many-bytes"],
)
def test_text_is_read_as_it_was_meant(tmp_path: Path, raw: bytes, text: str) -> None:
    (tmp_path / "a.txt").write_bytes(raw)
    manifest = prepare([tmp_path / "a.txt"], tmp_path / "out")
    assert documents(tmp_path / "out") == [text]
    assert tokens(tmp_path / "out")[-1] == 256
    assert manifest.num_tokens == len(text.encode()) + 1
    assert manifest.num_bytes == len(text.encode())


@pytest.mark.parametrize("raw", [b"", b"\n \n\t\n", b"\xef\xbb\xbf"], ids=["empty", "blank", "only-a-mark"])
def test_an_empty_data_set_is_an_error(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(raw)
    with pytest.raises(DataError, match="not one token"):
        prepare([tmp_path / "a.txt"], tmp_path / "out")
    with pytest.raises(DataError, match="is not a folder made by prepare-data"):
        TokenFolder(tmp_path / "out")


def test_latin_1_is_refused_at_its_byte(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 100_000 + "café".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.txt is not UTF-8: byte 100,003 cannot be read"):
        prepare([tmp_path / "a.txt"], tmp_path / "out")


def test_utf_16_without_a_mark_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("a whale".encode("utf-16-le"))
    with pytest.raises(DataError, match="full of NUL bytes"):
        prepare([tmp_path / "a.txt"], tmp_path / "out")


def test_an_empty_first_document_and_blank_lines_are_counted(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "a.jsonl", [{"text": ""}, {"text": "one"}, {"text": "  \n"}, {"text": "two"}])
    path.write_text(path.read_text().replace("\n", "\n\n"))
    manifest = prepare([path], tmp_path / "out")
    assert documents(tmp_path / "out") == ["one", "two"]
    assert (manifest.num_dropped_documents, manifest.num_dropped_tokens) == (2, 3)


def test_a_line_of_a_megabyte_is_split_and_kept_whole(tmp_path: Path) -> None:
    long = "whale " * 500_000
    path = json_lines(tmp_path / "a.jsonl", [{"text": long}, {"text": "end"}])
    manifest = prepare([path], tmp_path / "out", processes=2)
    assert manifest.num_documents == 2
    assert manifest.num_tokens == len(long) + 3 + 2
    assert documents(tmp_path / "out") == [long, "end"]


def test_lone_surrogates_are_repaired_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a \\ud800 b"}\n')
    manifest = prepare([tmp_path / "a.jsonl"], tmp_path / "out")
    assert manifest.num_repaired_documents == 1
    assert documents(tmp_path / "out") == ["a � b"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"body": "x", "id": 1}', "line 2 has no text in a field 'text'; it has: body, id"),
        ('{"text": 5}', "line 2 has no text in a field 'text'"),
        ("[1, 2]", "it has: a list"),
        ('{"text": ', "line 2 is not JSON"),
        ("plain words", "line 2 is not JSON"),
    ],
)
def test_a_bad_json_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"text": "fine"}}\n{line}\n')
    with pytest.raises(DataError, match=message.replace("[", r"\[")):
        prepare([tmp_path / "a.jsonl"], tmp_path / "out")


def test_parquet_rows_are_documents(tmp_path: Path) -> None:
    table = arrow.table({"body": ["one", None, "two"], "id": [1, 2, 3]})
    parquet.write_table(table, tmp_path / "a.parquet")
    manifest = prepare([tmp_path / "a.parquet"], tmp_path / "out", field="body")
    assert documents(tmp_path / "out") == ["one", "two"]
    assert manifest.num_dropped_documents == 1
    with pytest.raises(DataError, match="no column 'text'; it has: body, id"):
        prepare([tmp_path / "a.parquet"], tmp_path / "out")
    with pytest.raises(DataError, match="column 'id' holds int64, not text"):
        prepare([tmp_path / "a.parquet"], tmp_path / "out", field="id")


def test_what_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"not at all")
    with pytest.raises(DataError, match="is not parquet that can be read"):
        prepare([tmp_path / "a.parquet"], tmp_path / "out")


def test_packed_files_and_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    with gzip.open(tmp_path / "in" / "deep" / "b.jsonl.gz", "wt") as file:
        file.write('{"text": "packed"}\n')
    (tmp_path / "in" / "a.txt").write_text("plain")
    (tmp_path / "in" / "c.png").write_bytes(b"\x89PNG")
    prepare([tmp_path / "in"], tmp_path / "out")
    assert documents(tmp_path / "out") == ["plain", "packed"]


@pytest.mark.parametrize("name", ["gone.txt", "folder"])
def test_a_source_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=name):
        prepare([tmp_path / name], tmp_path / "out")


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    packed = gzip.compress(b"whale " * 1000)
    (tmp_path / "a.txt.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match=r"a\.txt\.gz cannot be read"):
        prepare([tmp_path / "a.txt.gz"], tmp_path / "out")


def test_a_tokenizer_trained_here_travels_with_the_folder(tmp_path: Path, text: Path) -> None:
    manifest = prepare([text], tmp_path / "out", train_vocab=400)
    assert manifest.vocab_size <= 400
    assert manifest.num_tokens < len(text.read_bytes()) / 2
    assert documents(tmp_path / "out") == [text.read_text()]
    assert tokenizer_of(str(tmp_path / "out"), "bytes") == str(tmp_path / "out" / "tokenizer.json")


def test_several_processes_write_what_one_writes(tmp_path: Path, text: Path) -> None:
    rows = [{"text": f"{n} {'whale ' * (n % 50)}"} for n in range(3000)]
    path = json_lines(tmp_path / "a.jsonl", rows)
    one = prepare([path], tmp_path / "one", train_vocab=300)
    two = prepare([path], tmp_path / "two", tokenizer=str(tmp_path / "one" / "tokenizer.json"), processes=2)
    assert one.shards == two.shards
    assert np.array_equal(TokenFolder(tmp_path / "one").documents, TokenFolder(tmp_path / "two").documents)


def test_a_changed_text_is_made_into_tokens_again(tmp_path: Path, text: Path) -> None:
    first = open_data(str(text), "bytes", tmp_path / "cache")
    assert open_data(str(text), "bytes", tmp_path / "cache").folder == first.folder
    text.write_text("Call me Ishmael.")
    assert open_data(str(text), "bytes", tmp_path / "cache").manifest.num_bytes == 16


def test_a_missing_tokenizer_is_named(tmp_path: Path, text: Path) -> None:
    with pytest.raises(DataError, match=r"no tokenizer /nowhere\.json"):
        prepare([text], tmp_path / "out", tokenizer="/nowhere.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(DataError, match=r"is not a tokenizer\.json"):
        prepare([text], tmp_path / "out", tokenizer=str(tmp_path / "bad.json"))
