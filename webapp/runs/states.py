"""The one state machine of runs: named transitions, each leaving an event row.

transition   from                          to         asked by
allocate     queued, preempted             starting   scheduler: nodes were found
begin        starting                      running    trainer: its first journal line
ask_to_stop  starting, running             stopping   person
cancel       queued, preempted             stopped    person
finish       starting, running, stopping   finished   trainer: all steps done
stop         starting, running, stopping   stopped    trainer: a checkpoint was written as asked
fail         all but the ended ones        failed     trainer or node: with its reason
requeue      starting, running             queued     node or scheduler: something died, a restart is left
preempt      starting, running             preempted  trainer: it saved and made way, for a run or for its machine
resume       finished, stopped, failed     queued     person
"""

from typing import Any

from django.utils import timezone

from webapp import messages
from webapp.runs.models import ACTIVE, ENDED, WAITING, Event, Run, RunState

QUEUED, PREEMPTED, STARTING, RUNNING, STOPPING, FINISHED, STOPPED, FAILED = RunState

TRANSITIONS: dict[str, tuple[tuple[RunState, ...], RunState]] = {
    "allocate": (WAITING, STARTING),
    "begin": ((STARTING,), RUNNING),
    "ask_to_stop": ((STARTING, RUNNING), STOPPING),
    "cancel": (WAITING, STOPPED),
    "finish": (ACTIVE, FINISHED),
    "stop": (ACTIVE, STOPPED),
    "fail": ((*WAITING, *ACTIVE), FAILED),
    "requeue": ((STARTING, RUNNING), QUEUED),
    "preempt": ((STARTING, RUNNING), PREEMPTED),
    "resume": (ENDED, QUEUED),
}


class NotAllowed(Exception):
    """A transition the run's state does not admit; the message says what would be right."""


def lock_run(run_id: int) -> Run:
    """Take the run's row for this transaction. Raises Run.DoesNotExist."""
    return Run.objects.select_for_update().get(pk=run_id)


def may(run: Run, transition: str) -> bool:
    """Whether the run's state admits the transition."""
    return run.state in TRANSITIONS[transition][0]


def move(
    run: Run, transition: str, text: str, *, actor: Any = None, attempt: int | None = None, step: int | None = None
) -> None:
    """Move a locked run, inside the caller's transaction; `text` is the reason shown and the event's sentence,
    `step` the event's where it is not the run's newest.

    Raises NotAllowed when the state does not admit it.
    """
    sources, target = TRANSITIONS[transition]
    if run.state not in sources:
        wanted = " or ".join(sources)
        raise NotAllowed(f"Run {run.pk} is {run.state}; only a {wanted} run can do this.")
    now = timezone.now()
    run.state, run.reason = target, text
    if target in WAITING:
        run.queued_at, run.ended_at, run.is_yielding = now, None, False
    if target == RUNNING and run.started_at is None:
        run.started_at = now
    if target in ENDED:
        run.ended_at = now
    run.save(update_fields=["state", "reason", "is_yielding", "queued_at", "started_at", "ended_at"])
    step = run.step if step is None else step
    Event.objects.create(run=run, attempt=attempt, step=step, time=now, name=target, text=text, actor=actor)
    messages.publish(run.pk, {"state", "events"})
