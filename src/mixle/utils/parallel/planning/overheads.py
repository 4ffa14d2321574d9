"""What a backend adds to a round, from rounds: handles of several shapes take them in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mixle.utils.parallel.planning.devices import exact_int
from mixle.utils.parallel.planning.pace import BACKENDS, Overhead, Pace

__all__ = [
    "Shape",
    "Spent",
    "clocks_of",
    "handle_of",
    "measure_overhead",
    "rounds_of",
    "seconds_of_round",
    "spent_in_turn",
]

#: Rounds of a turn, of which the first is not counted: rounds of a fit follow each other.
TURN = 6
#: Seconds after which no more turns are taken, once there were so many.
LIMIT, LEAST = 1.5, 2
#: Shards that the second shape has beyond the first, and workers that the third one has.
MORE, CREW = 8, 2
#: What work on rows may take on a backend beside what it takes alone: beyond, the measurement is at fault.
SLOWER = (1.0, 2.0)


class Shape(NamedTuple):
    """How rows are cut for a probe: the first `rows` of them, among workers, in shards, in pieces of a shard."""

    rows: int
    workers: int = 1
    shards: int = 1
    pieces: int = 1


class Spent(NamedTuple):
    """Processor seconds of one round.

    Attributes
    ----------
    driver : float
        Of the driver, without tasks that it runs itself.
    busiest, everyone : float
        Of the busiest worker process, and of all that is not the driver: worker processes, threads, or its own tasks.
    tasks : float
        Of all tasks, as their receipts have it.
    """

    driver: float
    busiest: float
    everyone: float
    tasks: float


def measure_overhead(
    backend: str,
    repeats: int = 15,
    *,
    data: Any = None,
    model: Any = None,
    estimator: Any = None,
    encoder: Any = None,
    pace: Pace | None = None,
) -> Overhead:
    """Return what rounds of a backend take beside what the model takes in this process.

    Rounds are timed with few shards and with several, on one worker and on several.

    Parameters
    ----------
    backend : {"local", "threads", "mp"}
        What is measured.
    repeats : int
        Timed rounds of each kind.
    data, model, estimator, encoder, pace : optional
        Rows and a model with its `measure_pace`; by default 64 rows and two Gaussians.

    Examples
    --------
    >>> measure_overhead("local", repeats=2).shard >= 0.0
    True
    """
    if backend not in BACKENDS:
        raise ValueError(f"rounds are measured for {', '.join(BACKENDS)}, not {backend!r}")
    runs = exact_int(repeats, "repeats", 1) or 1
    if data is None:
        data, model, estimator = _smallest()
    if pace is None:
        from mixle.utils.parallel.planning.timing import measure_pace

        pace = measure_pace(data, model, estimator, encoder, repeats=runs)
    rows, base = len(data), 2 if backend == "threads" else 1  # one thread is none
    shapes = [Shape(rows, base, base), Shape(rows, base, min(rows, base + MORE)), Shape(rows, base + CREW, base + CREW)]
    shapes = shapes[:2] if backend == "local" else shapes
    seen = rounds_of(shapes, data, estimator, model, runs, backend=backend, encoder=encoder)
    if backend == "local":
        return _beside_here(seen, shapes, pace)
    return _beside_workers(seen, shapes, pace, backend)


def _beside_here(seen: Sequence[Spent], shapes: Sequence[Shape], pace: Pace) -> Overhead:
    """Return the overhead of this process: what it does beside the tasks, and what a first task takes more."""
    few, many = (spent.driver for spent in seen)
    more = shapes[1].shards - shapes[0].shards
    shard = max(0.0, (many - few) / max(1, more) - pace.fold)
    first = max(0.0, seen[0].tasks - pace.task(shapes[0].rows))
    return Overhead(max(0.0, few - pace.fold - pace.step - shard), 0.0, shard, first)


def _beside_workers(seen: Sequence[Spent], shapes: Sequence[Shape], pace: Pace, backend: str) -> Overhead:
    """Return the overhead of workers: of the driver, per worker and shard; of a worker, per round and shard."""
    one, many, crew = shapes
    shard, worker, first = _three([spent.driver for spent in seen], shapes)
    travels = backend == "mp"
    read, send = (pace.read, pace.send) if travels else (0.0, 0.0)
    reply, receive = (pace.reply, pace.receive) if travels else (0.0, 0.0)
    rows = pace.row * one.rows
    if travels:  # the busiest has all rows, in one shard and in several; then a part of them, beside others
        each = max(0.0, (seen[1].busiest - seen[0].busiest) / max(1, many.shards - one.shards))
        wake = max(0.0, seen[0].busiest - rows - each)
        slower = _clipped(seen[2].busiest - wake - each, rows / crew.workers)
    else:
        each, wake, rest = _three([spent.everyone for spent in seen], shapes)
        slower = _clipped(rest, rows)
    return Overhead(
        max(0.0, first - pace.step - send),
        worker,
        max(0.0, shard - pace.fold - read),
        max(0.0, wake - receive),
        max(0.0, each - reply - pace.constant()),
        slower,
    )


def _three(seconds: Sequence[float], shapes: Sequence[Shape]) -> tuple[float, float, float]:
    """Return seconds per shard, per worker, and in any case, none of them below 0."""
    one, many, crew = shapes
    shard = max(0.0, (seconds[1] - seconds[0]) / max(1, many.shards - one.shards))
    worker = max(0.0, (seconds[2] - seconds[0]) / (crew.workers - one.workers) - shard)
    worker = min(worker, max(0.0, seconds[0] / one.workers - shard))
    return shard, worker, max(0.0, seconds[0] - shard * one.shards - worker * one.workers)


def _clipped(seconds: float, alone: float) -> float:
    return min(SLOWER[1], max(SLOWER[0], seconds / alone)) if alone > 0.0 and seconds > 0.0 else 1.0


def _smallest() -> tuple[Any, Any, Any]:
    """Return rows, model and estimator that are next to no work."""
    from mixle.stats import GaussianEstimator, MixtureEstimator
    from mixle.utils.parallel.folding.registry import encoded_data

    estimator = MixtureEstimator([GaussianEstimator()] * 2)
    rows = np.linspace(-1.0, 1.0, 64)
    with encoded_data(rows, estimator) as handle:
        return rows, handle.pysp_seq_initialize(estimator, 1, 1.0), estimator


def rounds_of(
    shapes: Sequence[Shape],
    data: Any,
    estimator: Any,
    model: Any,
    repeats: int,
    *,
    backend: str = "local",
    encoder: Any = None,
) -> list[Spent]:
    """Return what a round takes in each shape: the medians of the least disturbed of several turns.

    All shapes take turns of several rounds. What else the machine does makes processor seconds more, never fewer.

    Parameters
    ----------
    shapes : sequence of Shape
        How rows are cut; each is a handle.
    data, estimator, model, encoder
        Of the fit.
    repeats : int
        Rounds that are counted, of each shape; fewer if they are long.
    backend : {"local", "threads", "mp"}
        Where rounds run.
    """
    with ExitStack() as stack:
        handles = [stack.enter_context(handle_of(backend, data, estimator, encoder, shape)) for shape in shapes]
        rounds = [partial(_spent, handle, estimator, model, clocks_of(handle)) for handle in handles]
        seen: list[list[Spent]] = []
        start = time.perf_counter()
        while len(seen) * (TURN - 1) < repeats and (len(seen) < LEAST or time.perf_counter() - start < LIMIT):
            seen.append([spent_in_turn(run) for run in rounds])
    return [min(turns, key=_all_seconds) for turns in zip(*seen, strict=True)]


def spent_in_turn(run: Callable[[], Spent]) -> Spent:
    """Run the rounds of a turn; return the medians of what they take, without the first."""
    return Spent(*map(statistics.median, zip(*[run() for _ in range(TURN)][1:], strict=True)))


def _all_seconds(spent: Spent) -> float:
    return spent.driver + spent.everyone


def handle_of(backend: str, data: Any, estimator: Any, encoder: Any, shape: Shape) -> Any:
    """Return a handle whose rows are cut as `shape` says."""
    from mixle.utils.parallel.folding.registry import encoded_data
    from mixle.utils.parallel.folding.shards import pick

    options: dict[str, Any] = {"num_chunks": shape.shards, "sub_chunks": shape.pieces}
    if backend == "threads":
        options["chunk_workers"] = shape.workers
    elif backend == "mp":
        options |= {"backend": "mp", "num_workers": shape.workers}
    return encoded_data(pick(data, range(shape.rows)), estimator, encoder=encoder, **options)


def _spent(handle: Any, estimator: Any, model: Any, clocks: Sequence[Callable[[], float]]) -> Spent:
    """Run a round; return its processor seconds."""
    own, process = time.thread_time(), time.process_time()
    _, busiest, everyone = seconds_of_round(handle, estimator, model, clocks)
    process, own = time.process_time() - process, time.thread_time() - own
    last = handle.records[-1].round
    tasks = sum(record.extra["cpu_seconds"] for record in handle.records if record.round == last)
    if clocks:
        return Spent(process, busiest, everyone, tasks)
    if handle.transport.together:
        return Spent(own, 0.0, max(0.0, process - own), tasks)
    return Spent(max(0.0, own - tasks), 0.0, tasks, tasks)


def clocks_of(handle: Any) -> list[Callable[[], float]]:
    """Return a clock of the processor seconds of each worker process; Linux names it by the complement of an id."""
    import sys

    processes: dict[int, Any] = getattr(handle.transport, "processes", dict)() if sys.platform == "linux" else {}
    return [partial(time.clock_gettime, (~process.pid << 3) | 2) for process in processes.values()]


def seconds_of_round(
    handle: Any, estimator: Any, model: Any, clocks: Sequence[Callable[[], float]] = ()
) -> tuple[float, float, float]:
    """Run a round; return processor seconds of the driver, of the busiest worker, and of all workers."""
    before, start = [clock() for clock in clocks], time.process_time()
    handle.pysp_seq_estimate(estimator, model)
    driver = time.process_time() - start
    workers = [clock() - earlier for clock, earlier in zip(clocks, before, strict=True)]
    return driver, max(workers, default=0.0), sum(workers)
