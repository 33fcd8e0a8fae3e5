"""What a run can be made of: presets, and the schema of the config."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from zaya_model.config import RunConfig
from zaya_model.presets import load_preset, preset_names, preset_summary

router = Router()


@router.get("/presets")
def list_presets(request: HttpRequest) -> list[dict[str, Any]]:
    """Every preset, smallest model first, with its whole config."""
    return [
        {"name": name, "summary": preset_summary(name), "config": load_preset(name).model_dump(mode="json")}
        for name in preset_names()
    ]


@router.get("/schema")
def read_schema(request: HttpRequest) -> dict[str, Any]:
    """JSON schema of a run's config: every field with its meaning, bounds and unit."""
    return RunConfig.model_json_schema()
