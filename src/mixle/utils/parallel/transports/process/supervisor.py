"""Requests of a pool: a task goes out once, replies come back by number, losses are told last."""

from __future__ import annotations

import time
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mixle.errors import RoundLosses
from mixle.utils.parallel.transports.process import wire, worker
from mixle.utils.parallel.transports.process.crew import Crew
from mixle.utils.parallel.transports.process.life import LOOK_S
from mixle.utils.parallel.transports.process.mailbox import THRESHOLD, Mailbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mixle.utils.parallel.folding.payload import Buffer
    from mixle.utils.parallel.transports.process.link import Link
    from mixle.utils.parallel.transports.process.member import Member
    from mixle.utils.parallel.transports.process.parcels import Definitions

__all__ = ["Request", "Supervisor"]

SETTLE_S = 0.25  # how long an error waits for the exit status of a lost worker


@dataclass(eq=False)
class Request:
    """One task under way.

    Attributes
    ----------
    number : int
        In every frame that belongs to it.
    pending : dict of int to Member
        Who owes which shard.
    ready : deque of (shard, rank, body)
        Replies that nobody has taken yet.
    lost : dict of Member to list of int
        Shards whose worker was lost.
    started : set of int
        Workers that wait for the word to go.
    """

    number: int
    pending: dict[int, Member] = field(default_factory=dict)
    ready: deque[tuple[int, int, bytearray]] = field(default_factory=deque)
    lost: dict[Member, list[int]] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)


class Supervisor(Crew):
    """A crew that is given work.

    Parameters
    ----------
    new_link : callable
        Returns a new `Link`.
    definitions : Definitions
        What is shipped by value.
    worker_timeout_s, step_timeout_s : float, float or None
        Bounds on a worker's silence and on the time of one shard.
    """

    def __init__(
        self,
        new_link: Callable[[], Link],
        definitions: Definitions,
        worker_timeout_s: float,
        step_timeout_s: float | None,
    ) -> None:
        super().__init__(new_link, worker_timeout_s, step_timeout_s)
        self.definitions = definitions
        # Weak: whoever waits for a request holds it; replies to one that was given up are dropped.
        self.requests: weakref.WeakValueDictionary[int, Request] = weakref.WeakValueDictionary()
        self.numbers = 0
        self.mailbox = Mailbox() if self.link.shared_memory else None

    def prepare(self, files: dict[str, int], modules: list[str]) -> None:
        """Set what every worker is born with; the mailbox comes with it."""
        super().prepare(files if self.mailbox is None else {**files, "tasks": self.mailbox.fd}, modules)

    def close(self) -> None:
        """End every worker and the launcher; release every descriptor."""
        try:
            super().close()
        finally:
            if self.mailbox is not None:
                self.mailbox.close()

    def abandon(self) -> None:
        """Release this copy of the descriptors, in a forked child of the driver."""
        super().abandon()
        if self.mailbox is not None:
            self.mailbox.close()

    def submit(
        self, parts: Sequence[Buffer], assignment: Mapping[int, Sequence[tuple[int, bool]]], flags: int = 0
    ) -> Request:
        """Send a task to workers.

        Parameters
        ----------
        parts : sequence of bytes-like
            The task, written once however many workers it goes to.
        assignment : mapping of int to sequence of (int, bool)
            Shards of each worker, and whether it keeps their encoded rows.
        flags : int
            Of the frame: ``wire.ARMED`` lets workers wait for the word to go.
        """
        with self.lock:
            self.check_open()
            self.numbers += 1
            request = self.requests[self.numbers] = Request(self.numbers)
            letter = None
            if self.mailbox is not None and sum(len(part) for part in parts) >= THRESHOLD:
                letter, parts = self.mailbox.post(request.number, parts), ()
            for rank, items in assignment.items():
                member, shards = self.members[rank], [shard for shard, _ in items]
                request.pending.update(dict.fromkeys(shards, member))
                member.owe(request.number, shards)
                if member.state != "live":
                    self.disown(member)
                    continue
                body = [worker.pack_orders(list(items), letter), *parts]
                task = wire.frame(wire.TASK, body, flags=flags, request=request.number)
                self.put(member, self._news(member) + task)
        return request

    def _news(self, member: Member) -> list[memoryview]:
        news = self.definitions.news_parcel(member.sent)
        return wire.frame(wire.DEFINE, news) if news else []

    def collect(self, request: Request) -> Iterator[tuple[int, int, bytearray]]:
        """Yield ``(shard, rank, body)`` of each reply as it comes.

        Raises
        ------
        RoundLosses
            After everything that arrived was yielded, if workers were lost.
        """
        try:
            while request.ready or request.pending:
                while request.ready:
                    yield request.ready.popleft()
                if request.pending:
                    self.pump(LOOK_S)
        finally:
            self.requests.pop(request.number, None)
            for member in self.members.values():
                member.forward_output()
        if request.lost:
            raise self._losses(request)

    def rendezvous(self, request: Request, hook: Callable[[int], None]) -> None:
        """Wait until the task arrived everywhere, call `hook` for each worker, give the word to go."""
        ranks = {member.rank for member in request.pending.values()}
        try:
            while ranks - request.started - {member.rank for member in request.lost}:
                self.pump(LOOK_S)
            for rank in sorted(request.started - {member.rank for member in request.lost}):
                hook(rank)
        except BaseException:
            self.requests.pop(request.number, None)
            raise
        finally:
            for rank in sorted(ranks):
                self.tell(rank, wire.GO, request=request.number)

    def _losses(self, request: Request) -> RoundLosses:
        end = time.monotonic() + SETTLE_S
        while not all(member.settled for member in request.lost) and not self.failure and time.monotonic() < end:
            self.pump(0.005)
        for member in request.lost:
            member.cause = member.cause or ("" if member.settled else self.failure)
        losses = tuple(
            member.loss(shards) for member, shards in sorted(request.lost.items(), key=lambda item: item[0].rank)
        )
        text = "\n".join(str(loss) for loss in losses)
        error = RoundLosses(
            f"{text}\nNothing else was lost, and lost workers are started again by the next call. To recompute lost "
            f"shards within the round, use ResilientMPEncodedData or encoded_data(..., policies=[Retry()])."
        )
        error.losses = losses
        return error

    def take(self, member: Member, head: wire.Head, body: bytearray) -> None:
        """Match a frame with the request that it answers; a late one answers nothing."""
        if head.incarnation != member.incarnation & 0xFFFF:
            raise wire.Broken("garbage on its pipe")
        request = self.requests.get(head.request)
        if head.kind == wire.STARTED and request is not None:
            request.started.add(member.rank)
        elif head.kind == wire.REPLY and member.pay(head.request, head.shard):
            if request is not None:
                del request.pending[head.shard]
                request.ready.append((head.shard, member.rank, body))
            self._settle_letter(head.request)

    def _settle_letter(self, number: int) -> None:
        if self.mailbox is not None and not any(number in member.owed for member in self.members.values()):
            self.mailbox.settle(number)

    def disown(self, member: Member) -> None:
        """Note what a lost worker owed as lost."""
        for number, shards in member.owed.items():
            request = self.requests.get(number)
            if request is not None:
                request.lost.setdefault(member, []).extend(shards)
                for shard in shards:
                    request.pending.pop(shard, None)
        numbers, member.owed = list(member.owed), {}
        for number in numbers:
            self._settle_letter(number)
