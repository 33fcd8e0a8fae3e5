"""Make what a user or a process typed storable: Postgres holds neither NUL nor half a character."""

import json
from typing import Any

MAX_LINE_CHARS = 20_000


def storable(text: object) -> str:
    """Text without NUL and lone surrogates, each shown as the replacement character."""
    return str(text).replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def storable_json(value: Any) -> Any:
    """JSON whose texts are storable."""
    return json.loads(storable(json.dumps(value, ensure_ascii=False).replace("\\u0000", "\N{REPLACEMENT CHARACTER}")))


def storable_line(text: object) -> str:
    """One line of a log, cut at MAX_LINE_CHARS with a word on how much is missing."""
    line = storable(text)
    if len(line) <= MAX_LINE_CHARS:
        return line
    return f"{line[:MAX_LINE_CHARS]} … and {len(line) - MAX_LINE_CHARS:,} characters more, whole in the run's folder"
