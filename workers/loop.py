"""A thread that does one thing again and again, at once when woken, and outlives whatever it meets."""

import logging
import threading
from collections.abc import Callable

from django.db import DatabaseError, close_old_connections

log = logging.getLogger(__name__)

_LONGEST_PAUSE = 5.0


class Loop(threading.Thread):
    """Call `tick` every `interval` seconds; after an error, later and later, until it works again."""

    def __init__(self, name: str, tick: Callable[[], None], interval: float) -> None:
        super().__init__(name=name, daemon=True)
        self._tick, self._interval = tick, interval
        self._woken, self._ended = threading.Event(), threading.Event()
        self._last_problem = ""

    def wake(self) -> None:
        """Do it now."""
        self._woken.set()

    def stop(self, *, timeout: float) -> None:
        """Do it no more; waits for a tick under way."""
        self._ended.set()
        self._woken.set()
        self.join(timeout)

    def run(self) -> None:
        pause = self._interval
        while not self._ended.is_set():
            pause = self._interval if self._tick_survives() else min(_LONGEST_PAUSE, max(0.5, pause * 2))
            self._woken.wait(pause)
            self._woken.clear()

    def _tick_survives(self) -> bool:
        try:
            self._tick()
        except DatabaseError as error:
            self._say_once(f"waits for the database: {str(error).strip().splitlines()[0]}")
            return False
        except Exception as error:
            self._say_once(f"failed and tries again: {error}", with_traceback=True)
            return False
        finally:
            close_old_connections()
        self._last_problem = ""
        return True

    def _say_once(self, problem: str, *, with_traceback: bool = False) -> None:
        """A problem that stays is one entry of the log, not one a second."""
        if problem != self._last_problem:
            log.warning("%s %s", self.name, problem, exc_info=with_traceback)
        self._last_problem = problem
