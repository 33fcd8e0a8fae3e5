"""Scalars of a step are computed as they are defined."""

import math

import pytest
import torch

from zaya_model.train.asked import Asked
from zaya_model.train.cost import router_scalars, step_scalars
from zaya_model.train.step import StepResult


def result(**fields: object) -> StepResult:
    standard = {"loss": 2.5, "counts": torch.tensor([[4, 4, 0]]), "gradient_norms": {"": 3.0, "router": 0.1}}
    standard |= {"learning_rates": {"muon": 1e-3}, "asked": Asked.NOTHING, "seconds": {"data": 0.5, "optimizer": 1.5}}
    return StepResult(**{**standard, **fields})


def test_an_even_load_violates_nothing() -> None:
    found = router_scalars(torch.tensor([[8, 8, 8, 8, 0]]))
    assert found == {
        "router/max_violation": 0.0, "router/entropy": pytest.approx(1.0), "router/dead_experts": 0.0,
        "router/skip_share": 0.0,
    }  # fmt: skip


def test_a_collapsed_layer_shows_in_every_figure() -> None:
    found = router_scalars(torch.tensor([[8, 8, 8, 8, 0], [32, 0, 0, 0, 0]]))
    assert found["router/max_violation"] == 3.0
    assert found["router/dead_experts"] == 3.0
    assert found["router/entropy"] == pytest.approx(0.5)


def test_skipped_tokens_are_a_share_of_all_and_no_load() -> None:
    found = router_scalars(torch.tensor([[6, 6, 4]]))
    assert found["router/skip_share"] == 0.25
    assert found["router/max_violation"] == 0.0


def test_nothing_routed_is_no_division_by_zero() -> None:
    assert not any(math.isnan(value) for value in router_scalars(torch.zeros(2, 5, dtype=torch.long)).values())


def test_rates_come_from_the_whole_step() -> None:
    found = step_scalars(result(), tokens_per_step=100, flops_per_token=10.0, peaks={"mfu": 1000.0})
    assert found["step_seconds"] == 2.0
    assert found["tokens_per_second"] == 50.0
    assert found["flops_per_second"] == 500.0
    assert found["mfu"] == 0.5
    assert found["grad_norm"] == 3.0
    assert found["grad_norm/router"] == 0.1
    assert "mfu_spec" not in found


def test_utilisation_is_never_above_one() -> None:
    found = step_scalars(result(), tokens_per_step=100, flops_per_token=10.0, peaks={"mfu": 1.0, "mfu_spec": 2.0})
    assert found["mfu"] == found["mfu_spec"] == 1.0
