"""The forward and backward pass against numbers computed by transformers and by Zyphra's own code."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from zaya_model.checkpoint.interop import load_hf
from zaya_model.checkpoint.interop_names import hf_names
from zaya_model.model import Model

CASE = Path(__file__).parents[2] / "fixtures" / "zaya_case_a"
READINGS = [("zero", "plain"), ("identity", "identity_skip")]


def reference(kind: str, name: str) -> dict[str, torch.Tensor]:
    return load_file(CASE / f"{kind}_{name}.safetensors")


@pytest.fixture(params=READINGS, ids=[name for _, name in READINGS])
def case(request: pytest.FixtureRequest) -> tuple[Model, str]:
    skip, name = request.param
    return load_hf(CASE, skip=skip), name


def test_logits_agree(case: tuple[Model, str]) -> None:
    model, name = case
    io = reference("io", name)
    logits = model(io["input_ids"], io.get("attention_mask"))
    torch.testing.assert_close(logits, io["logits"], atol=2e-5, rtol=0)


def test_loss_agrees(case: tuple[Model, str]) -> None:
    model, name = case
    io = reference("io", name)
    loss = model.loss(io["input_ids"], io["targets"], io.get("attention_mask"))
    torch.testing.assert_close(loss, io["loss"].reshape(()), atol=2e-5, rtol=0)


def test_every_gradient_agrees(case: tuple[Model, str]) -> None:
    model, name = case
    io = reference("io", name)
    model.loss(io["input_ids"], io["targets"], io.get("attention_mask")).backward()
    ours = dict(model.named_parameters())
    places = hf_names(ours)
    for hf_name, expected in reference("grads", name).items():
        gradient = ours[places[hf_name].name].grad
        error = (gradient - expected).abs().max() / expected.abs().max()
        assert error < 1e-4, f"{hf_name} is off by {error:.1e}"


def test_router_choices_and_weights_agree(case: tuple[Model, str]) -> None:
    model, name = case
    io = reference("io", name)
    seen = []
    for block in model.blocks:
        block.router.register_forward_hook(lambda _module, _inputs, outputs: seen.append(outputs))
    model(io["input_ids"], io.get("attention_mask"))
    for layer, (choice, weight, _) in enumerate(seen):
        assert torch.equal(choice, io[f"router_choice.{layer}"].flatten())
        torch.testing.assert_close(weight, io[f"router_weight.{layer}"].flatten(), atol=2e-5, rtol=0)
