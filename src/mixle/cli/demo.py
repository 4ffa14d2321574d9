"""``mixle demo``: one mixture, fitted on a pool of processes and again on one core, to the same bits."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixle.cli.datasets import Table, load
from mixle.cli.describe import describe
from mixle.cli.incidents import INCIDENTS, Incident
from mixle.cli.page_file import refuse_standing, write_page
from mixle.cli.screen import Screen, counted
from mixle.errors import BackendError

__all__ = ["SHARDS", "Options", "run", "usable_cores"]

#: Shards of both fits: their number does not depend on the workers, so neither does the model.
SHARDS = 16
#: A fit has settled when an iteration gains less than this per row.
GAIN_PER_ROW = 1e-5


def usable_cores() -> int:
    """Return the number of cores this process may use, at most 8."""
    from mixle.utils.parallel.planning.discover import usable_cpus

    return min(8, usable_cpus())


@dataclass(frozen=True)
class Options:
    """What the demo is asked to do.

    `workers` None means one per usable core, 8 at most; `incident` is one's word; `report` None means a new file among
    the temporary ones.
    """

    data: str
    rows: int | None
    components: int
    workers: int | None
    iterations: int
    seed: int
    backend: str
    incident: str | None = None
    report: Path | None = None


@dataclass
class Fit:
    """One fit, what it took, and what is to happen to it."""

    where: str
    model: Any = None
    digest: str = ""
    ready_s: float = 0.0
    fit_s: float = 0.0
    trace: list[float] = field(default_factory=list)
    incident: Incident | None = None
    records: list[Any] = field(default_factory=list)


def run(options: Options, out: Screen, err: Screen) -> int:
    """Run the demo.

    Parameters
    ----------
    options : Options
        Table, size, pool and seed.
    out, err : Screen
        Where the report and the live progress line go.

    Returns
    -------
    int
        0 if the fits have the same bits (or there is only one), else 1.

    Raises
    ------
    MixleError
        If the request cannot be carried out.
    KeyboardInterrupt
        If a fit was interrupted; its half-fitted model is not compared with anything.
    """
    _check_backend(options.backend)
    refuse_standing(options.report)
    began = time.perf_counter()
    table = load(options.data, options.rows)
    rows = len(table.rows)
    shards, alone = min(SHARDS, rows), options.backend == "local"
    workers, out, err = _workers(options, alone, shards, out, err)
    out.say(f"{counted(rows, table.noun)} read in {time.perf_counter() - began:.1f} s")
    out.say(f"Fields: {', '.join(table.fields)}. Clusters: {options.components}. Seed: {options.seed}.")
    if options.workers and options.workers > workers:
        out.say(f"Workers: {workers}, one for each shard ({options.workers:,} were asked for).")
    estimator = estimator_for(options.data, options.components)
    incident = INCIDENTS[options.incident]() if options.incident else None
    if incident is not None and options.workers is None:
        workers = max(workers, min(incident.least_workers, shards))
    where = "one core" if alone else f"{counted(workers, 'workers')} ({options.backend})"
    if options.backend in ("dask", "spark"):
        where = f"on {options.backend}"  # the engine has workers of its own
    fits = [_fit(Fit(where, incident=incident), options.backend, workers, table, estimator, options, err)]
    _trace(fits[0], rows, options, out)
    out.say("", *describe(fits[0].model, table), "")
    if incident is not None:
        incident.report(out)
    if not alone:
        fits.append(_fit(Fit("one core"), "local", 1, table, estimator, options, err))
    for fit in fits:
        _report(fit, rows, out)
    code = _verdict([fit.digest for fit in fits], shards, out)
    write_page(fits[0].records, f"mixle demo: {counted(rows, table.noun)}, {where}", options.report, out)
    return code


def estimator_for(data: str, components: int) -> Any:
    """Return the mixture estimator of a table: for each field a family that fits it.

    Parameters
    ----------
    data : str
        ``"flights"`` or ``"penguins"``.
    components : int
        Number of clusters.
    """
    from mixle import stats

    def maybe(estimator: Any) -> Any:
        return stats.OptionalEstimator(estimator, est_prob=True)

    if data == "flights":
        fields: tuple[Any, ...] = (
            stats.CategoricalEstimator(),  # carrier
            stats.CategoricalEstimator(),  # origin
            stats.LogGaussianEstimator(),  # distance in miles
            maybe(stats.GaussianEstimator()),  # departure delay in minutes, missing when cancelled
            maybe(stats.GammaEstimator()),  # air time in minutes, missing when cancelled or diverted
            stats.CategoricalEstimator(),  # hour of the day
            stats.CategoricalEstimator(),  # month
        )
    else:
        measures = [maybe(stats.GaussianEstimator()) for _ in range(4)]
        fields = (stats.CategoricalEstimator(), *measures, maybe(stats.CategoricalEstimator()))
    return stats.MixtureEstimator([stats.CompositeEstimator(fields)] * components)


def _workers(options: Options, alone: bool, shards: int, out: Screen, err: Screen) -> tuple[int, Screen, Screen]:
    """Return the number of workers, and screens that stay dark on all ranks of an MPI job but the first."""
    if options.backend != "mpi":
        return (1 if alone else min(options.workers or usable_cores(), shards)), out, err
    from mixle.utils.parallel.transports.mpi import world

    comm = world()
    if options.workers not in {None, comm.size}:
        raise BackendError(f"the ranks are the workers: leave --workers out, or mpiexec -n {options.workers} mixle ...")
    return (comm.size, out, err) if comm.rank == 0 else (comm.size, Screen(None), Screen(None))


def _check_backend(name: str) -> None:
    """Refuse an unknown backend, in the registry's words, before anything is read."""
    from mixle.stats import NullEstimator
    from mixle.utils.parallel.planner import available_encoded_data_backends, encoded_data

    if name not in available_encoded_data_backends():
        encoded_data([0.0], NullEstimator(), backend=name).close()


