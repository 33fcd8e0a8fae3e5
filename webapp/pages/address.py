"""What stands behind the ? of an address, as numbers."""

from django.http import HttpRequest


def number(request: HttpRequest, name: str) -> int | None:
    """A whole number from 0 on; None where there is none that Postgres could hold."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
