"""Hand-written gradients against finite differences in double precision."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional as F

from zaya_model.model.attention import Mix, UnitRotate
from zaya_model.model.causal import BlockedCausal
from zaya_model.model.experts import OneByOne, grouped
from zaya_model.model.layers import Merge, Norm, count_choices
from zaya_model.model.loss import HeadLoss


@pytest.fixture
def draw() -> Callable[..., Tensor]:
    generator = torch.Generator().manual_seed(0)
    return lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def test_norm(draw: Callable[..., Tensor]) -> None:
    assert gradcheck(lambda x, w: Norm.apply(x, w, 1e-2), (draw(2, 3, 5), draw(5)))


def test_merge(draw: Callable[..., Tensor]) -> None:
    assert gradcheck(Merge.apply, (draw(2, 3, 5), draw(2, 3, 5), draw(5), draw(5), draw(5), draw(5)))


@pytest.mark.parametrize(("taps0", "taps1"), [(2, 2), (3, 1), (1, 3), (1, 1)])
def test_convolutions_and_means(draw: Callable[..., Tensor], taps0: int, taps1: int) -> None:
    heads, kv_heads, d, S = 4, 2, 3, 5
    channels = (heads + kv_heads) * d
    latent = draw(2, S + taps0 + taps1 - 2, channels)
    weights = draw(channels, 1, taps0), draw(channels), draw(channels, d, taps1), draw(channels)
    assert gradcheck(lambda *inputs: Mix.apply(*inputs, kv_heads, torch.float64), (latent, *weights))


@pytest.mark.parametrize("half", [0, 1, 2])
def test_unit_heads_and_rotation(draw: Callable[..., Tensor], half: int) -> None:
    cos, sin = draw(5, half).detach(), draw(5, half).detach()
    assert gradcheck(lambda x, tau: UnitRotate.apply(x, tau, cos, sin), (draw(3, 2, 5, 4), draw(1)))


def test_a_head_of_nothing_has_a_finite_gradient(draw: Callable[..., Tensor]) -> None:
    mixed = torch.zeros(3, 1, 2, 4, requires_grad=True)
    q, k = UnitRotate.apply(mixed, torch.ones(1), torch.ones(2, 1), torch.zeros(2, 1))
    (q.sum() + k.sum()).backward()
    assert mixed.grad is not None
    assert mixed.grad.isfinite().all()


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
def test_blocks_of_queries_give_causal_attention(draw: Callable[..., Tensor], kv_heads: int, length: int) -> None:
    q, k, v, gradient = draw(2, 4, length, 6), *(draw(2, kv_heads, length, 6) for _ in range(2)), draw(2, 4, length, 6)
    found = BlockedCausal.apply(q, k, v)
    wanted = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(found, wanted)
    ours, theirs = (torch.autograd.grad(out, (q, k, v), gradient.detach()) for out in (found, wanted))
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("skip", ["identity", "zero"])
@pytest.mark.parametrize("choice", [[0, 2, 3, 3, 0, 2, 0], [3] * 7, [1] * 7], ids=["mixed", "all skip", "all one"])
def test_experts(draw: Callable[..., Tensor], skip: str, choice: list[int]) -> None:
    chosen = torch.tensor(choice)
    order, counts = chosen.argsort(stable=True), count_choices(chosen, 4)
    inputs = draw(7, 4), draw(7), draw(3, 6, 4), draw(3, 4, 3)
    assert gradcheck(lambda *inputs: OneByOne.apply(*inputs, order, counts.tolist(), skip), inputs)


@pytest.mark.parametrize("skip", ["identity", "zero"])
def test_grouped_experts_equal_those_one_by_one(draw: Callable[..., Tensor], skip: str) -> None:
    chosen = torch.tensor([0, 2, 3, 3, 0, 2, 0, 3])
    order, counts = chosen.argsort(stable=True), count_choices(chosen, 4)
    found = []
    inputs = [x.detach().float() for x in (draw(8, 16), draw(8), draw(3, 16, 16), draw(3, 16, 8))]
    for function, loads in ((OneByOne.apply, counts.tolist()), (grouped, counts)):
        leaves = [x.clone().requires_grad_() for x in inputs]
        out = function(*leaves, order, loads, skip)
        out.square().sum().backward()
        found.append([out.detach(), *(leaf.grad for leaf in leaves)])
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("has_bias", [False, True])
def test_head_loss_is_cross_entropy_with_its_gradients(draw: Callable[..., Tensor], has_bias: bool) -> None:
    hidden, weight, bias = draw(700, 6), draw(9, 6), draw(9) if has_bias else None
    targets = torch.arange(700) % 9
    targets[5:50] = -100
    found = HeadLoss.apply(hidden, weight, bias, targets)
    wanted = F.cross_entropy(F.linear(hidden, weight, bias), targets)
    torch.testing.assert_close(found, wanted)
    leaves = [leaf for leaf in (hidden, weight, bias) if leaf is not None]
    for scale in (1.0, 0.25):
        ours = torch.autograd.grad(found * scale, leaves, retain_graph=True)
        for left, right in zip(ours, torch.autograd.grad(wanted * scale, leaves, retain_graph=True), strict=True):
            torch.testing.assert_close(left, right)
