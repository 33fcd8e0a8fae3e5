"""Start the node's agent and its shipper with the Celery worker that listens to the node's queue; stop them with it."""

import time
from functools import partial
from typing import Any

from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.conf import settings

from webapp import messages
from workers.janitor import sweep
from workers.launchers.interface import Launcher
from workers.launchers.processes import Processes
from workers.launchers.slurm import Slurm
from workers.launchers.slurm_client import ASK_EVERY_SECONDS
from workers.loop import Loop
from workers.node import Agent
from workers.shipper import Shipper

_loops: list[Loop] = []
_agent: Agent | None = None


def wake() -> None:
    """Let agent and shipper look now."""
    for loop in _loops:
        loop.wake()


@worker_ready.connect
def start(sender: Any, **_: object) -> None:
    """Begin, if this worker is a node's."""
    global _agent
    if messages.node_queue(settings.NODE_NAME) not in sender.app.amqp.queues.consume_from:
        return
    launcher, extra = _launcher()
    _agent = Agent(settings.NODE_NAME, launcher)
    shipper = Shipper(settings.NODE_NAME, launcher)
    _loops[:] = [
        Loop("node agent", _agent.tick, 0.5),
        Loop("shipper", shipper.tick, 0.15),
        Loop("janitor", partial(sweep, settings.NODE_NAME, settings.RUNS_DIR), 5.0),
        *extra,
    ]
    for loop in _loops:
        loop.start()


def _launcher() -> tuple[Launcher, list[Loop]]:
    """The launcher of this node's choice, and what it needs beside."""
    if settings.LAUNCHER == "processes":
        return Processes(settings.RUNS_DIR), []
    slurm = Slurm(settings.RUNS_DIR, slots=settings.SLURM_SLOTS, options=settings.SLURM_OPTIONS)
    return slurm, [Loop("slurm", slurm.client.ask, ASK_EVERY_SECONDS)]


@worker_shutting_down.connect
def leave(**_: object) -> None:
    """Ask every trainer of this node to save and end."""
    if _agent is not None:
        _agent.is_leaving = True
        wake()


@worker_shutdown.connect
def end(**_: object) -> None:
    """Wait until all of them are gone and reported, then stop looking."""
    if _agent is None:
        return
    deadline = time.monotonic() + _agent.longest_grace() + 30.0
    while _agent.is_busy and time.monotonic() < deadline:
        wake()
        time.sleep(0.1)
    for loop in _loops:
        loop.stop(timeout=5.0)
