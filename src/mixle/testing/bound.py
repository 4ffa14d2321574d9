"""A plan at work: the innermost policy of a handle."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from mixle.errors import BackendError
from mixle.testing.fault import DEADLY, Fault
from mixle.testing.ledger import Ledger, note
from mixle.testing.strikes import signal_of
from mixle.testing.task import ChaosEncoder, ChaosTask, Scene
from mixle.utils.parallel.folding.tasks import Accumulate, Initialize, Score
from mixle.utils.parallel.policies.base import Policy

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.folding.transport import Source

__all__ = ["Chaos"]

#: By kind of task: the points of its first chunk, of its second, of its end, and the others that lie in it.
_POINTS: dict[type, tuple[str, ...]] = {
    Accumulate: ("before", "mid_update", "after", "reply", "recover"),
    Initialize: ("init", "", ""),
    Score: ("score", "", ""),
}
_VERBS = frozenset({"begin", "dispatch", "run"})  # those that take a task besides `map`


class Chaos(Policy):
    """Lets faults happen in the rounds of one handle.

    Parameters
    ----------
    faults : tuple of Fault
        What happens.
    """

    order: ClassVar[int] = 0

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        self.faults = faults

    def bind(self) -> None:
        """Refuse what this transport cannot meet, and begin a ledger."""
        self.ledger = Ledger()
        self._counts: dict[type, int] = {}
        self._announced = False
        self._last: Any = None
        self._wrapped: Any = None
        for fault in self.faults:
            self._refuse(fault)

    def rearm(self, faults: tuple[Fault, ...]) -> None:
        """Take other faults from now on, with a clean record and rounds counted anew."""
        self.ledger.close()
        self.faults = faults
        self.ledger, self._last, self._wrapped = Ledger(), None, None
        self._counts.clear()
        for fault in faults:
            self._refuse(fault)

    def _refuse(self, fault: Fault) -> None:
        has_workers, has_processes = hasattr(self.inner, "workers"), hasattr(self.inner, "process")
        lacks = None
        if fault.kind in DEADLY and not has_workers:
            lacks = "works in this process, which the fault would end"
        elif fault.worker is not None and not has_workers:
            lacks = "has no workers that could be told apart: leave out worker=, say shard="
        elif fault.at in {"load", "reply", "recover"} and not has_workers:
            lacks = "sends nothing to workers of its own and recovers nothing"
        elif fault.at in {"start", "close"} and not has_processes:
            lacks = "has no processes that could be signalled from outside"
        elif fault.worker is not None and fault.at in {"load", "encode"} and not has_processes:
            lacks = "does not tell its workers apart while they encode: leave out worker="
        elif (fault.kind == "garble" or (fault.kind, fault.at) == ("corrupt", "reply")) and not has_processes:
            lacks = "has no frames of this library on its wire"
        if lacks:
            raise BackendError(f"{fault!r} cannot happen here: transport {self.name!r} {lacks}. Use backend='mp'")

    # The verbs

    def load(self, source: Source) -> None:
        """Encode all shards where they will live, if nothing strikes."""
        opened = getattr(self.inner, "open", None)
        if opened is None or not self._at("start", "load", "encode"):
            self.inner.load(self._source(source))
            self._check_targets(len(self.sizes))  # a collection's are counted where it lives
            return
        self._open(source)
        try:
            self.inner.loaded(list(self.inner.map(None)))  # type: ignore[attr-defined, arg-type] # comes with `open`
        except BaseException:
            self.close()
            raise

    def _open(self, source: Source) -> None:
        """Start the workers; they may be struck before they have anything to do."""
        self.inner.open(self._source(source))  # type: ignore[attr-defined] # asked for where it is there
        try:
            self._check_targets(len(source.shards))
            self._from_outside("start")
        except BaseException:
            self.close()
            raise

    def map(self, task: Task) -> Iterator[Result]:
        """Run a task on every shard."""
        return self.inner.map(self._faulty(task))

    def close(self) -> None:
        """Close the transport; workers may be struck before they are told."""
        try:
            if not getattr(self.inner, "closed", False):
                self._from_outside("close")
        finally:
            self.inner.close()
            self._last = self._wrapped = None
            self.ledger.close()

    def __getattr__(self, verb: str) -> Any:
        found = super().__getattr__(verb)
        if verb == "open":  # of a transport that lets retry load
            return self._open
        if verb not in _VERBS:
            return found

        def call(task: Any, *rest: Any, **more: Any) -> Any:
            return found(self._faulty(task), *rest, **more)

        return call

    # Inside

    def _at(self, *points: str) -> tuple[tuple[int, Fault], ...]:
        return tuple(item for item in enumerate(self.faults) if item[1].at in points)

    def _scene(self, faults: tuple[tuple[int, Fault], ...], number: int | None = None) -> Scene:
        return Scene(faults, str(self.ledger.open()), os.getpid(), number)

    def _source(self, source: Source) -> Source:
        faults = self._at("load", "encode")
        return replace(source, encoder=ChaosEncoder(source.encoder, self._scene(faults))) if faults else source

    def _check_targets(self, shards: int) -> None:
        workers = self.inner.workers() if hasattr(self.inner, "workers") else None
        for fault in self.faults:
            if fault.shard is not None and fault.shard >= shards:
                raise BackendError(f"{fault!r}: there is no shard {fault.shard}; name one of 0 to {shards - 1}")
            if fault.worker is not None and workers is not None and fault.worker not in workers:
                raise BackendError(f"{fault!r}: there is no worker {fault.worker}; name one of {list(workers)}")

    def _faulty(self, task: Any) -> Any:
        """Return the task with the faults that its round may meet; the very task if there are none."""
        if not self._announced and task is not self._last:  # no handle drives this transport
            self._new_round(task)
        return self._wrapped if task is self._last and self._wrapped is not None else task

    def round_begins(self, task: Task) -> None:
        """Count a round of a handle; what policies compute besides belongs to it, or meets nothing."""
        self._announced = True
        self._new_round(task)

    def _new_round(self, task: Any) -> None:
        kind = type(task)
        self._last, self._wrapped = task, None
        points = _POINTS.get(kind)
        if points is None:
            return
        self._counts[kind] = number = self._counts.get(kind, 0) + 1
        if kind is Accumulate:
            self.ledger.rounds = number
        faults = tuple(item for item in self._at(*points) if item[1].round in {None, number})
        if faults:
            self._wrapped = ChaosTask(task, (points[0], points[1], points[2]), self._scene(faults, number))

    def _from_outside(self, at: str) -> None:
        """Send signals to worker processes."""
        for index, fault in self._at(at):
            workers = list(self.inner.workers())  # type: ignore[attr-defined] # checked by bind
            chosen = workers if fault.worker is None else [worker for worker in workers if worker == fault.worker]
            for arrival, worker in enumerate(chosen[fault.skip :][: fault.times]):
                process = self.inner.process(worker)  # type: ignore[attr-defined]
                where = {"round": None, "worker": worker, "shard": None}
                note(str(self.ledger.open()), arrival, {"fault": index, "at": at, **where})
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal_of(fault.kind))
