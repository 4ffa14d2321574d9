"""A worker process as hooks and tests see it: the verbs of ``multiprocessing.Process`` that make sense here."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from mixle.utils.parallel.transports.process import system

if TYPE_CHECKING:
    from mixle.utils.parallel.transports.process.member import Member
    from mixle.utils.parallel.transports.process.supervisor import Supervisor

__all__ = ["WorkerPipe", "WorkerProcess"]


class WorkerPipe:
    """The driver's end of a worker's pipe, as hooks and tests see it."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._member.sock.fileno()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._member.sock.fileno() < 0

    def close(self) -> None:
        """End the pipe for both sides: the worker is lost."""
        self._member.hang_up()


class WorkerProcess:
    """One worker process; signals go through its pidfd, so that a recycled pid is never hit.

    Attributes
    ----------
    pid : int
        Process id.
    name : str
        For messages.
    daemon : bool
        True: it never outlives the driver.
    """

    daemon = True

    def __init__(self, member: Member, supervisor: Supervisor) -> None:
        self._member, self._supervisor = member, supervisor
        self.pid = member.pid
        self.name = f"mixle-worker-{member.rank}"

    def __repr__(self) -> str:
        state = "alive" if self.is_alive() else system.describe_exit(self.exitcode)
        return f"<WorkerProcess {self.name} pid={self.pid} {state}>"

    @property
    def connection(self) -> WorkerPipe:
        """The pipe to the process."""
        return WorkerPipe(self._member)

    @property
    def sentinel(self) -> int:
        """A descriptor that becomes readable when the process ends."""
        member = self._member
        fd = member.pidfd if member.pidfd is not None else member.sock.fileno()
        if fd < 0:
            raise ValueError(f"{self.name} is closed; ask is_alive() first")
        return fd

    @property
    def exitcode(self) -> int | None:
        """Exit code, minus the signal's number, or None while it lives or if it is not known."""
        if not self._member.settled:
            self._supervisor.listen()
        return self._member.exitcode

    def is_alive(self) -> bool:
        """Return whether the process has not ended."""
        return not self._ended(0.0)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._supervisor.signal(self._member, system.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._supervisor.signal(self._member, signal.SIGTERM)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process has ended, at most `timeout` seconds, and its exit code is known."""
        start = time.monotonic()
        if self._ended(timeout):
            while not self._member.settled and not self._supervisor.closed and time.monotonic() - start < 1.0:
                self._supervisor.listen()
                if not self._member.settled:
                    time.sleep(0.001)

    def _ended(self, timeout: float | None) -> bool:
        """Wait for the end of the process and return whether it has ended."""
        import select

        member = self._member
        if member.settled or self._supervisor.closed:
            return True
        if member.pidfd is not None:
            poll = select.poll()
            poll.register(member.pidfd, select.POLLIN)
            return bool(poll.poll(None if timeout is None else max(0.0, timeout) * 1000))
        end = None if timeout is None else time.monotonic() + timeout
        while not member.settled and (end is None or time.monotonic() < end):
            self._supervisor.listen()
            if not member.settled:
                time.sleep(0.005)
        return member.settled
