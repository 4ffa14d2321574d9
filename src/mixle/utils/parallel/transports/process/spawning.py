"""Workers where no launcher can fork them (macOS, Windows): interpreters started one by one on a fixed module.

No main guard is needed here either, because the driver's script is never imported: definitions travel by value. What is
lost against the launcher: workers import on their own, and a worker in a long C call notices the driver's death only
when the call ends.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from typing import IO, Any, NoReturn, cast

from mixle.utils.parallel.transports.process import system, worker
from mixle.utils.parallel.transports.process.link import Event, interpreter

__all__ = ["SpawnLink", "main"]

_BOOT = (
    "import marshal,sys;birth=marshal.load(sys.stdin.buffer);sys.path[:]=birth['path'];"
    "from mixle.utils.parallel.transports.process.spawning import main;main(birth)"
)
_WINDOWS = sys.platform == "win32"


class _Child:
    """A spawned worker that was not reaped yet."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.told = False


class SpawnLink:
    """Starts workers as children of the driver."""

    shared_memory = False
    pid: int | None = None

    def __init__(self) -> None:
        self.closed = False
        self.rows = -1
        self.modules: list[str] = []
        self.children: dict[tuple[int, int], _Child] = {}
        self.news: list[Event] = []

    def files(self, files: dict[str, int]) -> None:
        """Keep the descriptor of the rows for workers to come."""
        self.rows = files["rows"]

    def preload(self, modules: list[str]) -> None:
        """Name the modules that every worker imports first."""
        self.modules = modules

    def fork(self, wanted: list[tuple[int, int]]) -> None:
        """Start interpreters; they import at the same time."""
        for rank, incarnation in wanted:
            try:
                self.news.append(self._start(rank, incarnation))
            except OSError as error:
                self.news.append(Event("stillborn", rank, incarnation, text=str(error)))

    def _start(self, rank: int, incarnation: int) -> Event:
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.callback(theirs.close)
            errors = system.memory_file("mixle-stderr")
            system.append_only(errors)
            process = subprocess.Popen(
                [*interpreter(), "-c", _BOOT],
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                env=system.worker_environment(),
                start_new_session=not _WINDOWS,
                pass_fds=() if _WINDOWS else (theirs.fileno(), self.rows),
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) if _WINDOWS else 0,
            )
            self.children[rank, incarnation] = _Child(process)
            birth: dict[str, Any] = {"path": [str(path) for path in sys.path], "rank": rank, "incarnation": incarnation}
            birth |= {"modules": self.modules, "rows": self.rows, "sock": theirs.fileno(), "copy": b""}
            if _WINDOWS:
                birth["sock"] = theirs.share(process.pid)  # type: ignore[attr-defined]
                birth["copy"] = system.read_at(self.rows, os.fstat(self.rows).st_size, 0)
            with contextlib.suppress(BrokenPipeError):  # told as a death
                stdin = cast("IO[bytes]", process.stdin)
                stdin.write(marshal.dumps(birth))
                stdin.flush()
        ours.setblocking(False)
        return Event("born", rank, incarnation, process.pid, ours, errors, system.open_pidfd(process.pid))

    def signal(self, rank: int, incarnation: int, pid: int, number: int) -> None:
        """Signal a child; its pid is ours until it is reaped."""
        child = self.children.get((rank, incarnation))
        if child is not None:
            child.process.send_signal(number)

    def filenos(self) -> list[int]:
        """Return nothing: the ends of pipes tell of deaths."""
        return []

    def events(self) -> list[Event]:
        """Return births and deaths since the last call."""
        found, self.news = self.news, []
        for (rank, incarnation), child in list(self.children.items()):
            status = child.process.poll()
            if status is not None:
                self._drop(rank, incarnation)
                found.append(Event("died", rank, incarnation, status=status))
        return found

    def _drop(self, rank: int, incarnation: int) -> None:
        child = self.children.pop((rank, incarnation))
        if child.process.stdin is not None:
            with contextlib.suppress(OSError):
                child.process.stdin.close()

    def close(self) -> None:
        """Kill and reap every child."""
        self.closed = True
        for child in self.children.values():
            child.process.kill()
        for rank, incarnation in list(self.children):
            self.children[rank, incarnation].process.wait()
            self._drop(rank, incarnation)

    def abandon(self) -> None:
        """Forget children that belong to another process."""
        self.closed = True
        for child in self.children.values():
            child.process.returncode = child.process.returncode or 0
            if child.process.stdin is not None:
                child.process.stdin.close()
        self.children.clear()


def main(birth: dict[str, Any]) -> NoReturn:
    """Run a spawned worker; never returns."""
    threading.Thread(target=_end_with_driver, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = 70
    try:
        import importlib

        for name in birth["modules"]:
            with contextlib.suppress(Exception):  # told with the task that needs it
                importlib.import_module(name)
        rows, where = birth["rows"], birth["sock"]
        if _WINDOWS:
            sock = socket.fromshare(where)  # type: ignore[attr-defined]
            copy = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
            copy.write(birth["copy"])
            copy.flush()
            rows = copy.fileno()
        else:
            sock = socket.socket(fileno=where)
        code = worker.main(worker.Birth(birth["rank"], birth["incarnation"], -1, -1, {"rows": rows}), sock)
    except BaseException:  # noqa: BLE001 - reported through standard error and the exit status
        worker.print_last_error()
    finally:
        os._exit(code)


def _end_with_driver() -> None:
    """End this process when the driver's end of standard input closes."""
    with contextlib.suppress(Exception):
        while os.read(0, 1):
            pass
    os._exit(1)
