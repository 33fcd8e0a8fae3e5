"""What the run's page shows of its timeline: a page of events, filters by kind and attempt, the way to earlier ones."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest

from webapp.pages.address import number
from webapp.runs.models import Run
from webapp.runs.timeline import KINDS, read_timeline


def timeline_context(request: HttpRequest, run: Run) -> dict[str, Any]:
    """Of the address's ?kind=, ?attempt= and ?before=; the links lead to other looks at the same page."""
    kind, attempt, before = request.GET.get("kind", ""), number(request, "attempt"), number(request, "before")
    kind = kind if kind in KINDS else ""
    page = read_timeline(run, kind=kind, attempt=attempt, before=before)
    return {
        "entries": page.entries,
        "attempt": attempt,
        "query": _address(kind, attempt, before),
        "kinds": [(name or "all", _address(name, attempt), name == kind) for name in ("", *KINDS)],
        "any_attempt": _address(kind),
        "newest": _address(kind, attempt) if before is not None else None,
        "earlier": _address(kind, attempt, page.earlier) if page.earlier is not None else None,
    }


def _address(kind: str, attempt: int | None = None, before: int | None = None) -> str:
    """What stands behind the page's address; the usual is left out."""
    pairs = {"kind": kind or None, "attempt": attempt, "before": before}
    return "?" + urlencode({name: value for name, value in pairs.items() if value is not None})
