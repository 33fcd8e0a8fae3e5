"""Runs: create, list, show, stop, resume, and what happened to them."""

import base64
from typing import Any

from django.db.models import Q
from django.http import Http404, HttpRequest
from ninja import Router, Schema, Status
from ninja.errors import HttpError
from pydantic import ConfigDict, Field

from webapp.api.auth import require_operator
from webapp.checkpoints import services as checkpoints
from webapp.runs import selectors, services
from webapp.runs.attempts import Account, goodput, list_attempts
from webapp.runs.models import Priority, Run
from webapp.runs.query import parse_query
from webapp.runs.query_terms import QueryError
from webapp.runs.timeline import KINDS, read_timeline
from zaya_model.errors import ConfigError, Problem
from zaya_model.presets import build, load_preset

router = Router()


class NewRun(Schema):
    """What is asked for: a preset with some fields changed, or a whole config."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    preset: str = Field("", description="Name of a preset; see GET /presets.")
    overrides: dict[str, Any] = Field({}, description='Fields to change: {"train.steps": 500}.')
    config: dict[str, Any] | None = Field(None, description="A whole config instead of a preset.")
    tags: list[str] = []
    notes: str = ""
    priority: Priority = Priority.NORMAL


class Fork(Schema):
    """What is asked for: a checkpoint of a run, with some fields of its config changed."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    step: int = Field(ge=0, description="Of a whole checkpoint; see GET /runs/{id}/checkpoints.")
    overrides: dict[str, Any] = Field({}, description='Fields to change: {"optimizer.muon_learning_rate": 3e-4}.')
    tags: list[str] | None = Field(None, description="The parent's where it is left out.")
    notes: str = ""
    priority: Priority = Priority.NORMAL


@router.post("", response={201: dict})
def create_run(request: HttpRequest, body: NewRun) -> Status:
    """Queue a run."""
    user = require_operator(request)
    if bool(body.preset) == (body.config is not None):
        raise ConfigError([Problem("preset", "give either a preset or a whole config")])
    config = build(body.config, body.overrides) if body.config is not None else load_preset(body.preset, body.overrides)
    run = services.create_run(
        owner=user, name=body.name, preset=body.preset or "own config", config=config, tags=body.tags,
        notes=body.notes, priority=body.priority,
    )  # fmt: skip
    return Status(201, describe(run))


@router.get("")
def list_runs(
    request: HttpRequest,
    query: str = "",
    search: str = "",
    state: str = "",
    tag: str = "",
    cursor: str = "",
    limit: int = 50,
) -> dict[str, Any]:
    """Runs, newest first; `next` is the cursor of the following page, null at the end."""
    limit = max(1, min(limit, 500))
    found = selectors.list_runs(search=search, state=state, tag=tag).filter(_wanted(query, request))
    if cursor:
        found = found.filter(pk__lt=_decode(cursor))
    page = list(found[: limit + 1])
    more = len(page) > limit
    page = page[:limit]
    return {"items": [describe(run) for run in page], "next": _encode(page[-1].pk) if more else None}


@router.get("/{int:run_id}")
def read_run(request: HttpRequest, run_id: int) -> dict[str, Any]:
    """One run with its config and attempts."""
    run = get_run(run_id)
    accounts = list_attempts(run, with_nodes=True)
    attempts, found = [_describe_attempt(account) for account in accounts], goodput(accounts)
    held = {"share": found.share, "device_seconds": found.held_seconds, "lost_steps": found.lost_steps}
    return {**describe(run), "notes": run.notes, "config": run.config, "attempts": attempts, "goodput": held}


@router.get("/{int:run_id}/attempts")
def read_attempts(request: HttpRequest, run_id: int) -> dict[str, Any]:
    """Each start of a run, oldest first: where, from which step to which, what it held, what was done again."""
    return {"items": [_describe_attempt(account) for account in list_attempts(get_run(run_id), with_nodes=True)]}


@router.post("/{int:run_id}/stop")
def stop_run(request: HttpRequest, run_id: int) -> dict[str, Any]:
    """Ask a run to save a checkpoint and end; a queued one ends at once."""
    user = require_operator(request)
    return describe(services.request_stop(get_run(run_id), actor=user))


