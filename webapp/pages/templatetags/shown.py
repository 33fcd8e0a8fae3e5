"""Numbers, sizes, times and JSON as a person reads them."""

import math
import re
from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

_CODE = re.compile(r"`([^`]+)`")
_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@register.filter
def si(value: float | None) -> str:
    """12345 as 12.3 k."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    for size, letter in _SI:
        if abs(value) >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.4g}"


@register.filter
def setting(value: Any) -> str:
    """A value of a config as one would type it."""
    if value is None or value == "":
        return "–"
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}" if isinstance(value, float) else str(value)


@register.filter
def size(value: int | None) -> str:
    """Bytes with an SI prefix."""
    return "–" if value is None else f"{si(value)}B" if value >= 1000 else f"{value} B"


@register.filter
def duration(seconds: float | None) -> str:
    """Seconds as the two largest units."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 10:
        return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    units = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    whole, parts = round(seconds), []
    for length, name in units:
        if whole >= length and len(parts) < 2:
            parts.append(f"{whole // length} {name}")
            whole %= length
        elif parts:
            break
    return " ".join(parts) or "0 s"


@register.filter
def hours(seconds: float) -> str:
    """Seconds as hours."""
    value = seconds / 3600
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value >= 0.01 or not value else "< 0.01"


@register.filter
def ago(moment: datetime | None) -> str:
    """How long ago."""
    return "never" if moment is None else f"{duration(max(0.0, (timezone.now() - moment).total_seconds()))} ago"


@register.filter
def item(mapping: dict, key: str) -> Any:
    """The value of a key, or None."""
    return mapping.get(key)


@register.filter
def percent(share: float | None) -> str:
    """0.123 as 12.3, for a percent sign to follow."""
    return "–" if share is None or not math.isfinite(share) else f"{100 * share:.1f}"


@register.filter
def marked(text: str) -> SafeString:
    """Escaped text in which `this` is code."""
    return mark_safe(_CODE.sub(r"<code>\1</code>", escape(text)))
