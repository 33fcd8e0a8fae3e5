"""Turn text, JSON lines or parquet into a token folder, document by document, losing nothing in silence."""

import json
from collections.abc import Iterator
from pathlib import Path

from zaya_model.data.shards import Manifest, TokenFolder, write_token_folder
from zaya_model.data.tokenizer import Tokenizer, load_tokenizer
from zaya_model.errors import DataError

DEMO = Path(__file__).parent / "demo.txt"


def prepare(sources: list[Path], folder: Path, *, tokenizer: str = "bytes", field: str = "text") -> Manifest:
    """Read every source and write a token folder. Raises DataError naming the file, and the line where it can."""
    tool = load_tokenizer(tokenizer)
    documents = _encoded(sources, tool, field)
    return write_token_folder(folder, documents, tokenizer=tokenizer, vocab_size=tool.vocab_size, end=tool.end)


def open_data(path: str, tokenizer: str, cache: Path) -> TokenFolder:
    """Open `demo`, a text file or a prepared folder; text is made into tokens below `cache` on first use."""
    source = DEMO if path == "demo" else Path(path)
    if source.is_dir():
        return TokenFolder(source)
    if not (cache / "manifest.json").exists():
        prepare([source], cache, tokenizer=tokenizer)
    return TokenFolder(cache)


def read_documents(path: Path, field: str = "text") -> Iterator[str]:
    """Yield the documents of one file: a whole text, or `field` of each row of .jsonl and .parquet."""
    if path.suffix == ".parquet":
        yield from _parquet(path, field)
    elif path.suffix in (".jsonl", ".ndjson"):
        yield from _json_lines(path, field)
    else:
        yield _text(_read_bytes(path), path)


def _encoded(sources: list[Path], tool: Tokenizer, field: str) -> Iterator[tuple[list[int], int]]:
    for source in sources:
        for text in read_documents(source, field):
            blank = not text.strip()
            yield ([], 0) if blank else (tool.encode(text), len(text.encode("utf-8", "replace")))


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def _text(raw: bytes, path: Path) -> str:
    """Decode UTF-8, with or without a byte order mark, or UTF-16 with one; line ends become \\n."""
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not {encoding.removesuffix('-sig').upper()}: byte {error.start} cannot be read. "
            "Convert it first, for example with iconv."
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _json_lines(path: Path, field: str) -> Iterator[str]:
    for number, line in enumerate(_text(_read_bytes(path), path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path} line {number} is not JSON: {error.msg}.") from error
        if not isinstance(row, dict) or not isinstance(row.get(field), str):
            has = ", ".join(sorted(row)) if isinstance(row, dict) else type(row).__name__
            raise DataError(f"{path} line {number} has no text in a field {field!r}; it has: {has}.")
        yield row[field]


def _parquet(path: Path, field: str) -> Iterator[str]:
    # A heavy library that text runs never need.
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not parquet that can be read: {error}.") from error
    if field not in file.schema_arrow.names:
        raise DataError(f"{path} has no column {field!r}; it has: {', '.join(file.schema_arrow.names)}.")
    for batch in file.iter_batches(columns=[field]):
        yield from (value or "" for value in batch.column(0).to_pylist())
