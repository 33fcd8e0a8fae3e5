"""Carry a node's journals and logs into Postgres, until all they will ever hold is there."""

import logging
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from django.db import transaction
from django.utils import timezone

from webapp import messages
from webapp.ingest import services as ingest
from webapp.ingest.services import Take, take_output, take_records
from webapp.runs import services as runs
from webapp.runs import states
from webapp.runs.models import Attempt, Placement
from workers.launchers.interface import Launcher
from workers.launchers.place import Place, never_began, place_of, places_of
from zaya_model.journal import journal_path

_take_launcher_output = partial(take_output, source="launcher")
log = logging.getLogger(__name__)


class Shipper:
    """Follows the files of what was started on this node, until all they will ever hold is in Postgres."""

    def __init__(self, node_name: str, launcher: Launcher) -> None:
        self.node_name, self.runs_dir, self.launcher = node_name, launcher.runs_dir, launcher
        self._read_up_to: dict[Path, int] = {}
        self._unreadable: set[Place] = set()

    def tick(self) -> None:
        """Ship all there is; also of attempts that ended without us, for nothing written may be lost."""
        started = Placement.objects.filter(node__name=self.node_name, drained_at=None, attempt__run__deleted_at=None)
        started = started.exclude(started_at=None)
        for placement in started.select_related("attempt__run", "node"):
            attempt = placement.attempt
            place = place_of(placement, self.runs_dir)
            # Asked before reading: what a dead trainer wrote is all there.
            is_over = has_ended(self.launcher, place, placement)
            try:
                for part in places_of(placement, self.runs_dir):
                    self.ship(part, attempt, is_over=is_over)
            except OSError as error:
                self._tell_unreadable(place, attempt, error)
                continue
            self._unreadable.discard(place)
            if is_over:
                Placement.objects.filter(pk=placement.pk).update(drained_at=timezone.now())
        self._ship_for_the_lost()

    def _tell_unreadable(self, place: Place, attempt: Attempt, error: OSError) -> None:
        """Say once on the run's timeline that its files cannot be read; they are tried again all the time."""
        if place in self._unreadable:
            return
        self._unreadable.add(place)
        log.warning("run %s waits for its files: %s", attempt.run_id, error)
        text = f"{error.filename or place.run_dir} cannot be read on {self.node_name}: {error.strerror}. Tried again."
        record = {"name": "unreadable", "text": text, "step": attempt.run.step, "time": timezone.now()}
        with transaction.atomic():
            runs.record_event(states.lock_run(attempt.run_id), attempt, record)
        messages.publish(attempt.run_id, {"events"})

    def _ship_for_the_lost(self) -> None:
        """On a shared disk, ship what lost nodes left of the runs that go on here; they may never come back."""
        here = Placement.objects.filter(node__name=self.node_name, ended_at=None).values("attempt__run")
        left = Placement.objects.filter(attempt__run__in=here, drained_at=None).exclude(ended_at=None)
        for placement in left.exclude(node__name=self.node_name).select_related("attempt__run", "node"):
            for part in places_of(placement, self.runs_dir):
                with suppress(OSError):
                    self.ship(part, placement.attempt, is_over=False)

    def ship(self, place: Place, attempt: Attempt, *, is_over: bool) -> None:
        """Ship the files of one node's part up to their ends; of a log that is over, its unended last line too."""
        files = [(journal_path(place.run_dir, place.attempt, place.node_rank), take_records), (place.log, take_output)]
        if place.node_rank == 0:
            files.insert(0, (place.launcher_log, _take_launcher_output))
        for path, take in files:
            while self._ship_some(path, attempt, take, is_over=is_over):
                pass

    def _ship_some(self, path: Path, attempt: Attempt, take: Take, *, is_over: bool) -> bool:
        with_tail = is_over and take is not take_records
        try:
            size = _size(path, is_over=is_over)
        except FileNotFoundError:
            return False
        # A quiet file costs no more than this.
        if size == self._read_up_to.get(path) and not with_tail:
            return False
        has_taken = ingest.take_some(path, attempt, take, tail_to=size if with_tail else 0)
        if not has_taken:
            self._read_up_to[path] = size
        return has_taken


def _size(path: Path, *, is_over: bool) -> int:
    """Bytes of a file; of one that is over, as its server has it: a network disk's stat may be a minute old."""
    if not is_over:
        return path.stat().st_size
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size


def has_ended(launcher: Launcher, place: Place, placement: Placement) -> bool:
    """Whether the trainer is gone, or was claimed long ago and never came to be."""
    trainer = launcher.find(place)
    if trainer is None:
        return never_began(placement)
    return not trainer.is_alive
