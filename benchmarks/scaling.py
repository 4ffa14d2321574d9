"""How far a round scales: constants measured here, and what follows from them: ``python benchmarks/scaling.py``.

Measured are the E-step, the M-step, what a statistic costs the driver, and what a shard costs the driver of an engine
beside its statistic (rounds over tiny shards, the slope over their number), all in processor seconds. The rest is
arithmetic: each worker has a million rows of 16 columns in four shards, the model is a mixture of 16 full covariances.
Nothing overlaps in it, and the network takes no time.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mixle.stats import MixtureEstimator, MultivariateGaussianEstimator
from mixle.utils.parallel.folding.fold import fold_results
from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.folding.travel import pack, pack_results, unpack_results
from mixle.utils.parallel.planner import encoded_data

K, D, ROWS_A_WORKER, SHARDS_A_WORKER, GROUP = 16, 16, 1_000_000, 4, 256
SAMPLE, TURNS, FEW, MANY = 20_000, 9, 32, 256
FEW_ACTORS, MANY_ACTORS = 2, 18
WORKERS = (10, 100, 1_000, 10_000)
ESTIMATOR = MixtureEstimator([MultivariateGaussianEstimator(D)] * K)
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


class Costs(NamedTuple):
    """Processor seconds of a driver beside its reading and adding of statistics: of a round, a shard, a worker."""

    base: float
    shard: float
    worker: float = 0.0


def seconds(call: Callable[[], Any]) -> float:
    """Return the median processor seconds of a call."""
    found = []
    for _ in range(TURNS):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return statistics.median(found)


def rows() -> np.ndarray:
    """Return enough rows for the constants."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((SAMPLE, D)) + 3.0 * rng.integers(0, K, (SAMPLE, 1))


def constants() -> dict[str, float]:
    """Return processor seconds and bytes of the parts of a round."""
    with encoded_data(rows(), ESTIMATOR, num_shards=1) as handle:
        model = handle.pysp_seq_initialize(ESTIMATOR, 1, 0.1)
        task = Accumulate(ESTIMATOR, model)
        (result,) = handle.transport.map(task)
        estep = seconds(lambda: list(handle.transport.map(task)))
        nobs, value = fold_results(ESTIMATOR, [result])
    frame = pack_results([result])
    copies = [unpack_results(frame)[0] for _ in range(FEW)]
    return {
        "row": estep / SAMPLE,
        "order": len(pack(task)),
        "frame": len(frame),
        "read": seconds(lambda: unpack_results(frame)),
        "add": seconds(lambda: fold_results(ESTIMATOR, copies)) / FEW,
        "m_step": seconds(lambda: ESTIMATOR.estimate(nobs, value)),
    }


def driver_seconds() -> float:
    """Return the processor seconds of this process and of what an engine runs beside it to drive a cluster."""
    import psutil

    here = psutil.Process()
    beside = [child for child in here.children(recursive=True) if child.name() in {"java", "raylet", "gcs_server"}]
    return sum(sum(one.cpu_times()[:2]) for one in (here, *beside))


def a_round(name: str, shards: int, **options: Any) -> float:
    """Return the processor seconds of the driver in a round over shards of a few rows."""
    with encoded_data(rows()[: 4 * MANY], ESTIMATOR, backend=name, num_shards=shards, **options) as handle:
        model = handle.pysp_seq_initialize(ESTIMATOR, 1, 1.0)
        task = Accumulate(ESTIMATOR, model)
        list(handle.transport.map(task))
        start = driver_seconds()
        for _ in range(TURNS):
            list(handle.transport.map(task))
        return (driver_seconds() - start) / TURNS


def per_shard(name: str, **options: Any) -> Costs:
    """Return what the driver works in a round and for each further shard."""
    few, many = (a_round(name, shards, **options) for shards in (FEW, MANY))
    slope = (many - few) / (MANY - FEW)
    return Costs(max(0.0, few - FEW * slope), slope)


def on_dask() -> Costs:
    """Measure a local cluster of two processes."""
    from distributed import Client, LocalCluster

    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        return per_shard("dask", client=client)


def on_ray() -> Costs:
    """Measure two actors, and what each further one costs: it is called twice, however many shards it has."""
    import ray

    ray.init(num_cpus=MANY_ACTORS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        few, shard, _ = per_shard("ray", num_workers=FEW_ACTORS)
        two, many = (a_round("ray", FEW, num_workers=workers) for workers in (FEW_ACTORS, MANY_ACTORS))
    finally:
        ray.shutdown()
    worker = max(0.0, many - two) / (MANY_ACTORS - FEW_ACTORS)
    return Costs(max(0.0, few - FEW_ACTORS * worker), shard, worker)


def on_spark() -> Costs:
    """Measure local[2]."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local[2]").setAppName("scaling").set("spark.ui.enabled", "false")
    context = SparkContext(conf=conf.set("spark.ui.showConsoleProgress", "false"))
    context.setLogLevel("OFF")
    try:
        return per_shard("spark", client=context)
    finally:
        context.stop()


ENGINES = {"dask": on_dask, "ray": on_ray, "spark": on_spark}


def table(found: dict[str, float], engine: str, costs: Costs) -> None:
    """Print rounds per second and the driver's load, flat and grouped."""
    estep = ROWS_A_WORKER * found["row"]
    a_worker = f", {costs.worker * 1e3:.2f} ms for a worker" if costs.worker else ""
    print(f"\n{engine}: the driver works {costs.base * 1e3:.1f} ms in a round,", end=" ")
    print(f"{costs.shard * 1e3:.2f} ms for a shard{a_worker}")
    print("| workers | shards | rounds a minute, flat | grouped | driver busy, flat | grouped | MB, flat | grouped |")
    print("|---|---|---|---|---|---|---|---|")
    for workers in WORKERS:
        shards = workers * SHARDS_A_WORKER
        groups = shards if shards <= GROUP else -(-shards // GROUP)
        cells = []
        for statistics_read, inside in ((shards, 0.0), (groups, 0.0 if groups == shards else GROUP * found["add"])):
            # what a shard costs the driver includes reading its statistic
            driver = costs.base + workers * costs.worker + shards * max(0.0, costs.shard - found["read"])
            driver += statistics_read * (found["read"] + found["add"]) + found["m_step"]
            whole = estep + inside + driver
            cells.append((60.0 / whole, 100.0 * driver / whole, statistics_read * found["frame"] / 1e6))
        flat, grouped = cells
        print(
            f"| {workers:,} | {shards:,} | {flat[0]:.1f} | {grouped[0]:.1f} | {flat[1]:.0f} % | {grouped[1]:.0f} % "
            f"| {flat[2]:.1f} | {grouped[2]:.1f} |"
        )


def main() -> None:
    """Print the constants and a table for each engine that is named."""
    found = constants()
    sizes = f"statistic {found['frame'] / 1e3:.1f} kB, task {found['order'] / 1e3:.1f} kB"
    print(f"E-step {found['row'] * 1e9:.0f} ns a row; {sizes}")
    print(
        f"reading a statistic {found['read'] * 1e6:.0f} us, adding it {found['add'] * 1e6:.0f} us, "
        f"M-step {found['m_step'] * 1e3:.1f} ms"
    )
    for name in sys.argv[1:] or ENGINES:
        table(found, name, ENGINES[name]())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
