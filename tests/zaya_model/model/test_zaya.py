"""The whole model: its weights at the start, its counts, its loss, and a sequence in two halves."""

from typing import Any

import pytest
import torch
from torch import Tensor

from zaya_model.config import ModelConfig
from zaya_model.model import Model
from zaya_model.plan import count_parameters
from zaya_model.presets import load_preset, preset_names

SMALL = {
    "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 8,
    "num_experts": 3, "moe_intermediate_size": 16, "router_hidden_size": 12,
}  # fmt: skip


def small(**switches: Any) -> Model:
    return Model(ModelConfig(**(SMALL | switches)), seed=1)


@pytest.fixture
def ids() -> Tensor:
    return torch.randint(0, 50, (2, 11), generator=torch.Generator().manual_seed(2))


def on_meta(config: ModelConfig) -> Model:
    with torch.device("meta"):
        return Model(config)


@pytest.mark.parametrize("name", preset_names())
def test_a_model_has_the_parameters_its_plan_counts(name: str) -> None:
    config = load_preset(name).model
    model, planned = on_meta(config), count_parameters(config)
    assert (model.num_parameters(), model.num_active_parameters()) == (planned.total, planned.active)


def test_zaya1_has_its_published_parameters() -> None:
    model = on_meta(load_preset("zaya1-base").model)
    assert (model.num_parameters(), model.num_active_parameters()) == (8_840_488_784, 753_608_528)


@pytest.mark.parametrize("switches", [{}, {"router": "linear"}, {"tie_word_embeddings": False, "lm_head_bias": True}])
def test_other_heads_and_routers_are_counted_as_planned(switches: dict[str, Any]) -> None:
    model, planned = small(**switches), count_parameters(ModelConfig(**SMALL, **switches))
    assert (model.num_parameters(), model.num_active_parameters()) == (planned.total, planned.active)


def test_a_model_made_on_meta_starts_as_one_made_at_once() -> None:
    late = on_meta(ModelConfig(**SMALL)).to_empty(device="cpu")
    late.init_weights(1)
    at_once = small()
    assert all(
        torch.equal(a, b) for a, b in zip(late.state_dict().values(), at_once.state_dict().values(), strict=True)
    )
    assert not late.router_counts().any()


def test_the_seed_alone_decides_the_start() -> None:
    first, other = small(), Model(ModelConfig(**SMALL), seed=2)
    assert torch.equal(first.embed_tokens.weight, small().embed_tokens.weight)
    assert not torch.equal(first.embed_tokens.weight, other.embed_tokens.weight)


def test_the_start_is_what_the_table_says() -> None:
    model = small(
        initializer_range=0.1, key_temperature=0.7, attention_bias=True, lm_head_bias=True, pad_token_id=4,
        hidden_size=64, vocab_size=500,
    )  # fmt: skip
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        elif name.endswith("temperature"):
            assert parameter.eq(0.7).all()
        elif parameter.ndim == 1:
            assert parameter.eq(1).all()
        elif ".router." in name and parameter.numel() > 500:
            assert parameter.std().item() == pytest.approx(0.5 * parameter.shape[-1] ** -0.5, rel=0.1)
        elif parameter.numel() > 5000:
            assert abs(parameter.std() - 0.1) < 0.005
    assert not model.embed_tokens.weight[4].any()
    assert all(bias.tolist() == [0, 0, 0, -1] for bias in model.balancing_biases)


def test_experts_are_stacks_of_matrices() -> None:
    experts = small().blocks[0].experts
    assert (experts.gate_up_proj.shape, experts.down_proj.shape) == ((3, 32, 32), (3, 32, 16))


def test_routers_count_each_token_once_while_training(ids: Tensor) -> None:
    model = small()
    model.loss(ids, ids).backward()
    model.loss(ids, ids).backward()
    counts = model.router_counts()
    assert counts.dtype == torch.int64
    assert counts.shape == (3, 4)
    assert (counts.sum(1) == 2 * ids.numel()).all()
    model.eval()(ids)
    assert torch.equal(model.router_counts(), counts)
    model.reset_router_counts()
    assert not model.router_counts().any()


