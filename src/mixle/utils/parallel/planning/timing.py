"""Measure what rounds cost: a model's pace on a few rows, and what a backend adds, with next to no work to do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from mixle._limits import one_blas_thread
from mixle.utils.parallel.folding import payload
from mixle.utils.parallel.folding.fold import fold_results
from mixle.utils.parallel.folding.inputs import check_rows, choose_encoder
from mixle.utils.parallel.folding.mstep import m_step
from mixle.utils.parallel.folding.shards import encode_shard, pick
from mixle.utils.parallel.folding.tasks import Accumulate, Result, execute
from mixle.utils.parallel.planning.catalog import CalibrationCatalog, keep
from mixle.utils.parallel.planning.devices import exact_int
from mixle.utils.parallel.planning.discover import usable_cpus
from mixle.utils.parallel.planning.overheads import Shape, handle_of, measure_overhead, rounds_of
from mixle.utils.parallel.planning.pace import BACKENDS, Costs, Pace, known_overheads

__all__ = ["measure_costs", "measure_pace"]

#: Rows of the large probe, rows of the small one, and pieces of the third.
PROBE, SMALL, CUTS = 65_536, 2048, 8
#: Turns of the probes, and seconds after which no more are taken.
TURNS, LIMIT = 3, 1.0


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

    The model's pace is measured each time; what a backend adds is taken from the catalog, if that knows it, else
    measured on rounds of this model.

    Parameters
    ----------
    data : sequence or ndarray
        Rows; the first 65,536 of them are used.
    model : distribution
        Model of the E-step.
    estimator, encoder : optional
        By default the model's own.
    backends : sequence of str
        Which of "local", "threads" and "mp" to predict for. Measuring "mp" starts three pools on these rows.
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
    probe = pick(check_rows(data, "measure_costs"), range(min(PROBE, len(data))))
    own = {"data": probe, "model": model, "estimator": estimator, "encoder": encoder, "pace": pace}
    costs = Costs(pace, {name: known.get(name) or measure_overhead(name, **own) for name in backends})
    keep(costs.record(type(model).__name__, len(data)), catalog, catalog_path)
    return costs


def measure_pace(
    data: Sequence[Any],
    model: Any,
    estimator: Any | None = None,
    encoder: Any | None = None,
    probe_rows: int = PROBE,
    repeats: int = 15,
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
        Rows of the largest probe; timed rounds of each kind.

    Returns
    -------
    Pace

    Examples
    --------
    >>> import numpy as np
    >>> from mixle.stats import GaussianDistribution
    >>> pace = measure_pace(np.arange(5000.0), GaussianDistribution(0.0, 1.0), repeats=1)
    >>> pace.task(5000) > 0.0 and 0.0 <= pace.held
    True
    """
    rows = check_rows(data, "measure_pace")
    large = min(exact_int(probe_rows, "probe_rows", 1) or 1, len(rows))
    runs = exact_int(repeats, "repeats", 1) or 1
    estimator = model.estimator() if estimator is None else estimator
    encoder = choose_encoder("measure_pace", estimator, model, encoder)
    own, task = pick(rows, range(large)), Accumulate(estimator, model)
    small, cuts = max(1, min(SMALL, large // 2)), min(CUTS, large)
    result = execute(task, encode_shard(0, own, range(large), encoder, (range(large),)))
    if result.error is not None:
        raise ValueError(
            f"the E-step failed on the probe: {result.error.type_name}: {result.error.message}. "
            "Mend that first, or plan with the catalog's times: leave the data out"
        )
    shapes = [Shape(small), Shape(large), Shape(large, pieces=cuts), Shape(large, shards=cuts)]
    tasks = [spent.tasks for spent in rounds_of(shapes, own, estimator, model, runs, encoder=encoder)]
    more = max(1, cuts - 1)
    row = max(0.0, tasks[1] - tasks[0]) / max(1, large - small)
    whole_shard = max(0.0, tasks[3] - tasks[1] if large > 1 else tasks[1] - row) / more
    piece = min(whole_shard, max(0.0, tasks[2] - tasks[1]) / more)  # a shard is one piece at least
    shard, few_runs = whole_shard - piece, max(1, runs // 3)
    with one_blas_thread():
        held = _held(own, task, encoder, few_runs)
        driver, travel = _driver(estimator, model, result, few_runs), _travel(task, result, few_runs)
    return Pace(row, piece, shard, held, *driver, *travel)


def _alternate(runs: Iterable[Callable[[], float]], repeats: int) -> list[float]:
    """Return what each run returns, run in turns: the median of the least disturbed one; one long turn is enough."""
    actions = list(runs)
    for action in actions:
        action()
    seen: list[list[float]] = []
    start = time.perf_counter()
    while not seen or (len(seen) < TURNS and time.perf_counter() - start < LIMIT):
        seen.append([statistics.median(action() for _ in range(-(-repeats // TURNS))) for action in actions])
    return [min(turns) for turns in zip(*seen, strict=True)]


def _timed(action: Callable[[], Any]) -> Callable[[], float]:
    def run() -> float:
        start = time.thread_time()
        action()
        return time.thread_time() - start

    return run


def _held(rows: Any, task: Accumulate, encoder: Any, repeats: int) -> float:
    """Return what a second thread leaves for the first one to wait for, as `Pace` has it; 1 with one processor."""
    if len(rows) < 2 or usable_cpus() < 2:
        return 1.0
    with handle_of("threads", rows, task.estimator, encoder, Shape(len(rows), 2, 2)) as handle:
        transport = handle.transport
        ways = [lambda run=run: _clocked(run, task) for run in (transport.on_threads, transport.one_by_one)]
        both, alone = _alternate(ways, 2 * repeats)
    return min(1.0, max(0.0, 2.0 * both / max(alone, 1e-9) - 1.0))


def _clocked(run: Callable[[Accumulate], Iterable[Result]], task: Accumulate) -> float:
    start = time.perf_counter()
    for _ in run(task):
        pass
    return time.perf_counter() - start


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