def _fit(fit: Fit, backend: str, workers: int, table: Table, estimator: Any, options: Options, err: Screen) -> Fit:
    """Fit once, timing the encoding and the iterations apart."""
    from mixle.inference import optimize
    from mixle.utils.parallel.planner import encoded_data

    pool: dict[str, Any] = {} if backend in {"local", "mpi", "futures"} else {"num_workers": workers}
    if backend == "futures":
        from concurrent.futures import ProcessPoolExecutor
        from functools import partial

        pool["client"] = partial(ProcessPoolExecutor, workers)
    began = time.perf_counter()

    def opened() -> Any:
        if fit.incident is not None:
            return fit.incident.open(table.rows, estimator, workers, SHARDS)
        return encoded_data(table.rows, estimator, backend=backend, num_shards=SHARDS, **pool)

    def on_step(step: Any) -> None:
        if fit.incident is not None:
            fit.incident.step(step.iter, options.iterations)
        fit.trace.append(float(step.log_density))
        rate = len(table.rows) * len(fit.trace) / max(time.perf_counter() - began - fit.ready_s, 1e-9)
        err.show(
            f"{fit.where}: iteration {step.iter}, log-likelihood {step.log_density:,.1f}, {rate:,.0f} row updates/s"
        )

    try:
        with opened() as handle:
            fit.ready_s = time.perf_counter() - began
            with warnings.catch_warnings():
                # A fit that has not settled says so in the report.
                warnings.simplefilter("ignore", UserWarning)
                fit.model = optimize(
                    None,
                    estimator,
                    enc_data=handle,
                    max_its=options.iterations,
                    delta=GAIN_PER_ROW * len(table.rows),
                    seed=options.seed,
                    on_step=on_step,
                )
            fit.fit_s = time.perf_counter() - began - fit.ready_s
            fit.records = getattr(handle, "records", [])
    finally:
        err.show("")
    if fit.model.fit_provenance().stopped == "interrupted":
        raise KeyboardInterrupt
    fit.digest = fit.model.digest()
    return fit


def _trace(fit: Fit, rows: int, options: Options, out: Screen) -> None:
    out.say("", "Iteration   log-likelihood          gain")
    for i, value in enumerate(fit.trace):
        gain = f"{value - fit.trace[i - 1]:14,.2f}" if i else ""
        out.say(f"{i + 1:9d}   {value:18,.2f}{gain}")
    out.say(
        f"A fit has settled when an iteration gains less than {GAIN_PER_ROW * rows:,.4g} "
        f"({GAIN_PER_ROW:.5f} per row); the limit is {counted(options.iterations, 'iterations')}."
    )


def _report(fit: Fit, rows: int, out: Screen) -> None:
    steps = counted(len(fit.trace), "iterations")
    stopped = fit.model.fit_provenance().stopped
    how = {"converged": "settled after", "max_its": "not settled when stopped after"}.get(stopped, "ended after")
    rate = rows * len(fit.trace) / fit.fit_s if fit.fit_s else 0.0
    out.say(
        f"{fit.where}: encoded and ready in {fit.ready_s:.1f} s, {how} {steps} in {fit.fit_s:.1f} s, "
        f"{rate:,.0f} row updates/s",
        f"    sha256 {fit.digest}",
    )


def _verdict(digests: list[str], shards: int, out: Screen) -> int:
    out.say(f"(Row updates: rows × iterations. The rows were cut into {counted(shards, 'shards')}.)")
    if len(digests) == 1:
        out.say("One fit: nothing to compare. Without --backend local a pool fits as well, to the same sha256.")
    elif digests[0] == digests[1]:
        out.say("The bits are the same.")
    else:
        out.say("THE BITS DIFFER. This is a fault: please report it.")
    return 0 if len(set(digests)) == 1 else 1
