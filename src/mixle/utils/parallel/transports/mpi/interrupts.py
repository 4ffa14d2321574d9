"""Ctrl-C in an MPI job: noted where it arrives, and raised on every rank at the same place."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["INTERRUPTS"]

ECHO_S = 1.0  # a launcher passes Ctrl-C on to one rank after another


class Interrupts:
    """The interrupt handler of this process while a communicator of ours is open.

    The first SIGINT is noted for the next exchange, where every rank raises KeyboardInterrupt. A second one, while the
    first waits, goes to the handler that was there before.
    """

    def __init__(self) -> None:
        self.users = 0
        self.pending = False
        self._told = -ECHO_S
        self._before: Any = None

    def install(self) -> None:
        """Take the handler over, if this is the main thread and it is Python's or the user's own."""
        self.users += 1
        if self.users == 1 and threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._note)

    def remove(self) -> None:
        """Give the handler back when nobody needs it any more; what was noted and not told is raised again."""
        self.users -= 1
        if self.users or self._before is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, self._before)
        self._before = None
        if self.pending:
            self.pending = False
            signal.raise_signal(signal.SIGINT)

    def told(self) -> None:
        """Note that every rank raises now; echoes of the same Ctrl-C are not a second one."""
        self.pending, self._told = False, time.monotonic()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() - self._told < ECHO_S:
            return
        if self.pending and self._before is not None:
            self._before(number, frame)
        self.pending = True


INTERRUPTS = Interrupts()
