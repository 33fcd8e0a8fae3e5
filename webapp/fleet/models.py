"""Nodes that train, and the services that must be alive."""

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone


def lease_start() -> "timezone.datetime":
    """Whoever was last heard of before this moment has lost its lease."""
    return timezone.now() - timedelta(seconds=settings.LEASE_SECONDS)


class Node(models.Model):
    """One machine with a node worker on it; or a gateway, which hands whole runs on as jobs of a batch system."""

    name = models.CharField(max_length=200, unique=True)
    is_draining = models.BooleanField(default=False, help_text="Gets no new runs; those it has may end.")
    is_leaving = models.BooleanField(default=False, help_text="Its worker is shutting down; gets no new runs.")
    last_seen_at = models.DateTimeField(null=True, blank=True)
    num_devices = models.PositiveIntegerField(default=0, help_text="GPUs; 0 trains on the CPU.")
    device_name = models.CharField(max_length=200, blank=True)
    memory_bytes = models.BigIntegerField(default=0)
    num_cores = models.PositiveIntegerField(default=0)
    slots = models.PositiveIntegerField(
        default=0, help_text="Whole runs a gateway holds at once; 0: a machine, which holds one node's part of one run."
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_gateway(self) -> bool:
        """Whether it holds whole runs, of any number of nodes."""
        return self.slots > 0

    @property
    def is_alive(self) -> bool:
        """Whether it was heard of within its lease."""
        return self.last_seen_at is not None and self.last_seen_at >= lease_start()


class Service(models.Model):
    """A process that says it is alive: the scheduler, for one."""

    name = models.CharField(max_length=100, unique=True)
    last_seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name

    @property
    def is_alive(self) -> bool:
        """Whether it was heard of within its lease."""
        return self.last_seen_at >= lease_start()
