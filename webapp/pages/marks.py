"""What happened to a run at which step, for the lines across its charts."""

from datetime import datetime
from typing import Any

from webapp.checkpoints.selectors import list_checkpoints
from webapp.runs.models import Run
from webapp.runs.timeline import KINDS

_MOST_OF_A_KIND = 200


def marks_of(run: Run) -> list[dict[str, Any]]:
    """The newest checkpoints, restarts and incidents as {step, time, kind, text}; times in seconds since 1970."""
    saved = [
        _mark(checkpoint.step, checkpoint.created_at, "checkpoint", f"Checkpoint of step {checkpoint.step}")
        for checkpoint in list_checkpoints(run)[:_MOST_OF_A_KIND]
    ]
    again = run.attempts.filter(number__gt=1, from_step__isnull=False).order_by("-number")
    restarts = [
        _mark(attempt.from_step, attempt.created_at, "restart", f"Attempt {attempt.number} goes on from here")
        for attempt in again[:_MOST_OF_A_KIND]
    ]
    # Events that explain the shape of a curve; others are read on the timeline.
    happened = run.events.filter(KINDS["incidents"], step__isnull=False).order_by("-id")
    incidents = [_mark(event.step, event.time, "incident", event.text) for event in happened[:_MOST_OF_A_KIND]]
    return saved + restarts + incidents


def _mark(step: int, time: datetime, kind: str, text: str) -> dict[str, Any]:
    return {"step": step, "time": time.timestamp(), "kind": kind, "text": text}
