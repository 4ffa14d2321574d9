"""Far-off data keep their digits on every path: families × leaf or mixture × transports × sub-chunks."""

from __future__ import annotations

import numpy as np
import pytest

from mixle.stats import (
    CompositeEstimator,
    DiagonalGaussianEstimator,
    GaussianDistribution,
    GaussianEstimator,
    LogGaussianEstimator,
    MixtureEstimator,
    MultivariateGaussianEstimator,
    OptionalEstimator,
    RecordEstimator,
    SequenceEstimator,
)
from mixle.utils.parallel.planner import encoded_data

OFFSET = 1.7e9
X = OFFSET + np.random.RandomState(1).normal(size=3000)
VARIANCE = float((X - OFFSET).var())

#: name -> (estimator of one row, row of a number, fitted variance)
COLUMNS = {
    "Gaussian": (GaussianEstimator, float, lambda d: d.sigma2),
    "DiagonalGaussian": (DiagonalGaussianEstimator, lambda x: [x, x], lambda d: d.covar[0]),
    "MultivariateGaussian": (
        lambda: MultivariateGaussianEstimator(1),
        lambda x: [x],
        lambda d: d.covar[0, 0],
    ),
    "Composite": (lambda: CompositeEstimator((GaussianEstimator(),)), lambda x: (x,), lambda d: d.dists[0].sigma2),
    "Record": (lambda: RecordEstimator({"t": GaussianEstimator()}), lambda x: {"t": x}, lambda d: d.dists[0].sigma2),
    "Optional": (lambda: OptionalEstimator(GaussianEstimator(), est_prob=True), float, lambda d: d.dist.sigma2),
    "Sequence": (lambda: SequenceEstimator(GaussianEstimator()), lambda x: [x], lambda d: d.dist.sigma2),
}
PATHS = {
    "local": {"backend": "local"},
    "local, 5 shards": {"backend": "local", "num_shards": 5},
    "threads": {"backend": "local", "num_shards": 5, "parallel_chunks": True, "chunk_workers": 2},
    "processes": {"backend": "mp", "num_workers": 2, "num_shards": 5},
    "sub-chunks": {"backend": "mp", "num_workers": 2, "num_shards": 2, "sub_chunks": 3},
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("components", [0, 1])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_variance_at_a_far_offset_is_right_to_1e_9(name, components, path):
    make, row, variance = COLUMNS[name]
    estimator = MixtureEstimator([make()] * components) if components else make()
    with encoded_data([row(float(x)) for x in X], estimator, **PATHS[path]) as handle:
        model = handle.pysp_seq_initialize(estimator, np.random.RandomState(1), 1.0)
        for _ in range(2):
            got = variance(model.components[0] if components else model)
            assert got == pytest.approx(VARIANCE, rel=1e-9)
            model = handle.pysp_seq_estimate(estimator, model)


@pytest.mark.parametrize("path", PATHS)
def test_a_poor_start_near_zero_recovers_in_one_step(path):
    estimator = MixtureEstimator([GaussianEstimator()])
    far_start = MixtureEstimator([GaussianEstimator()]).estimate(None, ([1.0], [(0.0, 1.0, 1.0, 1.0)]))
    assert isinstance(far_start.components[0], GaussianDistribution)
    with encoded_data(X, estimator, **PATHS[path]) as handle:
        model = handle.pysp_seq_estimate(estimator, far_start)
    assert model.components[0].sigma2 == pytest.approx(VARIANCE, rel=1e-9)


@pytest.mark.parametrize("components", [0, 2])
def test_shards_at_a_far_offset_agree_to_1e_13(components):
    rows = 1e9 + np.random.RandomState(2).normal(size=5000)
    estimator = MixtureEstimator([GaussianEstimator()] * components) if components else GaussianEstimator()
    with encoded_data(rows, estimator) as handle:
        start = handle.pysp_seq_initialize(estimator, np.random.RandomState(1), 1.0)
    fitted = []
    for shards in (1, 2, 7, 40):
        with encoded_data(rows, estimator, num_shards=shards) as handle:
            model = handle.pysp_seq_estimate(estimator, start)
        leaves = model.components if components else [model]
        fitted.append([(leaf.mu - 1e9, leaf.sigma2) for leaf in leaves])
    for other in fitted[1:]:
        # the mean is stored as one float64 near 1e9: its own spacing is 1.2e-7
        np.testing.assert_allclose(np.array(other)[:, 0], np.array(fitted[0])[:, 0], rtol=0, atol=2.4e-7)
        np.testing.assert_allclose(np.array(other)[:, 1], np.array(fitted[0])[:, 1], rtol=1e-13)


def test_log_gaussian_recovers_a_tiny_spread():
    rows = np.exp(20.0 + 1e-3 * np.random.RandomState(3).normal(size=2000))
    estimator = LogGaussianEstimator()
    with encoded_data(rows, estimator) as handle:
        model = handle.pysp_seq_estimate(estimator, None)
    assert model.sigma2 == pytest.approx(float(np.log(rows).var()), rel=1e-9)
