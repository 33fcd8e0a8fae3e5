"""One node's agent: says it is alive, starts what was placed here, stops what was asked to, reports what ended."""

import logging
import signal
import time

import psutil
from django.conf import settings

from webapp.fleet.services import Machine, node_heartbeat, register_node
from webapp.metrics.selectors import last_words
from webapp.runs import services
from webapp.runs.models import Placement, RunState
from webapp.runs.selectors import node_placements
from workers.launchers.command import beginning
from workers.launchers.interface import Launcher, LaunchError, Trainer
from workers.launchers.place import Place, never_began, place_of
from workers.telemetry import find_gpus

log = logging.getLogger(__name__)

_SECONDS_FROM_TERM_TO_KILL = 10.0


class Agent:
    """Looks at the rows and makes this machine follow them; keeps nothing that the rows and files do not hold."""

    def __init__(self, name: str, launcher: Launcher) -> None:
        self.name, self.runs_dir, self.launcher = name, launcher.runs_dir, launcher
        self.is_leaving = False
        self.is_busy = False
        self._heard_at = 0.0
        self._is_registered = self._has_ended_orphans = False
        self._asked_at: dict[int, float] = {}
        self._alive: dict[int, Trainer] = {}
        self._troubled: set[int] = set()

    def tick(self) -> None:
        """Look once."""
        self._say_alive()
        self._end_orphans()
        placements = list(node_placements(self.name))
        for placement in placements:
            self._follow(placement)
        self._end_strays({placement.pk for placement in placements})
        self.is_busy = node_placements(self.name).exists()

    def longest_grace(self) -> float:
        """Seconds the slowest trainer here may take to save."""
        runs = [placement.attempt.run for placement in node_placements(self.name)]
        return max((_grace(run.config) for run in runs), default=0.0)

    def _say_alive(self) -> None:
        if not self._is_registered:
            gpus = find_gpus()
            register_node(
                self.name,
                Machine(
                    num_cores=psutil.cpu_count() or 1,
                    memory_bytes=psutil.virtual_memory().total,
                    num_devices=len(gpus),
                    device_name=gpus[0] if gpus else "",
                    slots=self.launcher.slots,
                ),
            )
            self._is_registered = True
        elif time.monotonic() - self._heard_at < settings.LEASE_SECONDS / 6 and not self.is_leaving:
            return
        node_heartbeat(self.name, is_leaving=self.is_leaving)
        self._heard_at = time.monotonic()

    def _follow(self, placement: Placement) -> None:
        place = place_of(placement, self.runs_dir)
        trainer = self.launcher.find(place)
        if placement.started_at is None:
            self._begin(placement, place)
        elif trainer is None:
            if never_began(placement) and self._should_stop(placement):
                services.cancel_start(placement)
            elif never_began(placement):
                services.placement_exited(placement, exit_code=-int(signal.SIGKILL), last_words="it never started")
        elif trainer.is_alive:
            self._alive[placement.pk] = trainer
            if not trainer.is_watched or _is_lost(placement):
                # Without its shell its end would go unseen; without the rest of its gang it only waits.
                trainer.kill(signal.SIGKILL)
            elif self._should_stop(placement):
                self._stop(placement, trainer)
            else:
                self._tend(placement, trainer)
        elif placement.drained_at is not None:
            self._report_end(placement, trainer)

    def _begin(self, placement: Placement, place: Place) -> None:
        run = placement.attempt.run
        if self._should_stop(placement):
            services.cancel_start(placement)
            return
        if not services.placement_started(placement):
            return
        try:
            flags = beginning(placement, self.runs_dir)
            self.launcher.start(place, run.config, first_node=_first_node(placement), flags=flags)
        except LaunchError as error:
            services.fail_run(run, str(error))

    def _tend(self, placement: Placement, trainer: Trainer) -> None:
        """Let it come to be, and say what it waits for."""
        run, trouble = placement.attempt.run, trainer.trouble
        try:
            trainer.tend()
        except LaunchError as error:
            services.fail_run(run, str(error))
            return
        if placement.attempt.held_from is None and not trainer.is_waiting:
            services.nodes_given(placement.attempt, trainer.status)
        if run.state == RunState.STARTING:
            if text := trouble or trainer.status:
                services.explain_start(run, text)
        elif trouble and placement.pk not in self._troubled:
            services.note(run, placement.attempt, "unknown", trouble)
        (self._troubled.add if trouble else self._troubled.discard)(placement.pk)

    def _report_end(self, placement: Placement, trainer: Trainer) -> None:
        if trainer.never_began and placement.pk in self._asked_at:
            services.cancel_start(placement)
            return
        words = last_words(placement.attempt.run)
        services.placement_exited(placement, exit_code=trainer.exit_code, cause=trainer.cause, last_words=words)

    def _should_stop(self, placement: Placement) -> bool:
        run = placement.attempt.run
        return self.is_leaving or run.is_yielding or run.state == RunState.STOPPING or _is_lost(placement)

    def _stop(self, placement: Placement, trainer: Trainer) -> None:
        """Ask first; after the grace time of the config, insist."""
        asked = self._asked_at.setdefault(placement.pk, time.monotonic())
        trainer.ask_to_stop()
        overdue = time.monotonic() - asked - _grace(placement.attempt.run.config)
        if overdue > _SECONDS_FROM_TERM_TO_KILL:
            trainer.kill(signal.SIGKILL)
        elif overdue > 0:
            trainer.kill(signal.SIGTERM)

    def _end_strays(self, open_ids: set[int]) -> None:
        """Kill trainers whose placement was taken from this node; they must not write on."""
        for gone in self._alive.keys() - open_ids:
            self._alive[gone].kill(signal.SIGKILL)
            if not self._alive[gone].is_alive:
                del self._alive[gone]
            self._asked_at.pop(gone, None)
            self._troubled.discard(gone)

    def _end_orphans(self) -> None:
        """Once: kill trainers of attempts that ended while this node was not heard of; they must not write on."""
        if self._has_ended_orphans or (alive := self.launcher.alive()) is None:
            return
        self._has_ended_orphans = True
        open_placements = Placement.objects.filter(ended_at=None).select_related("attempt")
        ours = {place_of(placement, self.runs_dir) for placement in open_placements}
        for trainer in alive:
            if (place := trainer.place) not in ours:
                log.warning("kills a trainer of run %s whose attempt %s ended", place.run_dir.name, place.attempt)
                trainer.kill(signal.SIGKILL)


def _is_lost(placement: Placement) -> bool:
    """Whether its attempt is over, or another node's part of it failed."""
    attempt = placement.attempt
    failed = attempt.placements.exclude(exit_code=None).exclude(exit_code=0)
    return attempt.ended_at is not None or failed.exists()


def _grace(config: dict) -> float:
    return config["recovery"]["stop_grace_seconds"]


def _first_node(placement: Placement) -> str:
    first = placement.attempt.placements.select_related("node").get(rank=0)
    return first.node.name
