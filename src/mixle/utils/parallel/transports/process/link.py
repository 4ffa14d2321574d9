"""The driver's end of the launcher: starting it, giving it orders, hearing what happened to workers."""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import socket
import subprocess
import sys
from typing import NamedTuple, Protocol

from mixle.utils.parallel.transports.process import system

__all__ = ["Event", "LauncherLink", "Link", "interpreter", "tail_of"]

TAIL = 4096


class Event(NamedTuple):
    """What happened to a worker, or to the launcher itself (then `rank` is -1).

    Attributes
    ----------
    kind : {"born", "died", "stillborn", "ready", "gone"}
        Gone: the launcher is dead.
    rank, incarnation : int
        Which worker.
    pid : int
        Of a worker that was born.
    sock : socket or None
        Its pipe.
    errors, pidfd : int or None
        Descriptors of its standard error and of the process itself.
    status : int or None
        Exit code, or minus the signal's number, of one that died.
    text : str
        What went wrong.
    """

    kind: str
    rank: int = -1
    incarnation: int = 0
    pid: int = 0
    sock: socket.socket | None = None
    errors: int | None = None
    pidfd: int | None = None
    status: int | None = None
    text: str = ""


class Link(Protocol):
    """How workers come into being; the launcher, or spawned processes where there is none."""

    pid: int | None
    shared_memory: bool
    closed: bool

    def files(self, files: dict[str, int]) -> None:
        """Give descriptors to all workers that start later."""

    def preload(self, modules: list[str]) -> None:
        """Import modules once, before workers start."""

    def fork(self, wanted: list[tuple[int, int]]) -> None:
        """Start workers; each is told by an event."""

    def signal(self, rank: int, incarnation: int, pid: int, number: int) -> None:
        """Signal a worker of which no pidfd is known."""

    def events(self) -> list[Event]:
        """Return what happened since the last call."""

    def filenos(self) -> list[int]:
        """Return the descriptors that become readable when something happens."""

    def close(self) -> None:
        """End the launcher and every worker."""

    def abandon(self) -> None:
        """Release descriptors and leave the processes alone: this is a fork of their driver."""


def interpreter() -> list[str]:
    """Return the command of an interpreter with this one's flags."""
    if not sys.executable:
        raise RuntimeError(
            "worker processes need a Python executable and sys.executable is empty: set it, or use backend='local'"
        )
    return [sys.executable, *subprocess._args_from_interpreter_flags(), "-P"]  # type: ignore[attr-defined]  # noqa: SLF001


def tail_of(fd: int | None, size: int = TAIL) -> str:
    """Return the end of a file of text."""
    if fd is None:
        return ""
    with contextlib.suppress(OSError):
        end = os.fstat(fd).st_size
        return system.read_at(fd, size, max(0, end - size)).decode("utf-8", "replace").strip()
    return ""


