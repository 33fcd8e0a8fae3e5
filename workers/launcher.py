"""Start a trainer on this machine, find it again after our own death, and end it.

A small shell stands over each trainer and writes its exit code to a file, so that the code is known even when nobody
was there to wait. `processes/` in the run's folder holds a record of each start: process, its birth, this boot.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from zaya_model.errors import ZayaError
from zaya_model.presets import build, to_toml

_SHELL = 'trap : TERM; "$@"; code=$?; echo $code > "$EXIT_FILE.new"; mv "$EXIT_FILE.new" "$EXIT_FILE"'
_RENDEZVOUS_PORT = 29_400
# Those we are the parents of must be waited for, or they stay as zombies.
_CHILDREN: dict[int, subprocess.Popen] = {}


class LaunchError(ZayaError):
    """A trainer that could not be started; the message is for the run's page."""


@dataclass(frozen=True)
class Place:
    """Which part of which attempt, in which folder."""

    run_dir: Path
    attempt: int
    node_rank: int

    @property
    def name(self) -> str:
        """The stem all files of this part share."""
        return f"attempt-{self.attempt:04d}-node-{self.node_rank:04d}"

    @property
    def record(self) -> Path:
        return self.run_dir / "processes" / f"{self.name}.json"

    @property
    def exit_file(self) -> Path:
        return self.run_dir / "processes" / f"{self.name}.exit"

    @property
    def log(self) -> Path:
        return self.run_dir / "logs" / f"{self.name}.log"

    @property
    def stop_file(self) -> Path:
        return self.run_dir / "stop"


@dataclass(frozen=True)
class Trainer:
    """A trainer that was started, alive or not."""

    place: Place
    pid: int
    born: float
    boot: float

    @property
    def is_alive(self) -> bool:
        """Whether that very process is still there, not another one with its number."""
        if (child := _CHILDREN.get(self.pid)) is not None and child.poll() is not None:
            del _CHILDREN[self.pid]
        try:
            process = psutil.Process(self.pid)
            return abs(process.create_time() - self.born) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    @property
    def exit_code(self) -> int:
        """How it ended, negative for a signal; its shell was killed too when it left no code."""
        try:
            code = int(self.place.exit_file.read_text())
        except (OSError, ValueError):
            return -int(signal.SIGKILL)
        return 128 - code if code > 128 else code

    def ask_to_stop(self) -> None:
        """Let it save a checkpoint and end."""
        self.place.stop_file.touch()

    def kill(self, number: signal.Signals) -> None:
        """Signal every process of its group."""
        if self.is_alive:
            os.killpg(self.pid, number)


def start(place: Place, config: Mapping[str, Any], *, first_node: str = "127.0.0.1") -> Trainer:
    """Start a trainer in a session of its own. Raises LaunchError with what to do."""
    try:
        for folder in (place.record, place.log):
            folder.parent.mkdir(parents=True, exist_ok=True)
        place.stop_file.unlink(missing_ok=True)
        config_file = place.run_dir / "config.toml"
        config_file.write_text(to_toml(build(config)))
        with place.log.open("ab") as log:
            process = subprocess.Popen(
                ["sh", "-c", _SHELL, "sh", *command(place, config, config_file, first_node=first_node)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(place, config),
            )
        _CHILDREN[process.pid] = process
        born = psutil.Process(process.pid).create_time()
        record = {"pid": process.pid, "born": born, "boot": psutil.boot_time()}
        temporary = place.record.with_suffix(".new")
        temporary.write_text(json.dumps(record))
        temporary.replace(place.record)
    except OSError as error:
        raise LaunchError(
            f"The trainer could not be started: {error.strerror} ({error.filename or place.run_dir}). "
            "Check that the run folder can be written and the disk is not full."
        ) from error
    except ZayaError as error:
        raise LaunchError(f"The config cannot be used: {error}") from error
    return Trainer(place, **record)


def find(place: Place) -> Trainer | None:
    """The trainer that was started here, or None if none ever was."""
    try:
        return Trainer(place, **json.loads(place.record.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def command(place: Place, config: Mapping[str, Any], config_file: Path, *, first_node: str) -> list[str]:
    """The command one would type by hand; torchrun only where it has several processes to start."""
    nodes, processes = config["parallel"]["nodes"], config["parallel"]["processes_per_node"]
    launcher = [sys.executable]
    if nodes * processes > 1:
        launcher += ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", f"--nnodes={nodes}"]
        launcher += ["--standalone"] if nodes == 1 else [
            f"--node-rank={place.node_rank}", "--rdzv-backend=c10d",
            f"--rdzv-endpoint={first_node}:{_RENDEZVOUS_PORT}", f"--rdzv-id={place.run_dir.name}-{place.attempt}",
            f"--rdzv-conf=is_host={int(place.node_rank == 0)}",
        ]  # fmt: skip
    verb = ["-m", "zaya_model", "train", str(config_file), "--run-dir", str(place.run_dir)]
    return [*launcher, *verb, "--resume", "--attempt", str(place.attempt)]


def _environment(place: Place, config: Mapping[str, Any]) -> dict[str, str]:
    threads = max(1, (os.cpu_count() or 1) // config["parallel"]["processes_per_node"])
    return {"OMP_NUM_THREADS": str(threads), **os.environ, "EXIT_FILE": str(place.exit_file), "PYTHONUNBUFFERED": "1"}
