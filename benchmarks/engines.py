"""What an engine adds to a round, and what columns save: ``python benchmarks/engines.py [FOLDER] [dask spark ...]``.

A round on an engine is compared with the engine's own floor, an empty job that takes the same task and returns the
same payloads, measured side by side, plus the E-step's own seconds (the receipts'): of wall time those of a worker, the
mean over workers and those of the busiest one (shards wait for it where they live on workers); of processor time, which
other work on the machine disturbs less, those of all shards.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mixle.stats import CategoricalEstimator, CompositeEstimator, GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.folding.travel import pack

ROWS, COLUMN_ROWS, SHARDS, K, REPEATS, TURNS = 400_000, 1_000_000, 8, 8, 9, 41
YARDSTICK = Path()
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


def show(engine: str, workers: int, floor: Callable[[], Any], run: Callable[[], Any], own: Any = None) -> None:
    """Print a round against the engine's floor and the E-step's own seconds in that round, medians over turns.

    `own` runs a round and returns the results of what this process started, if that is not everything.
    """
    found = rounds(workers, floor, run)
    bare, estep, busiest, full, ratio, least = (statistics.median(one[i] for one in found) for i in range(6))
    print(f"{engine}: {ROWS:,} rows, {SHARDS} shards, {workers} workers, median of {len(found)}")
    print(f"  floor {bare * 1e3:.1f} ms, E-step {estep * 1e3:.1f} ms (busiest {busiest * 1e3:.1f}),", end=" ")
    print(f"round {full * 1e3:.1f} ms: {ratio:.2f} x ({least:.2f})")
    bare, estep, full = (1e3 * one for one in spent(floor, own or run))
    print(
        f"  processor: floor {bare:.1f} ms, E-step {estep:.1f} ms, round {full:.1f} ms: {full / (bare + estep):.2f} x"
    )


def spent(floor: Callable[[], Any], run: Callable[[], Any], calls: int = 20) -> tuple[float, float, float]:
    """Return the processor seconds of the floor, of the E-step and of a round; of blocks in turns, the least."""
    found = []
    for _ in range(5):
        marks, estep = [cpu_seconds()], 0.0
        for _ in range(calls):
            floor()
        marks.append(cpu_seconds())
        for _ in range(calls):
            estep += sum(result.receipt["cpu_seconds"] for result in run())
        marks.append(cpu_seconds())
        found.append(((marks[1] - marks[0]) / calls, estep / calls, (marks[2] - marks[1]) / calls))
    bare, estep, full = (min(one[i] for one in found) for i in range(3))
    return bare, estep, full


def rounds(workers: int, floor: Callable[[], Any], run: Callable[[], Any]) -> list[tuple[float, ...]]:
    """Return, turn by turn, wall seconds of the floor, the E-step (mean, busiest worker), the round, and two ratios.

    An executor does not say which of its processes computed a shard; then both are the mean.
    """
    found = []
    for _ in range(TURNS):
        marks = [time.perf_counter()]
        floor()
        marks.append(time.perf_counter())
        results = run()
        marks.append(time.perf_counter())
        seconds: dict[int, float] = {}
        for result in results:
            worker = result.receipt.get("worker", 0)
            seconds[worker] = seconds.get(worker, 0.0) + result.receipt["seconds"]
        estep = sum(seconds.values()) / workers
        busiest = max(seconds.values()) if len(seconds) > 1 else estep
        bare, full = marks[1] - marks[0], marks[2] - marks[1]
        found.append((bare, estep, busiest, full, full / (bare + estep), full / (bare + busiest)))
    return found


def rows() -> np.ndarray:
    """Return the data."""
    rng = np.random.RandomState(0)
    return rng.randn(ROWS, 4) + 3.0 * rng.randint(0, K, (ROWS, 1))


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

        show("dask", 2, floor, lambda: list(handle.transport.map(task)))


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

        show("spark", 2, floor, lambda: list(handle.transport.map(task)))
    columns_against_rows(session)
    session.stop()


def columns_against_rows(session: Any) -> None:
    """Print seconds to encode a cached data frame by columns, and the same rows as tuples; then in Python alone."""
    from mixle.utils.parallel.folding.remote import Encoding, by_value
    from mixle.utils.parallel.planner import SparkEncodedData
    from mixle.utils.parallel.transports.spark.batches import encode_arrow
    from mixle.utils.parallel.transports.spark.context import arrow_batches
    from mixle.utils.parallel.transports.spark.steps import encode_rows

    estimator = CompositeEstimator([GaussianEstimator()] * 6 + [CategoricalEstimator()] * 2)
    fields = [f"rand({number}) as x{number}" for number in range(6)]
    fields += [f"char(97 + id % {number}) as c{number}" for number in (5, 7)]
    table = session.range(0, COLUMN_ROWS, 1, SHARDS).selectExpr(*fields).persist()
    table.count()

    def encode(data: Any) -> None:
        SparkEncodedData(data, estimator).close()

    columns, tuples = measured(lambda: encode(table), lambda: encode(table.rdd.map(tuple)))
    print(f"spark: {COLUMN_ROWS:,} rows of 8 columns encoded in {columns:.2f} s by columns,", end=" ")
    print(f"{tuples:.2f} s as tuples: {tuples / columns:.1f} x")

    sent = pack(Encoding(estimator.accumulator_factory().make().acc_to_encoder()), definitions=True)
    batches, schema = arrow_batches(table) or (None, b"")
    by_columns, by_rows = by_value(encode_arrow), by_value(encode_rows)
    columns = in_workers(batches, lambda index, part: by_columns(sent, schema, index, part))
    tuples = in_workers(table.rdd.map(tuple), lambda index, part: by_rows(sent, index, part))
    print(f"  processor seconds of the Python workers: {columns:.2f} and {tuples:.2f}: {tuples / columns:.1f} x")


def in_workers(collection: Any, encode: Callable[[int, Any], Any]) -> float:
    """Return the processor seconds in which Python workers take partitions in and encode them: the median of jobs."""

    def timed(index: int, part: Any) -> Any:
        start = time.process_time()
        list(encode(index, part))
        yield time.process_time() - start

    return statistics.median(collection.mapPartitionsWithIndex(timed).sum() for _ in range(REPEATS))


def on_ray() -> None:
    """Measure rounds on two actors of a local cluster."""
    import ray

    from mixle.utils.parallel.folding.travel import pack_results
    from mixle.utils.parallel.planner import encoded_data

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

    @ray.remote(num_cpus=0)
    class Echo:
        def work(self, told: list[Any], frames: bytes) -> bytes:
            ray.get(told[0])
            return frames

    with encoded_data(rows(), ESTIMATOR, backend="ray", num_shards=SHARDS, num_workers=2) as handle:
        model = handle.pysp_seq_initialize(ESTIMATOR, 1, 0.1)
        task = Accumulate(ESTIMATOR, model)
        frames = pack_results(list(handle.transport.map(task))[: SHARDS // 4])  # two calls for each actor
        order = pack(task, definitions=True)
        actors = [Echo.remote() for _ in range(2)]

        def floor() -> None:
            told = [ray.put(order)]
            ray.get([actor.work.remote(told, frames) for _ in range(2) for actor in actors])

        floor()
        show("ray", 2, floor, lambda: list(handle.transport.map(task)))
    ray.shutdown()


def on_futures() -> None:
    """Measure rounds on a pool of two processes of the standard library."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from mixle.utils.parallel.folding.travel import pack_results
    from mixle.utils.parallel.planner import encoded_data

    with (
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver")) as pool,
        encoded_data(rows(), ESTIMATOR, backend="futures", client=pool, num_shards=SHARDS) as handle,
    ):
        model = handle.pysp_seq_initialize(ESTIMATOR, 1, 0.1)
        task = Accumulate(ESTIMATOR, model)
        frame = pack_results(list(handle.transport.map(task))[:1])
        order = pack(task)

        def floor() -> None:
            list(pool.map(echo, [order] * SHARDS, [frame] * SHARDS))

        show("futures", 2, floor, lambda: list(handle.transport.map(task)))


