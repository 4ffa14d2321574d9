"""Probabilistic principal components: the fit is the likeliest, and it stands in mixtures."""

import numpy as np
import pytest

import mixle.stats as st
from bits import statistic
from mixle.inference import optimize
from models import MODELS

LAW = MODELS["probabilistic pca"]().dist
ROWS = np.array(LAW.sampler(5).sample(300))


def score(model):
    return float(np.sum(model.seq_log_density(ROWS)))


def test_no_neighbour_is_likelier():
    model = st.ProbabilisticPCAEstimator(2).estimate(300.0, statistic(st.ProbabilisticPCAEstimator(2), ROWS))
    best, rng = score(model), np.random.RandomState(1)
    for _ in range(20):
        w = model.w + 0.02 * rng.standard_normal(model.w.shape)
        mu, sigma2 = model.mu + 0.02 * rng.standard_normal(4), model.sigma2 * np.exp(0.02 * rng.standard_normal())
        assert score(st.ProbabilisticPCADistribution(w, mu, sigma2)) < best
    full = st.MultivariateGaussianDistribution(model.mu, model.covar)
    assert score(full) == pytest.approx(best, rel=1e-13)


def test_it_stands_in_a_mixture():
    far = st.ProbabilisticPCADistribution(LAW.w[::-1], LAW.mu + 12.0, 0.3)
    rows = np.concatenate([ROWS, np.array(far.sampler(6).sample(300))])
    model = optimize(rows, st.MixtureEstimator([st.ProbabilisticPCAEstimator(2)] * 2), max_its=100, init_p=1.0, seed=1)
    for law, fitted in zip((LAW, far), sorted(model.components, key=lambda c: c.mu[0]), strict=True):
        assert fitted.covar == pytest.approx(law.covar, abs=1.0)
        assert fitted.mu == pytest.approx(law.mu, abs=0.5)


def test_a_constant_column_leaves_a_floor_and_says_so():
    rows = np.column_stack([np.arange(6.0), 2.0 * np.arange(6.0), np.zeros(6)])
    model = st.ProbabilisticPCAEstimator(1).estimate(6.0, statistic(st.ProbabilisticPCAEstimator(1), rows))
    assert "floor" in model.numerical_repairs()[0]
    assert np.isfinite(model.seq_log_density(rows)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: st.ProbabilisticPCADistribution(np.ones((2, 2)), [0.0, 0.0], 1.0), "q from 1 to 1"),
        (lambda: st.ProbabilisticPCADistribution(np.ones((2, 1)), [0.0, 0.0], 0.0), "sigma2"),
        (lambda: st.ProbabilisticPCAEstimator(0), "at least 1"),
        (lambda: st.ProbabilisticPCAEstimator(2, 2), "below the number"),
        (
            lambda: st.ProbabilisticPCAEstimator(4).estimate(300.0, statistic(st.ProbabilisticPCAEstimator(4), ROWS)),
            "4 entries",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
