"""Every parameter has one optimiser, chosen by what it is."""

import pytest
import torch

from zaya_model.config import ModelConfig, OptimizerConfig
from zaya_model.model import Model
from zaya_model.optim.groups import PARTS, build_optimizers, is_matrix, part_of, parts_of, spread
from zaya_model.parallel.mesh import World, alone


@pytest.fixture
def model() -> Model:
    fields = {"tie_word_embeddings": False, "lm_head_bias": True, "attention_bias": True}
    return Model(ModelConfig(hidden_size=16, num_hidden_layers=2, head_dim=8, num_experts=2, **fields))


def test_every_parameter_is_moved_exactly_once(model: Model) -> None:
    optimizers = build_optimizers(spread(model, "none", alone()).mine, OptimizerConfig())
    moved = [piece.name for optimizer in optimizers for group in optimizer.groups for piece in group.pieces]
    assert sorted(moved) == sorted(name for name, _ in model.named_parameters())


def test_matrices_go_to_muon_and_convolutions_embeddings_and_vectors_do_not(model: Model) -> None:
    muon = {name.split(".", 2)[-1] for name, parameter in model.named_parameters() if is_matrix(name, parameter)}
    assert muon == {
        *(f"attention.{name}.weight" for name in ("q_proj", "k_proj", "v_proj_current", "v_proj_delayed", "o_proj")),
        *(f"router.{name}.weight" for name in ("down_proj", "fc1", "fc2", "out_proj")),
        "experts.gate_up_proj",
        "experts.down_proj",
    }


def test_only_matrices_decay(model: Model) -> None:
    _, adamw = build_optimizers(spread(model, "none", alone()).mine, OptimizerConfig(weight_decay=0.3))
    decays = {group.weight_decay: {piece.values().ndim for piece in group.pieces} for group in adamw.groups}
    assert decays == {0.3: {2, 3}, 0.0: {1}}


def test_parts_cover_the_model(model: Model) -> None:
    found = parts_of(spread(model, "none", alone()).mine)
    assert set(found) == set(PARTS)
    assert sum(len(pieces) for pieces in found.values()) == len(list(model.parameters()))


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_under_zero_every_value_has_one_owner_and_every_matrix_stays_whole(model: Model, ranks: int) -> None:
    shares = [spread(model, "zero1", World(rank, ranks, 0, torch.device("cpu"))).mine for rank in range(ranks)]
    for name, parameter in model.named_parameters():
        pieces = sorted((p for share in shares for p in share if p.parameter_name == name), key=lambda p: p.start)
        assert [piece.start for piece in pieces] == [0, *(piece.stop for piece in pieces[:-1])]
        assert pieces[-1].stop == len(parameter)
        assert len(pieces) == 1 or parameter.ndim > 2 or not is_matrix(name, parameter)


def test_under_zero_ranks_have_about_the_same_to_keep() -> None:
    model = Model(ModelConfig(hidden_size=64, num_hidden_layers=4, num_experts=8))
    sizes = [
        sum(p.values().numel() for p in spread(model, "zero1", World(rank, 4, 0, torch.device("cpu"))).mine)
        for rank in range(4)
    ]
    assert max(sizes) < 1.1 * min(sizes)


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
