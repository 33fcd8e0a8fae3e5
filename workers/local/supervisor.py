"""Start processes in order, start again what dies, stop all in an order of their own."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from workers.local.servers import as_user

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_LONGEST_PAUSE = 10.0


@dataclass
class Child:
    """A process to keep alive."""

    name: str
    command: list[str]
    log: Path
    user: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    patience: float = 10.0  # seconds from the stop signal to SIGKILL

    process: subprocess.Popen | None = field(default=None, init=False)
    _pause: float = field(default=0.5, init=False)
    _started_at: float = field(default=0.0, init=False)

    def start(self) -> None:
        """Start it; it gets its stop signal should we die without a word."""
        self._started_at = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                **as_user(self.user),
                cwd="/" if self.user else None,
                start_new_session=True,
                preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, self.stop_signal),
            )

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def may_start_again(self) -> bool:
        """Whether the pause after its death is over; each early death doubles it."""
        return time.monotonic() - self._started_at >= self._pause

    def start_again(self) -> None:
        lived = time.monotonic() - self._started_at
        self._pause = 0.5 if lived > 30 else min(_LONGEST_PAUSE, self._pause * 2)
        self.start()

    def stop(self, hurry: Callable[[], bool]) -> None:
        """Ask it to end and wait; kill it when patience ends or someone is in a hurry."""
        if not self.is_alive:
            return
        self.process.send_signal(self.stop_signal)
        deadline = time.monotonic() + self.patience
        while self.is_alive and time.monotonic() < deadline and not hurry():
            time.sleep(0.05)
        if self.is_alive:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def last_line(self) -> str:
        """The end of its log, for whoever must know why it died."""
        try:
            lines = [line for line in self.log.read_text("utf-8", "replace").splitlines() if line.strip()]
        except OSError:
            return ""
        return lines[-1][:300] if lines else ""


class Supervisor:
    """Keeps children alive until SIGINT, SIGTERM or the end of the terminal; a second one means hurry."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.children: list[Child] = []
        self.num_signals = 0
        self._say = say
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def add(self, child: Child) -> None:
        """Start a child and look after it."""
        child.start()
        self.children.append(child)

    @property
    def is_ending(self) -> bool:
        return self.num_signals > 0

    def watch(self) -> None:
        """Keep all alive until a signal comes."""
        while not self.is_ending:
            self.revive()
            time.sleep(0.1)

    def revive(self) -> None:
        """Start again what died, when its pause is over."""
        for child in self.children:
            if not child.is_alive and child.may_start_again:
                self._say(f"{child.name} died (exit code {child.process.returncode}); starting it again")
                child.start_again()

    def stop(self, order: tuple[str, ...]) -> None:
        """Stop every child, those named first in their order, the rest in reverse order of their start."""
        rest = [child for child in reversed(self.children) if child.name not in order]
        named = [child for name in order for child in self.children if child.name == name]
        for child in (*named, *rest):
            child.stop(hurry=lambda: self.num_signals > 1)

    def _note(self, *_: object) -> None:
        self.num_signals += 1