class LauncherLink:
    """One launcher process, started at once; it imports while the driver goes on.

    Parameters
    ----------
    shutdown_timeout_s : float
        A launcher that was told to quit is killed after this, and the workers with it.
    """

    shared_memory = True

    def __init__(self, shutdown_timeout_s: float) -> None:
        self.shutdown_timeout_s = shutdown_timeout_s
        from mixle.utils.parallel.transports.process import launcher

        self._receive, self._send = launcher.receive, launcher.send
        self.closed = False
        self.gone = False
        self.errors = system.memory_file("mixle-launcher-stderr")
        self.control, theirs = (_above(end) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        driver = system.open_pidfd(os.getpid())
        try:
            self.control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            command = [*interpreter(), "-c", launcher.BOOT, str(theirs.fileno()), str(-1 if driver is None else driver)]
            self.process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()] + ([] if driver is None else [driver]),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.errors,
                env=system.worker_environment(),
            )
        except BaseException:
            self.control.close()
            os.close(self.errors)
            raise
        finally:
            theirs.close()
            if driver is not None:
                os.close(driver)
        self.pid: int | None = self.process.pid
        self.pidfd = system.open_pidfd(self.process.pid)
        self._held: tuple[int | None, ...] = (self.pidfd, self.errors)
        self._post(marshal.dumps([os.fspath(path) for path in sys.path if isinstance(path, (str, os.PathLike))]))

    def _post(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # told as "gone"
            self.control.send(data)

    def _tell(self, *message: object) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._send(self.control, message)

    def files(self, files: dict[str, int]) -> None:
        """Hand the descriptors to the launcher."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._send(self.control, ("files", list(files)), tuple(files.values()))

    def preload(self, modules: list[str]) -> None:
        """Let the launcher import modules."""
        if modules:
            self._tell("preload", modules)

    def fork(self, wanted: list[tuple[int, int]]) -> None:
        """Let the launcher fork workers."""
        self._tell("fork", wanted)

    def signal(self, rank: int, incarnation: int, pid: int, number: int) -> None:
        """Let the launcher signal a worker: it holds the pid until it has reaped it."""
        self._tell("kill", rank, incarnation, int(number))

    def filenos(self) -> list[int]:
        """Return the control socket and the launcher's pidfd."""
        return [self.control.fileno()] + ([] if self.pidfd is None else [self.pidfd])

    def events(self) -> list[Event]:
        """Return what the launcher told, and last that it is gone."""
        found: list[Event] = []
        if self.gone or self.closed:
            return found
        try:
            while (got := self._receive(self.control)) is not None:
                found.append(_event(*got))
        except EOFError:
            self.gone = True
        if self.gone or self.process.poll() is not None:
            self.gone = True
            found.append(Event("gone", status=self._status(), text=tail_of(self.errors)))
        return found

    def _status(self) -> int | None:
        """Return the launcher's exit status, which follows the end of its socket within microseconds."""
        self._await_end(0.25)
        return self.process.poll()

    def _await_end(self, seconds: float) -> None:
        if self.pidfd is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        else:  # Popen.wait would sleep in growing steps
            poll = select.poll()
            poll.register(self.pidfd, select.POLLIN)
            poll.poll(seconds * 1000)

    def close(self) -> None:
        """Let the launcher kill its workers and end; then make sure of it."""
        if self.closed:
            return
        self.closed = True
        try:
            with contextlib.suppress(OSError):
                self._send(self.control, ("quit",))
                self.control.shutdown(socket.SHUT_WR)
            self._await_end(self.shutdown_timeout_s)
        finally:
            if self.process.poll() is None:
                system.kill(self.process.pid, self.pidfd, system.SIGKILL)
                self.process.wait()
            self._release()

    def abandon(self) -> None:
        """Close this copy of the descriptors, in a forked child."""
        self.closed = True
        self.process.returncode = self.process.returncode or 0
        self._release()

    def _release(self) -> None:
        """Close the descriptors once: a second time their numbers may be somebody else's."""
        self.control.close()
        held, self._held = self._held, ()
        for fd in held:
            if fd is not None:
                os.close(fd)
        self.pidfd = None


def _above(sock: socket.socket) -> socket.socket:
    return socket.socket(fileno=system.above_standard(sock.detach()))


def _event(message: tuple, fds: list[int]) -> Event:  # type: ignore[type-arg]
    """Return a message of the launcher as an event."""
    verb, *args = message
    if verb == "born":
        rank, incarnation, pid = args
        if len(fds) < 2:  # no room for them in this process
            for fd in fds:
                os.close(fd)
            return Event("stillborn", rank, incarnation, text="too many open files (raise the limit: ulimit -n)")
        sock = socket.socket(fileno=fds[0])
        sock.setblocking(False)
        return Event("born", rank, incarnation, pid, sock, fds[1], fds[2] if len(fds) > 2 else None)
    if verb == "died":
        rank, incarnation, status = args
        return Event("died", rank, incarnation, status=None if status is None else os.waitstatus_to_exitcode(status))
    if verb == "stillborn":
        rank, incarnation, text = args
        return Event("stillborn", rank, incarnation, text=text)
    return Event(verb, text="; ".join(args[0]))
