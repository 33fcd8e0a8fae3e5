"""What the node's agent asks of any launcher: start a trainer, find it again, say how it is, end it."""

import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workers.launchers.place import Place
from zaya_model.errors import ConfigError, ZayaError


class LaunchError(ZayaError):
    """A trainer that could not be started; the message is for the run's page."""


@contextmanager
def explained(place: Place) -> Iterator[None]:
    """Make what can go wrong with folders and configs a LaunchError."""
    try:
        yield
    except OSError as error:
        raise LaunchError(
            f"The trainer could not be started: {error.strerror} ({error.filename or place.run_dir}). "
            "Check that the run folder can be written and the disk is not full."
        ) from error
    except ConfigError as error:
        raise LaunchError(f"The config cannot be used: {error}") from error


class Trainer(ABC):
    """A trainer that was started, alive or not."""

    place: Place
    # Whether somebody will note how it ends.
    is_watched: bool = True

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether any process of it is still there."""

    @property
    @abstractmethod
    def exit_code(self) -> int:
        """How it ended, negative for a signal."""

    @property
    def never_began(self) -> bool:
        """Whether it ended before any process of it was started."""
        return False

    @property
    def cause(self) -> str:
        """A sentence on who ended it, when that was neither itself nor we."""
        return ""

    @property
    def is_waiting(self) -> bool:
        """Whether it has no machine yet."""
        return False

    @property
    def status(self) -> str:
        """A sentence on what it waits for before it begins."""
        return ""

    @property
    def trouble(self) -> str:
        """A sentence on what keeps us from knowing how it is."""
        return ""

    def tend(self) -> None:  # noqa: B027
        """Do what is still to be done for it to come to be, if anything. Raises LaunchError."""

    def ask_to_stop(self) -> None:
        """Let it save a checkpoint and end."""
        self.place.stop_file.touch()

    @abstractmethod
    def kill(self, number: signal.Signals) -> None:
        """Signal every process of it."""


class Launcher(ABC):
    """Starts trainers and finds them again, also those that another process of ours started before it died."""

    # Whole runs it takes at once; 0 for one that starts a node's part of one.
    slots: int = 0

    def __init__(self, runs_dir: Path) -> None:
        self.runs_dir = runs_dir

    @abstractmethod
    def start(self, place: Place, config: Mapping[str, Any], *, first_node: str, flags: Sequence[str]) -> Trainer:
        """Start a trainer; several nodes of one meet at the first. Raises LaunchError with what to do."""

    @abstractmethod
    def find(self, place: Place) -> Trainer | None:
        """The trainer that was started here, or None if none ever was."""

    @abstractmethod
    def alive(self) -> list[Trainer] | None:
        """Every trainer that lives below its folder of runs, of whatever attempt; None where that is not known yet."""
