"""Read a config from a preset or a TOML file, change single fields, and explain whatever is wrong with it."""

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from zaya_model.config import RunConfig
from zaya_model.errors import ConfigError, Problem

FOLDER = Path(__file__).parent


def preset_names() -> list[str]:
    """Names of the presets, smallest model first as their files state it."""
    return sorted((path.stem for path in FOLDER.glob("*.toml")), key=lambda name: (_preset(name)["rung"], name))


def preset_summary(name: str) -> str:
    """One sentence on what the preset is for."""
    return _preset(name)["summary"]


def load_preset(name: str, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Build the config of a preset with some fields changed.

    `overrides` maps dotted names to values: `{"train.steps": 500}`.
    Raises ConfigError naming every field at fault.
    """
    if name not in preset_names():
        known = ", ".join(preset_names())
        raise ConfigError([Problem("preset", f"there is no preset {name!r}; choose one of {known}")])
    return build({key: value for key, value in _preset(name).items() if isinstance(value, dict)}, overrides)


def load_toml(path: Path, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Read a config file; a `preset = "name"` line on top starts from that preset. Raises ConfigError."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([Problem("", f"{path} cannot be read: {error.strerror}")]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([Problem("", f"{path} is not valid TOML: {error}")]) from error
    values.pop("rung", None), values.pop("summary", None)
    if (preset := values.pop("preset", None)) is not None:
        base = load_preset(preset).model_dump(mode="json")
        return build(_merge(base, values), overrides)
    return build(values, overrides)


def build(values: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Validate nested `values` with dotted `overrides` on top. Raises ConfigError naming every field at fault."""
    merged = _merge({}, values)
    problems = [problem for key, value in (overrides or {}).items() if (problem := _set(merged, key, value))]
    if problems:
        raise ConfigError(problems)
    try:
        return RunConfig.model_validate(merged)
    except ValidationError as error:
        raise ConfigError([_explain(detail) for detail in error.errors()]) from error


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Turn command-line `section.key=value` strings into overrides; a value is read as TOML, else as plain text."""
    overrides = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError([Problem(key, "write it as section.key=value")])
        try:
            overrides[key.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            overrides[key.strip()] = text
    return overrides


def field_names() -> list[str]:
    """Every dotted name of the schema, in its order."""
    return [
        f"{section}.{field}"
        for section, info in RunConfig.model_fields.items()
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel)
        for field in info.annotation.model_fields
    ]


@cache
def _preset(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = {key: _merge(value, {}) if isinstance(value, Mapping) else value for key, value in base.items()}
    for key, value in changes.items():
        nested = isinstance(value, Mapping) and isinstance(merged.get(key, {}), Mapping)
        merged[key] = _merge(merged.get(key, {}), value) if nested else value
    return merged


def _set(values: dict[str, Any], name: str, value: Any) -> Problem | None:
    if name not in field_names():
        return Problem(name, f"there is no such field{_nearest(name)}")
    section, field = name.split(".")
    values.setdefault(section, {})[field] = value
    return None


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, field_names(), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; the sections are {', '.join(RunConfig.model_fields)}"


def _explain(detail: ErrorDetails) -> Problem:
    """Turn pydantic's error into one sentence at one field."""
    context = detail.get("ctx", {})
    path = ".".join(str(part) for part in [*detail["loc"], *([context["field"]] if "field" in context else [])])
    if detail["type"] == "extra_forbidden":
        return Problem(path, f"there is no such field{_nearest(path)}")
    if detail["type"] == "misfit":
        return Problem(path, detail["msg"])
    given = detail["input"]
    return Problem(path, f"{detail['msg'][0].lower()}{detail['msg'][1:]}, not {given!r}")


def to_toml(config: RunConfig) -> str:
    """Write a config so that `load_toml` reads the same; what is None is left out."""
    sections = []
    for section, fields in config.model_dump(mode="json").items():
        lines = [f"{name} = {_toml_value(value)}" for name, value in fields.items() if value is not None]
        sections.append("\n".join([f"[{section}]", *lines]))
    return "\n\n".join(sections) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, dict):
        pairs = (f"{_toml_key(key)} = {_toml_value(inner)}" for key, inner in value.items() if inner is not None)
        return f"{{{', '.join(pairs)}}}"
    # JSON's strings and numbers are TOML's, but for the escape of DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)
