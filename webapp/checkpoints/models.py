"""Checkpoint: what the trainer said of each one it wrote."""

from django.db import models

from webapp.runs.models import Run


class CheckpointStatus(models.TextChoices):
    """How far a checkpoint can be trusted."""

    SAVING = "saving", "Saving"
    DURABLE = "durable", "Durable"
    VERIFIED = "verified", "Verified"
    FAILED = "failed", "Failed"
    REMOVED = "removed", "Removed"


USABLE = (CheckpointStatus.DURABLE, CheckpointStatus.VERIFIED)


class Checkpoint(models.Model):
    """The state of a run at one step, in one folder."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checkpoints")
    step = models.BigIntegerField()
    attempt = models.PositiveIntegerField()
    status = models.CharField(max_length=16, choices=CheckpointStatus)
    path = models.CharField(max_length=500, help_text="Below the run's folder.")
    bytes = models.BigIntegerField(null=True, blank=True)
    seconds = models.FloatField(null=True, blank=True, help_text="From the snapshot to the last byte on disk.")
    stall_seconds = models.FloatField(null=True, blank=True, help_text="Time the training stood still.")
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        ordering = ["-step"]
        constraints = [models.UniqueConstraint(fields=["run", "step"], name="checkpoint_step_once")]

    def __str__(self) -> str:
        return f"{self.run_id} step {self.step} {self.status}"

    @property
    def is_usable(self) -> bool:
        """Whether a run can go on from it."""
        return self.status in USABLE