def echo(_: bytes, frame: bytes) -> bytes:
    """Return a payload."""
    return frame


def on_mpi() -> None:
    """Start this script on two ranks."""
    launcher = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    subprocess.run([str(launcher), "-n", "2", sys.executable, __file__, "rank"], check=True)


def on_rank() -> None:
    """Measure rounds on the ranks of this job; the root prints."""
    from mpi4py import MPI

    from mixle.utils.parallel.folding.travel import pack_results
    from mixle.utils.parallel.mpi import MPIEncodedData

    world = MPI.COMM_WORLD
    with MPIEncodedData(rows(), ESTIMATOR, num_shards=SHARDS) as handle:
        model = handle.pysp_seq_initialize(ESTIMATOR, 1, 0.1)
        task = Accumulate(ESTIMATOR, model)
        results = list(handle.transport.map(task))
        frames = [pack_results([result]) for result in results if result.receipt["worker"] == world.rank]
        order = pack(task)

        def floor() -> None:
            world.bcast(order if world.rank == 0 else None, root=0)
            world.allgather(frames)

        def run() -> list[Any]:
            return list(handle.transport.map(task))

        def own() -> list[Any]:
            return [result for result in run() if result.receipt["worker"] == world.rank]

        if world.rank:
            rounds(world.size, floor, run)
            spent(floor, own)
        else:
            show("mpi", world.size, floor, run, own)


