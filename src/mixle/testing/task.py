"""Tasks and encoders that meet the faults of a plan while they work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mixle.testing.corruption import Corruption, spoil_next_frame
from mixle.testing.ledger import arrive, note, was_here
from mixle.testing.strikes import strike

if TYPE_CHECKING:
    from mixle.testing.fault import Fault
    from mixle.utils.parallel.folding.shards import Chunk, Shard

__all__ = ["ChaosEncoder", "ChaosTask", "Scene"]

RANK = "MIXLE_WORKER"  # in the environment of a worker process
EARLY = ("before", "mid_update")  # corruptions of these points are in place before the first row is read


@dataclass(frozen=True)
class Scene:
    """Where faults may strike: which of them are due, and the record of what struck.

    Attributes
    ----------
    faults : tuple of (int, Fault)
        With their places in the plan.
    folder : str
        Of the ledger.
    driver : int
        Process id of the driver.
    round : int or None
        The round, where there is one.
    """

    faults: tuple[tuple[int, Fault], ...]
    folder: str
    driver: int
    round: int | None = None

    def due(self, at: str, worker: int | None, shard: int | None, early: bool = False) -> Iterator[Fault]:
        """Yield the faults that strike an arrival, each noted before; `early` are those of what will be read."""
        for index, fault in self.faults:
            if fault.at != at or early != (fault.kind == "corrupt" and at in EARLY):
                continue
            if fault.worker not in {None, worker} or fault.shard not in {None, shard}:
                continue
            arrival = arrive(self.folder, str(index)) - fault.skip
            if arrival >= 0 and (fault.times is None or arrival < fault.times):
                where = {"round": self.round, "worker": worker, "shard": shard}
                note(self.folder, arrival, {"fault": index, "at": at, **where})
                yield fault

    def has(self, at: str) -> bool:
        """Return whether faults are planned for a point."""
        return any(fault.at == at for _, fault in self.faults)


@dataclass(frozen=True)
class ChaosTask:
    """A task that meets faults on its way.

    Attributes
    ----------
    inner : Task
        What is computed.
    points : tuple of str
        What its first and its later chunks, and its end, are called.
    scene : Scene
        The faults.
    worker : int or None
        Where it runs.
    """

    inner: Any
    points: tuple[str, str, str]
    scene: Scene
    worker: int | None = None

    def on_worker(self, worker: int | None) -> ChaosTask:
        """Return the task as it is run on a worker."""
        return replace(self, worker=worker)

    def run(self, shard: Shard, at: Callable[[Chunk], None] = lambda _: None) -> tuple[Any, ...]:
        """Return what the task returns, if nothing strikes."""
        return _Run(self, shard).work(at)


class _Run:
    """One shard of a task."""

    def __init__(self, task: ChaosTask, shard: Shard) -> None:
        self.task, self.shard = task, shard
        self.first, self.later, self.end = task.points
        self.chunks = 0
        self.spoilers: list[Any] = []

    def meet(self, point: str) -> None:
        """Let the faults of a point happen."""
        task = self.task
        for fault in task.scene.due(point, task.worker, self.shard.id):
            if fault.kind == "corrupt":
                self.spoilers.append(Corruption.planned(fault))
            elif fault.kind == "slow":
                self.spoilers.append(fault.get("factor"))
            elif fault.kind == "garble" and fault.get("how") == "unpicklable":
                self.spoilers.append(fault)
            else:
                strike(fault, task.scene.driver)

    def work(self, at: Callable[[Chunk], None]) -> tuple[Any, ...]:
        import time

        scene, inner, shard = self.task.scene, self.task.inner, self.shard
        if scene.has("recover") and was_here(scene.folder, f"{scene.round}-{shard.id}"):
            self.meet("recover")

        def met(chunk: Chunk) -> None:
            at(chunk)
            if self.chunks == 0:
                self.meet(self.first)
            elif self.chunks == 1:
                self.meet(self.later)
            self.chunks += 1

        corrupt = [Corruption.planned(fault) for fault in self._corruptions()]
        begun = time.perf_counter()
        with ExitStack() as spoiled:
            for one in corrupt:
                if one.place == "encoded":
                    shard = one.of_shard(shard)
                elif one.place == "model":
                    inner = replace(inner, model=one.of(inner.model))
                else:
                    spoiled.enter_context(one.within())
            if len(shard.chunks) < 2 and scene.has(self.later):
                inner = replace(inner, estimator=_Met(inner.estimator, lambda: self.meet(self.later)))
            outcome = inner.run(shard, met)
        self.meet(self.end)
        return self._handed_over(outcome, time.perf_counter() - begun)

    def _corruptions(self) -> Iterator[Fault]:
        """Yield the faults of what is read and computed; they are there before the first row is."""
        for point in EARLY:
            yield from self.task.scene.due(point, self.task.worker, self.shard.id, early=True)

    def _handed_over(self, outcome: tuple[Any, ...], seconds: float) -> tuple[Any, ...]:
        import time

        for one in self.spoilers:
            if isinstance(one, float):
                time.sleep((one - 1.0) * seconds)
            elif getattr(one, "kind", "") != "garble" and one.place == "statistic":
                outcome = one.of_outcome(outcome)
        if self.task.scene.has("reply"):
            outcome = (Letter(outcome[0], self), *outcome[1:])
        return outcome


class Letter:
    """A statistic that meets faults while it is written into the reply."""

    def __init__(self, value: Any, run: Any) -> None:
        self.value, self.run = value, run
        self.error: Exception | None = None
        self.written = False

    def __reduce__(self) -> tuple[Any, ...]:
        if self.error is not None:  # a reply that cannot be pickled is tried in a second way
            raise self.error
        if not self.written:
            self.written = True
            try:
                self._meet()
            except Exception as error:
                self.error = error
                raise
        return _opened, (self.value,)

    def _meet(self) -> None:
        self.run.spoilers = []
        self.run.meet("reply")
        for one in self.run.spoilers:
            if getattr(one, "kind", "") == "garble":
                raise TypeError("this statistic cannot be pickled: a planned fault")
            spoil_next_frame(one)


def _opened(value: Any) -> Any:
    return value


class _Around:
    """An object that is `inner` in all that is not defined here, and calls back."""

    def __init__(self, inner: Any, call: Callable[[], None]) -> None:
        self.inner, self.call = inner, call

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class _Met(_Around):
    """An estimator whose accumulators call back before they hand over their statistic."""

    def accumulator_factory(self) -> Any:
        return self

    def make(self) -> Any:
        return _MetAccumulator(self.inner.accumulator_factory().make(), self.call)


class _MetAccumulator(_Around):
    def value(self) -> Any:
        self.call()
        return self.inner.value()


class ChaosEncoder:
    """An encoder that meets faults where it is read and where it encodes."""

    def __init__(self, inner: Any, scene: Scene) -> None:
        self.inner, self.scene = inner, scene

    def __getattr__(self, name: str) -> Any:
        if name in {"inner", "scene"} or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __eq__(self, other: object) -> bool:
        return bool(self.inner == getattr(other, "inner", other))

    __hash__ = None  # type: ignore[assignment] # encoders are compared, not hashed

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if os.getpid() != self.scene.driver:
            self._meet("load")

    def seq_encode(self, rows: Any) -> Any:
        """Encode rows."""
        self._meet("encode")
        return self.inner.seq_encode(rows)

    def _meet(self, point: str) -> None:
        rank = os.environ.get(RANK)
        worker = None if rank is None or os.getpid() == self.scene.driver else int(rank)
        for fault in self.scene.due(point, worker, None):
            strike(fault, self.scene.driver)
