"""The launcher: imports the core once, forks workers, tells of their deaths, and ends them when the driver is gone.

It has one thread, sits in one `poll`, and never runs a task. ``Popen`` starts it with two descriptors: a
``SOCK_SEQPACKET`` socket for control (whole messages, descriptors attached) and the driver's pidfd.

Messages from the driver: ``("preload", modules)``, ``("files", names)`` with descriptors, ``("fork", [(rank,
incarnation)])``, ``("kill", rank, incarnation, signal)``, ``("quit",)``. To the driver: ``("ready", missing)``,
``("born", rank, incarnation, pid)`` with the worker's socket, standard error and pidfd, ``("died", rank, incarnation,
status)``, ``("stillborn", rank, incarnation, text)``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import os
import select
import signal
import socket
from collections import deque
from typing import Any, NoReturn

from mixle.utils.parallel.transports.process import system, worker

__all__ = ["BOOT", "main", "receive", "send"]

# sys.path comes first: an editable or a changed path may be the only way to this package.
BOOT = (
    "import gc,marshal,os,sys;gc.disable();sys.path[:]=marshal.loads(os.read(int(sys.argv[1]),1<<20));"
    "from mixle.utils.parallel.transports.process.launcher import main;main(int(sys.argv[1]),int(sys.argv[2]))"
)
CORE = ("numpy", "mixle.utils.parallel.folding.tasks", "mixle.utils.parallel.folding.transport", "mixle.stats.sums")
_NAP_MS = 100  # only where the kernel has no pidfd


def send(sock: socket.socket, message: tuple[Any, ...], fds: tuple[int, ...] = ()) -> None:
    """Send one control message with descriptors attached."""
    data = marshal.dumps(message)
    if fds:
        socket.send_fds(sock, [data], list(fds), socket.MSG_DONTWAIT)
    else:
        sock.send(data, socket.MSG_DONTWAIT)


def receive(sock: socket.socket) -> tuple[tuple[Any, ...], list[int]] | None:
    """Return the next control message and its descriptors, or None if there is none now; EOFError at the end."""
    space = socket.CMSG_SPACE(8 * 4)
    try:
        # not socket.recv_fds: it drops its flags, and the descriptors would be inheritable
        data, ancillary, _, _ = sock.recvmsg(1 << 20, space, socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError as error:
        raise EOFError from error
    if not data:
        raise EOFError
    fds: list[int] = []
    for level, kind, raw in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds += memoryview(raw).cast("i").tolist() if len(raw) % 4 == 0 else []
    return marshal.loads(data), fds  # noqa: S302 - from the other end of a private socket pair


class _Child:
    """One forked worker that was not reaped yet."""

    def __init__(self, pid: int, rank: int, incarnation: int, pidfd: int | None) -> None:
        self.pid, self.rank, self.incarnation, self.pidfd = pid, rank, incarnation, pidfd


class Launcher:
    """The state of the launcher process."""

    def __init__(self, control: socket.socket, driver: int) -> None:
        self.control, self.driver = control, driver
        self.parent = os.getppid()
        self.children: dict[int, _Child] = {}
        self.files: dict[str, int] = {}
        self.outbox: deque[tuple[tuple[Any, ...], tuple[int, ...]]] = deque()
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        if driver >= 0:
            self.poll.register(driver, select.POLLIN)

    def serve(self) -> NoReturn:
        """Handle events until the driver is gone or says so."""
        while True:
            blind = self.driver < 0 or any(child.pidfd is None for child in self.children.values())
            ready = {fd for fd, _ in self.poll.poll(_NAP_MS if blind else None)}
            if self.driver in ready or os.getppid() != self.parent:
                self.end()
            if self.control.fileno() in ready:
                self.flush()
                self.listen()
            for child in list(self.children.values()):
                if child.pidfd is None or child.pidfd in ready:
                    self.reap(child)

    def listen(self) -> None:
        """Obey what the driver says."""
        while True:
            try:
                got = receive(self.control)
            except EOFError:
                self.end()
            if got is None:
                return
            (verb, *args), fds = got
            if verb == "quit":
                self.end()
            getattr(self, f"on_{verb}")(*args, *([fds] if verb == "files" else []))

    def on_preload(self, modules: list[str]) -> None:
        """Import modules before the next fork; what cannot be imported is the workers' to report.

        What is imported stays, so no collector looks at it, here or in a worker.
        """
        gc.disable()
        missing = []
        for name in modules:
            try:
                importlib.import_module(name)
            except Exception as error:  # noqa: BLE001 - any import may fail in any way
                missing.append(f"{name}: {error}")
        gc.freeze()
        gc.enable()
        self.tell("ready", missing)

    def on_files(self, names: list[str], fds: list[int]) -> None:
        """Keep descriptors that every worker inherits."""
        for name, fd in zip(names, fds, strict=True):
            if name in self.files:
                os.close(self.files[name])
            self.files[name] = fd

    def on_fork(self, wanted: list[tuple[int, int]]) -> None:
        """Fork workers, and tell the driver of each."""
        for rank, incarnation in wanted:
            try:
                self.fork(rank, incarnation)
            except OSError as error:
                self.tell("stillborn", rank, incarnation, f"{error.strerror}")

    def fork(self, rank: int, incarnation: int) -> None:
        """Fork one worker with a socket and a standard error of its own."""
        with contextlib.ExitStack() as stack:
            ours, theirs = socket.socketpair()
            stack.callback(ours.close)
            stack.callback(theirs.close)
            errors = system.memory_file("mixle-stderr")
            stack.callback(os.close, errors)
            system.append_only(errors)
            birth = worker.Birth(rank, incarnation, os.getpid(), errors, dict(self.files))
            pid = os.fork()
            if pid == 0:
                self.become_worker(birth, theirs)
            with contextlib.suppress(OSError):  # the child does it too: whoever comes first
                os.setpgid(pid, pid)
            child = _Child(pid, rank, incarnation, system.open_pidfd(pid))
            self.children[pid] = child
            shared = [os.dup(ours.fileno()), os.dup(errors)]
            if child.pidfd is not None:
                self.poll.register(child.pidfd, select.POLLIN)
                shared.append(os.dup(child.pidfd))
            self.tell("born", rank, incarnation, pid, fds=tuple(shared))

    def become_worker(self, birth: worker.Birth, sock: socket.socket) -> NoReturn:
        """Run the worker in a forked child; never returns."""
        code = 70
        try:
            self.control.detach()
            code = worker.main(birth, sock)
        except BaseException:  # noqa: BLE001 - reported through the worker's standard error and its exit status
            worker.print_last_error()
        finally:
            os._exit(code)

    def on_kill(self, rank: int, incarnation: int, number: int) -> None:
        """Signal a worker that is not reaped, for a driver without pidfds."""
        for child in self.children.values():
            if (child.rank, child.incarnation) == (rank, incarnation):
                system.kill(child.pid, child.pidfd, number)

    def reap(self, child: _Child, options: int = os.WNOHANG) -> None:
        """Collect a dead worker, after everything it started: its process group is killed while its pid is held."""
        try:
            if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | options) is None:
                return
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
            _, status = os.waitpid(child.pid, 0)
        except ChildProcessError:
            status = None
        del self.children[child.pid]
        if child.pidfd is not None:
            self.poll.unregister(child.pidfd)
            os.close(child.pidfd)
        self.tell("died", child.rank, child.incarnation, status)

    def tell(self, *message: Any, fds: tuple[int, ...] = ()) -> None:
        """Queue a message to the driver; `fds` are closed once they are sent."""
        self.outbox.append((message, fds))
        self.flush()

    def flush(self) -> None:
        """Send what the control socket takes now: a driver that does not read must never block the launcher."""
        while self.outbox:
            message, fds = self.outbox[0]
            try:
                send(self.control, message, fds)
            except BlockingIOError:
                break
            except OSError:
                pass  # the driver has closed: the end of the control socket is told by `listen`
            self.outbox.popleft()
            for fd in fds:
                os.close(fd)
        self.poll.modify(self.control, select.POLLIN | (select.POLLOUT if self.outbox else 0))

    def end(self) -> NoReturn:
        """Kill every worker with what it started, reap, exit."""
        for child in self.children.values():
            system.kill(child.pid, child.pidfd, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
        for child in list(self.children.values()):
            self.reap(child, options=0)
        os._exit(0)


def main(control: int, driver: int) -> NoReturn:
    """Run the launcher on inherited descriptors; never returns."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A stopped launcher wakes up when the driver dies; when only the thread ends that started it, this is harmless.
    system.parent_death_signal(signal.SIGCONT)
    for fd in (control, driver):
        if fd >= 0:
            os.set_inheritable(fd, False)
    launcher = Launcher(socket.socket(fileno=control), driver)
    launcher.on_preload(list(CORE))
    launcher.serve()
