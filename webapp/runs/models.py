"""Run, Attempt, Placement, Event: what was asked for, each start of it, where it ran, what happened."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone

from webapp.fleet.models import Node


class RunState(models.TextChoices):
    """Where a run stands; `states.py` says how it moves."""

    QUEUED = "queued", "Queued"
    PREEMPTED = "preempted", "Preempted"
    STARTING = "starting", "Starting"
    RUNNING = "running", "Running"
    STOPPING = "stopping", "Stopping"
    FINISHED = "finished", "Finished"
    STOPPED = "stopped", "Stopped"
    FAILED = "failed", "Failed"


WAITING = (RunState.QUEUED, RunState.PREEMPTED)
ACTIVE = (RunState.STARTING, RunState.RUNNING, RunState.STOPPING)
ENDED = (RunState.FINISHED, RunState.STOPPED, RunState.FAILED)


class Outcome(models.TextChoices):
    """How an attempt ended."""

    FINISHED = "finished", "Finished"
    STOPPED = "stopped", "Stopped"
    PREEMPTED = "preempted", "Preempted"
    FAILED = "failed", "Failed"
    KILLED = "killed", "Killed"
    LOST = "lost", "Node lost"


class Priority(models.IntegerChoices):
    """Who goes first; a waiting run makes a running one of lower priority save and make way."""

    LOW = -1, "Low: makes way for others"
    NORMAL = 0, "Normal"
    HIGH = 1, "High: others make way"


class KeptRuns(models.Manager):
    """Runs that nobody asked to delete."""

    def get_queryset(self) -> models.QuerySet["Run"]:
        return super().get_queryset().filter(deleted_at=None)


class Run(models.Model):
    """One training run, from the form to its last checkpoint."""

    name = models.CharField(max_length=200)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="runs")
    preset = models.CharField(max_length=100)
    config = models.JSONField(help_text="The whole config, as the schema dumps it.")
    tags = ArrayField(models.CharField(max_length=60), default=list, blank=True)
    notes = models.TextField(blank=True)
    state = models.CharField(max_length=16, choices=RunState, default=RunState.QUEUED)
    priority = models.SmallIntegerField(choices=Priority, default=Priority.NORMAL)
    is_yielding = models.BooleanField(default=False, help_text="Was asked to make way for a more urgent run.")
    reason = models.TextField(blank=True, help_text="Why it is in this state, in one sentence.")
    restarts = models.PositiveIntegerField(default=0, help_text="Automatic restarts used since it was last queued.")
    step = models.BigIntegerField(default=0, help_text="Optimiser steps done.")
    parent = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True, related_name="forks")
    parent_step = models.BigIntegerField(null=True, blank=True, help_text="Its parent's checkpoint it began with.")
    resume_step = models.BigIntegerField(
        null=True, blank=True, help_text="Checkpoint the next start goes on from; the newest where it is empty."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    queued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was asked to be deleted; its rows and files go piece by piece."
    )

    objects = KeptRuns()
    everything = models.Manager()  # noqa: DJ012

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["state", "queued_at"])]

    def __str__(self) -> str:
        return f"#{self.pk} {self.name}"

    @property
    def is_active(self) -> bool:
        """Whether processes of it may be alive."""
        return self.state in ACTIVE

    @property
    def is_ended(self) -> bool:
        """Whether it ended; it can be resumed from its last checkpoint."""
        return self.state in ENDED

    @property
    def total_steps(self) -> int:
        """Steps its config asks for."""
        return self.config["train"]["steps"]

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one optimiser step."""
        return self.config["train"]["global_batch_size"] * self.config["data"]["sequence_length"]


class Attempt(models.Model):
    """One start of a run on a gang of nodes."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    resume_step = models.BigIntegerField(null=True, blank=True, help_text="Checkpoint it was told to go on from.")
    from_step = models.BigIntegerField(null=True, blank=True, help_text="Step it went on from, as the trainer said.")
    last_step = models.BigIntegerField(null=True, blank=True, help_text="Newest step it told of.")
    held_from = models.DateTimeField(
        null=True, blank=True, help_text="When it was given its nodes; empty while it waits for them in a batch system."
    )
    stepped_from = models.DateTimeField(null=True, blank=True, help_text="When it told of its first step.")
    stepped_until = models.DateTimeField(null=True, blank=True, help_text="When it told of its newest step.")
    reported = models.CharField(max_length=16, blank=True, choices=Outcome, help_text="What the trainer said last.")
    outcome = models.CharField(max_length=16, blank=True, choices=Outcome)
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["run", "number"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="attempt_number_once"),
            models.UniqueConstraint(fields=["run"], condition=Q(ended_at=None), name="one_open_attempt_per_run"),
        ]

    def __str__(self) -> str:
        return f"{self.run} attempt {self.number}"

    @property
    def num_devices(self) -> int:
        """Devices it holds: one for each process its config asks for."""
        parallel = self.run.config["parallel"]
        return parallel["nodes"] * parallel["processes_per_node"]

    @property
    def held_seconds(self) -> float:
        """Device-seconds it has held its nodes."""
        if self.held_from is None:
            return 0.0
        return ((self.ended_at or timezone.now()) - self.held_from).total_seconds() * self.num_devices

    @property
    def stepping_seconds(self) -> float:
        """Device-seconds from its first step to its newest."""
        if self.stepped_from is None or self.stepped_until is None:
            return 0.0
        return (self.stepped_until - self.stepped_from).total_seconds() * self.num_devices

    def lost_seconds(self, next_from: int) -> float:
        """Device-seconds of the steps that the next attempt, which goes on from `next_from`, does again."""
        done = (self.last_step or 0) - (self.from_step or 0)
        lost = (self.last_step or 0) - max(next_from, self.from_step or 0)
        return self.stepping_seconds * lost / done if 0 < lost <= done else 0.0


class Placement(models.Model):
    """An attempt's share of one node: the processes that node was asked to start; a gateway starts those of all."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="placements")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="placements")
    slot = models.PositiveIntegerField(default=0, help_text="Which of a gateway's slots it holds.")
    rank = models.PositiveIntegerField(help_text="Node rank within the attempt.")
    started_at = models.DateTimeField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True, help_text="Negative for a signal.")
    drained_at = models.DateTimeField(null=True, blank=True, help_text="When its last journal line was in Postgres.")
    cleared_at = models.DateTimeField(null=True, blank=True, help_text="When the deleted run's folder left this node.")
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "rank"], name="placement_rank_once"),
            models.UniqueConstraint(
                fields=["node", "slot"], condition=Q(ended_at=None), name="one_open_placement_per_slot"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.attempt} on {self.node}"


class Event(models.Model):
    """Something that happened to a run, for its timeline."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    attempt = models.PositiveIntegerField(null=True, blank=True)
    step = models.BigIntegerField(null=True, blank=True)
    time = models.DateTimeField()
    name = models.CharField(max_length=60)
    text = models.TextField()
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    data = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["run", "id"]
        indexes = [models.Index(fields=["run", "id"])]

    def __str__(self) -> str:
        return f"{self.time:%Y-%m-%dT%H:%M:%SZ} {self.name}: {self.text}"
