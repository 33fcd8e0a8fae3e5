"""The next batch, from the seed and the step alone, so that any number of processes sees the same samples in order."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from zaya_model.data.shards import TokenFolder
from zaya_model.errors import DataError


@dataclass(frozen=True)
class Split:
    """Windows of `sequence_length` tokens of one part of the data; each one's targets reach one token further."""

    tokens: np.ndarray
    sequence_length: int

    @property
    def num_windows(self) -> int:
        """Windows that do not overlap."""
        return max(0, (len(self.tokens) - 1) // self.sequence_length)

    def read(self, windows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs and targets (B, S) of some windows."""
        length = self.sequence_length
        rows = np.stack([self.tokens[w * length : w * length + length + 1] for w in windows]).astype(np.int64)
        block = torch.from_numpy(rows)
        return block[:, :-1], block[:, 1:]


def split_data(data: TokenFolder, *, sequence_length: int, validation_fraction: float) -> tuple[Split, Split]:
    """Cut the end of the data off for evaluation. Raises DataError when a part asked for holds not one window."""
    held_out = int(len(data.tokens) * validation_fraction)
    cut = len(data.tokens) - held_out
    training = Split(data.tokens[:cut], sequence_length)
    validation = Split(data.tokens[cut:], sequence_length)
    if not training.num_windows or (held_out and not validation.num_windows):
        raise DataError(
            f"The data holds {len(data.tokens):,} tokens, too few for sequences of {sequence_length:,} with "
            f"{validation_fraction:.0%} held out: give more text, or lower data.sequence_length."
        )
    return training, validation


@dataclass(frozen=True)
class Batches:
    """Shuffled windows, each once an epoch."""

    split: Split
    global_batch_size: int
    seed: int

    def windows(self, step: int) -> np.ndarray:
        """The windows of one global batch, counted from step 0."""
        first = step * self.global_batch_size
        numbers = np.arange(first, first + self.global_batch_size)
        epochs, places = np.divmod(numbers, self.split.num_windows)
        return np.array(
            [_order(self.seed, int(e), self.split.num_windows)[p] for e, p in zip(epochs, places, strict=True)]
        )

    def part(self, step: int, rank: int, world_size: int) -> np.ndarray:
        """This rank's share of the windows of a step, in order."""
        return np.array_split(self.windows(step), world_size)[rank]


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, num_windows: int) -> np.ndarray:
    return np.random.default_rng((seed, epoch)).permutation(num_windows)
