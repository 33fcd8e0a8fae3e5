"""Columns of numbers to few bytes and back, exactly: whole numbers as differences, bytes by place, deflated."""

import zlib
from collections.abc import Iterable, Sequence

import numpy as np

INTEGER, REAL = np.dtype("<i8"), np.dtype("<f8")


def pack(columns: Iterable[np.ndarray]) -> bytes:
    """Pack columns of one length, each of type INTEGER or REAL; every bit of them is kept."""
    return zlib.compress(b"".join(map(_planes, columns)), 1)


def unpack(data: bytes, types: Sequence[np.dtype]) -> list[np.ndarray]:
    """Undo `pack`; the types are those of the columns packed."""
    planes = np.frombuffer(zlib.decompress(data), np.uint8).reshape(len(types), 8, -1)
    words = np.ascontiguousarray(planes.transpose(0, 2, 1)).view(INTEGER)[..., 0]
    return [
        np.cumsum(column, dtype=INTEGER) if kind == INTEGER else column.view(REAL)
        for column, kind in zip(words, types, strict=True)
    ]


def _planes(column: np.ndarray) -> bytes:
    """First the lowest byte of every number, then the next: bytes of one place are alike, and deflate well."""
    words = column.copy()
    if column.dtype == INTEGER:
        words[1:] -= column[:-1]
    return words.view(np.uint8).reshape(-1, 8).T.tobytes()
