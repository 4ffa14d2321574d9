"""Moments, distribution functions and quantiles: in closed form, as the published package gives them."""

import math

import numpy as np
import pytest

import mixle.stats as st
from mixle.errors import ContractError

INF = math.inf
#: law → mean, variance, P(x ≤ 0.8), and the quantiles of 0.3, 0 and 1.
KNOWN = {
    "beta": (st.BetaDistribution(2.0, 3.0), [0.4, 0.04, 0.9728, 0.27238394207510536, 0.0, 1.0]),
    "exponential": (st.ExponentialDistribution(2.0), [2.0, 4.0, 0.3296799539643607, 0.7133498878774649, 0.0, INF]),
    "gamma": (st.GammaDistribution(2.0, 3.0), [6.0, 18.0, 0.029824104738111652, 3.2920476321104752, 0.0, INF]),
    "gaussian": (st.GaussianDistribution(1.0, 4.0), [1.0, 4.0, 0.460172162722971, -0.04880102541608178, -INF, INF]),
    "gumbel": (
        st.GumbelDistribution(1.0, 2.0),
        [2.1544313298030655, 6.579736267392906, 0.33115427715290896, 0.6287464822752685, -INF, INF],
    ),
    "half normal": (
        st.HalfNormalDistribution(2.0),
        [1.5957691216057308, 1.4535209105296745, 0.31084348322064836, 0.7706409328151353, 0.0, INF],
    ),
    "inverse gamma": (
        st.InverseGammaDistribution(4.0, 3.0),
        [1.0, 0.5, 0.4837673815536875, 0.629957093450675, 0.0, INF],
    ),
    "laplace": (st.LaplaceDistribution(1.0, 2.0), [1.0, 8.0, 0.4524187090179798, -0.021651247531981443, -INF, INF]),
    "log gaussian": (
        st.LogGaussianDistribution(0.1, 0.5),
        [1.4190675485932571, 1.306364215266071, 0.32383768162549537, 0.7627635746237375, 0.0, INF],
    ),
    "logistic": (
        st.LogisticDistribution(1.0, 2.0),
        [1.0, 13.159472534785811, 0.47502081252106, -0.6945957207744073, -INF, INF],
    ),
    "pareto": (st.ParetoDistribution(0.5, 3.0), [0.75, 0.1875, 0.755859375, 0.563123940221803, 0.5, INF]),
    "rayleigh": (
        st.RayleighDistribution(2.0),
        [2.5066282746310002, 1.7168146928204138, 0.07688365361336426, 1.6892008618011831, 0.0, INF],
    ),
    "student": (st.StudentTDistribution(4.0, 0.5, 2.0), [0.5, 8.0, 0.5559878761075503, -0.6372981260994106, -INF, INF]),
    "uniform": (st.UniformDistribution(-1.0, 3.0), [1.0, 4.0 / 3.0, 0.45, 0.2, -1.0, 3.0]),
    "weibull": (
        st.WeibullDistribution(2.0, 3.0),
        [2.6586807763582736, 1.931416529422969, 0.06864159788864804, 1.7916680762486652, 0.0, INF],
    ),
    "bernoulli": (st.BernoulliDistribution(0.3), [0.3, 0.21, 0.7, 0.0, 0.0, 1.0]),
    "binomial": (st.BinomialDistribution(0.3, 12), [3.6, 2.52, 0.013841287201, 3.0, 0.0, 12.0]),
    "binomial from 2": (st.BinomialDistribution(0.3, 12, 2), [5.6, 2.52, 0.0, 5.0, 2.0, 14.0]),
    "geometric": (st.GeometricDistribution(0.3), [10.0 / 3.0, 70.0 / 9.0, 0.0, 1.0, 1.0, INF]),
    "negative binomial": (st.NegativeBinomialDistribution(3.0, 0.4), [4.5, 11.25, 0.064, 2.0, 0.0, INF]),
    "poisson": (st.PoissonDistribution(3.0), [3.0, 3.0, 0.04978706836786395, 2.0, 0.0, INF]),
}
COUNTS = ("bernoulli", "binomial", "binomial from 2", "geometric", "negative binomial", "poisson")


@pytest.mark.parametrize("family", KNOWN)
def test_moments_and_quantiles(family):
    law, wanted = KNOWN[family]
    found = [law.mean(), law.variance(), law.cdf(0.8), *(law.quantile(q) for q in (0.3, 0.0, 1.0))]
    assert all(type(value) is float for value in found)
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("family", KNOWN)
def test_a_quantile_undoes_the_distribution_function(family):
    law, _ = KNOWN[family]
    assert (law.cdf(-INF), law.cdf(INF)) == (0.0, 1.0)
    assert math.isnan(law.cdf(math.nan))
    for q in (1e-9, 0.2, 0.5, 0.7, 0.999, 1.0 - 1e-12):
        x = law.quantile(q)
        if family in COUNTS:
            assert law.cdf(x) >= q > law.cdf(x - 1.0)
        else:
            assert law.cdf(x) == pytest.approx(q, rel=1e-9)


@pytest.mark.parametrize("family", COUNTS)
def test_counts_add_up(family):
    law, _ = KNOWN[family]
    below = 0.0
    for k in range(15):
        below += law.density(k) if family != "bernoulli" or k < 2 else 0.0
        assert law.cdf(k) == pytest.approx(below, rel=1e-12, abs=1e-15)
        assert law.cdf(k + 0.5) == law.cdf(k)


def test_moments_without_a_distribution_function():
    skew, inverse = st.SkewNormalDistribution(1.0, 2.0, 3.0), st.InverseGaussianDistribution(2.0, 3.0)
    assert (skew.mean(), skew.variance()) == pytest.approx((2.513879513212096, 1.7081688194767075), rel=1e-12)
    assert (inverse.mean(), inverse.variance()) == pytest.approx((2.0, 8.0 / 3.0), rel=1e-12)
    assert st.IntegerCategoricalDistribution(2, [0.25, 0.75]).variance() == 0.1875
    with pytest.raises(ContractError, match="distribution function of SkewNormal is not known"):
        skew.cdf(0.0)
    with pytest.raises(ContractError, match="distribution function of InverseGaussian is not known"):
        inverse.quantile(0.5)


def test_moments_that_do_not_exist():
    assert st.StudentTDistribution(1.5, 0.0, 1.0).variance() == INF
    assert math.isnan(st.StudentTDistribution(1.0, 0.0, 1.0).variance())
    assert math.isnan(st.StudentTDistribution(1.0, 0.0, 1.0).mean())
    assert (st.ParetoDistribution(1.0, 1.0).mean(), st.ParetoDistribution(1.0, 2.0).variance()) == (INF, INF)
    assert st.InverseGammaDistribution(2.0, 1.0).variance() == INF


def test_what_is_no_law_of_a_number_says_so():
    labels = st.CategoricalDistribution({"a": 1.0})
    vector = st.DiagonalGaussianDistribution([0.0, 1.0], [1.0, 1.0])
    assert vector.mean().tolist() == [0.0, 1.0]
    for ask in (labels.mean, labels.variance, vector.variance, lambda: labels.cdf(1.0), lambda: labels.quantile(0.5)):
        with pytest.raises(ContractError, match=r"is not known; (draw|count|sort)"):
            ask()
    for q in (-0.1, 1.5, np.nan):
        with pytest.raises(ValueError, match="q of a quantile"):
            st.PoissonDistribution(1.0).quantile(q)
