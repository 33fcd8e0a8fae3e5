"""Memory-mapped files of tokens with their documents' boundaries, their counts and their checksums.

tokens-00000.bin …   all ids in a row, uint16 where the vocabulary fits, else uint32, little endian
documents.bin        uint64, the offset at which each document starts
tokenizer.json       where the tokenizer is not `bytes`, so that the folder can be read alone
manifest.json        written last: counts, tokenizer, checksums; a folder without it is not a data set
"""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from zaya_model.errors import DataError

MANIFEST = "manifest.json"
_SHARD_BYTES = 1 << 30


@dataclass(frozen=True)
class Shard:
    """One file of tokens as it must be found again."""

    name: str
    num_tokens: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a token folder holds, and what of the text is not in it."""

    tokenizer: str
    vocab_size: int
    dtype: str
    shards: list[Shard]
    num_tokens: int
    num_documents: int
    num_bytes: int
    num_dropped_documents: int = 0
    num_dropped_tokens: int = 0
    num_repaired_documents: int = 0
    source: dict[str, object] = field(default_factory=dict)
    version: int = 2


@dataclass(frozen=True)
class Encoded:
    """Documents in a row as ids, each with its end mark, and where they start; the last may go on in the next block."""

    ids: np.ndarray
    starts: np.ndarray
    num_bytes: int
    dropped_documents: int = 0
    dropped_tokens: int = 0
    repaired_documents: int = 0


class Tokens:
    """A range of tokens over several memory-mapped files; slicing by a range copies only that range."""

    def __init__(self, parts: list[np.ndarray], start: int = 0, end: int | None = None) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])
        self.start, self.end = start, int(self._ends[-1]) if end is None else end

    def __len__(self) -> int:
        return self.end - self.start

    def range(self, start: int, end: int) -> Self:
        """The same tokens from `start` to `end`, nothing read."""
        return type(self)(self._parts, self.start + start, self.start + end)

    def read(self, start: int, end: int) -> np.ndarray:
        """Ids from `start` to `end`."""
        start, end, pieces = self.start + start, self.start + end, []
        index = int(np.searchsorted(self._ends, start, side="right"))
        while start < end:
            base = int(self._ends[index]) - len(self._parts[index])
            stop = min(end, int(self._ends[index]))
            pieces.append(self._parts[index][start - base : stop - base])
            start, index = stop, index + 1
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


class TokenFolder:
    """A prepared folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            values = json.loads((folder / MANIFEST).read_text())
            self.manifest = Manifest(**{**values, "shards": [Shard(**shard) for shard in values["shards"]]})
            parts = [np.memmap(folder / s.name, dtype=self.manifest.dtype, mode="r") for s in self.manifest.shards]
            self.documents = np.fromfile(folder / "documents.bin", dtype="<u8")
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DataError(f"{folder} is not a folder made by prepare-data: {error}") from error
        for shard, part in zip(self.manifest.shards, parts, strict=True):
            if len(part) != shard.num_tokens:
                raise DataError(
                    f"{folder}/{shard.name} holds {len(part):,} tokens, its manifest says {shard.num_tokens:,}: "
                    "prepare it again."
                )
        self.tokens = Tokens(parts)

    @property
    def bytes_per_token(self) -> float:
        """Mean length of a token in bytes of the source text."""
        return self.manifest.num_bytes / self.manifest.num_tokens

    @property
    def tokenizer(self) -> str:
        """`bytes`, or the path of the folder's tokenizer.json."""
        return "bytes" if self.manifest.tokenizer == "bytes" else str(self.folder / self.manifest.tokenizer)

    def verify(self) -> None:
        """Read every shard and compare its checksum. Raises DataError naming the file that differs."""
        for shard in self.manifest.shards:
            with (self.folder / shard.name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != shard.sha256:
                    raise DataError(f"The content of {self.folder / shard.name} differs from its checksum.")


def write_token_folder(
    folder: Path, blocks: Iterable[Encoded], *, tokenizer: str, vocab_size: int,
    source: dict[str, object] | None = None, shard_bytes: int = _SHARD_BYTES,
) -> Manifest:  # fmt: skip
    """Write blocks of encoded documents one after the other. Raises DataError when not one token is left."""
    dtype = "<u2" if vocab_size <= 2**16 else "<u4"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    starts, num_bytes, dropped_documents, dropped_tokens, repaired = [], 0, 0, 0, 0
    with ShardWriter(folder, dtype, shard_bytes) as writer:
        for block in blocks:
            starts.append(block.starts.astype(np.int64) + writer.num_tokens)
            writer.write(block.ids)
            num_bytes += block.num_bytes
            dropped_documents += block.dropped_documents
            dropped_tokens += block.dropped_tokens
            repaired += block.repaired_documents
    if not writer.num_tokens:
        raise DataError(f"There is not one token to train on: all {dropped_documents:,} documents were empty.")
    documents = np.concatenate(starts)
    documents.astype("<u8").tofile(folder / "documents.bin")
    manifest = Manifest(
        tokenizer=tokenizer, vocab_size=vocab_size, dtype=dtype, shards=writer.shards, num_tokens=writer.num_tokens,
        num_documents=len(documents), num_bytes=num_bytes, num_dropped_documents=dropped_documents,
        num_dropped_tokens=dropped_tokens, num_repaired_documents=repaired, source=source or {},
    )  # fmt: skip
    temporary = folder / f"{MANIFEST}.tmp"
    temporary.write_text(json.dumps(asdict(manifest), indent=2) + "\n")
    temporary.replace(folder / MANIFEST)
    return manifest


class ShardWriter:
    """Append ids to files of at most `shard_bytes`."""

    def __init__(self, folder: Path, dtype: str, shard_bytes: int) -> None:
        self.folder, self.dtype = folder, np.dtype(dtype)
        self.limit = max(1, shard_bytes // self.dtype.itemsize)
        self.shards: list[Shard] = []
        self.num_tokens = 0
        self._in_shard = 0
        self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def write(self, ids: np.ndarray) -> None:
        """Append, starting the next file where one is full."""
        ids = ids.astype(self.dtype)
        while len(ids):
            if self._file is None:
                self._file = (self.folder / f"tokens-{len(self.shards):05d}.bin").open("wb")
                self._digest, self._in_shard = hashlib.sha256(), 0
            part, ids = np.split(ids, [self.limit - self._in_shard])
            block = part.tobytes()
            self._digest.update(block)
            self._file.write(block)
            self._in_shard += len(part)
            self.num_tokens += len(part)
            if self._in_shard == self.limit:
                self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            name = Path(self._file.name).name
            self.shards.append(Shard(name, self._in_shard, self._digest.hexdigest()))
            self._file = None
