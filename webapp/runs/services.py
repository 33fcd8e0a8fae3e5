"""Every write on runs: what people ask for, what the scheduler decides, what nodes and trainers report."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from webapp import messages
from webapp.accounts.models import User
from webapp.fleet.models import Node
from webapp.runs import states
from webapp.runs.models import Attempt, Event, Outcome, Placement, Priority, Run, RunState
from webapp.text import storable, storable_json
from zaya_model.config import RunConfig

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


@transaction.atomic
def create_run(
    *,
    owner: User,
    name: str,
    preset: str,
    config: RunConfig,
    tags: Iterable[str] = (),
    notes: str = "",
    priority: Priority = Priority.NORMAL,
    parent: Run | None = None,
    parent_step: int | None = None,
) -> Run:
    """Queue a new run, which may begin with a checkpoint of another; whether that fits is the caller's to know.

    Raises Django's ValidationError naming the field at fault.
    """
    run = Run(
        owner=owner,
        name=_UNPRINTABLE.sub(" ", name).strip(),
        preset=preset,
        config=config.model_dump(mode="json"),
        tags=_clean_tags(tags),
        notes=storable(notes),
        priority=priority,
        state=RunState.QUEUED,
        queued_at=timezone.now(),
        parent=parent,
        parent_step=parent_step,
        step=parent_step or 0,
    )
    run.full_clean()
    run.save()
    text = "Waits for a free node."
    if parent is not None:
        text = f"Waits for a free node, to go on from step {parent_step:,} of run {parent.pk}."
    Event.objects.create(run=run, time=run.queued_at, name="queued", text=text, actor=owner)
    messages.publish(run.pk, {"state", "events"})
    messages.call_scheduler()
    return run


@transaction.atomic
def request_stop(run: Run, *, actor: User) -> Run:
    """Ask a run to save a checkpoint and end; a queued one ends at once. Raises NotAllowed."""
    run = states.lock_run(run.pk)
    if run.state == RunState.STOPPING:
        return run
    if states.may(run, "cancel"):
        states.move(run, "cancel", "Taken out of the queue.", actor=actor)
        return run
    states.move(run, "ask_to_stop", "Saves a checkpoint, then ends.", actor=actor)
    _wake_nodes(run)
    return run


@transaction.atomic
def resume_run(run: Run, *, actor: User, step: int | None = None) -> Run:
    """Queue an ended run again; it goes on from its last whole checkpoint, or from the one of `step`.

    Raises NotAllowed.
    """
    run = states.lock_run(run.pk)
    run.restarts, run.resume_step = 0, step
    run.save(update_fields=["restarts", "resume_step"])
    where = "the last checkpoint" if step is None else f"the checkpoint of step {step:,}"
    states.move(run, "resume", f"Waits for a free node to go on from {where}.", actor=actor)
    messages.call_scheduler()
    return run


@transaction.atomic
def add_tags(run: Run, tags: Iterable[str]) -> Run:
    """Put tags behind those a run has; one it has is not doubled. Raises ValidationError."""
    run = states.lock_run(run.pk)
    run.tags = _clean_tags([*run.tags, *tags])
    run.full_clean()
    run.save(update_fields=["tags"])
    messages.publish(run.pk, {"state"})
    return run


def _clean_tags(tags: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(tag for tag in (_UNPRINTABLE.sub(" ", tag).strip() for tag in tags) if tag))


@transaction.atomic
def delete_run(run: Run, *, actor: User) -> None:
    """Hide an ended run at once; its rows and files are removed piece by piece. Raises NotAllowed."""
    run = states.lock_run(run.pk)
    if not run.is_ended or run.attempts.filter(ended_at=None).exists():
        raise states.NotAllowed(f"Run {run.pk} is {run.state}; stop it before you delete it.")
    run.deleted_at = timezone.now()
    run.save(update_fields=["deleted_at"])
    text = f"Deleted by {actor.username}; its rows and files are being removed."
    Event.objects.create(run=run, time=run.deleted_at, name="deleted", text=text, actor=actor)
    messages.publish(run.pk, {"state"})


def allocate(run: Run, nodes: list[Node]) -> Attempt:
    """Give a locked, queued run its gang of nodes, or one gateway, inside the caller's transaction."""
    number = (run.attempts.aggregate(last=Max("number"))["last"] or 0) + 1
    held_from = None if any(node.is_gateway for node in nodes) else timezone.now()
    attempt = Attempt.objects.create(run=run, number=number, resume_step=run.resume_step, held_from=held_from)
    # Should it die, it goes on from what it saved itself.
    run.resume_step = None
    run.save(update_fields=["resume_step"])
    Placement.objects.bulk_create(
        Placement(attempt=attempt, node=node, rank=rank, slot=_free_slot(node)) for rank, node in enumerate(nodes)
    )
    names = ", ".join(node.name for node in nodes)
    states.move(run, "allocate", f"Attempt {number} starts on {names}.", attempt=number)
    for node in nodes:
        messages.wake_node(node.name)
    return attempt


