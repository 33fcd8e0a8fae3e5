"""A preset's training on this process, step by step, for benchmarks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from zaya_model.parallel.mesh import alone
from zaya_model.presets import load_preset
from zaya_model.train.feed import Feed
from zaya_model.train.state import TrainState
from zaya_model.train.step import StepResult, train_step


class Training:
    """The state, the data and the world of a run that nobody watches."""

    def __init__(self, cache: Path, overrides: dict[str, Any], *, preset: str = "tiny-cpu") -> None:
        self.config = load_preset(preset, overrides)
        self.world = alone()
        self.feed = Feed(self.config, cache, self.world)
        self.state = TrainState(self.config, self.world)
        self.feed.enter(self.state.phase)

    def batches(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The next step's micro-batches."""
        return list(self.feed.mixture.micro_batches(self.state.step, 0, 1))

    def step(self) -> StepResult:
        """Take one step."""
        return train_step(self.state, self.batches(), self.world)


@contextmanager
def training(overrides: dict[str, Any] | None = None) -> Iterator[Training]:
    """The smallest preset, some fields changed, its tokens in a folder that goes away."""
    with TemporaryDirectory(prefix="zbench-") as folder:
        yield Training(Path(folder), overrides or {})
