"""Follow what the trainer says of its checkpoints, and let runs go on from them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webapp.accounts.models import User
from webapp.checkpoints.models import USABLE, Checkpoint, CheckpointStatus
from webapp.runs import services as runs
from webapp.runs.models import Event, Priority, Run
from webapp.runs.states import NotAllowed
from webapp.text import storable
from zaya_model.config import RunConfig
from zaya_model.errors import ConfigError, Problem

_MEASURED = ("bytes", "seconds", "stall_seconds")
# Fields of the model that change what is computed, but no weight's shape.
_WITHOUT_WEIGHTS = {
    "skip", "max_position_embeddings", "rope_theta", "partial_rotary_factor", "layer_types", "sliding_window",
    "sliding_rope_theta", "rms_norm_eps", "pad_token_id", "initializer_range", "key_temperature",
}  # fmt: skip


def record_checkpoint(run: Run, record: Mapping[str, Any]) -> None:
    """Keep the newest word on a checkpoint, inside the shipper's transaction; one that is whole is on the timeline.

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
    was_usable = run.checkpoints.filter(step=record["step"], status__in=USABLE).exists()
    checkpoint, _ = Checkpoint.objects.update_or_create(
        run=run, step=record["step"], defaults=values, create_defaults={**values, "created_at": record["time"]}
    )
    if checkpoint.is_usable and not was_usable:
        Event.objects.create(
            run=run, attempt=checkpoint.attempt, step=checkpoint.step, time=record["time"], name="checkpoint",
            text=f"The checkpoint of step {checkpoint.step:,} is whole and on disk.",
        )  # fmt: skip


def resume_from(run: Run, step: int, *, actor: User) -> Run:
    """Queue an ended run again, to go on from one of its checkpoints; newer ones are set aside.

    Raises NotAllowed, also where that checkpoint cannot be used.
    """
    usable_checkpoint(run, step)
    return runs.resume_run(run, actor=actor, step=step)


def fork_run(
    parent: Run, step: int, *, owner: User, name: str, config: RunConfig, tags: Iterable[str] = (), notes: str = "",
    priority: Priority = Priority.NORMAL,
) -> Run:  # fmt: skip
    """Queue a new run that begins with a checkpoint of another: its weights, momenta, step and place in the data.

    Raises NotAllowed where that checkpoint cannot be used, ConfigError for a field that does not fit it.
    """
    usable_checkpoint(parent, step)
    if problems := list(misfits(parent, step, config)):
        raise ConfigError(problems)
    return runs.create_run(
        owner=owner, name=name, preset=parent.preset, config=config, tags=tags, notes=notes, priority=priority,
        parent=parent, parent_step=step,
    )  # fmt: skip


def misfits(parent: Run, step: int, config: RunConfig) -> Iterator[Problem]:
    """What keeps a config from going on with a run's checkpoint."""
    for field, value in config.model.model_dump(mode="json").items():
        was = parent.config["model"].get(field, value)
        if field not in _WITHOUT_WEIGHTS and value != was:
            yield Problem(f"model.{field}", f"must stay {was}, the checkpoint's weights are made for it")
    if config.train.steps <= step:
        yield Problem("train.steps", f"must be above {step:,}, where it begins")


def usable_checkpoint(run: Run, step: int) -> Checkpoint:
    """The checkpoint of a step that is whole and there. Raises NotAllowed."""
    found = run.checkpoints.filter(step=step, status__in=USABLE).first()
    if found is None:
        raise NotAllowed(f"Run {run.pk} has no whole checkpoint of step {step:,}; choose one from its table.")
    return found
