"""Policies around a backend's rounds, asked for by keyword."""

from __future__ import annotations

import numpy as np
import pytest

from mixle.inference import optimize
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.policies.retry import Retry

ROWS = np.random.RandomState(0).normal(size=400)
ESTIMATOR = MixtureEstimator([GaussianEstimator()] * 2)


def fit(handle):
    return optimize(None, ESTIMATOR, enc_data=handle, max_its=4, delta=None, seed=1, init_p=1.0).digest()


def test_retry_recovers_a_killed_worker_with_the_same_bits():
    with encoded_data(ROWS, ESTIMATOR, num_shards=4) as handle:
        clean = fit(handle)
    with encoded_data(ROWS, ESTIMATOR, backend="mp", num_workers=2, num_shards=4, policies=[Retry(2)]) as handle:
        handle.transport.process(0).kill()
        assert fit(handle) == clean


def test_local_rows_take_policies_too():
    with encoded_data(ROWS, ESTIMATOR, num_shards=4, policies=[Retry(2)]) as handle:
        assert isinstance(handle.transport, Retry)
        found = fit(handle)
    with encoded_data(ROWS, ESTIMATOR, num_shards=4) as handle:
        assert fit(handle) == found


@pytest.mark.parametrize("backend", ["local", "mp"])
def test_one_policy_of_a_kind(backend):
    with pytest.raises(ValueError, match="Retry is given 2 times"):
        encoded_data(ROWS, ESTIMATOR, backend=backend, policies=[Retry(2), Retry(3)])
