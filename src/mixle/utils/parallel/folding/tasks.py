"""What to compute on one shard: five pure functions of its chunks, and the one way to run them.

The loop over chunks exists here and nowhere else. A task never sets anything global; its result is a function of the
shard, the estimator, the model and the seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from mixle.stats.refusals import scores_of
from mixle.utils.parallel.folding.build import build_key
from mixle.utils.parallel.folding.digests import rows_digest
from mixle.utils.parallel.folding.draws import draws
from mixle.utils.parallel.folding.faults import RemoteFault, fault_of
from mixle.utils.parallel.folding.model_digest import model_digest
from mixle.utils.parallel.folding.shards import Chunk, Shard
from mixle.utils.parallel.folding.usage import usage

__all__ = ["Accumulate", "Apply", "Initialize", "RemoteFault", "Result", "Sample", "Score", "Sizes", "Task", "execute"]

Outcome = tuple[Any, float | None, int, float, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Result:
    """What a task made of one shard.

    Attributes
    ----------
    shard : int
        Shard id.
    rows : int
        Rows of the shard.
    weight : float
        Row weight behind `value` (of a start: the weight of the kept rows).
    value : Any
        The statistic, or what an `Apply` returned.
    log_density : float or None
        Summed weighted log-density of the model, where the task scores.
    receipt : dict
        What happened: ``seconds`` (wall), ``cpu_seconds``, ``left_out`` rows, the ``build`` key.
    error : RemoteFault or None
        The user's exception; then `value` is None.
    """

    shard: int
    rows: int
    weight: float
    value: Any
    log_density: float | None
    receipt: dict[str, Any] = field(default_factory=dict)
    error: RemoteFault | None = None


class Task(Protocol):
    """A pure function of a shard.

    ``run`` calls ``at(chunk)`` before it works on a chunk, so that an error can name the row's position.
    """

    def run(self, shard: Shard, at: Callable[[Chunk], None] = ...) -> Outcome:
        """Return ``(value, log_density, rows, weight, receipt)``."""
        ...  # pragma: no cover - a protocol


def _nowhere(chunk: Chunk) -> None:
    """Ignore which chunk is at work."""


def _weight(chunk: Chunk) -> float:
    if chunk.weights is None:
        return float(chunk.count)
    from mixle.stats.sums import block_sum

    return float(block_sum(chunk.weights))


@contextmanager
def _working(task: Accumulate | Score) -> Iterator[None]:
    """Let mixtures compute in the task's precision meanwhile, and find once what its shards have in common."""
    from mixle.stats.precision import PRECISIONS, computing
    from mixle.stats.recall import recalling

    with recalling(task), nullcontext() if task.precision == "float64" else computing(PRECISIONS[task.precision]):
        yield


def row_log_densities(model: Any, chunk: Chunk) -> np.ndarray:
    """Return the log-density of `model` at each row of a chunk."""
    return scores_of(model, chunk.payload, chunk.count)


def chunk_log_densities(shard: Shard, model: Any) -> list[np.ndarray]:
    """Return the log-densities of each chunk of a shard; of several models, arrays of shape (models, rows)."""
    if isinstance(model, (list, tuple)):
        return [np.array([row_log_densities(one, chunk) for one in model]) for chunk in shard.chunks]
    return [row_log_densities(model, chunk) for chunk in shard.chunks]


def weighted_log_density(model: Any, chunk: Chunk) -> float:
    """Return the summed weighted log-density of `model` on a chunk; rows of zero weight count nothing."""
    from mixle.stats.sums import block_sum

    return float(block_sum(row_log_densities(model, chunk), chunk.weights))


