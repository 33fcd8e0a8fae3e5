"""Counts without torch, held against the model that torch builds and the products that torch does."""

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from zaya_model.config import ModelConfig
from zaya_model.model import Model
from zaya_model.optim.groups import is_matrix
from zaya_model.optim.muon import orthogonalise
from zaya_model.plan import count_parameters, forward_flops_per_token, muon_matrices, training_flops_per_token
from zaya_model.plan.counts import Matrices
from zaya_model.presets import load_preset, preset_names

SHAPES: list[dict[str, Any]] = [
    {},
    {"router": "linear"},
    {"attention_bias": True, "lm_head_bias": True, "tie_word_embeddings": False},
    {"cca_time0": 3, "cca_time1": 4, "num_hidden_layers": 1},
]


def small(**fields: Any) -> ModelConfig:
    return ModelConfig(**{"vocab_size": 99, "hidden_size": 48, "num_hidden_layers": 3, "head_dim": 8, **fields})


@pytest.mark.parametrize("fields", SHAPES)
def test_parameters_are_those_of_the_model(fields: dict[str, Any]) -> None:
    config = small(**fields)
    assert count_parameters(config).total == sum(p.numel() for p in Model(config).parameters())


def test_the_base_preset_is_zaya1() -> None:
    config = load_preset("zaya1-base").model
    counted = count_parameters(config)
    assert counted.total == 8_840_488_784
    assert counted.active == 753_608_528
    with torch.device("meta"):
        assert sum(p.numel() for p in Model(config).parameters()) == counted.total


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_counts_right(name: str) -> None:
    config = load_preset(name).model
    with torch.device("meta"):
        assert sum(p.numel() for p in Model(config).parameters()) == count_parameters(config).total


@pytest.mark.parametrize("length", [16, 37])
@pytest.mark.parametrize("fields", SHAPES)
def test_forward_flops_are_the_products_torch_does(fields: dict[str, Any], length: int) -> None:
    config = small(**fields)
    model = Model(config).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        model(torch.randint(0, 99, (2, length)))
    width = config.num_attention_heads * config.head_dim
    # torch counts attention over the whole square and no element-wise product of the depthwise convolution.
    square = config.num_hidden_layers * 4 * width * length
    triangle = config.num_hidden_layers * 4 * width * (length + 1) / 2
    channels = width + config.num_key_value_heads * config.head_dim
    depthwise = config.num_hidden_layers * 2 * channels * config.cca_time0
    counted = counter.get_total_flops() / (2 * length)
    assert forward_flops_per_token(config, length) == pytest.approx(counted - square + triangle + depthwise)


def test_training_takes_three_times_the_products_of_a_forward_pass() -> None:
    config = small(num_hidden_layers=2)
    model = Model(config)
    ids = torch.randint(0, 99, (4, 8))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model.loss(ids, ids).backward()
    assert training_flops_per_token(config, 8) == pytest.approx(counter.get_total_flops() / 32, rel=0.05)


def test_a_sliding_window_costs_less_than_full_attention() -> None:
    full = small()
    sliding = small(layer_types=("sliding",) * 3, sliding_window=16)
    assert forward_flops_per_token(sliding, 1024) < forward_flops_per_token(full, 1024)
    assert forward_flops_per_token(sliding, 16) == forward_flops_per_token(full, 16)


@pytest.mark.parametrize("fields", SHAPES)
def test_muon_moves_the_matrices_that_are_planned(fields: dict[str, Any]) -> None:
    config = small(**fields)
    matrices = [p for name, p in Model(config).named_parameters() if is_matrix(name, p)]
    assert sum(each.parameters for each in muon_matrices(config)) == sum(p.numel() for p in matrices)


def test_orthogonalising_takes_the_products_that_are_planned() -> None:
    with FlopCounterMode(display=False) as counter:
        orthogonalise(torch.randn(3, 16, 40))
    assert Matrices(3, 40, 16).orthogonalising_flops() == counter.get_total_flops()
