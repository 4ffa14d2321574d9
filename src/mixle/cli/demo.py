"""``mixle demo``: one mixture, fitted on a pool of processes and again on one core, to the same bits."""

from __future__ import annotations

import os
import sys
import time
import warnings
from dataclasses import dataclass, field
from typing import Any, TextIO

from mixle.cli.datasets import Table, load
from mixle.cli.describe import describe

__all__ = ["Options", "run", "usable_cores"]

#: Shards of both fits: more than workers, so that the cut does not depend on their number.
SHARDS = 16
#: A fit has settled when an iteration gains less than this per row.
GAIN_PER_ROW = 1e-5


def usable_cores() -> int:
    """Return the number of cores this process may use, at most 8."""
    affinity = getattr(os, "sched_getaffinity", None)
    return min(8, len(affinity(0)) if affinity else os.cpu_count() or 1)


@dataclass(frozen=True)
class Options:
    """What the demo is asked to do."""

    data: str
    rows: int | None
    components: int
    workers: int
    iterations: int
    seed: int
    backend: str


@dataclass
class Fit:
    """One fit and what it took."""

    where: str
    model: Any = None
    digest: str = ""
    ready_s: float = 0.0
    fit_s: float = 0.0
    trace: list[float] = field(default_factory=list)


def run(options: Options, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Run the demo.

    Parameters
    ----------
    options : Options
        Table, size, pool and seed.
    out, err : text files, optional
        Where the report and the live progress line go; the process's own by default.

    Returns
    -------
    int
        0 if both fits have the same bits, else 1.
    """
    out, err = out or sys.stdout, err or sys.stderr
    began = time.perf_counter()
    table = load(options.data, options.rows)
    print(f"{len(table.rows):,} {table.noun} read in {time.perf_counter() - began:.1f} s", file=out)
    print(f"Fields: {', '.join(table.fields)}. Clusters: {options.components}. Seed: {options.seed}.", file=out)
    estimator = estimator_for(options.data, options.components)
    there = _fit(_there(options), options.backend, table, estimator, options, err)
    print("\nIteration   log-likelihood          gain", file=out)
    for i, value in enumerate(there.trace):
        gain = f"{value - there.trace[i - 1]:14,.2f}" if i else ""
        print(f"{i + 1:9d}   {value:18,.2f}{gain}".rstrip(), file=out)
    print("", *describe(there.model, table), sep="\n", file=out)
    here = _fit("one core", "local", table, estimator, options, err)
    print(file=out)
    for fit in (there, here):
        _report(fit, len(table.rows), out)
    equal = there.digest == here.digest
    print("The bits are the same." if equal else "THE BITS DIFFER. This is a fault: please report it.", file=out)
    return 0 if equal else 1


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


def _there(options: Options) -> str:
    if options.backend == "local":
        return "one core, first time"
    return f"{options.workers} workers ({options.backend})"


def _fit(where: str, backend: str, table: Table, estimator: Any, options: Options, err: TextIO) -> Fit:
    """Fit once, timing the encoding and the iterations apart."""
    from mixle.inference import optimize
    from mixle.utils.parallel.planner import encoded_data

    fit, live = Fit(where), err.isatty()
    workers: dict[str, Any] = {} if backend == "local" else {"num_workers": options.workers}
    began = time.perf_counter()

    def on_step(step: Any) -> None:
        fit.trace.append(float(step.log_density))
        if live:
            rate = len(table.rows) * len(fit.trace) / (time.perf_counter() - began - fit.ready_s)
            text = f"{where}: iteration {step.iter}, log-likelihood {step.log_density:,.1f}, {rate:,.0f} rows/s"
            print(f"\r{text:<78}", end="", file=err, flush=True)

    with encoded_data(table.rows, estimator, backend=backend, num_shards=SHARDS, **workers) as handle:
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
    if live:
        print(f"\r{'':<78}\r", end="", file=err, flush=True)
    fit.digest = fit.model.digest()
    return fit


def _report(fit: Fit, rows: int, out: TextIO) -> None:
    steps = len(fit.trace)
    settled = "settled after" if fit.model.fit_provenance().converged else "stopped after"
    rate = rows * steps / fit.fit_s if fit.fit_s else 0.0
    print(
        f"{fit.where}: encoded and ready in {fit.ready_s:.1f} s, {settled} {steps} iterations in {fit.fit_s:.1f} s, "
        f"{rate:,.0f} rows/s\n    sha256 {fit.digest}",
        file=out,
    )
