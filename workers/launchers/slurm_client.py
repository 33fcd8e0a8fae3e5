"""Talk to Slurm: hand a job in, end it, and hear of all of our jobs at once; and know when nobody answers."""

import hashlib
import logging
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workers.launchers.command import environment
from workers.launchers.place import Place
from zaya_model.errors import ZayaError

log = logging.getLogger(__name__)

ASK_EVERY_SECONDS = 2.0
# Slurm's own clients give up after nine.
_PATIENCE = 15.0
_SECONDS_BETWEEN_CANCELS = 5.0
_OVER = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
}  # fmt: skip
_NOT_REACHED = ("unable to contact", "temporarily unable", "munge", "authentication")
_NOT_ANSWERED = ("timed out", "zero bytes", "connection", "transport endpoint", "communication")


class NotReached(ZayaError):
    """Slurm did not hear what was asked."""


class NotAnswered(ZayaError):
    """Slurm may have done what was asked, or not."""


class Refused(ZayaError):
    """Slurm said no; the message is its own."""


@dataclass(frozen=True)
class Job:
    """A job as Slurm tells of it."""

    number: int
    state: str
    reason: str
    nodes: str

    @property
    def is_over(self) -> bool:
        """Whether nothing of it will happen any more."""
        return self.state in _OVER


@dataclass(frozen=True)
class Answer:
    """What Slurm knew, and when it was asked, in seconds since 1970."""

    asked_at: float = 0.0
    jobs: Mapping[str, Job] = field(default_factory=dict)


class SlurmClient:
    """Slurm as seen from one folder of runs, whose jobs have names of their own."""

    def __init__(self, runs_dir: Path) -> None:
        self._prefix = f"zayaboard-{hashlib.sha256(bytes(runs_dir)).hexdigest()[:8]}"
        self.runs_dir = runs_dir
        self.answer = Answer()
        self.trouble = ""
        self._cancelled_at: dict[tuple[str, ...], float] = {}

    def name_of(self, place: Place) -> str:
        """The name by which a job is found again, whatever was lost of it here."""
        return f"{self._prefix}-{place.run_dir.name}-{place.attempt}"

    def place_of(self, name: str) -> Place:
        """Undo `name_of`."""
        run, attempt = name.removeprefix(f"{self._prefix}-").split("-")
        return Place(self.runs_dir / run, int(attempt), 0)

    @property
    def is_reached(self) -> bool:
        """Whether Slurm answered when it was asked last."""
        return self.answer.asked_at > 0.0 and not self.trouble

    def has_answered_since(self, moment: float) -> bool:
        """Whether Slurm was asked after this moment, and answered."""
        return self.answer.asked_at > moment

    def ask(self) -> None:
        """Hear of all our jobs; those that ended are still told of for some minutes."""
        asked_at = time.time()
        try:
            told = _call("squeue", "--me", "--noheader", "--states=all", "--format=%i|%T|%r|%N|%j")
        except ZayaError as error:
            if self.trouble != str(error):
                log.warning("slurm does not answer, is asked again: %s", error)
            self.trouble = str(error)
            return
        jobs = {}
        for line in told.splitlines():
            number, state, reason, nodes, name = line.split("|", 4)
            if name.startswith(f"{self._prefix}-"):
                jobs[name] = Job(int(number), state, reason, nodes)
        self.answer, self.trouble = Answer(asked_at, jobs), ""

    def submit(self, script: Path) -> int:
        """Hand a job in; returns its number. Raises NotReached, NotAnswered, Refused."""
        return int(self._tell("sbatch", "--parsable", str(script)).split(";")[0])

    def cancel(self, name: str, *flags: str) -> None:
        """Ask Slurm to end or signal a job; once in a while, however often it is called."""
        last = self._cancelled_at.get((name, *flags), 0.0)
        if self.trouble or time.monotonic() - last < _SECONDS_BETWEEN_CANCELS:
            return
        self._cancelled_at[name, *flags] = time.monotonic()
        try:
            self._tell("scancel", *flags, f"--name={name}")
        except ZayaError as error:
            log.warning("scancel of %s failed, is tried again: %s", name, error)

    def _tell(self, program: str, *flags: str) -> str:
        """One silence is enough: nothing else is tried until Slurm answers again, so that nobody waits for long."""
        try:
            return _call(program, *flags)
        except (NotReached, NotAnswered) as error:
            self.trouble = str(error)
            raise


def _call(program: str, *flags: str) -> str:
    try:
        done = subprocess.run(
            [program, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE,
            env=environment(), check=False,
        )  # fmt: skip
    except OSError as error:
        raise NotReached(f"{program} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise NotAnswered(f"{program} took more than {_PATIENCE:.0f} s") from error
    if done.returncode == 0:
        return done.stdout
    lines = [line.removeprefix(f"{program}: ").removeprefix("error: ") for line in done.stderr.splitlines()]
    said = "; ".join(line for line in lines if line and not line.startswith("Try "))
    if any(word in said.lower() for word in _NOT_REACHED):
        raise NotReached(said)
    if any(word in said.lower() for word in _NOT_ANSWERED):
        raise NotAnswered(said)
    raise Refused(said)
