"""Batches are a function of seed and step alone."""

from pathlib import Path

import numpy as np
import pytest

from zaya_model.config import Phase, RunConfig
from zaya_model.data.loader import Mixture, Split, split_data
from zaya_model.data.prepare import prepare
from zaya_model.data.shards import TokenFolder, Tokens
from zaya_model.errors import DataError
from zaya_model.presets import build


def splits(*sizes: int, length: int = 4) -> tuple[Split, ...]:
    return tuple(Split(Tokens([np.arange(size * length + 1)]), length) for size in sizes)


def phase_of(**fields: object) -> Phase:
    return build({"train": {"global_batch_size": 4, "micro_batch_size": 2, "steps": 1000, **fields}}).phases[0]


def batches(mixture: Mixture, steps: range) -> np.ndarray:
    return np.concatenate([mixture.batch(step) for step in steps])


def test_an_epoch_reads_every_window_once_and_the_next_in_another_order() -> None:
    mixture = Mixture(phase_of(), splits(12), (0,), seed=1)
    read = batches(mixture, range(500))[:, 1]
    counts = np.bincount(read, minlength=12)
    # Epochs of 12 do not end with a round of 1,000 samples.
    assert counts.max() - counts.min() <= 2


def test_ranks_share_the_batch_that_one_process_would_read() -> None:
    mixture = Mixture(phase_of(), splits(50), (0,), seed=1)
    alone = [row for inputs, _ in mixture.micro_batches(7, 0, 1) for row in inputs.tolist()]
    shared = [row for rank in (0, 1) for inputs, _ in mixture.micro_batches(7, rank, 2) for row in inputs.tolist()]
    assert alone == shared


def test_targets_are_the_next_tokens() -> None:
    inputs, targets = splits(3)[0].read(np.array([2, 0]))
    assert inputs.tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert targets.tolist() == [[9, 10, 11, 12], [1, 2, 3, 4]]


def test_a_mix_is_met_and_its_order_is_mixed() -> None:
    phase = phase_of(phases=[{"name": "a", "steps": 1000, "mix": {"web": 3.0, "code": 1.0}}])
    mixture = Mixture(phase, splits(5000, 5000), (0, 0), seed=2)
    source = batches(mixture, range(500))[:, 0]
    assert (source == 0).mean() == 0.75
    assert len(set(map(tuple, batches(mixture, range(500)).tolist()))) == 2000
    assert 0 < (source[:20] == 1).sum() < 20


def test_the_smallest_share_still_gets_its_turn() -> None:
    phase = phase_of(phases=[{"name": "a", "steps": 1000, "mix": {"web": 1e6, "rare": 1.0}}])
    source = batches(Mixture(phase, splits(9, 9), (0, 0), seed=2), range(250))[:, 0]
    assert (source == 1).sum() == 1


def test_a_later_phase_reads_on_where_the_one_before_stopped() -> None:
    config: RunConfig = build(
        {"train": {"global_batch_size": 4, "micro_batch_size": 4, "steps": 500,
                   "phases": [{"name": "a", "steps": 250}, {"name": "b", "steps": 250}]}}
    )  # fmt: skip
    first = Mixture(config.phases[0], splits(4000), (0,), seed=3)
    second = Mixture(config.phases[1], splits(4000), first.used, seed=3)
    seen = {window for _, window in batches(first, range(250)).tolist()}
    assert not seen & {window for _, window in batches(second, range(250, 500)).tolist()}


def test_too_little_text_is_refused_with_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("short")
    prepare([tmp_path / "a.txt"], tmp_path / "tokens")
    with pytest.raises(DataError, match="6 tokens, too few for sequences of 128"):
        split_data(TokenFolder(tmp_path / "tokens"), sequence_length=128, validation_fraction=0.0)
