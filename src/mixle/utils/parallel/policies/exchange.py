"""How a policy talks with workers while a round runs: shards are given, results and losses come back one by one."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from mixle.errors import RoundLosses, WorkerLost
from mixle.utils.parallel.folding.tasks import Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mixle.utils.parallel.folding.transport import Transport

__all__ = ["Exchange", "Gone", "Waves", "open_exchange"]


class Gone(Protocol):
    """A worker that was lost, with the shards that it still owed."""

    worker: int
    shards: tuple[int, ...]

    @property
    def settled(self) -> bool:
        """Whether `told` need not wait for the exit status."""

    def told(self) -> WorkerLost:
        """Return the error that says how it was lost."""


class Exchange(Protocol):
    """One task under way."""

    def give(self, assignment: Mapping[int, Sequence[int]], keep: bool | None = None) -> None:
        """Give more shards to workers.

        Parameters
        ----------
        assignment : mapping of int to sequence of int
            Shards by worker.
        keep : bool, optional
            Whether they keep the encoded rows; if not given, owners do.
        """

    def next(self, timeout_s: float | None = None) -> Result | Gone | None:
        """Return what came next; None if nothing did in time, or nothing is owed."""

    def close(self) -> None:
        """Want no more answers."""


def open_exchange(
    transport: Transport, task: Any, assignment: Mapping[int, Sequence[int]] | None, everything: bool = False
) -> Exchange:
    """Begin a task on chosen shards and workers.

    A transport that can talk meanwhile has ``begin(task, assignment) -> Exchange``. Any other is served in waves: what
    is given while a wave runs goes out with the next one.

    Parameters
    ----------
    transport : Transport
        Who works.
    task : Task or None
        What to do; None encodes shards.
    assignment : mapping of int to sequence of int, or None
        Shards by worker; None leaves the choice to the transport's `map`.
    everything : bool
        The assignment is the transport's own residence of all shards.
    """
    begin = getattr(transport, "begin", None)
    if begin is not None and assignment is not None:
        exchange: Exchange = begin(task, assignment)
        return exchange
    whole = assignment is None or (everything and not hasattr(transport, "dispatch"))
    waves = Waves(transport, task, whole)
    if not whole:
        waves.give(assignment or {})
    return waves


class _Told:
    """A loss that the transport has told already."""

    settled = True

    def __init__(self, error: WorkerLost) -> None:
        self.worker, self.shards, self.error = error.worker, tuple(error.shards), error

    def told(self) -> WorkerLost:
        """Return the error."""
        return self.error


class Waves:
    """An exchange over the plain verbs of a transport: `dispatch`, or `map` and `run`.

    Parameters
    ----------
    transport : Transport
        Who works.
    task : Task
        What to do.
    whole : bool
        Begin with a `map` over all shards.
    """

    def __init__(self, transport: Transport, task: Any, whole: bool) -> None:
        self.transport, self.task = transport, task
        self.waiting: dict[int, list[int]] = {}
        self.lost: deque[_Told] = deque()
        self.wave: Iterator[Result] | None = transport.map(task) if whole else None

    def give(self, assignment: Mapping[int, Sequence[int]], keep: bool | None = None) -> None:
        """Note shards for the next wave."""
        for worker, shards in assignment.items():
            self.waiting.setdefault(worker, []).extend(shards)

    def next(self, timeout_s: float | None = None) -> Result | Gone | None:
        """Return what came next; a wave is waited for, whatever the timeout."""
        while not self.lost:
            if self.wave is None:
                if not self.waiting:
                    return None
                given, self.waiting = self.waiting, {}
                self.wave = self._run(given)
            try:
                return next(self.wave)
            except StopIteration:
                self.wave = None
            except RoundLosses as error:
                self.wave = None
                self.lost.extend(_Told(loss) for loss in error.losses)
        return self.lost.popleft()

    def _run(self, given: dict[int, list[int]]) -> Iterator[Result]:
        dispatch = getattr(self.transport, "dispatch", None)
        return self._one_by_one(given) if dispatch is None else iter(dispatch(self.task, given))

    def _one_by_one(self, given: dict[int, list[int]]) -> Iterator[Result]:
        run = self.transport.run  # type: ignore[attr-defined] # where a worker can be chosen
        losses: list[WorkerLost] = []
        for worker, shards in given.items():
            for place, shard in enumerate(shards):
                try:
                    yield run(self.task, shard, worker)
                except WorkerLost as error:
                    error.worker, error.shards = worker, tuple(shards[place:])
                    losses.append(error)
                    break
        if losses:
            group = RoundLosses("\n".join(map(str, losses)))
            group.losses = tuple(losses)
            raise group

    def close(self) -> None:
        """Give up the wave under way."""
        wave, self.wave = self.wave, None
        close = getattr(wave, "close", None)
        if close is not None:
            close()
