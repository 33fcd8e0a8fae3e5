"""What somebody wants of a running training: by a file in its folder, or by a signal."""

import signal
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Self


class Asked(IntEnum):
    """Nothing, an end, or an end because the machine is taken away."""

    NOTHING = 0
    STOP = 1
    PREEMPT = 2


_MEANINGS = {signal.SIGTERM: Asked.PREEMPT, signal.SIGINT: Asked.STOP}


class Wishes:
    """Listens to SIGTERM and SIGINT while open, and looks for the file `stop`."""

    def __init__(self, run_dir: Path) -> None:
        self._file = run_dir / "stop"
        self._signalled = Asked.NOTHING

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in _MEANINGS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def now(self, *, looks_for_file: bool) -> Asked:
        """What is wanted; one process looks for the file, for all."""
        if self._signalled == Asked.NOTHING and looks_for_file and self._file.exists():
            return Asked.STOP
        return self._signalled

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signalled = _MEANINGS[signal.Signals(number)]
