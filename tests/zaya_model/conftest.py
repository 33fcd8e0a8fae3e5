"""A run small enough to be trained within a test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from zaya_model.config import RunConfig
from zaya_model.presets import build

TINY: dict[str, Any] = {
    "model": {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "num_experts": 4, "moe_intermediate_size": 32, "router_hidden_size": 8, "max_position_embeddings": 64,
        "initializer_range": 0.1,
    },
    "data": {"sequence_length": 16},
    "train": {"steps": 6, "global_batch_size": 4, "micro_batch_size": 2, "eval_every_steps": 3, "eval_batches": 2},
    "checkpoint": {"every_steps": 3},
    "optimizer": {"warmup_steps": 2},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The same sums in the same order on any machine, and no threads that wait for a busy core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tiny() -> Callable[..., RunConfig]:
    """Build a tiny config with some fields changed: tiny(train__steps=3)."""

    def make(**overrides: Any) -> RunConfig:
        return build(TINY, {name.replace("__", "."): value for name, value in overrides.items()})

    return make


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Some text, a few thousand bytes."""
    path = tmp_path / "text.txt"
    path.write_text("".join(f"Line {n}: the whale, the sea, and the {n % 7} men.\n" for n in range(400)))
    return path
