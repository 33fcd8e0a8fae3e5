"""A memory-mapped file of tokens with its documents' boundaries, its counts and its checksum.

tokens.bin      all ids in a row, uint16 where the vocabulary fits, else uint32, little endian
documents.bin   uint64, the offset at which each document starts
manifest.json   written last: counts, tokenizer, checksum; a folder without it is not a data set
"""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from zaya_model.errors import DataError

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What a token folder holds."""

    tokenizer: str
    vocab_size: int
    dtype: str
    num_tokens: int
    num_documents: int
    num_bytes: int
    sha256: str
    num_skipped_documents: int = 0
    version: int = 1


class TokenFolder:
    """Tokens of a prepared folder, mapped into memory."""

    def __init__(self, folder: Path) -> None:
        try:
            self.manifest = Manifest(**json.loads((folder / MANIFEST).read_text()))
            self.tokens = np.memmap(folder / "tokens.bin", dtype=self.manifest.dtype, mode="r")
            self.documents = np.fromfile(folder / "documents.bin", dtype="<u8")
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{folder} is not a folder made by prepare-data: {error}") from error
        if len(self.tokens) != self.manifest.num_tokens:
            raise DataError(
                f"{folder}/tokens.bin holds {len(self.tokens):,} tokens, its manifest says "
                f"{self.manifest.num_tokens:,}: prepare it again."
            )

    @property
    def bytes_per_token(self) -> float:
        """Mean length of a token in bytes of the source text."""
        return self.manifest.num_bytes / self.manifest.num_tokens


def write_token_folder(
    folder: Path, documents: Iterable[tuple[list[int], int]], *, tokenizer: str, vocab_size: int, end: int
) -> Manifest:
    """Write documents, each as (ids, bytes of text), one after the other with an end mark behind each.

    Empty documents are counted as skipped. Raises DataError when not one token is left.
    """
    dtype = "<u2" if vocab_size <= 2**16 else "<u4"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    starts, num_tokens, num_bytes, skipped, digest = [], 0, 0, 0, hashlib.sha256()
    with (folder / "tokens.bin").open("wb") as file:
        for ids, size in documents:
            if not ids:
                skipped += 1
                continue
            starts.append(num_tokens)
            block = np.array([*ids, end], dtype=dtype).tobytes()
            digest.update(block)
            file.write(block)
            num_tokens += len(ids) + 1
            num_bytes += size
        file.flush()
        os.fsync(file.fileno())
    if not num_tokens:
        raise DataError(f"There is not one token to train on: all {skipped:,} documents were empty.")
    np.array(starts, dtype="<u8").tofile(folder / "documents.bin")
    manifest = Manifest(
        tokenizer=tokenizer, vocab_size=vocab_size, dtype=dtype, num_tokens=num_tokens, num_documents=len(starts),
        num_bytes=num_bytes, sha256=digest.hexdigest(), num_skipped_documents=skipped,
    )  # fmt: skip
    temporary = folder / f"{MANIFEST}.tmp"
    temporary.write_text(json.dumps(asdict(manifest), indent=2) + "\n")
    temporary.replace(folder / MANIFEST)
    return manifest
