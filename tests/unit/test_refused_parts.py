"""What laws and estimators refuse when they are made, or asked for what they cannot do: each says what to pass."""

import numpy as np
import pandas as pd
import pytest

import mixle.stats as st
from mixle.errors import RowError
from mixle.inference import schedules

NORMAL = st.GaussianDistribution(0.0, 1.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: st.CategoricalDistribution({}).sampler(1).sample(),
            ValueError,
            "without labels cannot be sampled; fit it to rows first",
        ),
        (lambda: st.DirichletDistribution([1.0]), ValueError, "alpha of a Dirichlet must have two entries or more"),
        (lambda: st.PointMassDistribution([1.0]), ValueError, "the value of a PointMass must be hashable"),
        (
            lambda: st.GaussianMixtureDistribution([[0.0], [1.0]], [1.0, 1.0]),
            ValueError,
            r"sig2 must have shape \(2, 1, 1\) or \(2, 1\), has \(2,\)",
        ),
        (
            lambda: st.GaussianMixtureEstimator([st.DiagonalGaussianEstimator()], conj_prior_params=1.0),
            ValueError,
            "conj_prior_params is not built in; pass prior= to the component estimators",
        ),
        (lambda: st.HiddenMarkovEstimator([]), ValueError, "needs at least one estimator of its elements"),
        (
            lambda: st.HiddenMarkovModelDistribution([NORMAL], [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]),
            ValueError,
            "2 states need as many laws of an element, got 1",
        ),
        (
            lambda: st.DiagonalGaussianDistribution([[0.0]], [1.0]),
            ValueError,
            r"must be a vector, has shape \(1, 1\)",
        ),
        (lambda: schedules.harmonic(0.7, -1.0), ValueError, "offset of harmonic must not be negative"),
        (
            lambda: st.seq_encode(pd.DataFrame({"x": [1.0]}), model=NORMAL),
            TypeError,
            r"a DataFrame is not taken: pass list\(data.itertuples",
        ),
        (
            lambda: st.DirichletDistribution([1.0, 1.0]).dist_to_encoder().seq_encode([[1.0]]),
            RowError,
            "a row of shares needs two entries or more|expected",
        ),
        (
            lambda: st.VonMisesFisherEstimator().accumulator_factory().make().acc_to_encoder().seq_encode([[1.0]]),
            RowError,
            "a direction needs two entries or more",
        ),
    ],
)
def test_what_is_refused_says_what_to_pass(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_dirichlet_without_rows_asks_for_its_dimension():
    estimator = st.DirichletEstimator()
    with pytest.raises(ValueError, match="cannot be fitted without rows; pass dim="):
        estimator.estimate(None, estimator.accumulator_factory().make().value())


@pytest.mark.parametrize("position", [0, 2])
def test_an_error_inside_a_sequence_names_its_row(position):
    rows = [[1.0], [1.0, 2.0], [3.0]]
    rows[position] = [*rows[position], "b"]
    encoder = st.SequenceEstimator(st.GaussianEstimator()).accumulator_factory().make().acc_to_encoder()
    with pytest.raises(RowError) as caught:
        encoder.seq_encode(rows)
    assert caught.value.row == position
    law = st.SequenceEstimator(st.ExponentialEstimator(), len_estimator=st.PoissonEstimator())
    accumulator = law.accumulator_factory().make()
    rows = [[1.0], [1.0, 2.0], [3.0]]
    rows[position] = [-1.0]
    with pytest.raises(RowError) as caught:
        accumulator.seq_update(accumulator.acc_to_encoder().seq_encode(rows), np.ones(3), None)
    assert caught.value.row == position
