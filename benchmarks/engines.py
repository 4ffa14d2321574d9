"""What an engine adds to a round, and what columns save: ``python benchmarks/engines.py dask spark``.

A round on an engine is compared with the engine's own floor, an empty job that takes the same task and returns the
same payloads, measured side by side, plus the E-step's own seconds (the receipts'; shards that run at the same time
count once).
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mixle.stats import CategoricalEstimator, CompositeEstimator, GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.folding.tasks import Accumulate

ROWS, SHARDS, K, REPEATS = 400_000, 8, 8, 9
ESTIMATOR = MixtureEstimator([CompositeEstimator([GaussianEstimator()] * 4)] * K)
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def measured(*calls: Callable[[], Any]) -> list[float]:
    """Return the median wall seconds of each call, the calls taken in turns."""
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(REPEATS):
        for call, found in zip(calls, seconds, strict=True):
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in seconds]


def show(engine: str, workers: int, floor: float, round_s: float, estep: float) -> None:
    """Print a round against its floor."""
    ratio = round_s / (floor + estep)
    print(f"{engine}: {ROWS:,} rows, {SHARDS} shards, {workers} workers, median of {REPEATS}")
    print(f"  floor {floor * 1e3:.1f} ms + E-step {estep * 1e3:.1f} ms; round {round_s * 1e3:.1f} ms: {ratio:.2f} x")


def rows() -> np.ndarray:
    """Return the data."""
    rng = np.random.RandomState(0)
    return rng.randn(ROWS, 4) + 3.0 * rng.randint(0, K, (ROWS, 1))


def estep_seconds(handle: Any, model: Any, workers: int) -> float:
    """Return the wall seconds of the shards of a round, spread over the workers."""
    found = []
    for _ in range(REPEATS):
        results = list(handle.transport.map(Accumulate(ESTIMATOR, model)))
        found.append(sum(result.receipt["seconds"] for result in results) / workers)
    return statistics.median(found)


def on_dask() -> None:
    """Measure rounds on a local cluster of two processes."""
    from distributed import Client, LocalCluster

    from mixle.utils.parallel.folding.travel import pack_results
    from mixle.utils.parallel.planner import DaskEncodedData

    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(**settings) as cluster,
        Client(cluster) as client,
        DaskEncodedData(rows(), ESTIMATOR, client=client, num_partitions=SHARDS) as handle,
    ):
        model = handle.pysp_seq_initialize(ESTIMATOR, 1, 0.1)
        task = Accumulate(ESTIMATOR, model)
        frame = pack_results(list(handle.transport.map(task))[:1])
        payloads = client.scatter([frame] * SHARDS)
        order = handle.transport.order(task)

        def floor() -> None:
            sent = client.submit(lambda value: value, order, pure=False)
            client.gather(client.map(lambda _, frame: frame, [sent] * SHARDS, payloads, pure=False))

        estep = estep_seconds(handle, model, 2)
        bare, full = measured(floor, lambda: list(handle.transport.map(task)))
        show("dask", 2, bare, full, estep)


def on_spark() -> None:
    """Measure rounds on local[2], and encoding by columns against rows."""
    from pyspark.sql import SparkSession

    from mixle.utils.parallel.folding.travel import pack_results
    from mixle.utils.parallel.planner import SparkEncodedData

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    context = session.sparkContext
    context.setLogLevel("ERROR")
    with SparkEncodedData(rows(), ESTIMATOR, client=context, num_shards=SHARDS) as handle:
        model = handle.pysp_seq_initialize(ESTIMATOR, 1, 0.1)
        task = Accumulate(ESTIMATOR, model)
        frame = pack_results(list(handle.transport.map(task))[:1])
        payloads = context.parallelize([frame] * SHARDS, SHARDS).persist()
        order = handle.transport.order(task)

        def floor() -> None:
            sent = context.broadcast(order)
            payloads.map(lambda one: (len(sent.value), one)).collect()
            sent.destroy()

        estep = estep_seconds(handle, model, 2)
        bare, full = measured(floor, lambda: list(handle.transport.map(task)))
        show("spark", 2, bare, full, estep)
    columns_against_rows(session)
    session.stop()


def columns_against_rows(session: Any) -> None:
    """Print seconds to encode a cached data frame by columns, and the same rows as tuples."""
    from mixle.utils.parallel.planner import SparkEncodedData

    estimator = CompositeEstimator([GaussianEstimator()] * 6 + [CategoricalEstimator()] * 2)
    fields = [f"rand({number}) as x{number}" for number in range(6)]
    fields += [f"char(97 + id % {number}) as c{number}" for number in (5, 7)]
    table = session.range(0, ROWS, 1, SHARDS).selectExpr(*fields).persist()
    table.count()

    def encode(data: Any) -> None:
        SparkEncodedData(data, estimator).close()

    columns, tuples = measured(lambda: encode(table), lambda: encode(table.rdd.map(tuple)))
    print(
        f"spark: {ROWS:,} rows of 8 columns encoded in {columns:.2f} s by columns, {tuples:.2f} s as tuples:", end=" "
    )
    print(f"{tuples / columns:.1f} x")


if __name__ == "__main__":
    for name in sys.argv[1:] or ("dask", "spark"):
        {"dask": on_dask, "spark": on_spark}[name]()