@dataclass(frozen=True, eq=False)
class Accumulate:
    """The E-step: the statistic of the shard under `model`, and with `scored` the model's log-density.

    Attributes
    ----------
    estimator : Any
        Its accumulator takes the rows; one accumulator serves all chunks of the shard.
    model : Any
        The current model, or None for families that need none.
    scored : bool
        Also sum the log-density of `model`; accumulators with `seq_update_scored` do it in the same pass.
    checked : int or None
        Number of the round, to check on the way what `mixle.stats.identities` knows (on other blocks each round) and to
        take the `rows_digest` afterwards: receipts then have ``rows`` and, unless all residuals
        are small at first sight, ``identities``: the largest one in units of its bound.
    precision : str
        "float64", or "float32" for what `mixle.stats.precision` tells.
    """

    estimator: Any
    model: Any
    scored: bool = True
    checked: int | None = None
    precision: str = "float64"

    def run(self, shard: Shard, at: Callable[[Chunk], None] = _nowhere) -> Outcome:
        """Return the shard's statistic."""
        if self.checked is None:
            with _working(self):
                return self._sum(shard, at)
        from mixle.stats.identities import watching

        with watching(self.checked + 5 * shard.id) as watch, _working(self):
            value, density, rows, weight, receipt = self._sum(shard, at)
        receipt = {**receipt, "rows": rows_digest(shard)}
        if watch.worst:
            receipt["identities"] = watch.worst
        return value, density, rows, weight, receipt

    def received(self) -> int | None:
        """Return the digest of the model as it stands here."""
        return None if self.checked is None else model_digest(self.model)

    def _sum(self, shard: Shard, at: Callable[[Chunk], None]) -> Outcome:
        accumulator = self.estimator.accumulator_factory().make()
        both = getattr(accumulator, "seq_update_scored", None) if self.model is not None else None
        total, weight, left_out = 0.0, 0.0, 0
        for chunk in shard.chunks:
            at(chunk)
            weight += _weight(chunk)
            if both is not None:
                score, skipped = both(chunk.payload, chunk.weights, self.model)
                total, left_out = total + float(score), left_out + int(skipped)
                continue
            accumulator.seq_update(chunk.payload, chunk.ones_or_weights(), self.model)
            if self.scored and self.model is not None:
                total += weighted_log_density(self.model, chunk)
        scored = self.model is not None and (self.scored or both is not None)
        return accumulator.value(), total if scored else None, shard.rows, weight, {"left_out": left_out}


@dataclass(frozen=True, eq=False)
class Sizes(Accumulate):
    """The E-step with linear features by their size: of one component, what rounding errors are measured by."""

    def run(self, shard: Shard, at: Callable[[Chunk], None] = _nowhere) -> Outcome:
        """Return the shard's statistic of sizes."""
        from mixle.stats.identities import sizing

        with sizing():
            return self._sum(shard, at)


@dataclass(frozen=True, eq=False)
class Score:
    """The summed weighted log-density of `model`, computed in `precision`."""

    model: Any
    precision: str = "float64"

    def run(self, shard: Shard, at: Callable[[Chunk], None] = _nowhere) -> Outcome:
        """Return the shard's log-density, without a value."""
        total, weight = 0.0, 0.0
        for chunk in shard.chunks:
            at(chunk)
            weight += _weight(chunk)
            with _working(self):
                total += weighted_log_density(self.model, chunk)
        return None, total, shard.rows, weight, {}


