"""Measure what rounds cost: a model's pace on a few rows, and what a backend adds, with next to no work to do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from mixle._limits import one_blas_thread
from mixle.utils.parallel.folding import payload
from mixle.utils.parallel.folding.fold import fold_results
from mixle.utils.parallel.folding.inputs import check_rows, choose_encoder
from mixle.utils.parallel.folding.mstep import m_step
from mixle.utils.parallel.folding.shards import encode_shard, pick, split_range
from mixle.utils.parallel.folding.tasks import Accumulate, Result, execute
from mixle.utils.parallel.planning.catalog import CalibrationCatalog, keep
from mixle.utils.parallel.planning.devices import exact_int
from mixle.utils.parallel.planning.pace import BACKENDS, Costs, Overhead, Pace, known_overheads

__all__ = ["awake_seconds", "clocks_of", "measure_costs", "measure_overhead", "measure_pace", "seconds_of_round"]

#: Rows of the large probe, rows of the small one, and pieces of the third.
PROBE, SMALL, CUTS = 65_536, 2048, 8
#: Seconds that one turn of the probes may take for it to be repeated.
LIMIT = 1.0


def measure_costs(
    data: Sequence[Any],
    model: Any,
    estimator: Any | None = None,
    encoder: Any | None = None,
    *,
    backends: Sequence[str] = BACKENDS,
    catalog: CalibrationCatalog | None = None,
    catalog_path: Any | None = None,
) -> Costs:
    """Return what rounds of `model` cost on this kind of host.

    The model's pace is measured each time; what a backend adds is taken from the catalog, if that knows it.

    Parameters
    ----------
    data : sequence or ndarray
        Rows; the first 65,536 of them are used.
    model : distribution
        Model of the E-step.
    estimator, encoder : optional
        By default the model's own.
    backends : sequence of str
        Which of "local", "threads" and "mp" to predict for. Measuring "mp" starts three small pools.
    catalog : CalibrationCatalog, optional
        Gets a record.
    catalog_path : path, optional
        File of a catalog that gets the record too.

    Examples
    --------
    >>> import numpy as np
    >>> from mixle.stats import GaussianDistribution
    >>> costs = measure_costs(np.arange(5000.0), GaussianDistribution(0.0, 1.0), backends=["local"])
    >>> costs.round(10_000, backend="local").seconds > 0.0
    True
    """
    wrong = [name for name in backends if name not in BACKENDS]
    if wrong:
        raise ValueError(f"rounds are predicted for {', '.join(BACKENDS)}, not {wrong[0]!r}")
    estimator = model.estimator() if estimator is None else estimator
    pace = measure_pace(data, model, estimator, encoder)
    known = {} if catalog is None else known_overheads(catalog)
    if catalog_path is not None and Path(catalog_path).exists():
        known |= known_overheads(CalibrationCatalog.load(catalog_path))
    costs = Costs(pace, {name: known.get(name) or measure_overhead(name) for name in backends})
    keep(costs.record(type(model).__name__, len(data)), catalog, catalog_path)
    return costs


def measure_pace(
    data: Sequence[Any],
    model: Any,
    estimator: Any | None = None,
    encoder: Any | None = None,
    probe_rows: int = PROBE,
    repeats: int = 5,
) -> Pace:
    """Return what an E-step and an M-step of `model` take here.

    Parameters
    ----------
    data : sequence or ndarray
        Rows; the first `probe_rows` of them are used.
    model : distribution
        Model of the E-step.
    estimator : ParameterEstimator, optional
        By default the model's own.
    encoder : DataSequenceEncoder, optional
        By default the model's own.
    probe_rows, repeats : int
        Rows of the largest probe; timed runs of each, of which the median counts.

    Returns
    -------
    Pace

    Examples
    --------
    >>> import numpy as np
    >>> from mixle.stats import GaussianDistribution
    >>> pace = measure_pace(np.arange(5000.0), GaussianDistribution(0.0, 1.0), repeats=1)
    >>> pace.task(5000) > 0.0 and 0.0 <= pace.held <= 1.0
    True
    """
    rows = check_rows(data, "measure_pace")
    large = min(exact_int(probe_rows, "probe_rows", 1) or 1, len(rows))
    runs = exact_int(repeats, "repeats", 1) or 1
    estimator = model.estimator() if estimator is None else estimator
    encoder = choose_encoder("measure_pace", estimator, model, encoder)
    own, task = pick(rows, range(large)), Accumulate(estimator, model)
    small, cuts = max(1, min(SMALL, large // 2)), min(CUTS, large)
    few, whole, cut = (
        encode_shard(0, own, range(n), encoder, split_range(range(n), pieces))
        for n, pieces in ((small, 1), (large, 1), (large, cuts))
    )
    with one_blas_thread():
        first, second, third = _alternate([_runner(task, shard) for shard in (few, whole, cut)], runs)
        row = max(0.0, second - first) / max(1, large - small)
        piece = max(0.0, third - second) / max(1, cuts - 1)
        shard = max(0.0, second - row * large - piece)
        held = _held(task, cut, runs)
        result = execute(task, whole)
        return Pace(row, piece, shard, held, *_driver(estimator, model, result, runs), *_travel(task, result, runs))


def _runner(task: Accumulate, shard: Any) -> Callable[[], float]:
    def run() -> float:
        result = execute(task, shard)
        if result.error is not None:
            raise ValueError(
                f"the E-step failed on the probe: {result.error.type_name}: {result.error.message}. "
                "Mend that first, or plan with the catalog's times: leave the data out"
            )
        return float(result.receipt["cpu_seconds"])

    return run


def _alternate(runs: Iterable[Callable[[], float]], repeats: int) -> list[float]:
    """Return the median of what each run returns, run in turns; the first turn, and a long one, is enough."""
    actions = list(runs)
    for action in actions:
        action()
    seen = [[action()] for action in actions]
    turns = repeats - 1 if sum(first for (first,) in seen) < LIMIT else 0
    for _ in range(turns):
        for values, action in zip(seen, actions, strict=True):
            values.append(action())
    return [statistics.median(values) for values in seen]


def _timed(action: Callable[[], Any]) -> Callable[[], float]:
    def run() -> float:
        start = time.thread_time()
        action()
        return time.thread_time() - start

    return run


def _held(task: Accumulate, shard: Any, repeats: int) -> float:
    """Return the part of an E-step in which no other thread advances: two threads beside one."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:

        def both() -> float:
            found = [future.result() for future in [pool.submit(awake_seconds, task, shard) for _ in range(2)]]
            return max(awake for awake, _ in found) / max(min(alone for _, alone in found), 1e-9)

        both()
        return float(min(1.0, max(0.0, statistics.median(both() for _ in range(2 * repeats)) - 1.0)))


