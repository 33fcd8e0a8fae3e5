"""Presets, overrides, and sentences for whatever is wrong."""

import tomllib
from pathlib import Path

import pytest

from zaya_model.config import PhaseConfig, RunConfig
from zaya_model.errors import ConfigError
from zaya_model.presets import (
    build,
    field_names,
    load_preset,
    load_toml,
    parse_assignments,
    preset_names,
    preset_summary,
    to_toml,
)

ZAYA1_PHASES = [
    {"name": "pretrain", "tokens": 8 * 10**12},
    {"name": "pretrain on more code", "tokens": 4 * 10**12, "mix": {"web": 0.6, "code": 0.2, "math": 0.2}},
    {
        "name": "midtrain", "tokens": 12 * 10**11, "sequence_length": 32_768, "global_batch_size": 1024,
        "micro_batch_size": 1, "rope_theta": 1e6, "muon_learning_rate": 2e-4, "adamw_learning_rate": 2e-4,
    },
]  # fmt: skip


def problems(values: dict, overrides: dict | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        build(values, overrides)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_the_ladder_goes_from_the_laptop_to_zaya1() -> None:
    assert preset_names()[0] == "tiny-cpu"
    assert preset_names()[-1] == "zaya1-base"
    assert 4 <= len(preset_names()) <= 6


@pytest.mark.parametrize("name", preset_names())
def test_every_rung_keeps_the_proportions(name: str) -> None:
    model = load_preset(name).model
    assert model.num_attention_heads * model.head_dim * 2 == model.hidden_size
    assert model.num_key_value_heads == 2
    assert model.initializer_range == pytest.approx(0.02 * (2048 / model.hidden_size) ** 0.5, rel=0.02)
    assert preset_summary(name)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_survives_being_written(name: str) -> None:
    config = load_preset(name)
    assert build(tomllib.loads(to_toml(config))) == config


def test_the_phases_of_zaya1_can_be_said() -> None:
    steps = 476_838 + 238_419 + 35_763
    config = load_preset("zaya1-base", {"train.phases": ZAYA1_PHASES, "train.steps": steps})
    assert [phase.steps for phase in config.phases] == [476_838, 238_419, 35_763]
    assert config.model_at(steps).rope_theta == 1e6
    assert config.model_at(config.phases[1].end).rope_theta == 1e4
    assert build(tomllib.loads(to_toml(config))) == config


@pytest.mark.parametrize(
    ("overrides", "path", "message"),
    [
        ({"train.lerning_rate": 1}, "train.lerning_rate", "did you mean"),
        ({"trian.steps": 1}, "trian.steps", "did you mean train.steps?"),
        ({"train.steps": 0}, "train.steps", "greater than or equal to 1"),
        ({"train.steps": "many"}, "train.steps", "valid integer"),
        ({"model.num_key_value_heads": 3}, "model.num_key_value_heads", "must divide num_attention_heads (4)"),
        ({"data.sequence_length": 8192}, "data.sequence_length", "at most model.max_position_embeddings (1024)"),
        ({"parallel.nodes": 17}, "train.global_batch_size", "at least 17, one for each process, not 16"),
        ({"parallel.sharding": "fsdp", "parallel.nodes": 9}, "parallel.sharding", "too few for 9 processes"),
        (
            {"parallel.sharding": "fsdp", "parallel.nodes": 3, "train.micro_batch_size": 5},
            "train.micro_batch_size", "must not divide 5",
        ),
        ({"train.phases": [{"name": "a", "steps": 7}]}, "train.steps", "so this must be 7"),
        ({"train.phases": [{"name": "a"}]}, "train.phases.0.steps", "either steps or tokens"),
        ({"train.phases": [{"name": "a", "steps": 1, "mix": {"x": 0}}]}, "train.phases.0.mix", "above 0"),
        (
            {"train.phases": [{"name": "a", "steps": 2000, "sequence_length": 2048}]},
            "train.phases.0.sequence_length", "at most model.max_position_embeddings",
        ),
        ({"optimizer.weight_decay": float("nan")}, "optimizer.weight_decay", "finite number"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_field(overrides: dict, path: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_preset("tiny-cpu", overrides)
    told = {problem.path: problem.message for problem in caught.value.problems}
    assert message in told[path]


def test_every_mistake_is_told_at_once() -> None:
    assert len(problems({"train": {"steps": 0, "seed": -1}, "model": {"head_dim": "wide"}})) == 3


def test_an_unknown_preset_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match="tiny-cpu"):
        load_preset("huge")


def test_a_file_may_start_from_a_preset(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('preset = "tiny-cpu"\n[train]\nsteps = 5\n')
    config = load_toml(tmp_path / "a.toml", {"train.seed": 3})
    assert (config.train.steps, config.train.seed, config.model.num_experts) == (5, 3, 8)


@pytest.mark.parametrize("text", ["steps = ", "[train]\nsteps = 1\nsteps = 2\n"])
def test_broken_toml_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_toml(tmp_path / "a.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_toml(tmp_path / "gone.toml")


def test_assignments_are_read_as_toml_or_else_as_text() -> None:
    given = [
        "train.steps=5",
        "data.path=/a b/c",
        "optimizer.weight_decay=1e-2",
        'train.phases=[{name = "a", steps = 1}]',
    ]
    assert parse_assignments(given) == {
        "train.steps": 5, "data.path": "/a b/c", "optimizer.weight_decay": 0.01,
        "train.phases": [{"name": "a", "steps": 1}],
    }  # fmt: skip


def test_every_field_says_what_it_is_and_where_it_ends() -> None:
    sections = [*(info.annotation for info in RunConfig.model_fields.values()), PhaseConfig]
    assert len(field_names()) > 50
    for section in sections:
        for name, info in section.model_fields.items():
            assert info.description, f"{section.__name__}.{name} has no docstring"
            if info.annotation in (int, float):
                assert info.metadata, f"{section.__name__}.{name} has no bounds"


def test_strange_texts_survive_being_written() -> None:
    config = load_preset("tiny-cpu", {"data.path": 'quote " backslash \\ del \x7f new\nline 鯨'})
    assert build(tomllib.loads(to_toml(config))) == config
