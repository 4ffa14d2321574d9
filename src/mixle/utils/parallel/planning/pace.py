"""Seconds of a round, before it runs: what a model takes on a row, and what a backend takes beside the rows.

Both are processor seconds: on free cores they are the seconds of a clock. `timing` measures them.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

from mixle.utils.parallel.planning.catalog import CalibrationCatalog, CalibrationRecord, host_kind
from mixle.utils.parallel.planning.devices import DeviceSpec, Resources, exact_int

__all__ = ["BACKENDS", "Costs", "Overhead", "Pace", "RoundTime", "known_costs", "known_overheads"]

#: What rounds are predicted for: one thread of this process, several of them, worker processes.
BACKENDS = ("local", "threads", "mp")


class Pace(NamedTuple):
    """Processor seconds of a model's E-step and M-step on this kind of host.

    Attributes
    ----------
    row, piece, shard : float
        Of a row; of an encoded piece, and of a shard, whatever their rows.
    held : float
        The part of an E-step during which other threads wait: 0 if threads run side by side, 1 if they are no quicker
        than one, which then does the work alone.
    fold, step : float
        Of adding up the statistic of one shard; of the M-step and what a fold takes without shards.
    send, receive : float
        Of writing the model and the estimator for workers, and of reading them.
    reply, read : float
        Of writing a statistic on a worker, and of reading it.
    """

    row: float
    piece: float
    shard: float
    held: float
    fold: float
    step: float
    send: float
    receive: float
    reply: float
    read: float

    def constant(self, pieces: int = 1) -> float:
        """Return the seconds of an E-step on a shard whatever its rows."""
        return self.piece * pieces + self.shard

    def task(self, rows: float, pieces: int = 1) -> float:
        """Return the seconds of an E-step on one shard."""
        return self.row * rows + self.constant(pieces)

    def crowded(self, seconds: float, share: float) -> float:
        """Return when all threads are done with work of so many seconds; the busiest has the part `share` of it."""
        return seconds * (self.held + (1.0 - self.held) * share)

    def scaled(self, factor: float) -> Pace:
        """Return the pace with an E-step that takes `factor` times as long."""
        return self._replace(row=self.row * factor, piece=self.piece * factor, shard=self.shard * factor)


class Overhead(NamedTuple):
    """Processor seconds that a backend adds to a round, whatever the model.

    Attributes
    ----------
    round, worker, shard : float
        Of the driver: in any case, per worker, per shard.
    wake, answer : float
        Of a worker: per round, per shard.
    slower : float
        What work on rows takes where several workers do it at a time, beside the same alone.
    """

    round: float = 0.0
    worker: float = 0.0
    shard: float = 0.0
    wake: float = 0.0
    answer: float = 0.0
    slower: float = 1.0


class RoundTime(NamedTuple):
    """Seconds of one round: an E-step over all shards, the fold, the M-step.

    Attributes
    ----------
    seconds : float
        Of the driver and the busiest worker, which is what a clock shows if every worker has a core.
    cpu_seconds : float
        Of the driver and all workers.
    task_seconds : float
        Of the E-step on the largest shard, as its receipt has it.
    """

    seconds: float
    cpu_seconds: float
    task_seconds: float


class Costs(NamedTuple):
    """What rounds of one model cost on this kind of host.

    Attributes
    ----------
    pace : Pace
        Of the model.
    overheads : dict of str to Overhead
        By backend.
    """

    pace: Pace
    overheads: dict[str, Overhead]

    def round(
        self,
        total_rows: int,
        *,
        backend: str = "mp",
        workers: int = 1,
        num_shards: int | None = None,
        sub_chunks: int = 1,
    ) -> RoundTime:
        """Return the seconds of a round.

        Parameters
        ----------
        total_rows : int
            Rows of all shards.
        backend : {"mp", "threads", "local"}
            Worker processes, threads of this process, or this process alone.
        workers : int
            Processes or threads.
        num_shards : int, optional
            Shards; one per worker by default.
        sub_chunks : int
            Encoded pieces per shard.

        Raises
        ------
        ValueError
            For a backend whose overhead is not known, and for counts below 1.

        Examples
        --------
        >>> pace = Pace(1e-6, 0.0, 1e-3, 0.5, 0.0, 1e-3, 0.0, 0.0, 0.0, 0.0)
        >>> told = Costs(pace, {"mp": Overhead()}).round(1_000_000, workers=4)
        >>> round(told.seconds, 6), round(told.cpu_seconds, 6)
        (0.252, 1.005)
        """
        if backend not in self.overheads:
            raise ValueError(f"rounds are predicted for {', '.join(self.overheads) or 'no backend'}, not {backend!r}")
        pace, overhead = self.pace, self.overheads[backend]
        rows = exact_int(total_rows, "total_rows", 0) or 0
        count = 1 if backend == "local" else exact_int(workers, "workers", 1) or 1
        shards = max(1, min(exact_int(num_shards, "num_shards", 1, optional=True) or count, max(rows, 1)))
        pieces = exact_int(sub_chunks, "sub_chunks", 1) or 1
        mine = math.ceil(shards / count)
        driver = overhead.round + overhead.worker * count + (overhead.shard + pace.fold) * shards + pace.step
        constant, largest = pace.constant(pieces), math.ceil(rows / shards)
        told = pace.task(largest, pieces)
        busy = min(count, shards)
        if backend == "threads":
            work = overhead.slower * pace.row * rows + (constant + overhead.answer) * shards
            crowd = pace.crowded(work, mine / shards) + overhead.wake
            return RoundTime(driver + crowd, driver + work + overhead.wake * busy, told)
        once, each = overhead.wake, overhead.answer + constant
        if backend == "mp":
            driver, once, each = driver + pace.send + pace.read * shards, once + pace.receive, each + pace.reply
        row = pace.row * (overhead.slower if busy > 1 else 1.0)
        everyone = driver + busy * once + row * rows + each * shards
        if backend == "local":
            return RoundTime(everyone, everyone, told)
        return RoundTime(driver + once + mine * (row * largest + each), everyone, told)

    def record(self, model_type: str, rows: int, repeats: int = 1) -> CalibrationRecord:
        """Return a record for a catalog, of now and this kind of host."""
        device = DeviceSpec("cpu:0", throughput=rows / max(self.pace.task(rows), 1e-9))
        return CalibrationRecord(
            model_type,
            "em",
            Resources((device,)),
            rows,
            repeats,
            row_count=rows,
            timestamp=time.time(),
            host=host_kind(),
            costs=self.to_dict(),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "pace": self.pace._asdict(),
            "overheads": {name: overhead._asdict() for name, overhead in self.overheads.items()},
        }

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Costs:
        """Return what `to_dict` made `told` from."""
        overheads = {name: Overhead(**numbers) for name, numbers in told["overheads"].items()}
        pace = {name: told["pace"][name] for name in Pace._fields}
        return cls(Pace(**pace), overheads)


def known_costs(catalog: CalibrationCatalog, model_type: str | None = None) -> Costs | None:
    """Return the newest costs that a catalog has for a model on this kind of host; None without.

    Parameters
    ----------
    catalog : CalibrationCatalog
        What was measured.
    model_type : str, optional
        Class name of the model; by default any.

    Examples
    --------
    >>> known_costs(CalibrationCatalog(), "GaussianDistribution") is None
    True
    """
    here = host_kind()
    found = [r for r in catalog.records if r.costs and r.host == here and r.matches(model_type, None, None)]
    record = max(reversed(found), key=lambda one: one.timestamp, default=None)
    return None if record is None or record.costs is None else Costs.from_dict(record.costs)


def known_overheads(catalog: CalibrationCatalog) -> dict[str, Overhead]:
    """Return the newest overhead of each backend on this kind of host, whatever the model was."""
    here = host_kind()
    found = [r for r in catalog.records if r.costs and r.host == here]
    newest: dict[str, Overhead] = {}
    for record in sorted(found, key=lambda one: one.timestamp):
        newest |= Costs.from_dict(record.costs or {}).overheads
    return newest
