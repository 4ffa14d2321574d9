"""Parquet files of four times the memory that a worker may have: read and encoded in each round, in constant memory."""

from __future__ import annotations

from multiprocessing import resource_tracker

import numpy as np
import pytest
from distributed import Client, LocalCluster

from mixle.stats import (
    CompositeDistribution,
    CompositeEstimator,
    GaussianDistribution,
    GaussianEstimator,
    MixtureDistribution,
    MixtureEstimator,
)
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.planner import DaskEncodedData, encoded_data

pytestmark = pytest.mark.engines

MEMORY, K, COLUMNS, GROUP = 128 << 20, 16, 8, 1 << 16
ROWS = 4 * MEMORY // (8 * COLUMNS)
ESTIMATOR = MixtureEstimator([CompositeEstimator([GaussianEstimator()] * COLUMNS)] * K)


def start():
    components = [CompositeDistribution([GaussianDistribution(3.0 * k, 1.0)] * COLUMNS) for k in range(K)]
    return MixtureDistribution(components, [1.0 / K] * K)


def piece(number):
    rng = np.random.default_rng(number)
    return rng.standard_normal((GROUP, COLUMNS)) + 3.0 * rng.integers(0, K, (GROUP, 1))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("parquet")
    names = [f"x{column}" for column in range(COLUMNS)]
    pq.write_table(pa.table(dict(zip(names, piece(0).T, strict=True))), folder / "first")
    with pq.ParquetWriter(folder / "rows.parquet", pa.schema([(name, pa.float64()) for name in names])) as file:
        for number in range(ROWS // GROUP):
            file.write_table(pa.table(dict(zip(names, piece(number).T, strict=True))))
    return folder


@pytest.fixture(scope="module")
def client():
    settings = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": "127.0.0.1:0"}
    # Memory is asked of the system when it is used and given back when it is not, so that a limit counts what is held.
    settings["env"] = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_MMAP_THRESHOLD_": "65536"}
    with LocalCluster(**settings) as cluster, Client(cluster, set_as_default=False) as connected:
        yield connected
    resource_tracker._resource_tracker._stop()


def private_bytes():
    """Return the private memory of this process, which the limit is on."""
    from pathlib import Path

    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData:")]
    return 1024 * int(line.split()[1])


def limit(extra):
    """Let this process have `extra` bytes more than it has now."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (private_bytes() + extra, resource.RLIM_INFINITY))


def too_much():
    """Ask for as much as the rows take."""
    try:
        return np.ones(4 * MEMORY, np.uint8).nbytes
    except MemoryError:
        return "no memory"


def two_steps(handle):
    model = start()
    for _ in range(2):
        model = handle.pysp_seq_estimate(ESTIMATOR, model)
    return model.digest()


@pytest.fixture(autouse=True)
def limited(client, files):
    """Set the limit of the worker when all is loaded that a step needs."""
    with DaskEncodedData([files / "first"], ESTIMATOR, client=client) as handle:
        two_steps(handle)
    client.run(limit, MEMORY)


def test_files_of_four_times_the_memory_of_a_worker(client, files):
    assert set(client.run(too_much).values()) == {"no memory"}
    with encoded_data(files, ESTIMATOR, backend="dask", client=client, materialize=False) as handle:
        assert (len(handle), handle.num_shards) == (ROWS, ROWS // GROUP)
        found = two_steps(handle)
    rows = np.concatenate([piece(number) for number in range(ROWS // GROUP)])
    with encoded_data(rows, ESTIMATOR, num_shards=Contiguous(sizes=(GROUP,) * (ROWS // GROUP))) as local:
        assert two_steps(local) == found
