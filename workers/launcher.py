"""Start a trainer on this machine, find it again after our own death, and end it.

A small shell stands over each trainer. Before the trainer it writes down its own number, its birth and this boot, and
after it the exit code: so a trainer that lives is always known, and its end too, even when nobody was there to wait.
All processes of a trainer carry the name of that exit file in their environment, wherever torchrun puts them.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from zaya_model.errors import ZayaError
from zaya_model.presets import build, to_toml

if TYPE_CHECKING:
    # For its name alone: trainers are also ended where Django was never set up.
    from webapp.runs.models import Placement

_MARK = "ZAYABOARD_EXIT_FILE"
_SHELL = """
trap : TERM
born() { shift 21; echo $1; }
printf '{"pid": %s, "born": %s, "boot": "%s"}' $$ "$(born $(cat /proc/$$/stat))" "$(cat $BOOT_ID)" > "$RECORD.new" &&
mv "$RECORD.new" "$RECORD" || exit 1
"$@"
code=$?
echo $code > "$ZAYABOARD_EXIT_FILE.new" && mv "$ZAYABOARD_EXIT_FILE.new" "$ZAYABOARD_EXIT_FILE"
"""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_RECORD_PATIENCE = 10.0
_START_PATIENCE = timedelta(seconds=30)
_KILL_ROUNDS = 3
_RENDEZVOUS_PORT = 29_400
_NOT_FOR_TRAINERS = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")
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


def place_of(placement: "Placement", runs_dir: Path) -> Place:
    """Where on this machine a placement's files are."""
    return Place(runs_dir / str(placement.attempt.run_id), placement.attempt.number, placement.rank)


def never_began(placement: "Placement") -> bool:
    """Whether a start that was claimed is overdue: whoever claimed it died before it wrote anything down."""
    return placement.started_at is not None and timezone.now() - placement.started_at > _START_PATIENCE


@dataclass(frozen=True)
class Trainer:
    """A trainer that was started, alive or not."""

    place: Place
    pid: int
    born: int
    boot: str

    @property
    def is_watched(self) -> bool:
        """Whether its shell is still there: that very process, not another one with its number."""
        if (child := _CHILDREN.get(self.pid)) is not None and child.poll() is not None:
            del _CHILDREN[self.pid]
        return self.boot == _BOOT_ID.read_text().strip() and _birth(self.pid) == self.born

    @property
    def is_alive(self) -> bool:
        """Whether any process of it is still there."""
        return self.is_watched or self.place in running()

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
        """Signal every process of it, wherever torchrun put it; SIGKILL also those it starts meanwhile."""
        for _ in range(_KILL_ROUNDS if number == signal.SIGKILL else 1):
            for pid in running().get(self.place, ()):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)


def beginning(placement: "Placement", runs_dir: Path) -> list[str]:
    """The flags that say from which checkpoint to go on; none for a first attempt, which has nothing to go on from."""
    attempt, run = placement.attempt, placement.attempt.run
    flags = []
    if attempt.resume_step is not None:
        flags += ["--resume", str(attempt.resume_step)]
    elif attempt.number > 1:
        flags += ["--resume"]
    if run.parent_id is not None:
        flags += ["--from", str(runs_dir / str(run.parent_id) / "checkpoints" / f"step-{run.parent_step:08d}")]
    return flags


def start(
    place: Place, config: Mapping[str, Any], *, first_node: str = "127.0.0.1", flags: Sequence[str] = ()
) -> Trainer:
    """Start a trainer in a session of its own. Raises LaunchError with what to do."""
    try:
        for folder in (place.record, place.log):
            folder.parent.mkdir(parents=True, exist_ok=True)
        place.stop_file.unlink(missing_ok=True)
        config_file = _write_config(place, config)
        with place.log.open("ab") as log:
            process = subprocess.Popen(
                ["sh", "-c", _SHELL, "sh", *command(place, config, config_file, first_node=first_node), *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(place, config),
            )
    except OSError as error:
        raise LaunchError(
            f"The trainer could not be started: {error.strerror} ({error.filename or place.run_dir}). "
            "Check that the run folder can be written and the disk is not full."
        ) from error
    except ZayaError as error:
        raise LaunchError(f"The config cannot be used: {error}") from error
    _CHILDREN[process.pid] = process
    return _wait_for_record(place, process)


def _write_config(place: Place, config: Mapping[str, Any]) -> Path:
    """Whole or not at all: on a shared disk other nodes of the gang read it too."""
    file = place.run_dir / "config.toml"
    new = file.with_suffix(f".{place.node_rank}.new")
    new.write_text(to_toml(build(config)))
    return new.replace(file)


def _wait_for_record(place: Place, process: subprocess.Popen) -> Trainer:
    deadline = time.monotonic() + _RECORD_PATIENCE
    while time.monotonic() < deadline:
        is_over = process.poll() is not None
        if trainer := find(place):
            return trainer
        if is_over:
            break
        time.sleep(0.002)
    raise LaunchError(
        f"The trainer could not be started: {place.record} was not written. Check that the disk is not full."
    )


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
    return [*launcher, *verb, "--attempt", str(place.attempt)]


def running() -> dict[Place, list[int]]:
    """Every trainer with a process on this machine that may be looked into, and those processes."""
    found: dict[Place, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            for word in (folder / "environ").read_bytes().split(b"\0"):
                name, _, value = word.partition(b"=")
                if name == _MARK.encode() and (place := _place_of(Path(os.fsdecode(value)))):
                    found.setdefault(place, []).append(int(folder.name))
    return found


def _place_of(exit_file: Path) -> Place | None:
    """Undo `Place.exit_file`; None for a name it never gives."""
    match exit_file.stem.split("-"):
        case ["attempt", attempt, "node", rank] if attempt.isdecimal() and rank.isdecimal():
            return Place(exit_file.parents[1], int(attempt), int(rank))
    return None


def _birth(pid: int) -> int | None:
    """Clock ticks from boot to its start; None for a process that is gone, or dead and not waited for."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if after_name[0] in "ZX" else int(after_name[19])


def _environment(place: Place, config: Mapping[str, Any]) -> dict[str, str]:
    threads = max(1, (os.cpu_count() or 1) // config["parallel"]["processes_per_node"])
    ours = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_TRAINERS}
    for_shell = {_MARK: str(place.exit_file), "RECORD": str(place.record), "BOOT_ID": str(_BOOT_ID)}
    return {"OMP_NUM_THREADS": str(threads), **ours, **for_shell, "PYTHONUNBUFFERED": "1"}
