"""Reads on checkpoints."""

from django.db.models import QuerySet

from webapp.checkpoints.models import Checkpoint, CheckpointStatus
from webapp.runs.models import Run


def list_checkpoints(run: Run, *, with_removed: bool = False) -> QuerySet[Checkpoint]:
    """Checkpoints of a run, newest step first."""
    found = run.checkpoints.order_by("-step")
    return found if with_removed else found.exclude(status=CheckpointStatus.REMOVED)
