"""Blocks computed twice train as blocks computed once do, in less memory."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.zaya_model.runs import losses
from zaya_model.config import RunConfig
from zaya_model.model import Model
from zaya_model.model.generate import generate
from zaya_model.parallel.recompute import recompute_blocks
from zaya_model.train.loop import train

Tiny = Callable[..., RunConfig]


@pytest.fixture
def pair(tiny: Tiny) -> tuple[Model, Model]:
    """The same model twice, the second one with its blocks recomputed."""
    once, twice = Model(tiny().model), Model(tiny().model)
    recompute_blocks(twice)
    return once, twice


def batch() -> tuple[Tensor, Tensor]:
    return torch.randint(0, 257, (3, 2, 16), generator=torch.Generator().manual_seed(1)).unbind()[:2]


def test_loss_gradients_and_router_loads_are_the_same(pair: tuple[Model, Model]) -> None:
    losses = [model.loss(*batch()) for model in pair]
    for loss in losses:
        loss.backward()
    once, twice = pair
    assert torch.equal(*losses)
    assert torch.equal(once.router_counts(), twice.router_counts())
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(once.parameters(), twice.parameters(), strict=True))


def test_far_less_is_kept_for_the_backward_pass(pair: tuple[Model, Model]) -> None:
    once, twice = (kept_bytes(model) for model in pair)
    assert twice < once / 2


def kept_bytes(model: Model) -> int:
    """Bytes that autograd keeps between forward and backward, weights left out."""
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.loss(*batch())
    return sum(kept.values())


def test_it_still_goes_on_with_a_text(pair: tuple[Model, Model]) -> None:
    prompt = batch()[0][:1, :5]
    assert torch.equal(*(generate(model, prompt, num_tokens=4) for model in pair))


def test_a_run_is_the_same_bit_for_bit(tiny: Tiny, tmp_path: Path) -> None:
    for name, wants in (("once", False), ("twice", True)):
        train(tiny(train__steps=3, train__activation_checkpointing=wants), tmp_path / name)
    assert losses(tmp_path / "once") == losses(tmp_path / "twice")