def awake_seconds(task: Any, shard: Any, keep: Callable[[Result], None] = lambda _: None) -> tuple[float, float]:
    """Run a task; return its seconds by the clock without those in which this thread had no core, and of the processor.

    Where the system does not tell these (Linux does), they are not taken out.
    """
    delayed, start = _delay(), time.perf_counter()
    result = execute(task, shard)
    keep(result)
    seconds = float(result.receipt["cpu_seconds"])
    return max(seconds, time.perf_counter() - start - (_delay() - delayed)), seconds


def _delay() -> float:
    """Return the seconds for which this thread has waited for a core so far."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _driver(estimator: Any, model: Any, result: Result, repeats: int) -> tuple[float, float]:
    """Return seconds of folding one shard, and of a fold of none with the M-step."""
    nobs, value = fold_results(estimator, [result])
    one, many, step = _alternate(
        [
            _timed(lambda: fold_results(estimator, [result])),
            _timed(lambda: fold_results(estimator, list(repeat(result, 9)))),
            _timed(lambda: m_step(estimator, nobs, value, model)),
        ],
        3 * repeats,
    )
    each = max(0.0, (many - one) / 8.0)
    return each, max(0.0, one - each) + step


def _travel(task: Accumulate, result: Result, repeats: int) -> tuple[float, float, float, float]:
    """Return seconds of writing and reading a task, and of writing and reading a reply."""
    letter = payload.encode_bytes(task, allow_pickle=True)
    frame = payload.encode_bytes(result.value, allow_pickle=True)
    actions: list[Callable[[], Any]] = [
        lambda: payload.encode_bytes(task, allow_pickle=True),
        lambda: payload.decode(letter, allow_pickle=True),
        lambda: payload.encode_bytes(result.value, allow_pickle=True),
        lambda: payload.decode(frame, allow_pickle=True),
    ]
    out, into, reply, read = _alternate([_timed(action) for action in actions], 3 * repeats)
    return out, into, reply, read


def measure_overhead(backend: str, repeats: int = 15) -> Overhead:
    """Return what rounds of a backend take beside the model's own work.

    Rounds with one Gaussian on 64 rows are timed with one shard and with several, on one worker and on several.

    Parameters
    ----------
    backend : {"local", "threads", "mp"}
        What is measured.
    repeats : int
        Timed rounds of each kind, of which the median counts.

    Examples
    --------
    >>> measure_overhead("local", repeats=2).shard >= 0.0
    True
    """
    from mixle.stats import GaussianEstimator, MixtureEstimator

    if backend not in BACKENDS:
        raise ValueError(f"rounds are measured for {', '.join(BACKENDS)}, not {backend!r}")
    runs, rows = exact_int(repeats, "repeats", 1) or 1, np.linspace(-1.0, 1.0, 64).tolist()
    estimator = MixtureEstimator([GaussianEstimator()] * 2)
    base = 2 if backend == "threads" else 1  # one thread is none
    few, many, crew = base, base + 8, base + 2
    kinds = [(base, few), (base, many)] + ([] if backend == "local" else [(crew, crew)])
    with ExitStack() as stack:
        handles = [stack.enter_context(_handle(backend, rows, estimator, *kind)) for kind in kinds]
        model = handles[0].pysp_seq_initialize(estimator, 1, 1.0)
        pace = measure_pace(rows, model, estimator, repeats=runs)
        actions = [partial(_beside_tasks, handle, estimator, model, clocks_of(handle)) for handle in handles]
        seen = [[action() for action in actions] for _ in range(runs + 2)][2:]
    medians = [[statistics.median(values) for values in zip(*kind, strict=True)] for kind in zip(*seen, strict=True)]
    travels = backend == "mp"
    known = pace.fold + (pace.read if travels else 0.0), pace.step + (pace.send if travels else 0.0)
    driver = [told[0] - known[0] * shards - known[1] for told, (_, shards) in zip(medians, kinds, strict=True)]
    worker = [told[1] - pace.reply * shards - pace.receive for told, (_, shards) in zip(medians, kinds, strict=True)]
    shard = max(0.0, driver[1] - driver[0]) / (many - few)
    first = max(0.0, driver[0] - shard * few)
    if backend == "local":
        return Overhead(first, 0.0, shard)
    each = min(max(0.0, driver[2] - shard * crew - first) / (crew - base), first / base)
    if not travels:
        return Overhead(first - each * base, each, shard)
    answer = max(0.0, worker[1] - worker[0]) / (many - few)
    return Overhead(first - each * base, each, shard, max(0.0, worker[0] - answer), answer)


def _handle(backend: str, rows: Any, estimator: Any, workers: int, shards: int) -> Any:
    from mixle.utils.parallel.folding.registry import encoded_data

    options: dict[str, Any] = {"num_chunks": shards}
    if backend == "threads":
        options["chunk_workers"] = workers
    elif backend == "mp":
        options |= {"backend": "mp", "num_workers": workers}
    return encoded_data(rows, estimator, **options)


def _beside_tasks(
    handle: Any, estimator: Any, model: Any, clocks: Sequence[Callable[[], float]]
) -> tuple[float, float]:
    """Run a round; return processor seconds of the driver and of the busiest worker beside those of the tasks."""
    driver, busiest, _ = seconds_of_round(handle, estimator, model, clocks)
    last = handle.records[-1].round
    tasks = [record.extra["cpu_seconds"] for record in handle.records if record.round == last]
    return (driver, busiest - max(tasks)) if clocks else (driver - sum(tasks), 0.0)


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
