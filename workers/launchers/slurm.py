"""Start a run as one Slurm job, find it again after our own death, and end it.

Before the job is handed in a record says that it will be, and afterwards its number. A record without a number is a
job that Slurm may have or not: it is found by its name in what Slurm tells, or handed in again.
"""

import json
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from workers.launchers.command import make_folder
from workers.launchers.interface import Launcher, LaunchError, Trainer, explained
from workers.launchers.place import Place
from workers.launchers.slurm_client import Job, NotAnswered, NotReached, Refused, SlurmClient
from workers.launchers.slurm_script import batch_script

_SECONDS_UNTIL_IT_IS_NOT_THERE = 30.0
_SECONDS_FOR_THE_LAST_WORD = 10.0


@dataclass(frozen=True)
class Record:
    """What is known of a job that was to be handed in: when that was tried last, and its number once that is known."""

    tried_at: float | None = None
    job: int | None = None

    def write(self, file: Path) -> None:
        """Whole or not at all."""
        new = file.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)))
        new.replace(file)


@dataclass(frozen=True)
class SlurmTrainer(Trainer):
    """A trainer that is, was, or is to be a job of Slurm."""

    place: Place
    client: SlurmClient
    record: Record

    @property
    def name(self) -> str:
        """The name of its job."""
        return self.client.name_of(self.place)

    @property
    def job(self) -> Job | None:
        """What Slurm told of it last."""
        return self.client.answer.jobs.get(self.name)

    @property
    def is_alive(self) -> bool:
        if self.place.exit_code is not None:
            return self._may_slurm_say_more
        if job := self.job:
            return not job.is_over
        if self.record.job is None:
            return self.place.record.exists()
        return not self.client.has_answered_since(self.record.tried_at)

    @property
    def _may_slurm_say_more(self) -> bool:
        """Whether a job that wrote its exit code is soon told to be over, and by whom it was ended."""
        if (job := self.job) is None or job.is_over or self.client.trouble:
            return False
        return time.time() - self.place.ended_at < _SECONDS_FOR_THE_LAST_WORD

    @property
    def never_began(self) -> bool:
        return (job := self.job) is not None and job.is_over and not job.nodes

    @property
    def exit_code(self) -> int:
        if (code := self.place.exit_code) is not None:
            return code
        state = job.state if (job := self.job) else ""
        return {"COMPLETED": 0, "FAILED": 1}.get(state, -int(signal.SIGKILL))

    @property
    def cause(self) -> str:
        job, has_code = self.job, self.place.exit_code is not None
        if job is None:
            return "" if has_code else f"Slurm knows job {self.record.job} no longer, and it left no exit code."
        if not job.is_over or job.state == "COMPLETED" or (job.state == "FAILED" and has_code):
            return ""
        return f"Slurm ended job {job.number}: {job.state}{_in_brackets(job.reason)}."

    @property
    def is_waiting(self) -> bool:
        return (job := self.job) is None or job.state == "PENDING"

    @property
    def status(self) -> str:
        if (job := self.job) is None:
            return "Waits for Slurm to take its job."
        if self.is_waiting:
            return f"Slurm job {job.number} waits in the queue{_in_brackets(job.reason)}."
        return f"Slurm job {job.number} runs on {job.nodes}."

    @property
    def trouble(self) -> str:
        return f"Slurm does not answer and is asked again: {self.client.trouble}." if self.client.trouble else ""

    @property
    def _is_not_there(self) -> bool:
        """Whether Slurm surely does not have its job."""
        if self.record.job is not None or self.job is not None:
            return False
        tried_at = self.record.tried_at
        return tried_at is None or self.client.has_answered_since(tried_at + _SECONDS_UNTIL_IT_IS_NOT_THERE)

    def tend(self) -> None:
        """Note its job's number, or hand it in once more."""
        if self._is_not_there:
            self.hand_in()
        elif self.record.job is None and (job := self.job):
            replace(self.record, job=job.number).write(self.place.record)

    def hand_in(self) -> None:
        """Give the script to Slurm, unless it does not answer anyway. Raises LaunchError when it refuses."""
        if not self.client.is_reached:
            return
        Record(tried_at=time.time()).write(self.place.record)
        try:
            number = self.client.submit(_script_of(self.place))
        except NotAnswered:
            return
        except NotReached:
            Record().write(self.place.record)
        except Refused as error:
            self.place.record.unlink()
            raise LaunchError(f"Slurm refused the job: {error}. Check SLURM_OPTIONS of the gateway.") from error
        else:
            Record(time.time(), number).write(self.place.record)

    def ask_to_stop(self) -> None:
        """A job that waits is taken back; one that runs may save a checkpoint."""
        super().ask_to_stop()
        self._take_back()
        if self.job and self.is_waiting:
            self.client.cancel(self.name, "--state=PENDING")

    def kill(self, number: signal.Signals) -> None:
        """Signal its processes on all nodes, or end the job."""
        self._take_back()
        # With --full srun would hear it too, and kill them at once.
        self.client.cancel(self.name, *(["--signal=TERM"] if number == signal.SIGTERM else []))

    def _take_back(self) -> None:
        if self._is_not_there:
            self.place.record.unlink(missing_ok=True)


class Slurm(Launcher):
    """Runs as jobs of Slurm, so many at a time, each handed in with the operator's options."""

    def __init__(self, runs_dir: Path, *, slots: int, options: Sequence[str] = ()) -> None:
        super().__init__(runs_dir)
        self.slots, self.options = slots, options
        self.client = SlurmClient(runs_dir)

    def start(
        self, place: Place, config: Mapping[str, Any], *, first_node: str = "", flags: Sequence[str] = ()
    ) -> SlurmTrainer:
        """Hand a job in, or note that it is to be; Slurm says which node is the first."""
        with explained(place):
            config_file = make_folder(place, config)
            text = batch_script(
                place, config, config_file, name=self.client.name_of(place), options=self.options, flags=flags
            )
            _script_of(place).write_text(text)
            Record().write(place.record)
        trainer = SlurmTrainer(place, self.client, Record())
        trainer.hand_in()
        return trainer

    def find(self, place: Place) -> SlurmTrainer | None:
        try:
            return SlurmTrainer(place, self.client, Record(**json.loads(place.record.read_text())))
        except (OSError, ValueError, TypeError):
            return None

    def alive(self) -> list[Trainer] | None:
        if not self.client.is_reached:
            return None
        jobs = self.client.answer.jobs
        places = [self.client.place_of(name) for name, job in jobs.items() if not job.is_over]
        return [SlurmTrainer(place, self.client, Record(0.0)) for place in places]


def _script_of(place: Place) -> Path:
    return place.record.with_suffix(".sh")


def _in_brackets(reason: str) -> str:
    return "" if reason in ("", "None") else f" ({reason})"
