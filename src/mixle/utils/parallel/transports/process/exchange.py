"""One task in talks with workers: shards are given one after another, replies and losses come back as events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mixle.utils.parallel.transports.process import wire
from mixle.utils.parallel.transports.process.life import LOOK_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mixle.errors import WorkerLost
    from mixle.utils.parallel.folding.payload import Buffer
    from mixle.utils.parallel.folding.tasks import Result
    from mixle.utils.parallel.transports.process.member import Member
    from mixle.utils.parallel.transports.process.supervisor import Request, Supervisor

__all__ = ["Exchange", "Lost"]

SETTLE_S = 0.25  # how long a loss waits for its exit status


class Lost:
    """A worker that was lost, with the shards that it still owed.

    Attributes
    ----------
    worker : int
        Its id.
    shards : tuple of int
        What it owed.
    """

    def __init__(self, supervisor: Supervisor, member: Member, shards: Sequence[int]) -> None:
        self.worker, self.shards = member.rank, tuple(sorted(shards))
        self._supervisor, self._member = supervisor, member
        self._deadline = time.monotonic() + SETTLE_S

    @property
    def settled(self) -> bool:
        """Whether its exit status is known, or will not be."""
        return self._member.settled or self._supervisor.launcher_lost or time.monotonic() > self._deadline

    def told(self) -> WorkerLost:
        """Return the error that says how it was lost."""
        member = self._member
        while not self.settled:
            self._supervisor.pump(0.005)
        member.cause = member.cause or ("" if member.settled else self._supervisor.failure)
        return member.loss(self.shards)


class Exchange:
    """One task under way.

    Parameters
    ----------
    supervisor : Supervisor
        The pool.
    parts : sequence of bytes-like
        The task.
    read : callable
        ``read(shard, worker, body) -> Result``.
    owns : callable
        ``owns(shard, worker) -> bool``: whether the shard lives there.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        parts: Sequence[Buffer],
        read: Callable[[int, int, bytearray], Result],
        owns: Callable[[int, int], bool],
    ) -> None:
        self.supervisor, self.parts, self.read, self.owns = supervisor, parts, read, owns
        self.requests: list[Request] = []
        self.told: set[Member] = set()

    def give(self, assignment: Mapping[int, Sequence[int]], keep: bool | None = None, flags: int = 0) -> Request | None:
        """Give shards to workers.

        Parameters
        ----------
        assignment : mapping of int to sequence of int
            Shards by worker.
        keep : bool, optional
            Whether they keep the encoded rows; if not given, owners do.
        flags : int
            Of the frames that tell them.
        """
        orders = {
            worker: [(shard, self.owns(shard, worker) if keep is None else keep) for shard in shards]
            for worker, shards in assignment.items()
            if shards
        }
        if not orders:
            return None
        request = self.supervisor.submit(self.parts, orders, flags)
        self.requests.append(request)
        return request

    def beside(self, assignment: Mapping[int, Sequence[int]]) -> Exchange:
        """Begin the same task anew and return its exchange; workers that are at it do not read it again."""
        other = Exchange(self.supervisor, self.parts, self.read, self.owns)
        other.give(assignment, flags=wire.SAME)
        return other

    def next(self, timeout_s: float | None = None) -> Result | Lost | None:
        """Return what came next; None if nothing did in time.

        Parameters
        ----------
        timeout_s : float, optional
            How long to wait; 0 looks once. Without a limit it waits for an event as long as something is owed.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            event = self._event()
            if event is not None or (end is None and not any(request.pending for request in self.requests)):
                return event
            left = LOOK_S if end is None else end - time.monotonic()
            self.supervisor.pump(max(0.0, min(LOOK_S, left)))
            if left <= 0.0:
                return self._event()

    def _event(self) -> Result | Lost | None:
        for request in self.requests:
            if request.ready:
                return self.read(*request.ready.popleft())
        for request in self.requests:
            for member in request.lost:
                if member not in self.told:
                    self.told.add(member)
                    shards = [shard for one in self.requests for shard in one.lost.get(member, ())]
                    return Lost(self.supervisor, member, shards)
        return None

    def close(self) -> None:
        """Want no more answers."""
        for request in self.requests:
            self.supervisor.requests.pop(request.number, None)
        self.requests.clear()
        for member in self.supervisor.members.values():
            member.forward_output()