def _free_slot(node: Node) -> int:
    held = set(Placement.objects.filter(node=node, ended_at=None).values_list("slot", flat=True))
    return next(slot for slot in range(len(held) + 1) if slot not in held)


def make_way(run: Run, waiting: Run) -> None:
    """Ask a locked, running run to save and return to the queue, inside the caller's transaction."""
    run.is_yielding = True
    run.save(update_fields=["is_yielding"])
    text = f"Saves a checkpoint and makes way for run {waiting.pk}, which is more urgent."
    Event.objects.create(run=run, step=run.step, time=timezone.now(), name="yielding", text=text)
    messages.publish(run.pk, {"events"})
    _wake_nodes(run)


@transaction.atomic
def lose_node(node: Node) -> None:
    """End every open placement of a node whose lease ran out, and with it the attempts they belong to."""
    for placement in Placement.objects.filter(node=node, ended_at=None).select_related("attempt"):
        states.lock_run(placement.attempt.run_id)
        _end_placement(placement, exit_code=None)
        if placement.started_at is None:
            end_attempt(placement.attempt, Outcome.STOPPED, f"Node {node.name} left before it began.")
        else:
            end_attempt(placement.attempt, Outcome.LOST, f"Node {node.name} was not heard of within its lease.")


def open_placements(run: Run) -> list[Placement]:
    """Placements of the run's open attempt."""
    return list(Placement.objects.filter(attempt__run=run, ended_at=None).select_related("node"))


def _wake_nodes(run: Run) -> None:
    for placement in open_placements(run):
        messages.wake_node(placement.node.name)


@transaction.atomic
def placement_started(placement: Placement) -> bool:
    """Claim the start of a placement's processes; False when it ended or was claimed before."""
    claimed = Placement.objects.filter(pk=placement.pk, started_at=None, ended_at=None)
    return claimed.update(started_at=timezone.now()) == 1


@transaction.atomic
def explain_start(run: Run, text: str) -> None:
    """Show on the page of a run that starts what it waits for."""
    starting = Run.objects.filter(pk=run.pk, state=RunState.STARTING).exclude(reason=text)
    if starting.update(reason=text):
        messages.publish(run.pk, {"state"})


@transaction.atomic
def nodes_given(attempt: Attempt, text: str) -> None:
    """Say that a batch system gave an attempt its nodes; it holds them from now on."""
    Attempt.objects.filter(pk=attempt.pk).update(held_from=timezone.now())
    note(attempt.run, attempt, "allocated", text)


@transaction.atomic
def note(run: Run, attempt: Attempt, name: str, text: str) -> None:
    """Put on the timeline what a node noticed."""
    Event.objects.create(run=run, attempt=attempt.number, step=run.step, time=timezone.now(), name=name, text=text)
    messages.publish(run.pk, {"events"})


@transaction.atomic
def cancel_start(placement: Placement) -> None:
    """End a placement that was asked to stop before its processes were started."""
    states.lock_run(placement.attempt.run_id)
    _end_placement(placement, exit_code=0)
    end_attempt(placement.attempt, Outcome.STOPPED, "Stopped before it began.")


@transaction.atomic
def placement_exited(placement: Placement, *, exit_code: int, cause: str = "", last_words: str = "") -> None:
    """Say that a placement's processes are gone and all they wrote is in Postgres; `cause` says who ended them.

    The attempt ends with the last of its placements; a process that failed ends it for all.
    """
    run = states.lock_run(placement.attempt.run_id)
    placement.refresh_from_db()
    attempt = Attempt.objects.get(pk=placement.attempt_id)
    if placement.ended_at is not None:
        return
    _end_placement(placement, exit_code=exit_code)
    if attempt.ended_at is not None or attempt.placements.filter(ended_at=None).exists():
        if attempt.ended_at is None and exit_code != 0:
            _wake_nodes(run)
        messages.call_scheduler()
        return
    if attempt.reported:
        end_attempt(attempt, Outcome(attempt.reported), f"{attempt.reason} {cause}".rstrip(), cause=cause)
    else:
        end_attempt(attempt, Outcome.KILLED, _death(exit_code, cause, last_words))


