"""A row of weight w counts as w rows."""

import numpy as np
import pytest
from fit_support import clusters
from hypothesis import given, settings
from hypothesis import strategies as st

from mixle.errors import SupportError
from mixle.inference import optimize
from mixle.stats import (
    CategoricalDistribution,
    CategoricalEstimator,
    CompositeDistribution,
    CompositeEstimator,
    ExponentialDistribution,
    ExponentialEstimator,
    GaussianDistribution,
    GaussianEstimator,
    MixtureDistribution,
    MixtureEstimator,
)

pytestmark = pytest.mark.filterwarnings("ignore:EM stopped after:UserWarning")

START = MixtureDistribution(
    [
        CompositeDistribution((GaussianDistribution(-1.0, 4.0), CategoricalDistribution({"a": 0.7, "b": 0.3}))),
        CompositeDistribution((GaussianDistribution(2.0, 4.0), CategoricalDistribution({"a": 0.3, "b": 0.7}))),
    ],
    [0.5, 0.5],
)
ESTIMATOR = MixtureEstimator(
    [CompositeEstimator((GaussianEstimator(min_covar=0.1), CategoricalEstimator())) for _ in range(2)]
)
rows_and_weights = st.lists(
    st.tuples(st.tuples(st.floats(-9.0, 9.0), st.sampled_from("ab")), st.integers(0, 4)), min_size=1, max_size=12
).filter(lambda pairs: any(weight for _, weight in pairs))


def numbers(model):
    parts = []
    for component in model.components:
        gauss, labels = component.dists
        parts += [gauss.mu, gauss.sigma2, *(labels.pmap.get(label, 0.0) for label in "ab")]
    return np.array([*model.w, *parts])


@given(rows_and_weights)
@settings(max_examples=40)
def test_weights_are_repeated_rows(pairs):
    rows, weights = [row for row, _ in pairs], [weight for _, weight in pairs]
    repeated = [row for row, weight in pairs for _ in range(weight)]
    options = {"prev_estimate": START, "max_its": 2, "delta": None, "monotone": False, "track_best": False}
    weighted = optimize(rows, ESTIMATOR, weights=weights, **options)
    plain = optimize(repeated, ESTIMATOR, **options)
    np.testing.assert_allclose(numbers(weighted), numbers(plain), rtol=1e-7, atol=1e-9)
    told, expected = weighted.fit_provenance(), plain.fit_provenance()
    assert told.final_objective == pytest.approx(expected.final_objective, rel=1e-9, abs=1e-9)
    assert told.n_observations == len(rows)


def test_unit_weights_change_no_bit():
    rows = clusters()
    estimator = MixtureEstimator([GaussianEstimator()] * 3)
    plain = optimize(rows, estimator, max_its=5)
    assert optimize(rows, estimator, max_its=5, weights=np.ones(len(rows))).digest() == plain.digest()
    assert optimize(rows, estimator, max_its=5, weights=[1] * len(rows)).digest() == plain.digest()


def test_rows_of_zero_weight_take_no_part_in_a_start():
    rows = np.concatenate([clusters(50, centres=(0.0,)), [1e6]])
    weights = np.append(np.ones(50), 0.0)
    model = optimize(rows, MixtureEstimator([GaussianEstimator()] * 2), weights=weights)
    assert max(component.mu for component in model.components) < 100.0


def test_the_documented_path_weighs_rows_as_well():
    rows, weights = clusters(), np.random.RandomState(1).rand(200)
    estimator = MixtureEstimator([GaussianEstimator()] * 3)
    fused = optimize(rows, estimator, weights=weights)
    assert optimize(rows, estimator, weights=weights, reuse_estep_ll=False).digest() == fused.digest()


@pytest.mark.parametrize("reuse", [True, False])
def test_a_supported_row_of_zero_weight_explains_nothing(reuse):
    estimator = MixtureEstimator([ExponentialEstimator(), ExponentialEstimator()])
    start = MixtureDistribution([ExponentialDistribution(1.0), ExponentialDistribution(2.0)], [0.5, 0.5])
    for rows, weights in (([-1.0, -2.0], None), ([-1.0, -2.0, 3.0], [1.0, 1.0, 0.0])):
        with pytest.raises(SupportError, match="no component supports any row"):
            optimize(rows, estimator, prev_estimate=start, weights=weights, reuse_estep_ll=reuse)
