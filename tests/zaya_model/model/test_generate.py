"""Decoding with the cache against the full forward pass, token by token."""

from typing import Any

import pytest
import torch
from torch import Tensor

from zaya_model.config import ModelConfig
from zaya_model.model import Model
from zaya_model.model.generate import generate

SLIDING = {"layer_types": ("sliding", "full", "sliding"), "sliding_window": 3, "sliding_rope_theta": 100.0}
SWITCHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "long kernels": {"cca_time0": 3, "cca_time1": 4},
    "single taps": {"cca_time0": 1, "cca_time1": 1},
    "biases": {"attention_bias": True, "lm_head_bias": True},
    "sliding": SLIDING,
    "a window of one": SLIDING | {"sliding_window": 1},
    "linear router": {"router": "linear"},
    "zero skip": {"skip": "zero"},
}


def model_of(**switches: Any) -> Model:
    """A small model whose every parameter is random and whose routers often skip."""
    config = ModelConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, head_dim=8, num_experts=3,
        moe_intermediate_size=16, router_hidden_size=12, **switches,
    )  # fmt: skip
    model, generator = Model(config), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
        for bias in model.balancing_biases:
            bias.copy_(0.05 * torch.randn(bias.shape, generator=generator))
    return model.eval()


@pytest.fixture(params=SWITCHES.values(), ids=list(SWITCHES))
def model(request: pytest.FixtureRequest) -> Model:
    return model_of(**request.param)


@pytest.fixture
def ids() -> Tensor:
    return torch.randint(0, 50, (2, 12), generator=torch.Generator().manual_seed(2))


@torch.no_grad()
def logits_in_steps(model: Model, ids: Tensor, sizes: list[int], mask: Tensor | None = None) -> Tensor:
    past, found = None, []
    masks = [None] * len(sizes) if mask is None else mask.split(sizes, 1)
    for part, part_mask in zip(ids.split(sizes, 1), masks, strict=True):
        hidden, past = model.step(part, past, part_mask)
        found.append(model.head(hidden))
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("sizes", [[1] * 12, [5] + [1] * 7, [4, 1, 5, 2]], ids=["each", "prompt first", "chunks"])
def test_cached_steps_give_the_logits_of_the_full_pass(model: Model, ids: Tensor, sizes: list[int]) -> None:
    torch.testing.assert_close(logits_in_steps(model, ids, sizes), model(ids).detach(), atol=2e-5, rtol=0)


def test_cached_steps_know_about_padding_on_the_left(model: Model, ids: Tensor) -> None:
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    found, wanted = logits_in_steps(model, ids, [5] + [1] * 7, mask), model(ids, mask).detach()
    torch.testing.assert_close(found[0], wanted[0], atol=2e-5, rtol=0)
    torch.testing.assert_close(found[1, 3:], wanted[1, 3:], atol=2e-5, rtol=0)


def test_greedy_tokens_are_those_of_the_full_pass(model: Model, ids: Tensor) -> None:
    found = ids
    for _ in range(8):
        found = torch.cat((found, model(found)[:, -1:].argmax(-1)), dim=1)
    assert torch.equal(generate(model, ids, num_tokens=8), found)


def test_a_padded_prompt_goes_on_like_an_unpadded_one_at_its_positions(ids: Tensor) -> None:
    model = model_of()
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    other = ids.clone()
    other[0, :4] = 7
    left, right = (generate(model, prompt, num_tokens=6, attention_mask=mask) for prompt in (ids, other))
    assert torch.equal(left[:, 12:], right[:, 12:])


def test_sampling_depends_on_the_seed_alone(ids: Tensor) -> None:
    model = model_of().train()
    first, again, other = (generate(model, ids, num_tokens=9, temperature=1.5, seed=seed) for seed in (4, 4, 5))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert model.training
    assert not model.router_counts().any()


def test_a_sliding_block_keeps_no_more_than_its_window(ids: Tensor) -> None:
    _, past = model_of(**SLIDING).step(ids, None)
    assert [layer.keys.shape[2] for layer in past] == [2, 12, 2]


def test_no_tokens_asked_for_is_the_prompt(ids: Tensor) -> None:
    assert torch.equal(generate(model_of(), ids, num_tokens=0), ids)
