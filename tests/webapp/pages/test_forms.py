"""The form, generated from the schema."""

import pytest

from webapp.pages.forms import build_form
from zaya_model.presets import field_names, load_preset, preset_names


def inputs(form):
    return {entry.name: entry for entry in [*form.front, *(e for section in form.sections for e in section.inputs)]}


@pytest.mark.parametrize("preset", preset_names())
def test_every_field_of_the_schema_has_one_input_with_its_meaning(preset):
    form = build_form(preset)
    assert sorted(inputs(form)) == sorted(field_names())
    assert all(entry.help for entry in inputs(form).values())
    assert form.config == load_preset(preset)


@pytest.mark.parametrize("preset", preset_names())
def test_form_sent_back_as_it_is_makes_the_preset(preset):
    typed = {name: entry.text for name, entry in inputs(build_form(preset)).items() if entry.text != "false"}
    form = build_form(preset, {"submitted": "1", "name": "x", **typed})
    assert not form.has_errors
    assert form.config == load_preset(preset)


def test_changed_value_reaches_the_config_and_is_marked():
    form = build_form("tiny-cpu", {"train.steps": "1,234"})
    assert form.config.train.steps == 1234
    assert inputs(form)["train.steps"].is_changed


def test_cleared_box_means_no():
    form = build_form("tiny-cpu", {"submitted": "1"})
    assert form.config.checkpoint.verify is False


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("train.steps", "many", "Write a whole number, not 'many'"),
        ("train.steps", "", "Write a whole number"),
        ("train.steps", "0", "greater than or equal to 1"),
        ("optimizer.weight_decay", "x", "Write a number such as"),
        ("train.precision", "fp7", "fp32"),
        ("model.num_key_value_heads", "3", "Must divide num_attention_heads"),
        ("train.phases", "[{", "JSON list"),
        ("train.phases", '[{"name": "a", "stepps": 3}]', "no such field"),
    ],
)
def test_wrong_value_is_explained_at_its_field(name, text, words):
    form = build_form("tiny-cpu", {name: text})
    assert words in inputs(form)[name].error
    assert inputs(form)[name].text == text
    assert form.config is None


def test_bounds_and_unit_are_said():
    steps = inputs(build_form("tiny-cpu"))["train.steps"]
    assert (steps.unit, steps.bounds) == ("steps", "≥ 1, ≤ 1,000,000,000")