@router.post("/{int:run_id}/resume")
def resume_run(request: HttpRequest, run_id: int, step: int | None = None) -> dict[str, Any]:
    """Queue an ended run again; it goes on from its last whole checkpoint, or from the one of `step`."""
    user, run = require_operator(request), get_run(run_id)
    if step is not None:
        return describe(checkpoints.resume_from(run, step, actor=user))
    return describe(services.resume_run(run, actor=user))


@router.post("/{int:run_id}/fork", response={201: dict})
def fork_run(request: HttpRequest, run_id: int, body: Fork) -> Status:
    """Queue a new run that begins with a checkpoint of this one."""
    user, parent = require_operator(request), get_run(run_id)
    run = checkpoints.fork_run(
        parent, body.step, owner=user, name=body.name, config=build(parent.config, body.overrides),
        tags=parent.tags if body.tags is None else body.tags, notes=body.notes, priority=body.priority,
    )  # fmt: skip
    return Status(201, describe(run))


@router.delete("/{int:run_id}", response={202: dict})
def delete_run(request: HttpRequest, run_id: int) -> Status:
    """Hide an ended run; its rows and files are removed piece by piece."""
    user, run = require_operator(request), get_run(run_id)
    services.delete_run(run, actor=user)
    return Status(202, describe(run))


@router.get("/{int:run_id}/events")
def list_events(
    request: HttpRequest, run_id: int, kind: str = "", attempt: int | None = None, before: int | None = None,
    limit: int = 200,
) -> dict[str, Any]:  # fmt: skip
    """The run's timeline, newest first: all of it, one kind, or one attempt; `next` is the `before` of earlier ones."""
    if kind and kind not in KINDS:
        raise HttpError(400, f"kind: write {', '.join(KINDS)}, not {kind!r}.")
    page = read_timeline(
        get_run(run_id), kind=kind, attempt=bounded(attempt), before=bounded(before), count=max(1, min(limit, 1000))
    )
    return {
        "items": [
            {
                "id": entry.event.pk,
                "time": entry.event.time,
                "name": entry.event.name,
                "gravity": entry.gravity,
                "text": entry.event.text,
                "step": entry.event.step,
                "attempt": entry.event.attempt,
                "actor": entry.event.actor.username if entry.event.actor else None,
                "lasted": entry.lasted,
                "data": entry.event.data,
            }
            for entry in page.entries
        ],
        "next": page.earlier,
    }


def bounded(number: int | None) -> int | None:
    """A number that Postgres can hold."""
    return None if number is None else max(-(2**62), min(number, 2**62))


def get_run(run_id: int) -> Run:
    """The run of this number. Raises Http404."""
    run = selectors.find_run(run_id)
    if run is None:
        raise Http404(f"There is no run {run_id}.")
    return run


def describe(run: Run) -> dict[str, Any]:
    """What lists say of a run."""
    return {
        "id": run.pk,
        "name": run.name,
        "state": run.state,
        "reason": run.reason,
        "preset": run.preset,
        "owner": run.owner.username,
        "tags": run.tags,
        "priority": run.priority,
        "step": run.step,
        "total_steps": run.total_steps,
        "parent": run.parent_id,
        "parent_step": run.parent_step,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
    }


def _describe_attempt(account: Account) -> dict[str, Any]:
    attempt = account.attempt
    return {
        "number": attempt.number,
        "from_step": attempt.from_step,
        "last_step": attempt.last_step,
        "lost_steps": account.lost_steps,
        "outcome": attempt.outcome,
        "reason": attempt.reason,
        "created_at": attempt.created_at,
        "ended_at": attempt.ended_at,
        "nodes": [placement.node.name for placement in attempt.placements.all()],
        "device_seconds": attempt.held_seconds,
        "lost_device_seconds": account.lost_seconds,
        "goodput": account.share,
    }


def _wanted(query: str, request: HttpRequest) -> Q:
    try:
        return parse_query(query, user=request.auth)
    except QueryError as error:
        raise ConfigError([Problem("query", str(error))]) from error


def _encode(number: int) -> str:
    return base64.urlsafe_b64encode(str(number).encode()).decode()


def _decode(cursor: str) -> int:
    try:
        return int(base64.urlsafe_b64decode(cursor))
    except ValueError as error:
        raise HttpError(400, "cursor: use the `next` of the page before, as it is.") from error
