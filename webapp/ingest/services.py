"""Take the lines of a run's files into Postgres: rows and cursor in one transaction, so each line counts once."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from django.db import DatabaseError, transaction
from django.utils import timezone

from webapp import messages
from webapp.checkpoints.services import record_checkpoint
from webapp.metrics import services as metrics
from webapp.runs import services as runs
from webapp.runs import states
from webapp.runs.models import Attempt, Run
from zaya_model.journal import parse, read_lines

_TOPICS = {"metrics": "metrics", "router": "router", "checkpoint": "checkpoints", "event": "events", "log": "logs"}
_UNUSABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError)

# Take some lines of a file into the batch; returns what of the run they changed.
Take = Callable[[Run, Attempt, metrics.Batch, list[bytes]], set[str]]


@transaction.atomic
def take_some(path: Path, attempt: Attempt, take: Take, *, tail_to: int = 0) -> bool:
    """Take the next MiB of lines of a file, which lies in a folder of the run's; False when there is none.

    With `tail_to`, the size of a file that is over, a last line that was never ended counts too. Raises OSError.
    """
    cursor = metrics.lock_cursor(attempt.run, f"{path.parent.name}/{path.name}")
    lines, offset = read_lines(path, cursor.offset)
    if not lines and tail_to > cursor.offset:
        lines, offset = [_read_tail(path, cursor.offset)], tail_to
    if lines:
        batch = metrics.Batch()
        topics = take(attempt.run, attempt, batch, lines)
        metrics.store(attempt.run, batch)
        metrics.advance(cursor, offset=offset, lines=len(lines))
        messages.publish(attempt.run_id, topics)
    return bool(lines)


def take_records(run: Run, attempt: Attempt, batch: metrics.Batch, lines: list[bytes]) -> set[str]:
    """Journal lines; one that is no record becomes a warning in the log and stops nothing."""
    topics, steps = set(), []
    for line in lines:
        try:
            record = parse(line)
            kind = record["kind"]
            if kind == "metrics":
                batch.add_metrics(record)
                steps.append((record["step"], record["time"]))
            elif kind == "router":
                batch.add_router(record)
            elif kind == "log":
                batch.add_line(
                    attempt.number, f"rank {record['rank']}", record["time"], record["level"], record["text"]
                )
            else:
                _record_row(run, attempt, record)
            topics.add(_TOPICS[kind])
        except (*_UNUSABLE, DatabaseError) as error:
            shown = line[:200].decode("utf-8", "replace")
            text = f"A journal line was passed over, {error}: {shown}"
            batch.add_line(attempt.number, "shipper", timezone.now(), "warning", text)
            topics.add("logs")
    if steps:
        runs.record_progress(run, attempt, steps)
    return topics


def take_output(
    run: Run,
    attempt: Attempt,
    batch: metrics.Batch,
    lines: list[bytes],
    *,
    time: datetime | None = None,
    source: str = "output",
) -> set[str]:
    """Lines that processes printed, now or at `time`; of a progress bar that rewrites its line, the last state."""
    time = time or timezone.now()
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip("\r").rsplit("\r", 1)[-1]
        batch.add_line(attempt.number, source, time, "info", text)
    return {"logs"}


def _read_tail(path: Path, offset: int) -> bytes:
    """A last line that was never ended."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read()


def _record_row(run: Run, attempt: Attempt, record: dict) -> None:
    """Follow an event or a checkpoint, in a savepoint so that a bad one spoils nothing else."""
    with transaction.atomic():
        if record["kind"] == "checkpoint":
            record_checkpoint(run, record)
        else:
            runs.record_event(states.lock_run(run.pk), attempt, record)
