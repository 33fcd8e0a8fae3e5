"""What somebody wants of a running training: by a file in its folder, by a signal, or by starting it anew elsewhere."""

import signal
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Self


class Asked(IntEnum):
    """Nothing, an end, an end because the machine is taken away, or an end at once: a newer attempt has the folder."""

    NOTHING = 0
    STOP = 1
    PREEMPT = 2
    GIVE_WAY = 3


_MEANINGS = {signal.SIGTERM: Asked.PREEMPT, signal.SIGINT: Asked.STOP}


class Wishes:
    """Listens to SIGTERM and SIGINT while open; the first process also looks at the folder, for all.

    The folder belongs to the attempt that claimed it last. An older one may live on where nobody can reach it, cut off
    from the database; it must not write checkpoints among those of its successor.
    """

    def __init__(self, run_dir: Path, attempt: int, *, is_first: bool) -> None:
        self.attempt, self.is_first = attempt, is_first
        self._stop, self._claim = run_dir / "stop", run_dir / "attempt"
        self._signalled = Asked.NOTHING

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in _MEANINGS}
        if self.is_first and not self._is_claimed_by_a_newer():
            self._claim.write_text(f"{self.attempt}\n")
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def now(self) -> Asked:
        """What is wanted."""
        if self.is_first and self._is_claimed_by_a_newer():
            return Asked.GIVE_WAY
        if self.is_first and self._signalled == Asked.NOTHING and self._stop.exists():
            return Asked.STOP
        return self._signalled

    def _is_claimed_by_a_newer(self) -> bool:
        try:
            return int(self._claim.read_text()) > self.attempt
        except (OSError, ValueError):
            return False

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signalled = _MEANINGS[signal.Signals(number)]
