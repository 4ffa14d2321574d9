"""Rebalance: shards move from slow workers to fast ones between rounds; bits stay."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.policies.base import Policy
from mixle.utils.parallel.policies.speeds import Speeds, moves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.planning.catalog import CalibrationCatalog

__all__ = ["Move", "Rebalance"]


@dataclass(frozen=True)
class Move:
    """One move.

    Attributes
    ----------
    round : int
        E-step before which it happened, from 0.
    shard, before, after : int
        The shard, the worker it left, and the worker it went to.
    """

    round: int
    shard: int
    before: int
    after: int


class Rebalance(Policy):
    """Move whole shards between workers, between rounds, such that all are done at the same time.

    What a worker takes for its shards tells its speed. Before an E-step the busiest worker's shards go to workers that
    would be done earlier, if that shortens the round by more than `threshold` and by more than jitter alone may show.
    A shard's statistic does not depend on who computes it, so that bits do not change. The more shards there are than
    workers, the evener the load can be: with K equal shards it is within ``workers / K`` of even.

    Each result's receipt carries ``predicted_seconds``, and each record of the round their sum over the rank's shards
    beside the seconds that were measured.

    Parameters
    ----------
    threshold : float
        Part of a round's time that moves must save, in (0, 1).
    jitter : float
        Standard deviation of a worker's relative seconds from round to round that is assumed before it is seen; 4
        standard errors of the difference of two speeds must be exceeded.
    window : int
        E-steps that speeds are measured over.
    catalog : CalibrationCatalog, optional
        Gets a record of the speeds (rows per second of ``"cpu:<worker>"``) when the pool is closed.
    catalog_path : path, optional
        File of a catalog that gets it too.

    Attributes
    ----------
    round : int
        E-steps so far.
    moves : list of Move
        What moved.

    Raises
    ------
    ValueError
        If `threshold` lies outside (0, 1), `jitter` is negative, or `window` is below 1.

    Examples
    --------
    >>> from mixle.utils.parallel.transports.process import ProcessTransport
    >>> policy = Rebalance(threshold=0.1).over(ProcessTransport(2))
    >>> policy.round, policy.moves
    (0, [])
    >>> policy.close()
    """

    order: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("move", "workers")

    def __init__(
        self,
        threshold: float = 0.05,
        *,
        jitter: float = 0.1,
        window: int = 20,
        catalog: CalibrationCatalog | None = None,
        catalog_path: Any | None = None,
    ) -> None:
        if isinstance(threshold, bool) or not 0.0 < threshold < 1.0:
            raise ValueError(f"threshold is the part of a round that moves must save, in (0, 1), not {threshold!r}")
        if isinstance(jitter, bool) or not 0.0 <= jitter < float("inf"):
            raise ValueError(f"jitter must be a finite number of at least 0, not {jitter!r}")
        if isinstance(window, bool) or not hasattr(type(window), "__index__") or window < 1:
            raise ValueError(f"window must be an integer of at least 1, not {window!r}")
        self.threshold, self.jitter, self.window = float(threshold), float(jitter), int(window)
        self.catalog, self.catalog_path = catalog, catalog_path

    def bind(self) -> None:
        """Start with a clean record."""
        self.speeds = Speeds(self.jitter, self.window)
        self.round = 0
        self.moves: list[Move] = []
        self._rates: dict[int, tuple[float, float]] = {}
        self._model = ""

    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard; before an E-step shards may move."""
        return self._measured(task) if isinstance(task, Accumulate) else self.inner.map(task)

    def _measured(self, task: Accumulate) -> Iterator[Result]:
        self._move()
        self._model = type(task.model).__name__
        measured: list[tuple[int, int, float, float]] = []
        for result in self.inner.map(task):
            worker, seconds = result.receipt.get("worker"), float(result.receipt.get("seconds", 0.0))
            if worker is None or result.error is not None:
                yield result
                continue
            size = float(result.receipt.get("bytes") or 0.0) or float(result.rows)
            measured.append((worker, result.shard, seconds, size))
            rows, spent = self._rates.get(worker, (0.0, 0.0))
            self._rates[worker] = (rows + result.rows, spent + seconds)
            yield self._predicted(result, worker)
        self.speeds.note(measured)
        self.round += 1

    def _predicted(self, result: Result, worker: int) -> Result:
        """Return a result whose receipt also says what was expected of it."""
        if not self.speeds.known(worker):
            return result
        expected = {"predicted_seconds": self.speeds.seconds(result.shard, worker)}
        return replace(result, receipt=result.receipt | expected)

    def _able(self) -> list[int]:
        workers: set[int] = set(self.inner.workers())  # type: ignore[attr-defined] # `needs` asks for it
        return sorted(workers - set(getattr(self.inner, "blacklist", ())))

    def _move(self) -> None:
        """Move shards if that pays."""
        able, owner = self._able(), dict(self.inner.owner)  # type: ignore[attr-defined]
        if len(able) < 2 or not any(self.speeds.known(worker) for worker in able):
            return
        limit = max(self.threshold, self.speeds.doubt(able))
        speeds = {worker: self.speeds.speed(worker) for worker in able}
        work = {shard: self.speeds.work.get(shard, 1.0) for shard in owner}
        loads = dict.fromkeys(able, 0.0)
        for shard, worker in owner.items():
            if worker in loads:
                loads[worker] += work[shard] / speeds[worker]
        even = sum(work.values()) / sum(speeds.values())
        if 1.0 - even / max(*loads.values(), even) <= limit:
            return  # not even a perfect split would pay
        seconds = {shard: {worker: work[shard] / speeds[worker] for worker in able} for shard in owner}
        planned, gain = moves(owner, able, seconds)
        if gain <= limit:
            return
        for shard, worker in planned.items():
            self.moves.append(Move(self.round, shard, owner[shard], worker))
            self.inner.move(shard, worker)  # type: ignore[attr-defined]

    def throughputs(self) -> dict[int, float]:
        """Return the rows per second of each worker over all E-steps so far: what `balance_plan` takes."""
        return {worker: rows / spent for worker, (rows, spent) in sorted(self._rates.items()) if spent > 0.0}

    def close(self) -> None:
        """Close the transport, and let the catalog learn; further calls do nothing."""
        self.inner.close()
        measured, self._rates = self.throughputs(), {}
        if measured and (self.catalog is not None or self.catalog_path is not None):
            self._teach(measured)

    def _teach(self, measured: dict[int, float]) -> None:
        from mixle.utils.parallel.planning.catalog import CalibrationRecord, host_kind, keep
        from mixle.utils.parallel.planning.devices import DeviceSpec, Resources

        devices = Resources(tuple(DeviceSpec(f"cpu:{worker}", throughput=speed) for worker, speed in measured.items()))
        rows = sum(self.sizes.values())
        record = CalibrationRecord(
            self._model, "estep", devices, rows, self.round, row_count=rows, timestamp=time.time(), host=host_kind()
        )
        keep(record, self.catalog, self.catalog_path)
