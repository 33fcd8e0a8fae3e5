"""Notice that a step does not end: say which process gives no sign of life, show every stack, and end this one.

Each process writes a sign of life into the run folder from a thread of its own. One that was stopped, or whose machine
is gone, writes none and is named; one that hangs in a message or in Python still does, and shows its stack.
"""

import faulthandler
import json
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# Nobody can mend a hanging message from within; torchrun ends the others, the launcher starts again.
EXIT_CODE = 75
_SIGNS = 5


class Heartbeat:
    """Watches the steps of this process for `seconds` each; `tell` is given the sentence when one does not end."""

    def __init__(
        self, folder: Path, *, rank: int, size: int, seconds: float, tell: Callable[[str, list[int]], None]
    ) -> None:
        self.folder, self.rank, self.size, self.seconds, self.tell = folder, rank, size, seconds, tell
        self._last, self._doing = time.monotonic(), "starting"
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="heartbeat", daemon=True)

    def __enter__(self) -> "Heartbeat":
        if self.seconds:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._give_sign()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self.seconds:
            self._thread.join()
            self._sign(self.rank).unlink(missing_ok=True)

    def beat(self, doing: str) -> None:
        """Something got done; next comes `doing`."""
        self._last, self._doing = time.monotonic(), doing

    def pause(self) -> None:
        """What comes next takes as long as it takes, until the next beat: a slow disk is no stall."""
        self._last = math.inf

    def _watch(self) -> None:
        while not self._done.wait(self.seconds / _SIGNS):
            self._give_sign()
            waited = time.monotonic() - self._last
            if waited > self.seconds and not self._done.is_set():
                self._end(waited)

    def _give_sign(self) -> None:
        # A full disk is no reason to end.
        with suppress(OSError):
            self._sign(self.rank).write_text(json.dumps(identity()))

    def _end(self, waited: float) -> None:
        silent = [rank for rank in range(self.size) if not self._is_alive(rank)]
        who = f"process {', '.join(map(str, silent))} gives no sign of life" if silent else "every process is alive"
        text = f"Nothing got done for {waited:.0f} s {self._doing}; {who}. The stacks are in the log."
        print(f"process {self.rank}: {text}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(all_threads=True)
        self.tell(text, silent)
        # The others notice in the same moment; ending first would hide their stacks.
        time.sleep(self.seconds / _SIGNS)
        for rank in silent:
            self._kill(rank)
        os._exit(EXIT_CODE)

    def _is_alive(self, rank: int) -> bool:
        try:
            return time.time() - self._sign(rank).stat().st_mtime < 3 * self.seconds / _SIGNS
        except OSError:
            return False

    def _kill(self, rank: int) -> None:
        """End a stopped process of this machine: it would not hear anything milder."""
        with suppress(OSError, ValueError):
            signed = json.loads(self._sign(rank).read_text())
            if signed == identity(signed["pid"]):
                os.kill(signed["pid"], signal.SIGKILL)

    def _sign(self, rank: int) -> Path:
        return self.folder / f"rank-{rank:04d}.json"


def identity(pid: int | None = None) -> dict[str, object]:
    """What tells a process from any other that ever had its number: machine, number, moment of birth."""
    pid = pid or os.getpid()
    born = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return {"host": socket.gethostname(), "pid": pid, "born": born}
