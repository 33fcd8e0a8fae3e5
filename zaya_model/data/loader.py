"""The next batch, from the seed and the step alone, so that any number of processes sees the same samples in order.

Split    windows of one part of one source
Mixture  which source, and which window of it, each sample of a phase is
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from zaya_model.config import Phase
from zaya_model.data.order import shuffled
from zaya_model.data.shards import TokenFolder, Tokens
from zaya_model.errors import DataError

# Samples over which the shares of a mix are met exactly.
_ROUND = 1000


@dataclass(frozen=True)
class Split:
    """Windows of `sequence_length` tokens of one part of the data; each one's targets reach one token further."""

    tokens: Tokens
    sequence_length: int

    @property
    def num_windows(self) -> int:
        """Windows that do not overlap."""
        return max(0, (len(self.tokens) - 1) // self.sequence_length)

    def read(self, windows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs and targets (B, S) of some windows."""
        length = self.sequence_length
        rows = np.stack([self.tokens.read(w * length, w * length + length + 1) for w in windows]).astype(np.int64)
        block = torch.from_numpy(rows)
        return block[:, :-1], block[:, 1:]


def split_data(data: TokenFolder, *, sequence_length: int, validation_fraction: float) -> tuple[Split, Split]:
    """Cut the end of the data off for evaluation. Raises DataError when a part asked for holds not one window."""
    held_out = int(len(data.tokens) * validation_fraction)
    cut = len(data.tokens) - held_out
    training = Split(data.tokens.range(0, cut), sequence_length)
    validation = Split(data.tokens.range(cut, len(data.tokens)), sequence_length)
    if not training.num_windows or (held_out and not validation.num_windows):
        raise DataError(
            f"The data holds {len(data.tokens):,} tokens, too few for sequences of {sequence_length:,} with "
            f"{validation_fraction:.0%} held out: give more text, or lower data.sequence_length."
        )
    return training, validation


@dataclass(frozen=True)
class Mixture:
    """The samples of one phase: sources by their shares, each source's windows shuffled, each once an epoch.

    `before` are the samples that earlier phases with the same sequence length took of each source: this one goes on.
    """

    phase: Phase
    sources: tuple[Split, ...]
    before: tuple[int, ...]
    seed: int

    def micro_batches(self, step: int, rank: int, world_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """This rank's share of a step's batch, in pieces; `step` counts from the start of the run."""
        samples = np.array_split(self.batch(step), world_size)[rank]
        for start in range(0, len(samples), self.phase.micro_batch_size):
            parts = [
                self.sources[source].read(np.array([window]))
                for source, window in samples[start : start + self.phase.micro_batch_size]
            ]
            inputs, targets = zip(*parts, strict=True)
            yield torch.cat(inputs), torch.cat(targets)

    def batch(self, step: int) -> np.ndarray:
        """Source and window (B, 2) of each sample of a global batch."""
        first = (step - self.phase.first_step) * self.phase.global_batch_size
        rounds, places = np.divmod(np.arange(first, first + self.phase.global_batch_size), _ROUND)
        picks = shuffled(places, _ROUND, self.seed, self.phase.index)
        starts = np.concatenate(([0], np.cumsum(self._quotas)))
        source = np.searchsorted(starts, picks, side="right") - 1
        # A round takes the same number from each source, so a sample's place within its source is a product.
        nth = rounds * self._quotas[source] + picks - starts[source] + np.array(self.before)[source]
        return np.stack([source, self._windows(source, nth)], axis=1)

    @property
    def used(self) -> tuple[int, ...]:
        """Samples taken of each source when the phase is over, those before it included; rounded up to a round."""
        rounds = -(-self.phase.steps * self.phase.global_batch_size // _ROUND)
        return tuple(int(before + rounds * quota) for before, quota in zip(self.before, self._quotas, strict=True))

    @cached_property
    def _quotas(self) -> np.ndarray:
        """Samples of each source in a round, by largest remainder; every source gets at least one."""
        shares = np.array(list(self.phase.mix.values()))
        exact = np.maximum(shares / shares.sum() * _ROUND, 1.0)
        quotas = np.floor(exact / exact.sum() * _ROUND).astype(np.int64).clip(min=1)
        order = np.argsort(quotas - exact)
        quotas[order[: _ROUND - quotas.sum()]] += 1
        return quotas

    def _windows(self, source: np.ndarray, nth: np.ndarray) -> np.ndarray:
        windows = np.empty_like(nth)
        for index, split in enumerate(self.sources):
            epochs, places = np.divmod(nth, split.num_windows)
            for epoch in np.unique(epochs[source == index]):
                mine = (source == index) & (epochs == epoch)
                windows[mine] = shuffled(places[mine], split.num_windows, self.seed, index, int(epoch))
        return windows
