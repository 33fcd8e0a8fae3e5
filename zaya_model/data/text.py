"""Read documents from text, JSON lines or parquet, piece by piece, whatever their size.

    .txt and any other name   one document
    .jsonl .ndjson            one document a line, in one field
    .parquet                  one document a row, in one column
    any of them with .gz      the same, unpacked while reading

Text is UTF-8, with or without a byte order mark, or UTF-16 with one; line ends become \\n.
"""

import codecs
import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from zaya_model.errors import DataError

# Long documents come in pieces of about this size, cut at line ends where there are any.
PIECE_CHARACTERS = 1 << 20
_KNOWN = (".txt", ".md", ".jsonl", ".ndjson", ".parquet")


@dataclass(frozen=True)
class Piece:
    """Some text of a document; `is_last` ends it."""

    text: str
    is_last: bool = True
    is_repaired: bool = False


def find_sources(paths: list[Path]) -> list[Path]:
    """Every file among `paths`; of a folder, the files below it whose ends are known. Raises DataError."""
    found = []
    for path in paths:
        if path.is_dir():
            below = [file for file in sorted(path.rglob("*")) if file.is_file() and _kind(file) in _KNOWN]
            if not below:
                raise DataError(f"{path} holds no file that ends in {', '.join(_KNOWN)}.")
            found += below
        elif not path.exists():
            raise DataError(f"There is no file {path}.")
        else:
            found.append(path)
    return found


def read_pieces(path: Path, field: str = "text") -> Iterator[Piece]:
    """Yield the documents of one file. Raises DataError naming the file, and the line where it can."""
    try:
        if _kind(path) == ".parquet":
            yield from _parquet(path, field)
        elif _kind(path) in (".jsonl", ".ndjson"):
            yield from _json_lines(path, field)
        else:
            yield from _whole_text(path)
    except UnicodeDecodeError as error:
        name = _encoding(path).removesuffix("-sig").upper()
        raise DataError(
            f"{path} is not {name}: byte {_first_bad_byte(path):,} cannot be read. Convert it first, for example "
            "with iconv -f LATIN1 -t UTF-8."
        ) from error
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


def _kind(path: Path) -> str:
    suffixes = path.suffixes
    return (suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else path.suffix).lower()


def _open_bytes(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _open_text(path: Path) -> TextIO:
    encoding = _encoding(path)
    return io.TextIOWrapper(_open_bytes(path), encoding=encoding, errors="strict", newline=None)


def _encoding(path: Path) -> str:
    with _open_bytes(path) as file:
        head = file.read(4096)
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    if head.count(0) > len(head) // 5:
        raise DataError(
            f"{path} is full of NUL bytes: it is not text, or it is UTF-16 without a byte order mark. "
            "Convert it to UTF-8 first."
        )
    return "utf-8-sig"


def _first_bad_byte(path: Path) -> int:
    """Where decoding fails, counted from 0."""
    decoder, place = codecs.getincrementaldecoder(_encoding(path))(), 0
    with _open_bytes(path) as file:
        while block := file.read(1 << 16):
            waiting = len(decoder.getstate()[0])
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                return place - waiting + error.start
            place += len(block)
    # What is left is the beginning of a character that never ends.
    return place - len(decoder.getstate()[0])


def _whole_text(path: Path) -> Iterator[Piece]:
    with _open_text(path) as file:
        yield from cut(iter(lambda: file.read(PIECE_CHARACTERS), ""))


def _json_lines(path: Path, field: str) -> Iterator[Piece]:
    with _open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise DataError(f"{path} line {number:,} is not JSON: {getattr(error, 'msg', error)}.") from error
            if not isinstance(row, dict) or not isinstance(row.get(field), str):
                has = ", ".join(sorted(row)) if isinstance(row, dict) else f"a {type(row).__name__}"
                raise DataError(f"{path} line {number:,} has no text in a field {field!r}; it has: {has}.")
            yield from _document(row[field])


def _parquet(path: Path, field: str) -> Iterator[Piece]:
    # A heavy library that text never needs.
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(path)
    except (OSError, arrow.ArrowException) as error:
        raise DataError(f"{path} is not parquet that can be read: {error}.") from error
    names = file.schema_arrow.names
    if field not in names:
        raise DataError(f"{path} has no column {field!r}; it has: {', '.join(names)}.")
    kind = file.schema_arrow.field(field).type
    if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
        raise DataError(f"{path}: column {field!r} holds {kind}, not text.")
    for batch in file.iter_batches(batch_size=1024, columns=[field]):
        for value in batch.column(0).to_pylist():
            yield from _document(value or "")


def _document(text: str) -> Iterator[Piece]:
    """One document, its lone surrogates (which JSON can hold and UTF-8 can't) replaced, in pieces."""
    try:
        text.encode()
        is_repaired = False
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        is_repaired = True
    starts = range(0, max(1, len(text)), PIECE_CHARACTERS)
    yield from cut((text[start : start + PIECE_CHARACTERS] for start in starts), is_repaired=is_repaired)


def cut(blocks: Iterator[str], *, is_repaired: bool = False) -> Iterator[Piece]:
    """Make blocks of one document into pieces that end at line ends, so that no word is torn."""
    held = next(blocks, "")
    for block in blocks:
        whole = held + block
        place = whole.rfind("\n") + 1
        # A line without an end within a whole piece is cut where it is.
        place = place or len(held)
        yield Piece(whole[:place], is_last=False)
        held = whole[place:]
    yield Piece(held, is_repaired=is_repaired)
