"""Turn text into a token folder, several processes at once, losing nothing in silence.

read_pieces ──▶ batches of pieces ──▶ encode_batch, in processes ──▶ write_token_folder, in the old order
"""

import hashlib
import json
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from zaya_model.data.shards import MANIFEST, Encoded, Manifest, TokenFolder, write_token_folder
from zaya_model.data.text import Piece, find_sources, read_pieces
from zaya_model.data.tokenizer import Tokenizer, load_tokenizer, train_tokenizer
from zaya_model.errors import DataError

DEMO = Path(__file__).parent / "demo.txt"
_BATCH_CHARACTERS = 4 << 20

# Told the characters read since the last call.
Progress = Callable[[int], None]


def prepare(
    sources: list[Path], folder: Path, *, tokenizer: str = "bytes", field: str = "text", processes: int = 1,
    train_vocab: int | None = None, progress: Progress = lambda characters: None,
) -> Manifest:  # fmt: skip
    """Read every source and write a token folder.

    With `train_vocab` a byte-level BPE of that size is trained on the sources first. Raises DataError naming the file,
    and the line where it can.
    """
    files = find_sources(sources)
    folder.mkdir(parents=True, exist_ok=True)
    if train_vocab is not None:
        texts = (piece.text for file in files for piece in read_pieces(file, field))
        tokenizer = train_tokenizer(texts, train_vocab, folder / "tokenizer.json")
    tool = load_tokenizer(tokenizer)
    name = "bytes"
    if tokenizer != "bytes":
        name = "tokenizer.json"
        if Path(tokenizer).resolve() != (folder / name).resolve():
            shutil.copyfile(tokenizer, folder / name)
    pieces = (piece for file in files for piece in read_pieces(file, field))
    blocks = _encode_all(_batches(pieces, progress), tokenizer, processes)
    source = {"files": [str(file) for file in files], "field": field}
    return write_token_folder(folder, blocks, tokenizer=name, vocab_size=tool.vocab_size, source=source)


def open_data(path: str, tokenizer: str, cache: Path) -> TokenFolder:
    """Open `demo`, a text file or a prepared folder; text is made into tokens below `cache` on first use.

    Text or a tokenizer that changed since is made into tokens again.
    """
    source = DEMO if path == "demo" else Path(path)
    if (source / MANIFEST).exists():
        return TokenFolder(source)
    folder = cache / f"{source.stem}-{_fingerprint(source, tokenizer)}"
    if not (folder / MANIFEST).exists():
        prepare([source], folder, tokenizer=tokenizer)
    return TokenFolder(folder)


def _fingerprint(source: Path, tokenizer: str) -> str:
    """Changes when a file does: its size or the time it was written."""
    files = [*find_sources([source]), *([] if tokenizer == "bytes" else [Path(tokenizer)])]
    facts = [tokenizer]
    for file in files:
        stat = file.stat() if file.exists() else None
        facts += [str(file.resolve()), *([] if stat is None else [stat.st_size, stat.st_mtime_ns])]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


def _batches(pieces: Iterable[Piece], progress: Progress) -> Iterator[list[Piece]]:
    batch, size = [], 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece.text)
        if size >= _BATCH_CHARACTERS:
            progress(size)
            yield batch
            batch, size = [], 0
    progress(size)
    yield batch


def _encode_all(batches: Iterator[list[Piece]], tokenizer: str, processes: int) -> Iterator[Encoded]:
    """Encode in order, a few batches ahead of the writer and no more, so that memory stays bounded."""
    opened = True
    with _executor(processes, tokenizer) as executor:
        waiting: deque[Future[Encoded]] = deque()
        for batch in batches:
            # A document that goes on from the batch before has its start there.
            waiting.append(executor.submit(_encode_with_own_tool, batch, opened))
            opened = batch[-1].is_last if batch else opened
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _executor(processes: int, tokenizer: str) -> Executor:
    if processes == 1:
        return ThreadPoolExecutor(1, initializer=_load_own_tool, initargs=(tokenizer,))
    # Forking a process that has threads can hang; a fresh one costs a fraction of a second.
    context = get_context("spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_load_own_tool, initargs=(tokenizer,))


_own: dict[str, Tokenizer] = {}


def _load_own_tool(name: str) -> None:
    _own["tool"] = load_tokenizer(name)


def _encode_with_own_tool(batch: list[Piece], starts_new: bool) -> Encoded:
    return encode_batch(batch, _own["tool"], starts_new=starts_new)


def encode_batch(pieces: list[Piece], tool: Tokenizer, *, starts_new: bool = True) -> Encoded:
    """Encode pieces, with an end mark behind each document; documents of nothing but white space are dropped."""
    ids: list[np.ndarray] = []
    starts: list[int] = []
    length = num_bytes = dropped_documents = dropped_tokens = repaired = 0
    for piece in pieces:
        encoded = tool.encode(piece.text)
        is_whole = starts_new and piece.is_last
        if is_whole and not piece.text.strip():
            dropped_documents += 1
            dropped_tokens += len(encoded)
            continue
        if starts_new:
            starts.append(length)
        ids.append(encoded)
        if piece.is_last:
            ids.append(np.array([tool.end]))
        length += len(encoded) + piece.is_last
        num_bytes += len(piece.text.encode())
        repaired += piece.is_repaired
        starts_new = piece.is_last
    return Encoded(
        np.concatenate(ids) if ids else np.empty(0, np.int64), np.array(starts, np.int64), num_bytes,
        dropped_documents, dropped_tokens, repaired,
    )  # fmt: skip


def tokenizer_of(path: str, tokenizer: str) -> str:
    """The tokenizer that goes with a data path: a prepared folder brings its own. Raises DataError."""
    folder = Path(path)
    if path != "demo" and (folder / MANIFEST).exists():
        return TokenFolder(folder).tokenizer
    if tokenizer != "bytes" and not Path(tokenizer).is_file():
        raise DataError(f"There is no tokenizer {tokenizer}: write `bytes` or the path of a tokenizer.json.")
    return tokenizer