def cpu_seconds() -> float:
    """Return the processor seconds of this process and of all that it started."""
    import psutil

    here = psutil.Process()
    times = [one.cpu_times() for one in (here, *here.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def per_iteration(fit: Callable[[int], Any], few: int = 3, many: int = 13) -> float:
    """Return the processor seconds of one more iteration: the median over runs of a few and of many in turns."""
    found = []
    fit(many)
    for _ in range(3):
        marks = [cpu_seconds()]
        for count in (few, many):
            fit(count)
            marks.append(cpu_seconds())
        found.append(((marks[2] - marks[1]) - (marks[1] - marks[0])) / (many - few))
    return statistics.median(found)


def on_mllib() -> None:
    """Compare an iteration of a mixture of full covariances with that of Spark's own, on the yardstick's W2."""
    import pandas as pd
    from pyspark.ml.clustering import GaussianMixture
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql import SparkSession

    from mixle.inference import optimize
    from mixle.utils.parallel.planner import SparkEncodedData
    from workloads import common, full

    data, model = full(common(YARDSTICK))
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.execution.arrow.pyspark.enabled", "true").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    names = [f"x{column}" for column in range(data.shape[1])]
    table = session.createDataFrame(pd.DataFrame(data, columns=names)).repartition(4).persist()
    vectors = VectorAssembler(inputCols=names, outputCol="features").transform(table).select("features").persist()
    table.count()
    vectors.count()

    def theirs(iterations: int) -> None:
        GaussianMixture(k=len(model.components), maxIter=iterations, tol=0.0, seed=1).fit(vectors)

    with SparkEncodedData(table, model.estimator()) as handle:

        def ours(iterations: int) -> None:
            optimize(None, model.estimator(), enc_data=handle, prev_estimate=model, max_its=iterations, delta=None)

        one, other = per_iteration(ours), per_iteration(theirs)
    print(f"W2 in local[2], processor seconds of an iteration: {one:.3f} here, {other:.3f} MLlib: {other / one:.1f} x")
    session.stop()


def on_parquet() -> None:
    """Compare rounds that read and encode Parquet files anew with rounds over what was kept, on one Dask worker."""
    import tempfile

    import pyarrow as pa
    import pyarrow.parquet as pq
    from distributed import Client, LocalCluster

    from mixle.utils.parallel.planner import DaskEncodedData

    components, columns, group = 16, 8, 1 << 17
    estimator = MixtureEstimator([CompositeEstimator([GaussianEstimator()] * columns)] * components)
    rng = np.random.default_rng(0)
    names = [f"x{column}" for column in range(columns)]
    settings = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with tempfile.TemporaryDirectory() as folder:
        schema = pa.schema([(name, pa.float64()) for name in names])
        with pq.ParquetWriter(Path(folder, "rows.parquet"), schema) as file:
            for _ in range(16):
                part = rng.standard_normal((group, columns)) + 3.0 * rng.integers(0, components, (group, 1))
                file.write_table(pa.table(dict(zip(names, part.T, strict=True))))
        with (
            LocalCluster(**settings) as cluster,
            Client(cluster) as client,
            DaskEncodedData(Path(folder), estimator, client=client) as kept,
            DaskEncodedData(Path(folder), estimator, client=client, materialize=False) as read,
        ):
            model = kept.pysp_seq_initialize(estimator, 1, 0.01)
            task = Accumulate(estimator, model)
            one, other = measured(lambda: list(kept.transport.map(task)), lambda: list(read.transport.map(task)))
    rows_s = 16 * group / other
    print(f"parquet (snappy), K={components}: {other:.2f} s a round read and encoded anew, {one:.2f} s kept:", end=" ")
    print(f"{100 * one / other:.0f} % of the throughput, {rows_s / 1e6:.2f} million rows a second")


PARTS: dict[str, Callable[[], None]] = {
    "dask": on_dask,
    "spark": on_spark,
    "ray": on_ray,
    "futures": on_futures,
    "mpi": on_mpi,
    "parquet": on_parquet,
    "mllib": on_mllib,
}

if __name__ == "__main__":
    if sys.argv[1:] == ["rank"]:
        on_rank()
    else:
        chosen = [word for word in sys.argv[1:] if word in PARTS]
        folders = [word for word in sys.argv[1:] if word not in PARTS]
        YARDSTICK = Path(folders[0]) if folders else YARDSTICK
        for name in chosen or [part for part in PARTS if part != "mllib" or folders]:
            PARTS[name]()
