"""The scripts of a page, fetched all at once: by itself a browser learns of a module's imports level by level."""

import re
from functools import cache
from pathlib import Path

from django import template
from django.contrib.staticfiles import finders
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

_IMPORT = re.compile(r'^import .*"\./([\w.]+)";$', re.MULTILINE)
_PLOTLY = "vendor/plotly/plotly-cartesian.min.js"


@register.simple_tag
def module(name: str) -> SafeString:
    """A module below static/js, and before it a hint for each that it imports."""
    hints = format_html_join("\n", '<link rel="modulepreload" href="{}">', ((static(path),) for path in imports(name)))
    return format_html('{}\n<script type="module" src="{}"></script>', hints, static(f"js/{name}"))


@register.simple_tag
def plotly() -> SafeString:
    """The library of charts: fetched with the page, run when the first chart has been asked for (plot.js)."""
    return format_html('<link rel="preload" as="script" id="plotly" href="{}">', static(_PLOTLY))


@cache
def imports(name: str) -> tuple[str, ...]:
    """All that a module imports, and what these import."""
    found, left = [], [name]
    while left:
        text = Path(finders.find(f"js/{left.pop()}")).read_text()
        fresh = [each for each in _IMPORT.findall(text) if f"js/{each}" not in found]
        found += [f"js/{each}" for each in fresh]
        left += fresh
    return tuple(found)
