"""Start a trainer on this machine, find it again after our own death, and end it.

A small shell stands over each trainer. Before the trainer it writes down its own number, its birth and this boot, and
after it the exit code: so a trainer that lives is always known, and its end too, even when nobody was there to wait.
All processes of a trainer carry the name of that exit file in their environment, wherever torchrun puts them.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.launchers.command import command, environment, make_folder
from workers.launchers.interface import Launcher, LaunchError, Trainer, explained
from workers.launchers.place import Place

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
_KILL_ROUNDS = 3
# Those we are the parents of must be waited for, or they stay as zombies.
_CHILDREN: dict[int, subprocess.Popen] = {}


@dataclass(frozen=True)
class ProcessTrainer(Trainer):
    """A trainer of this machine."""

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
        """How it ended; its shell was killed too when it left no code."""
        code = self.place.exit_code
        return -int(signal.SIGKILL) if code is None else code

    def kill(self, number: signal.Signals) -> None:
        """Signal every process of it, wherever torchrun put it; SIGKILL also those it starts meanwhile."""
        for _ in range(_KILL_ROUNDS if number == signal.SIGKILL else 1):
            for pid in running().get(self.place, ()):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)


class Processes(Launcher):
    """Trainers of this machine."""

    def start(
        self, place: Place, config: Mapping[str, Any], *, first_node: str = "127.0.0.1", flags: Sequence[str] = ()
    ) -> ProcessTrainer:
        """Start a trainer in a session of its own."""
        with explained(place):
            config_file = make_folder(place, config)
            with place.log.open("ab") as log:
                process = subprocess.Popen(
                    ["sh", "-c", _SHELL, "sh", *command(place, config, config_file, first_node=first_node), *flags],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=_environment(place, config),
                )
        _CHILDREN[process.pid] = process
        return _wait_for_record(place, process)

    def find(self, place: Place) -> ProcessTrainer | None:
        return find(place)

    def alive(self) -> list[Trainer]:
        ours = (place for place in running() if place.run_dir.parent == self.runs_dir)
        return [trainer for place in ours if (trainer := find(place))]


def _wait_for_record(place: Place, process: subprocess.Popen) -> ProcessTrainer:
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


def find(place: Place) -> ProcessTrainer | None:
    """The trainer that was started here, or None if none ever was."""
    try:
        return ProcessTrainer(place, **json.loads(place.record.read_text()))
    except (OSError, ValueError, TypeError):
        return None


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
    for_shell = {_MARK: str(place.exit_file), "RECORD": str(place.record), "BOOT_ID": str(_BOOT_ID)}
    return {"OMP_NUM_THREADS": str(threads), **environment(), **for_shell}
