"""One worker as the driver sees it: its pipe, what it owes, how it was lost."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from typing import TYPE_CHECKING

from mixle.errors import WorkerLost
from mixle.utils.parallel.transports.process import system, wire
from mixle.utils.parallel.transports.process.life import Pulse
from mixle.utils.parallel.transports.process.link import tail_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixle.utils.parallel.transports.process.link import Event

__all__ = ["Member"]

FORWARD = 1 << 16  # bytes of a worker's output that are passed on at a time
KEEP = 1 << 22  # bytes of a worker's output that are kept in memory


class Member:
    """One incarnation of a worker.

    Attributes
    ----------
    state : {"live", "lost"}
        A lost member's shards may be given away; its exit status may follow later.
    owed : dict of int to list of int
        Shards it still owes, by request, in the order in which it works.
    sent : dict of int to int
        Versions of the definitions it has.
    """

    def __init__(self, event: Event, timeout_s: float) -> None:
        if event.sock is None:
            raise ValueError("a worker is born with a socket")
        self.rank, self.incarnation, self.pid = event.rank, event.incarnation, event.pid
        self.sock, self.errors, self.pidfd = event.sock, event.errors, event.pidfd
        self.reader, self.writer = wire.FrameReader(self.sock), wire.FrameWriter(self.sock)
        self.pulse = Pulse(self.pid, timeout_s)
        self.state = "live"
        self.cause = ""
        self.exitcode: int | None = None
        self.settled = False
        self.owed: dict[int, list[int]] = {}
        self.sent: dict[int, int] = {}
        self.since = 0.0
        self.forwarded = 0
        self.writing = False

    @property
    def busy(self) -> bool:
        """Whether it owes an answer, or does not take what it is sent."""
        return bool(self.owed or self.writer.queue)

    def put(self, parts: Iterable[memoryview]) -> None:
        """Queue a frame and send what fits."""
        if not self.busy:
            self.pulse.beat()
        self.writer.put(parts)
        self.flush()

    def flush(self) -> None:
        """Send what fits; wire.Broken if the pipe is gone."""
        if self.writer.flush():
            self.pulse.beat()

    def owe(self, request: int, shards: list[int]) -> None:
        """Note the shards of a request."""
        if not self.owed:
            self.since = time.monotonic()
        self.pulse.beat()
        self.owed[request] = shards

    def pay(self, request: int, shard: int) -> bool:
        """Note a reply; False if it was not owed."""
        shards = self.owed.get(request)
        if shards is None or shard not in shards:
            return False
        shards.remove(shard)
        if not shards:
            del self.owed[request]
        self.since = time.monotonic()
        return True

    def age(self) -> float:
        """Return the seconds since it began with the shard that it is at."""
        return time.monotonic() - self.since

    def lose(self, cause: str = "") -> None:
        """Give it up: no more frames, no more life.

        Parameters
        ----------
        cause : str
            Why the driver ends it; empty if it ended by itself, which its exit status explains.
        """
        self.state, self.cause = "lost", cause
        self.writer.queue.clear()
        self.sock.close()
        self.pulse.close()

    def exiting(self) -> bool:
        """Return whether the process is dead or on its way out, as opposed to one that only closed its pipe."""
        state, exiting = self.pulse.state.read()
        return exiting or state == "?"

    def settle(self, exitcode: int | None) -> None:
        """Note how the process ended."""
        self.exitcode, self.settled = exitcode, True

    def forward_output(self) -> None:
        """Pass on to this process's standard error what the worker printed since the last time."""
        if self.errors is None:
            return
        with contextlib.suppress(OSError):
            size = os.fstat(self.errors).st_size
            fresh = size - self.forwarded
            if fresh > 0:
                text = system.read_at(self.errors, min(fresh, FORWARD), self.forwarded).decode("utf-8", "replace")
                self.forwarded = size
                if fresh > FORWARD:
                    text += f"\n[{fresh - FORWARD} more bytes from worker {self.rank} are left out]\n"
                _print(text)

    def trim_output(self) -> None:
        """Forget output that grows without end; the worker appends."""
        if self.errors is None:
            return
        with contextlib.suppress(OSError):
            if os.fstat(self.errors).st_size > KEEP:
                self.forward_output()
                os.ftruncate(self.errors, 0)
                self.forwarded = 0

    def loss(self, shards: Iterable[int]) -> WorkerLost:
        """Return the error that says what was lost and why."""
        held = tuple(sorted(shards))
        tail = tail_of(self.errors)
        told = self.cause or system.describe_exit(self.exitcode)
        what = f"shard {held[0]}" if len(held) == 1 else f"shards {', '.join(map(str, held))}"
        text = f"worker {self.rank} (pid {self.pid}) was lost at work on {what}: {told}."
        if tail:
            text += "\nIts last lines were:\n" + "\n".join(tail.splitlines()[-8:])
        error = WorkerLost(text)
        error.worker, error.shards, error.cause = self.rank, held, told
        error.exitcode, error.stderr_tail = self.exitcode, tail
        return error

    def close(self) -> None:
        """Release every descriptor."""
        self.forward_output()
        if self.pidfd is not None and hasattr(os, "P_PIDFD"):
            with contextlib.suppress(OSError):  # ours to collect only if its launcher died and we are init
                os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        self.abandon()

    def abandon(self) -> None:
        """Release every descriptor of a process that is not ours to end."""
        self.state = "lost"
        self.sock.close()
        self.pulse.close()
        for fd in (self.errors, self.pidfd):
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self.errors = self.pidfd = None

    def hang_up(self) -> None:
        """End the pipe for everybody, also where a fork of this process holds a copy."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


def _print(text: str) -> None:
    with contextlib.suppress(Exception):  # a closed or exotic sys.stderr must not end a fit
        sys.stderr.write(text)
        sys.stderr.flush()