def test_padding_is_not_counted(ids: Tensor) -> None:
    model, mask = small(), torch.ones_like(ids)
    mask[0, :4] = 0
    model(ids, mask)
    assert (model.router_counts().sum(1) == ids.numel() - 4).all()


def test_counts_and_biases_are_buffers_and_only_biases_are_saved() -> None:
    model = small()
    assert not any("counts" in name for name in model.state_dict())
    assert sum("balancing_bias" in name for name in model.state_dict()) == 3
    assert not any("balancing_bias" in name for name, _ in model.named_parameters())


def test_a_bias_decides_who_is_chosen_and_not_how_much(ids: Tensor) -> None:
    model = small().train()
    for bias in model.balancing_biases:
        bias.copy_(torch.tensor([0.0, 9.0, 0.0, 0.0]))
    model(ids)
    assert (model.router_counts()[:, 1] == ids.numel()).all()


def test_the_linear_router_learns_and_has_no_state(ids: Tensor) -> None:
    model = small(router="linear")
    model.loss(ids, ids).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert all(block.router.out_proj.weight.grad.abs().sum() > 0 for block in model.blocks)


def test_a_router_gets_a_gradient_from_the_single_choice(ids: Tensor) -> None:
    model = small(initializer_range=0.2)
    model.loss(ids, ids).backward()
    assert all(block.router.down_proj.weight.grad.abs().max() > 1e-7 for block in model.blocks)


def test_loss_is_the_mean_over_real_targets(ids: Tensor) -> None:
    model, targets = small(), ids.roll(-1, 1)
    targets[:, -3:] = -100
    wanted = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    torch.testing.assert_close(model.loss(ids, targets), wanted)


def test_a_batch_without_targets_costs_nothing_and_moves_nothing(ids: Tensor) -> None:
    model = small()
    loss = model.loss(ids, torch.full_like(ids, -100))
    loss.backward()
    assert loss.item() == 0
    assert not any(parameter.grad.any() for parameter in model.parameters())


def test_bf16_products_stay_near_fp32_and_keep_the_fp32_list(ids: Tensor) -> None:
    model = small(initializer_range=0.1)
    seen = {}
    for name in ("norm", "blocks.1", "blocks.1.router", "blocks.1.attention_norm"):
        model.get_submodule(name).register_forward_hook(lambda _m, _i, out, name=name: seen.update({name: out}))
    with torch.autocast("cpu", torch.bfloat16):
        low = model.loss(ids, ids)
        logits = model(ids)
    low.backward()
    assert {seen["norm"].dtype, seen["blocks.1"][0].dtype, seen["blocks.1.attention_norm"].dtype} == {torch.float32}
    assert seen["blocks.1.router"][1].dtype == torch.float32
    assert (low.dtype, logits.dtype) == (torch.float32, torch.float32)
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())
    torch.testing.assert_close(low.detach(), model.loss(ids, ids).detach(), atol=0.05, rtol=0)


@pytest.mark.parametrize("switches", [{}, {"cca_time0": 3, "attention_bias": True}], ids=["plain", "long kernels"])
def test_a_sequence_in_two_halves_gives_the_gradients_of_the_whole(ids: Tensor, switches: dict[str, Any]) -> None:
    """What parallelism over the sequence needs: attention takes its left neighbour's tokens from outside."""
    model = small(initializer_range=0.3, **switches)
    weight = torch.randn(2, 11, 32, generator=torch.Generator().manual_seed(5))
    (model.hidden_states(ids) * weight).sum().backward()
    whole = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    left, past = model.step(ids[:, :6], None)
    right, _ = model.step(ids[:, 6:], past)
    (torch.cat((left, right), dim=1) * weight).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, whole[name], atol=1e-5, rtol=1e-4)


def test_two_steps_from_the_same_state_are_equal_to_the_bit(ids: Tensor) -> None:
    gradients = []
    for _ in range(2):
        model = small()
        model.loss(ids, ids).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
