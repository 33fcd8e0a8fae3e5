"""Points and buckets of steps as columns: a point is a bucket of its own, and buckets fold into wider ones.

A bucket of width 2^bits holds the steps of one multiple of it, so it lies where it lies whatever else is logged.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from webapp.metrics.codec import INTEGER, REAL, pack, unpack


class Points(NamedTuple):
    """Scalars by step, then time: `step`, `time` (µs since 1970) and `value`, columns of one length."""

    step: np.ndarray
    time: np.ndarray
    value: np.ndarray

    @classmethod
    def sorted(cls, step: Sequence[int], time: Sequence[int], value: Sequence[float]) -> Self:
        """Points in the order in which they count: of one step the newest is the last."""
        columns = np.asarray(step, INTEGER), np.asarray(time, INTEGER), np.asarray(value, REAL)
        order = np.lexsort((columns[1], columns[0]))
        return cls(*(column[order] for column in columns))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Points of several parts, in order."""
        return cls.sorted(*map(np.concatenate, zip(*parts, strict=True)))

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        return cls(*unpack(data, (INTEGER, INTEGER, REAL)))

    def pack(self) -> bytes:
        return pack(self)

    def split(self, most: int) -> list[Self]:
        """Even pieces of at most so many points."""
        if len(self.step) <= most:
            return [self]
        pieces = [np.array_split(column, -(-len(self.step) // most)) for column in self]
        return [type(self)(*columns) for columns in zip(*pieces, strict=True)]


class Buckets(NamedTuple):
    """What is known of the points of some steps; `least`, `most` and `total` leave NaN out."""

    first_step: np.ndarray
    last_step: np.ndarray
    first_time: np.ndarray
    last_time: np.ndarray
    count: np.ndarray
    nans: np.ndarray
    first: np.ndarray
    last: np.ndarray
    least: np.ndarray
    most: np.ndarray
    total: np.ndarray

    @classmethod
    def of(cls, points: Points) -> Self:
        """A bucket for each point."""
        step, time, value = points
        is_nan = np.isnan(value)
        ones, nans, total = np.ones_like(step), is_nan.astype(INTEGER), np.where(is_nan, 0.0, value)
        return cls(step, step, time, time, ones, nans, value, value, value, value, total)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        return cls(*unpack(data, (INTEGER,) * 6 + (REAL,) * 5))

    def pack(self) -> bytes:
        return pack(self)

    def within(self, first: int, last: int) -> Self:
        """The buckets of some steps."""
        inside = (self.first_step >= first) & (self.last_step <= last)
        return self if inside.all() else type(self)(*(column[inside] for column in self))

    def fold(self, bits: int) -> Self:
        """One bucket for each 2^bits steps that have points; these buckets must not be wider."""
        if not len(self.count):
            return self
        ends = self._in_order(self.last_time, self.last_step)
        starts_at = np.flatnonzero(np.diff(ends.last_step >> bits, prepend=(ends.last_step[0] >> bits) - 1))
        begins = self._in_order(self.first_time, self.first_step)
        ends_at = np.append(starts_at[1:], len(ends.count)) - 1
        with np.errstate(invalid="ignore", over="ignore"):  # ∞ − ∞ and sums beyond the range are what they are
            return type(self)(
                begins.first_step[starts_at], ends.last_step[ends_at],
                begins.first_time[starts_at], ends.last_time[ends_at],
                np.add.reduceat(ends.count, starts_at), np.add.reduceat(ends.nans, starts_at),
                begins.first[starts_at], ends.last[ends_at],
                np.fmin.reduceat(ends.least, starts_at), np.fmax.reduceat(ends.most, starts_at),
                np.add.reduceat(ends.total, starts_at),
            )  # fmt: skip

    def mean(self) -> np.ndarray:
        """Mean of what is a number; NaN where nothing is."""
        with np.errstate(invalid="ignore"):
            return self.total / (self.count - self.nans)

    def _in_order(self, time: np.ndarray, step: np.ndarray) -> Self:
        if (np.diff(step) > 0).all():
            return self
        order = np.lexsort((time, step))
        return type(self)(*(column[order] for column in self))