def end_attempt(attempt: Attempt, outcome: Outcome, reason: str, *, cause: str = "") -> None:
    """Close an attempt of a locked run and move the run on, inside the caller's transaction.

    finished → finished; failed → failed; stopped, preempted → stopped if a person asked, else preempted: it waits for
    its turn; killed, lost → stopped if a person asked, queued again while restarts are left, else failed.
    """
    run = states.lock_run(attempt.run_id)
    if attempt.ended_at is not None:
        return
    attempt.outcome, attempt.reason, attempt.ended_at = outcome, reason, timezone.now()
    attempt.save(update_fields=["outcome", "reason", "ended_at"])
    was_asked = run.state == RunState.STOPPING
    restarts_left = run.config.get("recovery", {}).get("max_restarts", 0) - run.restarts
    if outcome == Outcome.FINISHED:
        states.move(run, "finish", reason, attempt=attempt.number)
    elif outcome == Outcome.FAILED:
        states.move(run, "fail", reason, attempt=attempt.number)
    elif was_asked:
        states.move(run, "stop", reason, attempt=attempt.number)
    elif outcome in (Outcome.STOPPED, Outcome.PREEMPTED):
        taken = "Its machine was taken away" if outcome == Outcome.PREEMPTED else "The node was shut down"
        why = "Made way for a more urgent run" if run.is_yielding else cause.rstrip(".") or taken
        # Without a word from a trainer nothing was running yet.
        transition = "preempt" if attempt.reported else "requeue"
        states.move(run, transition, f"{why}; goes on from the last checkpoint.", attempt=attempt.number)
    elif restarts_left > 0:
        run.restarts += 1
        run.save(update_fields=["restarts"])
        left = "1 restart is left" if restarts_left == 2 else f"{restarts_left - 1} restarts are left"
        text = f"{reason} Goes on from the last checkpoint; {left}."
        states.move(run, "requeue", text, attempt=attempt.number)
    else:
        states.move(run, "fail", f"{reason} No restart is left.", attempt=attempt.number)
    messages.call_scheduler()


@transaction.atomic
def fail_run(run: Run, reason: str) -> None:
    """End a run that cannot be started, with the sentence a person needs."""
    run = states.lock_run(run.pk)
    attempt = run.attempts.filter(ended_at=None).first()
    if attempt is not None:
        for placement in attempt.placements.filter(ended_at=None):
            _end_placement(placement, exit_code=None)
        end_attempt(attempt, Outcome.FAILED, reason)
    elif states.may(run, "fail"):
        states.move(run, "fail", reason)


def _end_placement(placement: Placement, *, exit_code: int | None) -> None:
    placement.exit_code, placement.ended_at = exit_code, timezone.now()
    placement.save(update_fields=["exit_code", "ended_at"])


def _death(exit_code: int, cause: str, last_words: str) -> str:
    how = f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"
    sentence = cause or f"The trainer {how} without a word."
    return sentence + (f' Last line of its log: "{last_words}".' if last_words else "")


def record_event(run: Run, attempt: Attempt, record: Mapping[str, Any]) -> None:
    """Put a trainer's event on the timeline and follow what it means, inside the shipper's transaction."""
    name, text, step = str(record["name"])[:60], storable(record.get("text", "")), record["step"]
    if name in ("started", "resumed"):
        attempt.from_step = record["data"].get("from_step", step) if name == "resumed" else 0
        attempt.save(update_fields=["from_step"])
        _tell_loss(run, attempt, record["time"])
        if attempt.ended_at is None and states.may(run, "begin"):
            states.move(run, "begin", text, attempt=attempt.number, step=attempt.from_step)
        return
    if name in Outcome.values and attempt.ended_at is None:
        attempt.reported, attempt.reason = name, text
        attempt.save(update_fields=["reported", "reason"])
    Event.objects.create(
        run=run, attempt=attempt.number, step=step, time=record["time"], name=name, text=text,
        data=storable_json(record.get("data", {})),
    )  # fmt: skip


def _tell_loss(run: Run, attempt: Attempt, time: datetime) -> None:
    """Put the steps that have to be done again on the timeline."""
    before = run.attempts.filter(number__lt=attempt.number).exclude(last_step=None).last()
    if before is None or before.last_step <= attempt.from_step:
        return
    steps, seconds = before.last_step - attempt.from_step, before.lost_seconds(attempt.from_step)
    text = (
        f"{steps:,} steps of attempt {before.number} after step {attempt.from_step:,} are done again: "
        f"{seconds / 3600:.2g} device-hours lost."
    )
    Event.objects.create(
        run=run, attempt=attempt.number, step=attempt.from_step, time=time, name="lost_work", text=text,
        data={"steps": steps, "device_seconds": seconds},
    )  # fmt: skip


def record_progress(run: Run, attempt: Attempt, steps: Sequence[tuple[int, datetime]]) -> None:
    """Keep the newest of some steps on the row of the attempt and, while that is the open one, of the run."""
    (_, first), (step, time) = steps[0], steps[-1]
    Attempt.objects.filter(pk=attempt.pk).update(
        last_step=step, stepped_until=time, stepped_from=Coalesce("stepped_from", Value(first))
    )
    if attempt.ended_at is None:
        Run.objects.filter(pk=run.pk).update(step=step)
