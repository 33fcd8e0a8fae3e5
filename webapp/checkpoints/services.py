"""Follow what the trainer says of its checkpoints."""

from collections.abc import Mapping
from typing import Any

from webapp.checkpoints.models import Checkpoint, CheckpointStatus
from webapp.runs.models import Run
from webapp.text import storable

_MEASURED = ("bytes", "seconds", "stall_seconds")


def record_checkpoint(run: Run, record: Mapping[str, Any]) -> None:
    """Keep the newest word on a checkpoint, inside the shipper's transaction.

    Raises ValueError for a status nobody knows.
    """
    status = CheckpointStatus(record["status"])
    values = {field: record[field] for field in _MEASURED if record.get(field) is not None}
    values |= {
        "status": status,
        "attempt": record["attempt"],
        "updated_at": record["time"],
        "reason": storable(record.get("reason", "")),
        "path": storable(record.get("path", f"checkpoints/step-{record['step']:08d}"))[:500],
    }
    Checkpoint.objects.update_or_create(
        run=run, step=record["step"], defaults=values, create_defaults={**values, "created_at": record["time"]}
    )
