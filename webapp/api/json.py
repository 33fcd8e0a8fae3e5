"""JSON that any parser reads: NaN and infinities are the words "NaN", "Infinity", "-Infinity"."""

import json
import math
from typing import Any

from django.http import HttpRequest
from ninja.renderers import BaseRenderer
from ninja.responses import NinjaJSONEncoder

from zaya_model.journal import encode_number


def strict(value: Any) -> Any:
    """The same value with every non-finite number as a word."""
    if isinstance(value, float):
        return value if math.isfinite(value) else encode_number(value)
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return value


class StrictJson(BaseRenderer):
    """Render every answer of the API."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> str:
        try:
            return _dump(data)
        except ValueError:  # a number that is not finite: rare, and to find it is slower than to write all others
            return _dump(strict(data))


def _dump(data: Any) -> str:
    return json.dumps(data, cls=NinjaJSONEncoder, allow_nan=False)
