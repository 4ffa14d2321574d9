"""The workers of one pool: starting them, hearing from them, telling the dead from the slow, ending them.

Nothing here has a thread: events are handled while somebody waits for an answer, under one lock, so that `close` may
come from anywhere. Between rounds nothing runs and nothing polls.
"""

from __future__ import annotations

import contextlib
import selectors
import threading
import time
from typing import TYPE_CHECKING, Any

from mixle.errors import HandleClosed
from mixle.utils.parallel.transports.process import system, wire, worker
from mixle.utils.parallel.transports.process.life import LOOK_S, Pulse
from mixle.utils.parallel.transports.process.member import Member

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mixle.utils.parallel.transports.process.link import Event, Link

__all__ = ["Crew"]

DUMP_S = 0.05  # how long a hung worker has to print where it hangs


class Crew:
    """All workers of one pool, by rank.

    A subclass says what a reply means (`take`) and what the loss of a worker means (`disown`).

    Parameters
    ----------
    new_link : callable
        Returns a new `Link`; called again if its launcher dies.
    worker_timeout_s : float
        Bound on a worker's silence.
    step_timeout_s : float or None
        Bound on the time of one shard, if wanted.
    """

    def __init__(self, new_link: Callable[[], Link], worker_timeout_s: float, step_timeout_s: float | None) -> None:
        self.new_link = new_link
        self.worker_timeout_s, self.step_timeout_s = worker_timeout_s, step_timeout_s
        self.lock = threading.RLock()
        self.closing = self.closed = False
        self.members: dict[int, Member] = {}
        self.fallen: dict[tuple[int, int], Member] = {}
        self.incarnations: dict[int, int] = {}
        self.setup: tuple[dict[str, int], list[str]] = ({}, [])
        self.selector: Any = getattr(selectors, "PollSelector", selectors.SelectSelector)()
        self.unborn: set[int] = set()
        self.failure = ""
        self.launcher_lost = False
        self.link = self._connect()

    def take(self, member: Member, head: wire.Head, body: bytearray) -> None:
        """Handle a frame from a worker."""
        raise NotImplementedError

    def disown(self, member: Member) -> None:
        """Handle what a lost worker still owed."""
        raise NotImplementedError

    # Starting

    def _connect(self) -> Link:
        link = self.new_link()
        for fd in link.filenos():
            self.selector.register(fd, selectors.EVENT_READ, None)
        return link

    def _disconnect(self) -> None:
        for fd in self.link.filenos():
            with contextlib.suppress(KeyError, ValueError):
                self.selector.unregister(fd)

    def prepare(self, files: dict[str, int], modules: list[str]) -> None:
        """Set what every worker is born with."""
        self.setup = files, modules
        self._equip()

    def _equip(self) -> None:
        files, modules = self.setup
        self.link.preload(modules)
        self.link.files(files)

    def live(self) -> list[int]:
        """Return the ranks of the workers that live, as far as is known without waiting."""
        self.pump(0)
        return [rank for rank, member in sorted(self.members.items()) if member.state == "live"]

    def ensure(self, ranks: Sequence[int]) -> list[int]:
        """Start the workers of `ranks` that do not live, and return those that were started.

        Raises
        ------
        RuntimeError
            If they cannot be started.
        """
        alive = set(self.live())
        missing = [rank for rank in ranks if rank not in alive]
        if missing and not self.launcher_lost:
            self._ask(missing)
            self._await_births()
        if self.failure and (self.launcher_lost or not self.live()):  # a new launcher, and all workers with it
            self._replace_link()
            missing = list(ranks)
            self._ask(missing)
            self._await_births()
        if self.failure and missing:
            raise RuntimeError(f"worker processes cannot be started: {self.failure}. Mend that, or use backend='local'")
        return missing

    def spawn(self, ranks: Sequence[int]) -> None:
        """Have the workers of `ranks` forked that do not live, without waiting for them."""
        with self.lock:
            alive = set(self.live())
            if self.launcher_lost:
                self._replace_link()
            self._ask([rank for rank in ranks if rank not in alive])

    def _ask(self, wanted: Sequence[int]) -> None:
        """Ask for workers that were not asked for yet."""
        self.failure = ""
        wanted = [rank for rank in wanted if rank not in self.unborn]
        for rank in wanted:
            self._forget(rank)
            self.incarnations[rank] = self.incarnations.get(rank, -1) + 1
        if wanted:
            self.unborn.update(wanted)
            self.link.fork([(rank, self.incarnations[rank]) for rank in wanted])

    def _await_births(self) -> None:
        """Wait for the workers that were asked for; what goes wrong is left in `failure`."""
        pulse = Pulse(self.link.pid, self.worker_timeout_s) if self.link.pid else None
        try:
            while self.unborn and not self.failure:
                self.pump(LOOK_S)
                cause = pulse.look() if pulse is not None and pulse.due() else None
                if cause:
                    self.failure, self.launcher_lost = f"the launcher: {cause}", True
        finally:
            if pulse is not None:
                pulse.close()

    def _replace_link(self) -> None:
        self._disconnect()
        for member in self.members.values():
            if member.state == "live":
                self._lose(member, f"its launcher was replaced ({self.failure})")
                member.settle(None)
        self.link.close()
        self.failure, self.launcher_lost = "", False
        self.unborn.clear()
        self.link = self._connect()
        self._equip()

    def _forget(self, rank: int) -> None:
        member = self.members.pop(rank, None)
        if member is not None:
            if member.state == "live":
                self._lose(member, "it was replaced")
            self.fallen.pop((member.rank, member.incarnation), None)
            member.close()

    def dismiss(self, rank: int) -> None:
        """End a worker that will not be started again."""
        with self.lock:
            self._forget(rank)

    # Events

    def pump(self, timeout_s: float) -> None:
        """Wait for events, at most `timeout_s`, and handle them."""
        with self.lock:
            self.check_open()
            news = not self.link.filenos()
            for key, mask in self.selector.select(timeout_s):
                if key.data is None:
                    news = True
                    continue
                member, is_pipe = key.data
                if member.state != "live":
                    continue
                if not is_pipe:
                    self._drain(member)
                    continue
                if mask & selectors.EVENT_READ:
                    self._read(member)
                if mask & selectors.EVENT_WRITE and member.state == "live":
                    self.put(member, [])
            if news:
                self.listen()
            self._look()

    def listen(self) -> None:
        """Hear what the launcher tells."""
        with self.lock:
            for event in [] if self.closed else self.link.events():
                self._hear(event)

    def _hear(self, event: Event) -> None:
        if event.kind == "born":
            self._born(event)
        elif event.kind == "stillborn":
            self.unborn.discard(event.rank)
            self.failure = f"worker {event.rank}: {event.text}"
        elif event.kind == "died":
            member = self.fallen.get((event.rank, event.incarnation)) or self.members.get(event.rank)
            if member is not None and member.incarnation == event.incarnation:
                if member.state == "live":
                    self._drain(member)
                member.settle(event.status)
        elif event.kind == "gone":
            self._gone(event)

    def _gone(self, event: Event) -> None:
        """Give up everybody whose launcher died."""
        how = system.describe_exit(event.status)
        self._disconnect()
        self.launcher_lost = True
        self.failure = f"their launcher {how}" + (f"\n{event.text}" if event.text else "")
        for member in list(self.members.values()):
            if member.state == "live":
                self._drain(member, f"its launcher {how}")
        for member in self.fallen.values():
            if not member.settled:  # nobody is left to tell how it ended
                member.cause = member.cause or f"its launcher {how}"
                member.settle(None)

    def _born(self, event: Event) -> None:
        member = Member(event, self.worker_timeout_s)
        if event.incarnation != self.incarnations.get(event.rank):  # asked for by a call that was interrupted
            member.close()
            return
        self.members[event.rank] = member
        self.unborn.discard(event.rank)
        self.selector.register(member.sock, selectors.EVENT_READ, (member, True))
        member.writing = False
        if member.pidfd is not None:
            self.selector.register(member.pidfd, selectors.EVENT_READ, (member, False))

    def _watch(self, member: Member) -> None:
        writing = bool(member.writer.queue)
        if writing != member.writing:
            member.writing = writing
            mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
            self.selector.modify(member.sock, mask, (member, True))

    def _read(self, member: Member, budget: float = wire.SLICE) -> None:
        try:
            for head, body in member.reader.frames(budget):
                self.take(member, head, body)
            member.pulse.beat()
        except wire.Broken as error:
            self._broken(member, error)

    def _drain(self, member: Member, cause: str = "") -> None:
        """Take what a dead worker had sent, then give it up."""
        self._read(member, float("inf"))
        if member.state == "live":
            self._lose(member, cause)

    def _broken(self, member: Member, error: wire.Broken) -> None:
        self._lose(member, "" if member.exiting() else f"the driver met {error}")

    def _look(self) -> None:
        """Look at the busy workers whose turn it is."""
        for member in self.members.values():
            if member.state != "live" or not member.busy or not member.pulse.due():
                continue
            cause = member.pulse.look()
            member.trim_output()
            if self.step_timeout_s is not None and member.owed and member.age() > self.step_timeout_s:
                cause = f"one shard took longer than step_timeout_s = {self.step_timeout_s:g}"
            if cause is None:
                continue
            if member.exiting():
                self._drain(member)
                continue
            if not member.pulse.stopped:
                self._ask_where(member)
            self._lose(member, cause)

    def _ask_where(self, member: Member) -> None:
        """Let a hung worker print its traceback; that works also while C code holds the interpreter's lock."""
        if worker.DUMP_SIGNAL is not None:
            self.signal(member, worker.DUMP_SIGNAL)
            time.sleep(DUMP_S)

    def _lose(self, member: Member, cause: str = "") -> None:
        self.selector.unregister(member.sock)
        if member.pidfd is not None:
            self.selector.unregister(member.pidfd)
        self.signal(member, system.SIGKILL)
        member.lose(cause)
        self.fallen[member.rank, member.incarnation] = member
        self.disown(member)

    # Telling

    def signal(self, member: Member, number: int) -> None:
        """Signal a worker; one that is gone is no error."""
        if member.settled or self.closed:
            return
        if member.pidfd is not None:
            system.kill(member.pid, member.pidfd, number)
        else:
            self.link.signal(member.rank, member.incarnation, member.pid, number)

    def put(self, member: Member, frames: list[memoryview]) -> None:
        """Queue frames for a worker and send what fits now."""
        with self.lock:
            try:
                member.put(frames)
                self._watch(member)
            except wire.Broken as error:
                self._broken(member, error)

    def tell(self, rank: int, kind: int, shard: int = -1, request: int = 0) -> None:
        """Send a frame without a body to a worker, if it lives."""
        member = self.members.get(rank)
        if member is not None and member.state == "live":
            self.put(member, wire.frame(kind, shard=shard, request=request))

    # Ending

    def check_open(self) -> None:
        """Raise HandleClosed after `close`, also while it waits for the lock."""
        if self.closing or self.closed:
            raise HandleClosed("this pool of worker processes is closed: make a new handle")

    def close(self) -> None:
        """End every worker and the launcher; release every descriptor."""
        self.closing = True
        with self.lock:
            if self.closed:
                return
            self.closed = True
            members = list({*self.members.values(), *self.fallen.values()})
            try:
                for member in members:
                    if member.state == "live":
                        member.hang_up()
            finally:
                try:
                    self.link.close()
                finally:
                    for member in members:
                        member.close()
                    self.selector.close()

    def abandon(self) -> None:
        """Release this copy of the descriptors, in a forked child of the driver."""
        self.closed = True
        self.link.abandon()
        for member in {*self.members.values(), *self.fallen.values()}:
            member.abandon()
        self.selector.close()
