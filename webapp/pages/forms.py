"""The form of a new run, generated from the one schema: a field for each field, its meaning, unit and bounds."""

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from webapp.runs.models import Priority
from zaya_model.config import RunConfig
from zaya_model.errors import ConfigError, Problem
from zaya_model.presets import field_names, load_preset

# What most people change; the rest is folded away.
FRONT = (
    "data.path", "train.steps", "train.global_batch_size", "data.sequence_length", "optimizer.muon_learning_rate",
    "optimizer.adamw_learning_rate", "train.seed",
)  # fmt: skip
_BEYOND_ANYONE = 2**53


@dataclass
class Input:
    """One field as the template draws it."""

    name: str  # dotted
    help: str
    unit: str
    bounds: str
    kind: Literal["text", "number", "choice", "flag", "json"]
    preset_text: str
    text: str
    choices: tuple[str, ...] = ()
    error: str = ""

    @property
    def label(self) -> str:
        """The field's own name in words; with its section where it stands outside of it."""
        section, name = self.name.split(".")
        words = name.replace("_", " ")
        return f"{section} {words}" if self.name in FRONT and " " not in words else words

    @property
    def is_changed(self) -> bool:
        """Whether it differs from the preset."""
        return self.text != self.preset_text


@dataclass
class Section:
    """The inputs of one section of the schema."""

    name: str
    help: str
    inputs: list[Input]

    @property
    def is_open(self) -> bool:
        """Folded, unless something in it was changed or is wrong."""
        return any(entry.error or entry.is_changed for entry in self.inputs)


@dataclass
class RunForm:
    """What was typed, what is wrong with it, and the config it makes when nothing is."""

    preset: str
    name: str = ""
    tags: str = ""
    notes: str = ""
    priority: int = Priority.NORMAL
    front: list[Input] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    config: RunConfig | None = None
    name_error: str = ""
    general_errors: list[str] = field(default_factory=list)

    @property
    def tag_list(self) -> list[str]:
        """Tags, typed with commas between."""
        return [tag.strip() for tag in self.tags.split(",") if tag.strip()]

    @property
    def has_errors(self) -> bool:
        """Whether anything must be mended."""
        inputs = [*self.front, *(entry for section in self.sections for entry in section.inputs)]
        return bool(self.name_error or self.general_errors or any(entry.error for entry in inputs))


def build_form(preset: str, typed: Mapping[str, str] | None = None, config: RunConfig | None = None) -> RunForm:
    """The form of a preset, filled with what was typed, or with another run's config. Raises ConfigError."""
    base = load_preset(preset)
    inputs = {name: _input(name, base, config or base) for name in field_names()}
    typed = typed or {}
    form = RunForm(
        preset, typed.get("name", ""), typed.get("tags", ""), typed.get("notes", ""),
        int(typed["priority"]) if typed.get("priority", "") in map(str, Priority.values) else Priority.NORMAL,
    )  # fmt: skip
    for name, entry in inputs.items():
        if entry.kind == "flag" and "submitted" in typed:
            entry.text = "true" if name in typed else "false"
        else:
            entry.text = typed.get(name, entry.text)
    form.front = [inputs[name] for name in FRONT]
    folded = [entry for name, entry in inputs.items() if name not in FRONT]
    form.sections = [
        Section(section, info.annotation.__doc__ or "", [e for e in folded if e.name.startswith(f"{section}.")])
        for section, info in RunConfig.model_fields.items()
    ]
    _check(form, inputs)
    return form


def _check(form: RunForm, inputs: Mapping[str, Input]) -> None:
    """Validate by the schema and put each problem at its field."""
    overrides, problems = {}, []
    for name, entry in inputs.items():
        if entry.is_changed:
            try:
                overrides[name] = _parse(name, entry.text)
            except ValueError as error:
                problems.append(Problem(name, str(error)))
    if not problems:
        try:
            form.config = load_preset(form.preset, overrides)
        except ConfigError as error:
            problems = error.problems
    add_problems(form, problems)


def add_problems(form: RunForm, problems: Sequence[Problem]) -> None:
    """Put each problem at its field."""
    inputs = {entry.name: entry for entry in [*form.front, *(e for section in form.sections for e in section.inputs)]}
    for problem in problems:
        # A problem inside a list belongs to the field that holds the list.
        name = ".".join(problem.path.split(".")[:2])
        if name in inputs:
            within = problem.path.removeprefix(name).lstrip(".")
            message = f"{within}: {problem.message}" if within else problem.message
            inputs[name].error = f"{message[0].upper()}{message[1:]}."
        else:
            form.general_errors.append(str(problem))


def _parse(name: str, text: str) -> Any:
    """Text as the type of its field. Raises ValueError saying what would be right."""
    text, annotation = text.strip(), _info(name).annotation
    kind, is_optional = _bare(annotation)
    if not text and is_optional:
        return None
    if kind is bool:
        return text == "true"
    if kind is int:
        try:
            return int(text.replace(",", "").replace("_", "").replace(" ", ""))
        except ValueError:
            raise ValueError(f"write a whole number, not {text!r}" if text else "write a whole number") from None
    if kind is float:
        try:
            return float(text.replace(",", "."))
        except ValueError:
            raise ValueError(f"write a number such as 0.001 or 3e-4, not {text!r}") from None
    if _is_nested(kind):
        try:
            return json.loads(text or "[]")
        except json.JSONDecodeError as error:
            raise ValueError(f'write a JSON list such as [{{"name": "one", "steps": 100}}]: {error.msg}') from None
    if get_origin(kind) is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _input(name: str, base: RunConfig, config: RunConfig) -> Input:
    info = _info(name)
    kind, _ = _bare(info.annotation)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    if choices:
        shape = "choice"
    elif _is_nested(kind):
        shape = "json"
    else:
        shape = {bool: "flag", int: "number", float: "number"}.get(kind, "text")
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    return Input(
        name=name, help=info.description or "", unit=str(extra.get("unit", "")), bounds=_bounds(info), kind=shape,
        preset_text=_text(_value(base, name)), text=_text(_value(config, name)), choices=tuple(map(str, choices)),
    )  # fmt: skip


def _info(name: str) -> FieldInfo:
    section, field_name = name.split(".")
    return RunConfig.model_fields[section].annotation.model_fields[field_name]


def _bare(annotation: Any) -> tuple[Any, bool]:
    """A type without its `| None`, and whether it had one."""
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        return kinds[0], len(kinds) < len(get_args(annotation))
    return annotation, False


def _is_nested(kind: Any) -> bool:
    """Whether a field is a list of sections of their own, typed as JSON."""
    inner = get_args(kind)[:1]
    return get_origin(kind) is tuple and isinstance(inner[0], type) and issubclass(inner[0], BaseModel)


def _bounds(info: FieldInfo) -> str:
    """Bounds in words, from the schema's own metadata; those of the machine's integers are nobody's concern."""
    words = []
    for rule in info.metadata:
        for sign, attribute in (("≥", "ge"), (">", "gt"), ("≤", "le"), ("<", "lt")):
            value = getattr(rule, attribute, None)
            if value is not None and abs(value) < _BEYOND_ANYONE:
                words.append(f"{sign} {value:,}" if isinstance(value, int) else f"{sign} {value:g}")
    return ", ".join(words)


def _value(config: RunConfig, name: str) -> Any:
    section, field_name = name.split(".")
    return getattr(getattr(config, section), field_name)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple) and any(isinstance(part, BaseModel) for part in value):
        return json.dumps([part.model_dump(exclude_none=True, exclude_defaults=True) for part in value], indent=1)
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
