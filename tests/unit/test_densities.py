"""Densities integrate, and probabilities sum, to 1."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

import mixle.stats as st

INF = math.inf
CONTINUOUS = [
    (st.GaussianDistribution(1.0, 4.0), (-INF, 1.0, INF)),
    (st.LogGaussianDistribution(0.5, 0.25), (0.0, 2.0, INF)),
    (st.ExponentialDistribution(2.0), (0.0, 2.0, INF)),
    (st.GammaDistribution(2.5, 1.5), (0.0, 4.0, INF)),
    (st.InverseGammaDistribution(3.0, 2.0), (0.0, 1.0, INF)),
    (st.InverseGaussianDistribution(1.5, 2.0), (0.0, 1.5, INF)),
    (st.BetaDistribution(2.0, 3.5), (0.0, 0.4, 1.0)),
    (st.StudentTDistribution(3.0, 1.0, 2.0), (-INF, 1.0, INF)),
    (st.LaplaceDistribution(1.0, 2.0), (-INF, 1.0, INF)),
    (st.LogisticDistribution(1.0, 2.0), (-INF, 1.0, INF)),
    (st.GumbelDistribution(1.0, 2.0), (-INF, 1.0, INF)),
    (st.WeibullDistribution(1.5, 2.0), (0.0, 2.0, INF)),
    (st.ParetoDistribution(1.5, 3.0), (1.5, 3.0, INF)),
    (st.RayleighDistribution(2.0), (0.0, 2.0, INF)),
    (st.HalfNormalDistribution(2.0), (0.0, 2.0, INF)),
    (st.SkewNormalDistribution(1.0, 2.0, 3.0), (-INF, 1.0, INF)),
    (st.VonMisesDistribution(0.5, 2.0), (-math.pi, 0.5, math.pi)),
]
DISCRETE = [
    st.PoissonDistribution(3.5),
    st.GeometricDistribution(0.2),
    st.NegativeBinomialDistribution(2.5, 0.4),
    st.BinomialDistribution(0.3, 12),
]


@pytest.mark.parametrize(("law", "ends"), CONTINUOUS, ids=lambda value: type(value).__name__)
def test_a_density_integrates_to_one(law, ends):
    parts = [quad(law.density, *pair, epsabs=1e-12, epsrel=1e-10, limit=400)[0] for pair in itertools.pairwise(ends)]
    assert sum(parts) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("law", DISCRETE, ids=lambda value: type(value).__name__)
def test_probabilities_sum_to_one(law):
    rows = np.arange(400)
    total = np.exp(law.seq_log_density(law.dist_to_encoder().seq_encode(rows))).sum()
    assert total == pytest.approx(1.0, abs=1e-12)
