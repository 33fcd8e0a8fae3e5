"""What happened to a run at which step, for the lines across its charts."""

from datetime import datetime
from typing import Any

from webapp.checkpoints.selectors import list_checkpoints
from webapp.runs import selectors
from webapp.runs.models import Run

# Events that break a curve, or explain its shape; others are read on the timeline.
_RESTARTS = {"resumed"}
_INCIDENTS = {
    "nan", "loss_spike", "checkpoint_failed", "checkpoint_refused", "stalled", "peer_lost", "lost_work", "expert_died",
    "expert_revived", "preempted", "superseded", "unreadable", "failed",
}  # fmt: skip
_MOST_OF_A_KIND = 200


def marks_of(run: Run) -> list[dict[str, Any]]:
    """The newest checkpoints, restarts and incidents as {step, time, kind, text}; times in seconds since 1970."""
    saved = [
        _mark(checkpoint.step, checkpoint.created_at, "checkpoint", f"Checkpoint of step {checkpoint.step}")
        for checkpoint in list_checkpoints(run)[:_MOST_OF_A_KIND]
    ]
    happened = [
        _mark(event.step, event.time, "restart" if event.name in _RESTARTS else "incident", event.text)
        for event in selectors.timeline(run, limit=_MOST_OF_A_KIND)
        if event.step is not None and event.name in _RESTARTS | _INCIDENTS
    ]
    return saved + happened


def _mark(step: int, time: datetime, kind: str, text: str) -> dict[str, Any]:
    return {"step": step, "time": time.timestamp(), "kind": kind, "text": text}
