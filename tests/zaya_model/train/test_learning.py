"""The smallest preset really learns the text that comes with the trainer, and its experts share the work."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from zaya_model.config import RunConfig
from zaya_model.data.prepare import open_data
from zaya_model.parallel.mesh import alone
from zaya_model.presets import load_preset
from zaya_model.train.cost import router_scalars
from zaya_model.train.feed import Feed
from zaya_model.train.state import TrainState
from zaya_model.train.step import StepResult, train_step

STEPS = 40


def steps(config: RunConfig, cache: Path, count: int) -> Iterator[StepResult]:
    world = alone()
    feed, state = Feed(config, cache, world), TrainState(config, world)
    feed.enter(state.phase)
    for step in range(count):
        yield train_step(state, feed.mixture.micro_batches(step, 0, 1), world)


def unigram_entropy(cache: Path) -> float:
    """The loss of a model that knows how often each byte comes and nothing else, in nats."""
    data = open_data("demo", "bytes", cache)
    counts = np.bincount(data.tokens.read(0, len(data.tokens))).astype(float)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[StepResult]:
    return list(steps(load_preset("tiny-cpu"), tmp_path_factory.mktemp("cache"), STEPS))


def test_it_beats_a_unigram_model_of_the_text(results: list[StepResult], tmp_path: Path) -> None:
    reached = np.mean([result.loss for result in results[-5:]])
    assert reached < unigram_entropy(tmp_path) - 0.5


def test_its_experts_share_the_work(results: list[StepResult]) -> None:
    balance = router_scalars(sum(result.counts for result in results[-5:]))
    assert balance["router/dead_experts"] == 0
    assert balance["router/max_violation"] < 2.0


def test_its_router_is_not_starved_of_gradient(results: list[StepResult]) -> None:
    assert min(result.gradient_norms["router"] for result in results[-5:]) > 1e-3
