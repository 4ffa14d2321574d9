"""Slow is not dead: proof of life of a worker that owes an answer.

Life is a byte that moved, a CPU clock that advanced, or a process that runs or waits for a disk. There is no heartbeat
thread: it would stop while C code holds the interpreter's lock, and go on in a deadlocked worker.
"""

from __future__ import annotations

import time

from mixle.utils.parallel.transports.process import system

__all__ = ["LOOK_S", "Pulse"]

LOOK_S = 0.05  # how often a busy worker is looked at
GAP_S = 0.25  # a longer pause between two looks was the driver's own (a suspended machine, Ctrl-Z)
STOPPED_S = 1.0  # a process stopped that long is given up


class Pulse:
    """What is known about the life of one process.

    Parameters
    ----------
    pid : int
        The process.
    timeout_s : float
        Silence (asleep, no CPU time, no byte) after which it counts as hung.
    """

    def __init__(self, pid: int, timeout_s: float) -> None:
        self.pid, self.timeout_s = pid, timeout_s
        self.state = system.ProcessState(pid)
        self.cpu: int | None = None
        self.silent = self.stopped = 0.0
        self.last = time.monotonic()

    def beat(self) -> None:
        """Note a byte that moved, or the start of a request."""
        self.silent = self.stopped = 0.0
        self.last = time.monotonic()

    def due(self) -> bool:
        """Return whether it is time to look."""
        return time.monotonic() - self.last >= LOOK_S

    def look(self) -> str | None:
        """Return the cause if the process must be given up, else None."""
        now = time.monotonic()
        step, self.last = min(now - self.last, GAP_S), now
        state, exiting = self.state.read()
        if exiting:
            return "it is exiting"
        if state in "Tt":
            # a process under a debugger is left alone
            self.stopped = self.stopped + step if state == "T" else 0.0
            return f"it has been stopped (SIGSTOP) for {STOPPED_S:g} s" if self.stopped >= STOPPED_S else None
        self.stopped = 0.0
        cpu = system.cpu_clock_ns(self.pid)
        moved, self.cpu = cpu is not None and cpu != self.cpu, cpu
        blind = cpu is None and state == "?"  # no way to tell: only the end of its pipe counts
        if moved or state in "RD" or blind:
            self.silent = 0.0
            return None
        self.silent += step
        if self.silent >= self.timeout_s:
            return (
                f"silent for {self.timeout_s:g} s: asleep, without CPU time, without a byte (if its work sleeps or "
                f"waits that long, raise worker_timeout_s)"
            )
        return None

    def close(self) -> None:
        """Release what is kept open."""
        self.state.close()
