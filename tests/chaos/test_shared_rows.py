"""Rows are held once for all workers: their memory, less what they take without rows, is bounded."""

import os
import sys
from pathlib import Path

import numpy as np
import pool_support
import psutil
import pytest
from leaks import nothing_hangs_and_nothing_is_left_behind  # noqa: F401 - a fixture

from mixle.stats import (
    CategoricalEstimator,
    CompositeEstimator,
    DiagonalGaussianEstimator,
    GaussianEstimator,
    MixtureEstimator,
)
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proportional memory is told by Linux"),
]
PAIR = CompositeEstimator((GaussianEstimator(), CategoricalEstimator()))


def matrix(count):
    return np.random.RandomState(0).normal(size=(count, 8)), MixtureEstimator([DiagonalGaussianEstimator(8)] * 2)


def tuples(count):
    numbers = np.random.RandomState(0).normal(size=count).tolist()
    return [(x, "abc"[i % 3]) for i, x in enumerate(numbers)], MixtureEstimator([PAIR] * 2)


def proportional(pid):
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))


def held():
    """Return the memory of launcher and workers; the driver's own rows are the test's."""
    return sum(proportional(process.pid) for process in psutil.Process().children(recursive=True))


def fitted(rows, estimator, workers):
    handle = ResilientMPEncodedData(rows, estimator, num_workers=workers)
    model = handle.pysp_seq_initialize(estimator, 1, 0.01)
    handle.pysp_seq_estimate(estimator, model)
    return handle


@pytest.mark.parametrize(
    ("kind", "count", "workers"), [(matrix, 400_000, 2), (matrix, 400_000, 4), (tuples, 1_600_000, 2)]
)
def test_all_processes_hold_little_more_than_the_rows_raw_and_encoded(kind, count, workers):
    with fitted(*kind(1000), workers):
        idle = held()
    rows, estimator = kind(count)
    with fitted(rows, estimator, workers) as handle:
        more = held() - idle
        raw = os.fstat(handle.transport.inner._pool.spool.fd).st_size
        assert raw > count
        assert more <= 1.3 * (raw + sum(handle.apply(pool_support.encoded_bytes)))
