"""Every parameter has one optimiser, chosen by what it is."""

import pytest

from zaya_model.config import ModelConfig, OptimizerConfig
from zaya_model.model import Model
from zaya_model.optim.groups import PARTS, build_optimizers, is_matrix, part_of, parts_of


@pytest.fixture
def model() -> Model:
    fields = {"tie_word_embeddings": False, "lm_head_bias": True, "attention_bias": True}
    return Model(ModelConfig(hidden_size=16, num_hidden_layers=2, head_dim=8, num_experts=2, **fields))


def test_every_parameter_is_moved_exactly_once(model: Model) -> None:
    optimizers = build_optimizers(model, OptimizerConfig())
    moved = [id(parameter) for optimizer in optimizers for parameter in optimizer.parameters]
    assert sorted(moved) == sorted(id(p) for p in model.parameters())


def test_matrices_go_to_muon_and_convolutions_embeddings_and_vectors_do_not(model: Model) -> None:
    muon = {name.split(".", 2)[-1] for name, parameter in model.named_parameters() if is_matrix(name, parameter)}
    assert muon == {
        *(f"attention.{name}.weight" for name in ("q_proj", "k_proj", "v_proj_current", "v_proj_delayed", "o_proj")),
        *(f"router.{name}.weight" for name in ("down_proj", "fc1", "fc2", "out_proj")),
        "experts.gate_up_proj",
        "experts.down_proj",
    }


def test_only_matrices_decay(model: Model) -> None:
    _, adamw = build_optimizers(model, OptimizerConfig(weight_decay=0.3))
    decays = {group.weight_decay: {p.ndim for p in group.parameters} for group in adamw.groups}
    assert decays == {0.3: {2, 3}, 0.0: {1}}


def test_parts_cover_the_model(model: Model) -> None:
    found = parts_of(model)
    assert set(found) == set(PARTS)
    assert sum(len(parameters) for parameters in found.values()) == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("embed_tokens.weight", "embedding"), ("untied_head", "embedding"), ("head_bias", "embedding"),
        ("blocks.0.attention.temperature", "attention"), ("blocks.1.router.depth_scale", "router"),
        ("blocks.1.experts.down_proj", "experts"), ("blocks.1.experts_norm.weight", "scales"),
        ("blocks.1.attention_residual.residual_scale", "scales"), ("norm.weight", "scales"), ("input_bias", "scales"),
    ],
)  # fmt: skip
def test_part_is_told_by_the_name(name: str, part: str) -> None:
    assert part_of(name) == part