def _row_draws(seed: int, chunk: Chunk) -> np.ndarray:
    """Return the draws of a chunk's rows; rows of zero weight get 1, which no start keeps."""
    numbers = draws(seed, chunk.positions)
    return numbers if chunk.weights is None else np.where(chunk.weights > 0.0, numbers, 1.0)


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows with the smallest draws, as plain columns, to seed centres from.

    The value is a list of ``(draws, positions, columns)``, one entry per chunk that holds such rows; `columns` is None
    if the encoder has none.

    Attributes
    ----------
    seed : int
        Key of the draws.
    size : int
        Wanted number of rows; a smaller shard gives all it has.
    """

    seed: int
    size: int

    def run(self, shard: Shard, at: Callable[[Chunk], None] = _nowhere) -> Outcome:
        """Return the sampled rows of the shard."""
        numbers = [_row_draws(self.seed, chunk) for chunk in shard.chunks]
        weight = 0.0
        everything = np.concatenate(numbers) if numbers else np.empty(0)
        limit = 1.0
        if len(everything) > self.size:
            limit = float(np.partition(everything, self.size)[self.size])
        value = []
        for chunk, row_draws in zip(shard.chunks, numbers, strict=True):
            weight += _weight(chunk)
            rows = np.flatnonzero(row_draws < limit)
            if not len(rows):
                continue
            at(chunk)
            positions = chunk.positions.start + rows.astype(np.int64) * chunk.positions.step
            value.append((row_draws[rows], positions, _columns(shard.encoder, chunk, rows)))
        return value, None, shard.rows, weight, {}


def _columns(encoder: Any, chunk: Chunk, rows: np.ndarray) -> list[Any] | None:
    """Return the given rows of a chunk as columns whose label tables hold only what is used; None without columns."""
    payload, count, take = chunk.payload, chunk.count, getattr(encoder, "take", None)
    if take is not None:  # columns of all rows may be much more than the sampled ones'
        payload, count, rows = take(payload, rows), len(rows), np.arange(len(rows))
    columns = getattr(encoder, "columns", lambda *_: None)(payload, 0, count)
    if columns is None:
        return None
    taken = []
    for column in columns:
        values = np.asarray(column.values)[rows]
        missing = None if column.missing is None else np.asarray(column.missing)[rows]
        labels = column.labels
        if labels is not None:
            there = np.ones(len(values), bool) if missing is None else ~missing
            used, codes = np.unique(values[there], return_inverse=True)
            values = np.zeros(len(values), np.intp)  # a missing row has no label, whatever its code
            values[there] = codes
            labels = tuple(labels[code] for code in used.tolist())
        taken.append(column._replace(values=values, labels=labels, missing=missing))
    return taken


@dataclass(frozen=True, eq=False)
class Initialize:
    """The statistic of a random start: each row is kept with probability `p`.

    Attributes
    ----------
    estimator : Any
        Its accumulator takes the kept rows.
    p : float
        Probability that a row is kept, in (0, 1].
    seed : int
        Key of the rows' draws.
    shard_seeds : tuple of int or None
        A seed per shard for accumulators that start on their own.
    centres : Any
        Seeded centres for accumulators with ``start``; None for the others.
    keep_first : int or None
        Position of the row that is kept although no draw keeps any.
    """

    estimator: Any
    p: float
    seed: int
    shard_seeds: tuple[int, ...] | None = None
    centres: Any = None
    keep_first: int | None = None

    def run(self, shard: Shard, at: Callable[[Chunk], None] = _nowhere) -> Outcome:
        """Return the statistic of the kept rows of the shard."""
        from numpy.random import RandomState

        accumulator = self.estimator.accumulator_factory().make()
        rng = None if self.shard_seeds is None else RandomState(self.shard_seeds[shard.id])
        weight = 0.0
        for chunk in shard.chunks:
            at(chunk)
            numbers = _row_draws(self.seed, chunk)
            if self.keep_first is not None and self.keep_first in chunk.positions:
                numbers[chunk.positions.index(self.keep_first)] = 0.0
            kept = np.where(numbers < self.p, chunk.ones_or_weights(), 0.0)
            weight += float(kept.sum())
            if self.centres is None:
                accumulator.seq_initialize(chunk.payload, kept, rng)
            elif chunk.weights is None:
                accumulator.start(chunk.payload, numbers, self.centres, self.p)
            else:
                accumulator.start(chunk.payload, numbers, self.centres, self.p, chunk.weights)
        return accumulator.value(), None, shard.rows, weight, {}


@dataclass(frozen=True, eq=False)
class Apply:
    """Any function of a shard: row-level output, a recomputed M-step.

    Attributes
    ----------
    function : callable
        Called as ``function(shard, *args)``; it must be picklable where shards live in other processes.
    args : tuple
        Further arguments.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()

    def run(self, shard: Shard, at: Callable[[Chunk], None] = _nowhere) -> Outcome:
        """Return what the function returns."""
        if len(shard.chunks) == 1:
            at(shard.chunks[0])
        return self.function(shard, *self.args), None, shard.rows, float(shard.rows), {}


def execute(task: Task, shard: Shard, worker: int | None = None) -> Result:
    """Run `task` on `shard`; an exception of the user's becomes the result's `error`.

    Parameters
    ----------
    task : Task
        What to compute.
    shard : Shard
        The encoded rows.
    worker : int, optional
        Id of the worker, for the receipt.

    Returns
    -------
    Result
        Its receipt holds ``started`` (of the monotonic clock), ``seconds`` (wall), ``cpu_seconds`` (of this thread),
        page faults and peak memory of the process where the system tells, ``bytes`` of the shard and the `build_key`.
    """
    current: list[Chunk] = []

    def at(chunk: Chunk) -> None:
        current[:] = [chunk]

    wall, cpu, before = time.perf_counter(), time.thread_time(), usage()
    try:
        on_worker = getattr(task, "on_worker", None)  # of a task that wants to know where it runs
        value, log_density, rows, weight, receipt = (task if on_worker is None else on_worker(worker)).run(shard, at)
        error = None
    except Exception as failure:  # noqa: BLE001 - it is the user's, and belongs on the driver
        value, log_density, rows, weight, receipt = None, None, shard.rows, 0.0, {}
        error = fault_of(failure, current[0] if current else None)
    receipt = {**receipt, "seconds": time.perf_counter() - wall, "cpu_seconds": time.thread_time() - cpu}
    receipt["started"], receipt["build"] = wall, build_key()
    after = usage()
    if after is not None and before is not None:
        receipt["minor_faults"], receipt["major_faults"] = after[0] - before[0], after[1] - before[1]
        receipt["peak_memory_bytes"] = after[2]
    receipt["bytes"] = shard.nbytes
    if worker is not None:
        receipt["worker"] = worker
    return Result(shard.id, rows, weight, value, log_density, receipt, error)
