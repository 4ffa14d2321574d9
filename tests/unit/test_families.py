"""Families against independent references: densities, maximum-likelihood fits, documented smoothing rules."""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.stats
from scipy.integrate import quad
from scipy.optimize import minimize

import mixle.stats as st
from bits import statistic
from mixle.stats.families.gamma import gamma_shape
from mixle.stats.special import beta_log


def precisely(formula, *parameters):
    """Return the formula of a log-density, worked out to 40 digits."""

    def reference(row):
        with mp.workdps(40):
            return float(formula(mp.mpf(row), *map(mp.mpf, parameters)))

    return reference


def vonmises_fisher(cosine, d, kappa):
    with mp.workdps(40):
        v = mp.mpf(d) / 2 - 1
        constant = v * mp.log(kappa) - (v + 1) * mp.log(2 * mp.pi) - mp.log(mp.besseli(v, kappa))
        return float(constant + kappa * mp.mpf(float(cosine)))


def len_dist(n):
    return st.PointMassDistribution(n)


def rising(x, r):
    return mp.loggamma(x + r) - mp.loggamma(r)


REFERENCES = {
    "gaussian": (st.GaussianDistribution(1.5, 4.0), scipy.stats.norm(1.5, 2.0).logpdf, [-3.0, 0.0, 1.5, 40.0, -1e150]),
    "log gaussian": (
        st.LogGaussianDistribution(0.5, 0.25),
        scipy.stats.lognorm(0.5, scale=math.exp(0.5)).logpdf,
        [1e-300, 1e-3, 1.0, 2.5, 1e3, 1e300],
    ),
    "poisson": (st.PoissonDistribution(3.5), scipy.stats.poisson(3.5).logpmf, [0, 1, 7, 100, 5000, 10**9]),
    "poisson of zero": (st.PoissonDistribution(0.0), scipy.stats.poisson(0.0).logpmf, [0, 1]),
    "geometric": (st.GeometricDistribution(0.3), scipy.stats.geom(0.3).logpmf, [1, 2, 30, 10**9]),
    "geometric of one": (st.GeometricDistribution(1.0), scipy.stats.geom(1.0).logpmf, [1, 2]),
    "exponential": (st.ExponentialDistribution(2.5), scipy.stats.expon(scale=2.5).logpdf, [0.0, 1.0, 200.0, 1e290]),
    "gamma": (
        st.GammaDistribution(2.5, 1.5),
        scipy.stats.gamma(2.5, scale=1.5).logpdf,
        [1e-300, 1e-9, 1.0, 20.0, 1e290],
    ),
    "gamma of small shape": (st.GammaDistribution(0.05, 3.0), scipy.stats.gamma(0.05, scale=3.0).logpdf, [1e-12, 1.0]),
    "uniform": (st.UniformDistribution(-2.0, 5.0), scipy.stats.uniform(-2.0, 7.0).logpdf, [-2.0, 5.0, 5.1, -3.0]),
    "bernoulli": (st.BernoulliDistribution(0.3), scipy.stats.bernoulli(0.3).logpmf, [0, 1, True, False]),
    "bernoulli of one": (st.BernoulliDistribution(1.0), scipy.stats.bernoulli(1.0).logpmf, [0, 1]),
    "negative binomial": (
        st.NegativeBinomialDistribution(3.0, 0.4),
        scipy.stats.nbinom(3.0, 0.4).logpmf,
        [0, 1, 7, 100, 5000, 10**6],
    ),
    "negative binomial of large size": (
        st.NegativeBinomialDistribution(5e6, 0.999),
        precisely(lambda x, r, p: rising(x, r) - mp.loggamma(x + 1) + r * mp.log(p) + x * mp.log(1 - p), 5e6, 0.999),
        [0, 1, 10**7],
    ),
    "binomial": (st.BinomialDistribution(0.3, 6), scipy.stats.binom(6, 0.3).logpmf, [0, 1, 6, 7, -1]),
    "binomial of many": (st.BinomialDistribution(1e-4, 10**5), scipy.stats.binom(10**5, 1e-4).logpmf, [0, 10, 10**5]),
    "binomial of one": (st.BinomialDistribution(1.0, 6), scipy.stats.binom(6, 1.0).logpmf, [0, 5, 6]),
    "beta": (st.BetaDistribution(2.0, 3.0), scipy.stats.beta(2.0, 3.0).logpdf, [1e-300, 1e-9, 0.5, 1.0 - 1e-12]),
    "beta of small shapes": (st.BetaDistribution(0.02, 1e-3), scipy.stats.beta(0.02, 1e-3).logpdf, [1e-300, 0.5]),
    "dirichlet": (
        st.DirichletDistribution([2.0, 3.0, 0.5]),
        lambda x: scipy.stats.dirichlet.logpdf(x, [2.0, 3.0, 0.5]),
        [[0.2, 0.3, 0.5], [1e-12, 1e-6, 1.0 - 1e-6 - 1e-12]],
    ),
    "inverse gaussian": (
        st.InverseGaussianDistribution(1.5, 3.0),
        scipy.stats.invgauss(0.5, scale=3.0).logpdf,
        [1e-100, 1e-6, 0.5, 1.5, 1e4, 1e100],
    ),
    "inverse gamma": (
        st.InverseGammaDistribution(3.0, 2.0),
        scipy.stats.invgamma(3.0, scale=2.0).logpdf,
        [1e-290, 1e-6, 1.0, 1e9, 1e300],
    ),
    "rayleigh": (st.RayleighDistribution(2.0), scipy.stats.rayleigh(scale=2.0).logpdf, [1e-300, 1e-9, 1.0, 1e5, 1e145]),
    "half normal": (st.HalfNormalDistribution(2.0), scipy.stats.halfnorm(scale=2.0).logpdf, [0.0, 1.0, 1e5, 1e145]),
    "von mises": (
        st.VonMisesDistribution(0.5, 4.0),
        scipy.stats.vonmises(4.0, 0.5).logpdf,
        [-3.0, 0.5, 3.0, 0.5 - math.pi],
    ),
    "von mises of high concentration": (
        st.VonMisesDistribution(0.5, 1e4),
        scipy.stats.vonmises(1e4, 0.5).logpdf,
        [0.4, 0.5, 0.55],
    ),
    "von mises of none": (st.VonMisesDistribution(0.5, 0.0), lambda _: -math.log(2.0 * math.pi), [0.0, 3.0]),
    "pareto": (st.ParetoDistribution(1.5, 3.0), scipy.stats.pareto(3.0, scale=1.5).logpdf, [1.0, 1.5, 2.0, 1e50, 1e70]),
    "student t": (
        st.StudentTDistribution(5.0, 1.0, 2.0),
        scipy.stats.t(5.0, 1.0, 2.0).logpdf,
        [1.0, -3.0, 1e6, 1e100],
    ),
    **{
        f"student t of {df:g}": (
            st.StudentTDistribution(df),
            precisely(
                lambda x, n: rising(mp.mpf(1) / 2, n / 2) - mp.log(n * mp.pi) / 2 - (n + 1) / 2 * mp.log1p(x * x / n),
                df,
            ),
            [0.0, 1.0, 3.0, 50.0],
        )
        for df in (0.1, 99.0, 101.0, 1e5, 1e9)
    },
    "cauchy": (st.StudentTDistribution(1.0), scipy.stats.cauchy().logpdf, [0.0, 1e8]),
    "logistic": (st.LogisticDistribution(1.0, 2.0), scipy.stats.logistic(1.0, 2.0).logpdf, [1.0, -1e3, 1e5, 1e150]),
    "laplace": (st.LaplaceDistribution(1.0, 2.0), scipy.stats.laplace(1.0, 2.0).logpdf, [1.0, -1e3, 500.0]),
    "weibull": (
        st.WeibullDistribution(2.0, 3.0),
        scipy.stats.weibull_min(2.0, scale=3.0).logpdf,
        [1e-150, 1e-9, 1.0, 30.0, 1e150],
    ),
    "weibull of small shape": (
        st.WeibullDistribution(0.3, 3.0),
        scipy.stats.weibull_min(0.3, scale=3.0).logpdf,
        [1e-30, 1.0, 1e9],
    ),
    "gumbel": (
        st.GumbelDistribution(1.0, 2.0),
        scipy.stats.gumbel_r(1.0, 2.0).logpdf,
        [1.0, -9.0, 1e4, -1400.0, 1e150],
    ),
    **{
        f"skew normal of shape {shape:g}": (
            st.SkewNormalDistribution(1.0, 2.0, shape),
            precisely(
                lambda x, a: mp.log(mp.npdf((x - 1) / 2)) + mp.log(mp.ncdf(a * (x - 1) / 2)),
                shape,
            ),
            [-400.0, -9.0, 0.0, 1.0, 1.001, 4.0, 400.0],
        )
        for shape in (0.0, 0.3, -3.0, 1e3)
    },
    "multivariate student t": (
        st.MultivariateStudentTDistribution(3.0, [0.0, 3.0], [[2.0, 0.5], [0.5, 1.0]]),
        scipy.stats.multivariate_t([0.0, 3.0], [[2.0, 0.5], [0.5, 1.0]], df=3.0).logpdf,
        [[0.0, 3.0], [1.0, -1.0], [1e8, 50.0], [1e60, -1e70]],
    ),
    "von mises fisher": (
        st.VonMisesFisherDistribution([0.6, 0.8, 0.0], 5.0),
        scipy.stats.vonmises_fisher([0.6, 0.8, 0.0], 5.0).logpdf,
        [[0.0, 0.0, 1.0], [-0.6, -0.8, 0.0]],
    ),
    "von mises fisher of many dimensions": (
        st.VonMisesFisherDistribution(np.eye(500)[0], 20.0),
        lambda x: vonmises_fisher(x[0], 500, 20),
        [np.eye(500)[0], np.eye(500)[1]],
    ),
    "dirichlet multinomial": (
        st.DirichletMultinomialDistribution([2.0, 0.3, 1.0], 8),
        lambda x: scipy.stats.dirichlet_multinomial.logpmf(x, [2.0, 0.3, 1.0], 8),
        [[8, 0, 0], [3, 3, 2], [0, 0, 8]],
    ),
    "point mass": (st.PointMassDistribution(3), lambda x: 0.0 if x == 3 else -math.inf, [3, 4]),
    "diagonal gaussian": (
        st.DiagonalGaussianDistribution([0.0, 3.0], [1.0, 0.25]),
        scipy.stats.multivariate_normal([0.0, 3.0], np.diag([1.0, 0.25])).logpdf,
        [[0.0, 3.0], [1.0, -1.0], [1e6, -1e8]],
    ),
    "multivariate gaussian": (
        st.MultivariateGaussianDistribution([0.0, 3.0], [[2.0, 0.5], [0.5, 1.0]]),
        scipy.stats.multivariate_normal([0.0, 3.0], [[2.0, 0.5], [0.5, 1.0]]).logpdf,
        [[0.0, 3.0], [1.0, -1.0], [50.0, 50.0], [1e8, -1e6]],
    ),
    "probabilistic pca": (
        st.ProbabilisticPCADistribution([[2.0], [1.0], [0.0]], [1.0, 0.0, -1.0], 0.5),
        scipy.stats.multivariate_normal([1.0, 0.0, -1.0], [[4.5, 2.0, 0.0], [2.0, 1.5, 0.0], [0.0, 0.0, 0.5]]).logpdf,
        [[1.0, 0.0, -1.0], [4.0, -2.0, 0.0], [1e6, 1e6, -1e8]],
    ),
    "multinomial": (
        st.MultinomialDistribution(st.CategoricalDistribution({"a": 0.5, "b": 0.3, "c": 0.2}), len_dist(6)),
        lambda x: scipy.stats.multinomial(6, [0.5, 0.3, 0.2]).logpmf([dict(x).get(label, 0) for label in "abc"]),
        [[("a", 6)], [("c", 6)], [("a", 1), ("b", 3), ("c", 2)]],
    ),
    "integer multinomial": (
        st.IntegerMultinomialDistribution(1, [0.9, 0.1 - 1e-9, 1e-9], len_dist=len_dist(1000)),
        lambda x: scipy.stats.multinomial(1000, [0.9, 0.1 - 1e-9, 1e-9]).logpmf([dict(x).get(n, 0) for n in (1, 2, 3)]),
        [[(1, 1000)], [(3, 1000)], [(1, 300), (2, 300), (3, 400)]],
    ),
    "integer categorical": (
        st.IntegerCategoricalDistribution(-1, [0.25, 0.5, 0.0, 0.25]),
        scipy.stats.rv_discrete(values=(range(-1, 3), [0.25, 0.5, 0.0, 0.25])).logpmf,
        [-2, -1, 0, 1, 2, 3],
    ),
    "categorical": (
        st.CategoricalDistribution({"a": 0.25, "b": 0.75 - 1e-12, "c": 1e-12}),
        lambda x: scipy.stats.multinomial(1, [0.25, 0.75 - 1e-12, 1e-12]).logpmf([x == "a", x == "b", x == "c"]),
        ["a", "b", "c"],
    ),
    "bernoulli set": (
        st.BernoulliSetDistribution({"a": 0.5, "b": 1e-9}),
        lambda x: sum(scipy.stats.bernoulli(p).logpmf(label in x) for label, p in (("a", 0.5), ("b", 1e-9))),
        [[], ["a"], ["b"], ["a", "b"]],
    ),
    "integer bernoulli set": (
        st.IntegerBernoulliSetDistribution(np.log([0.5, 1e-9])),
        lambda x: sum(scipy.stats.bernoulli(p).logpmf(i in x) for i, p in enumerate((0.5, 1e-9))),
        [[], [0], [1], [0, 1]],
    ),
    "truncated gaussian": (
        st.TruncatedDistribution(st.GaussianDistribution(1.0, 4.0), low=-1.0, high=4.0),
        scipy.stats.truncnorm(-1.0, 1.5, 1.0, 2.0).logpdf,
        [-1.0, 0.0, 4.0, 4.5],
    ),
    "truncated gaussian far out": (
        st.TruncatedDistribution(st.GaussianDistribution(1.0, 4.0), low=61.0),
        scipy.stats.truncnorm(30.0, math.inf, 1.0, 2.0).logpdf,
        [61.0, 61.5, 100.0],
    ),
    "normal gamma": (
        st.NormalGammaDistribution(1.0, 2.0, 2.0, 3.0),
        lambda x: (
            scipy.stats.gamma(2.0, scale=1.0 / 3.0).logpdf(x[1])
            + scipy.stats.norm(1.0, 1.0 / math.sqrt(2.0 * x[1])).logpdf(x[0])
        ),
        [(1.0, 1.0), (-50.0, 1e-9), (4.0, 1e6)],
    ),
    "normal wishart": (
        st.NormalWishartDistribution([1.0, 0.0], 2.0, [[0.5, 0.1], [0.1, 0.75]], 4.0),
        lambda x: (
            scipy.stats.wishart(4.0, [[0.5, 0.1], [0.1, 0.75]]).logpdf(x[1])
            + scipy.stats.multivariate_normal([1.0, 0.0], np.linalg.inv(x[1]) / 2.0).logpdf(x[0])
        ),
        [([1.0, 0.0], np.eye(2)), ([40.0, 3.0], np.array([[1.0, 0.9], [0.9, 30.0]]))],
    ),
    "normal inverse wishart": (
        st.NormalInverseWishartDistribution([1.0, 0.0], 2.0, [[0.5, 0.1], [0.1, 0.75]], 4.0),
        lambda x: (
            scipy.stats.invwishart(4.0, [[0.5, 0.1], [0.1, 0.75]]).logpdf(x[1])
            + scipy.stats.multivariate_normal([1.0, 0.0], x[1] / 2.0).logpdf(x[0])
        ),
        [([1.0, 0.0], np.eye(2)), ([40.0, 3.0], np.array([[1.0, 0.9], [0.9, 30.0]]))],
    ),
    "dirichlet of labels": (
        st.DictDirichletDistribution({"a": 2.0, "b": 3.0, "c": 1.5}),
        lambda x: scipy.stats.dirichlet.logpdf(list(x.values()), [2.0, 3.0, 1.5]),
        [{"a": 0.2, "b": 0.3, "c": 0.5}, {"a": 1e-12, "b": 1e-6, "c": 1.0 - 1e-6 - 1e-12}],
    ),
    "symmetric dirichlet": (
        st.SymmetricDirichletDistribution(2.5),
        lambda x: scipy.stats.dirichlet.logpdf(x, [2.5] * 3),
        [[0.2, 0.3, 0.5], [1e-12, 1e-6, 1.0 - 1e-6 - 1e-12]],
    ),
}


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_log_densities_are_those_of_scipy(name):
    dist, reference, rows = REFERENCES[name]
    with np.errstate(divide="ignore"):
        expected = [float(reference(row)) for row in rows]
    assert [dist.log_density(row) for row in rows] == pytest.approx(expected, rel=1e-12, abs=1e-13)


def test_every_family_has_a_reference():
    """The families, and the laws of parameters; of the laws made of others, those that scipy has."""
    homes = ("mixle.stats.families.", "mixle.stats.parameter_laws")
    laws = {getattr(st, name) for name in st.__all__ if name.endswith("Distribution")}
    families = {law for law in laws if law.__module__.startswith(homes)}
    assert len(families) > 40
    assert families <= {type(law) for law, _, _ in REFERENCES.values()}


def negative_binomial(x, r, p):
    return rising(mp.mpf(x), r) - mp.loggamma(x + 1) + r * mp.log(p) + x * mp.log(1 - p)


def dirichlet_multinomial(counts, alpha):
    ways = mp.loggamma(sum(counts) + 1) - sum(mp.loggamma(n + 1) for n in counts)
    return (
        ways + sum(rising(mp.mpf(n), a) for n, a in zip(counts, alpha, strict=True)) - rising(sum(counts), sum(alpha))
    )


NEAR_POISSON = st.NegativeBinomialDistribution(5e6, 0.999)
OF_MANY = st.DirichletMultinomialDistribution([2.0, 0.25, 1.0], 10**5)
#: Terms of thousands, or of a million, cancel in them.
CANCELLING = [
    *((NEAR_POISSON, negative_binomial, x, (mp.mpf(5e6), mp.mpf(0.999))) for x in (4900, 5000, 5005, 5100)),
    *(
        (OF_MANY, dirichlet_multinomial, counts, ([2, mp.mpf(1) / 4, 1],))
        for counts in ([10**5, 0, 0], [30000, 30000, 40000], [0, 1, 10**5 - 1])
    ),
]


@pytest.mark.parametrize("a", [1e3, 1e8, 1e50, 1e150])
@pytest.mark.parametrize("b", [1e10, 3e10, 1e14, 1e80, 1e150])
def test_the_beta_function_of_large_shapes_is_right(a, b):
    with mp.workdps(340):
        known = mp.loggamma(mp.mpf(a)) + mp.loggamma(mp.mpf(b)) - mp.loggamma(mp.mpf(a) + mp.mpf(b))
        assert beta_log(a, b) == beta_log(b, a) == pytest.approx(float(known), rel=1e-14)


@pytest.mark.parametrize(("dist", "formula", "row", "parameters"), CANCELLING)
def test_where_terms_cancel_nine_digits_are_kept(dist, formula, row, parameters):
    with mp.workdps(40):
        expected = formula(row, *parameters)
    assert dist.log_density(row) == pytest.approx(float(expected), rel=1e-9)


def log_gap(values):
    return math.log(float(np.mean(values))) - float(np.mean(np.log(values)))


#: name -> (estimator, rows, free parameters to model, start)
FITS = {
    "gaussian": (
        st.GaussianEstimator(),
        lambda r: r.normal(3.0, 2.0, 200),
        lambda t: st.GaussianDistribution(t[0], math.exp(t[1])),
        [2.0, 1.0],
    ),
    "log gaussian": (
        st.LogGaussianEstimator(),
        lambda r: np.exp(r.normal(1.0, 0.5, 200)),
        lambda t: st.LogGaussianDistribution(t[0], math.exp(t[1])),
        [0.5, -1.0],
    ),
    "poisson": (
        st.PoissonEstimator(),
        lambda r: r.poisson(4.0, 200),
        lambda t: st.PoissonDistribution(math.exp(t[0])),
        [1.0],
    ),
    "exponential": (
        st.ExponentialEstimator(),
        lambda r: r.exponential(4.0, 200),
        lambda t: st.ExponentialDistribution(math.exp(t[0])),
        [1.0],
    ),
    "geometric": (
        st.GeometricEstimator(),
        lambda r: r.geometric(0.2, 200),
        lambda t: st.GeometricDistribution(1.0 / (1.0 + math.exp(-t[0]))),
        [0.0],
    ),
    "bernoulli": (
        st.BernoulliEstimator(),
        lambda r: r.rand(200) < 0.2,
        lambda t: st.BernoulliDistribution(1.0 / (1.0 + math.exp(-t[0]))),
        [0.0],
    ),
    "gamma": (
        st.GammaEstimator(),
        lambda r: r.gamma(2.0, 3.0, 200),
        lambda t: st.GammaDistribution(math.exp(t[0]), math.exp(t[1])),
        [0.0, 0.0],
    ),
    "gamma of small shape": (
        st.GammaEstimator(),
        lambda r: np.maximum(r.gamma(0.1, 3.0, 200), 1e-300),
        lambda t: st.GammaDistribution(math.exp(t[0]), math.exp(t[1])),
        [0.0, 0.0],
    ),
    "negative binomial": (
        st.NegativeBinomialEstimator(),
        lambda r: r.negative_binomial(2.0, 0.3, 200),
        lambda t: st.NegativeBinomialDistribution(math.exp(t[0]), 1.0 / (1.0 + math.exp(-t[1]))),
        [0.0, 0.0],
    ),
    "binomial": (
        st.BinomialEstimator(7),
        lambda r: r.binomial(7, 0.4, 200),
        lambda t: st.BinomialDistribution(1.0 / (1.0 + math.exp(-t[0])), 7),
        [0.0],
    ),
    "beta": (
        st.BetaEstimator(),
        lambda r: r.beta(0.7, 3.0, 200),
        lambda t: st.BetaDistribution(math.exp(t[0]), math.exp(t[1])),
        [0.0, 0.0],
    ),
    "dirichlet": (
        st.DirichletEstimator(),
        lambda r: r.dirichlet([0.5, 2.0, 4.0], 200),
        lambda t: st.DirichletDistribution(np.exp(t)),
        [0.0, 0.0, 0.0],
    ),
    "inverse gaussian": (
        st.InverseGaussianEstimator(),
        lambda r: r.wald(2.0, 3.0, 200),
        lambda t: st.InverseGaussianDistribution(math.exp(t[0]), math.exp(t[1])),
        [0.0, 0.0],
    ),
    "inverse gamma": (
        st.InverseGammaEstimator(),
        lambda r: 1.0 / r.gamma(2.0, 3.0, 200),
        lambda t: st.InverseGammaDistribution(math.exp(t[0]), math.exp(t[1])),
        [0.0, 0.0],
    ),
    "rayleigh": (
        st.RayleighEstimator(),
        lambda r: r.rayleigh(3.0, 200),
        lambda t: st.RayleighDistribution(math.exp(t[0])),
        [0.0],
    ),
    "half normal": (
        st.HalfNormalEstimator(),
        lambda r: np.abs(r.normal(0.0, 3.0, 200)),
        lambda t: st.HalfNormalDistribution(math.exp(t[0])),
        [0.0],
    ),
    "von mises": (
        st.VonMisesEstimator(),
        lambda r: r.vonmises(2.0, 1.5, 200),
        lambda t: st.VonMisesDistribution(t[0], math.exp(t[1])),
        [1.0, 0.0],
    ),
    "pareto": (
        st.ParetoEstimator(),
        lambda r: 2.0 * (1.0 + r.pareto(3.0, 200)),
        lambda t: st.ParetoDistribution(math.exp(t[0]), math.exp(t[1])),
        [0.0, 0.0],
    ),
    "student t": (
        st.StudentTEstimator(3.0),
        lambda r: 1.0 + 2.0 * r.standard_t(3.0, 200),
        lambda t: st.StudentTDistribution(3.0, t[0], math.exp(t[1])),
        [0.0, 0.0],
    ),
    "student t of free degrees of freedom": (
        st.StudentTEstimator(9.0, estimate_df=True),
        lambda r: 1.0 + 2.0 * r.standard_t(3.0, 200),
        lambda t: st.StudentTDistribution(math.exp(t[2]), t[0], math.exp(t[1])),
        [0.0, 0.0, 1.0],
    ),
    **{
        f"skew normal of shape {shape:g}": (
            st.SkewNormalEstimator(),
            lambda r, shape=shape: scipy.stats.skewnorm(shape, 3.0, 2.0).rvs(200, random_state=r),
            lambda t: st.SkewNormalDistribution(t[0], math.exp(t[1]), t[2]),
            [3.0, 0.5, shape],
        )
        for shape in (-0.5, 2.0, 6.0)
    },
    "logistic": (
        st.LogisticEstimator(),
        lambda r: r.logistic(1.0, 2.0, 200),
        lambda t: st.LogisticDistribution(t[0], math.exp(t[1])),
        [0.0, 0.0],
    ),
    "laplace": (
        st.LaplaceEstimator(),
        lambda r: r.laplace(1.0, 2.0, 200),
        lambda t: st.LaplaceDistribution(t[0], math.exp(t[1])),
        [0.0, 0.0],
    ),
    "weibull": (
        st.WeibullEstimator(),
        lambda r: 3.0 * r.weibull(2.0, 200),
        lambda t: st.WeibullDistribution(math.exp(t[0]), math.exp(t[1])),
        [0.0, 0.0],
    ),
    "gumbel": (
        st.GumbelEstimator(),
        lambda r: r.gumbel(1.0, 2.0, 200),
        lambda t: st.GumbelDistribution(t[0], math.exp(t[1])),
        [0.0, 0.0],
    ),
    "multivariate student t": (
        st.MultivariateStudentTEstimator(3.0),
        lambda r: (
            (r.normal(size=(200, 2)) @ np.array([[1.0, 0.0], [0.8, 0.5]]).T) / np.sqrt(r.gamma(2.0, 1.0, (200, 1)))
        ),
        lambda t: st.MultivariateStudentTDistribution(3.0, t[:2], factored(t[2:])),
        [0.1, 0.1, 0.0, 0.0, 0.0],
    ),
    "von mises fisher": (
        st.VonMisesFisherEstimator(),
        lambda r: st.VonMisesFisherDistribution([0.6, 0.8, 0.0], 5.0).sampler(r.randint(99)).sample(200),
        lambda t: st.VonMisesFisherDistribution(
            [math.cos(t[0]) * math.cos(t[1]), math.sin(t[0]) * math.cos(t[1]), math.sin(t[1])], math.exp(t[2])
        ),
        [0.5, 0.1, 1.0],
    ),
    "dirichlet multinomial": (
        st.DirichletMultinomialEstimator(3, 8),
        lambda r: np.array([r.multinomial(8, r.dirichlet([2.0, 0.5, 1.0])) for _ in range(200)]),
        lambda t: st.DirichletMultinomialDistribution(np.exp(t), 8),
        [0.0, 0.0, 0.0],
    ),
    "diagonal gaussian": (
        st.DiagonalGaussianEstimator(),
        lambda r: r.normal([0.0, 5.0], [1.0, 3.0], (200, 2)),
        lambda t: st.DiagonalGaussianDistribution(t[:2], np.exp(t[2:])),
        [1.0, 1.0, 0.0, 0.0],
    ),
    "multivariate gaussian": (
        st.MultivariateGaussianEstimator(),
        lambda r: r.normal(size=(200, 2)) @ np.array([[1.0, 0.0], [0.8, 0.5]]).T,
        lambda t: st.MultivariateGaussianDistribution(t[:2], factored(t[2:])),
        [0.1, 0.1, 0.0, 0.0, 0.0],
    ),
}


def factored(t):
    lower = np.array([[math.exp(t[0]), 0.0], [t[1], math.exp(t[2])]])
    return lower @ lower.T


#: Families whose statistic depends on the last model: a fit is the limit of rounds.
IN_ROUNDS = (
    st.MultivariateStudentTEstimator,
    st.StudentTEstimator,
    st.LogisticEstimator,
    st.LaplaceEstimator,
    st.WeibullEstimator,
    st.GumbelEstimator,
    st.SkewNormalEstimator,
)


def settled(estimator, rows, weights):
    """Return the fit; where it takes rounds, each must raise the likelihood of the weighted rows."""
    fitted = estimator.estimate(None, statistic(estimator, rows, weights))
    if not isinstance(estimator, IN_ROUNDS):
        return fitted
    payload = fitted.dist_to_encoder().seq_encode(rows)
    last = float(weights @ fitted.seq_log_density(payload))
    for _ in range(2000):
        fitted = estimator.estimate(None, statistic(estimator, rows, weights, model=fitted))
        score = float(weights @ fitted.seq_log_density(payload))
        assert score >= last - 1e-12 * abs(last)
        if score <= last + 1e-13 * abs(last):
            return fitted
        last = score
    raise AssertionError("the rounds did not settle")


@pytest.mark.parametrize("name", sorted(FITS))
def test_no_parameters_fit_weighted_rows_better(name):
    estimator, draw, build, start = FITS[name]
    rng = np.random.RandomState(17)
    rows, weights = draw(rng), rng.gamma(1.0, 1.0, 200)
    fitted = settled(estimator, rows, weights)
    payload = fitted.dist_to_encoder().seq_encode(rows)

    def loss(t):
        try:
            return -float(weights @ build(t).seq_log_density(payload))
        except (ValueError, OverflowError):
            return math.inf

    options = {"maxiter": 4000, "xatol": 1e-9, "fatol": 1e-10}
    best = minimize(loss, start, method="Nelder-Mead", options=options)
    ours = -float(weights @ fitted.seq_log_density(payload))
    assert ours <= best.fun + 1e-9 * abs(best.fun)
    assert best.fun == pytest.approx(ours, rel=1e-6)


def test_a_categorical_fit_is_the_share_of_each_label():
    estimator = st.CategoricalEstimator()
    weights = [1.0, 2.0, 3.0, 2.0]
    assert estimator.estimate(None, statistic(estimator, list("abac"), weights)).pmap == {
        "a": 0.5,
        "b": 0.25,
        "c": 0.25,
    }


RULES = [
    # estimator, statistic in the documented layout, parameters
    (st.GaussianEstimator(), (6.0, 14.0, 3.0, 3.0), {"mu": 2.0, "sigma2": 2.0 / 3.0}),
    (st.GaussianEstimator((2.0, None), (0.0, None)), (6.0, 14.0, 3.0, 3.0), {"mu": 1.2, "sigma2": 2 / 3 + 0.64}),
    (st.GaussianEstimator((None, 1.0), (None, 2.0)), (6.0, 14.0, 3.0, 3.0), {"mu": 2.0, "sigma2": 1.0}),
    (st.GaussianEstimator((None, 1.0), (1.0, 2.0)), (6.0, 14.0, 3.0, 3.0), {"mu": 2.0, "sigma2": 1.25}),
    (st.GaussianEstimator(5.0), (6.0, 14.0, 3.0, 3.0), {"mu": 2.0, "sigma2": 2.0 / 3.0}),
    (st.GaussianEstimator(min_covar=0.7), (6.0, 14.0, 3.0, 3.0), {"mu": 2.0, "sigma2": 0.7}),
    (st.GaussianEstimator(), (0.0, 0.0, 0.0, 0.0), {"mu": 0.0, "sigma2": 1e-8}),
    (st.LogGaussianEstimator(), (0.0, 0.0, 0.0, 0.0), {"mu": 0.0, "sigma2": 1e-8}),
    (st.LogGaussianEstimator(), (2.0, 2.0, 2.0, 2.0), {"mu": 1.0, "sigma2": 1e-8}),
    (st.LogGaussianEstimator(min_covar=0.5), (2.0, 2.0, 2.0, 2.0), {"mu": 1.0, "sigma2": 0.5}),
    (st.PoissonEstimator(), (4.0, 6.0), {"lam": 1.5}),
    (st.PoissonEstimator(2.0, 3.0), (4.0, 6.0), {"lam": 2.0}),
    (st.PoissonEstimator(2.0), (4.0, 6.0), {"lam": 1.5}),
    (st.PoissonEstimator(), (4.0, 0.0), {"lam": 1e-12}),
    (st.PoissonEstimator(), (0.0, 0.0), {"lam": 1.0}),
    (st.ExponentialEstimator(), (4.0, 6.0), {"beta": 1.5}),
    (st.ExponentialEstimator(2.0, 3.0), (4.0, 6.0), {"beta": 2.0}),
    (st.ExponentialEstimator(4.0), (4.0, 6.0), {"beta": 1.25}),
    (st.ExponentialEstimator(), (0.0, 0.0), {"beta": 1.0}),
    (st.GammaEstimator(), (0.0, 0.0, 0.0), {"k": 1.0, "theta": 1.0}),
    (st.GeometricEstimator(), (4.0, 10.0), {"p": 0.4}),
    (st.GeometricEstimator(), (4.0, 4.0), {"p": 1.0 - 1e-12}),
    (st.GeometricEstimator(), (0.0, 0.0), {"p": 0.5}),
    (st.GeometricEstimator(2.0, 0.5), (4.0, 14.0), {"p": 0.3125}),
    (st.GeometricEstimator(2.0), (4.0, 14.0), {"p": 0.375}),
    (st.GeometricEstimator(None, 0.5), (4.0, 14.0), {"p": 2.0 / 7.0}),
    (st.GeometricEstimator(2.0, 0.4), (0.0, 0.0), {"p": 0.4}),
    (st.NegativeBinomialEstimator(3.0, 2.0, 0.4, False), (4.0, 14.0, {1: 1.0, 2: 1.0, 4: 1.0, 7: 1.0}), {"p": 18 / 41}),
    (st.NegativeBinomialEstimator(3.0, 2.0, None, False), (4.0, 14.0, {1: 1.0, 2: 1.0, 4: 1.0, 7: 1.0}), {"p": 9 / 19}),
    (st.StudentTEstimator(5.0), (14.0, 70.0, 4.0), {"loc": 3.5, "scale": math.sqrt(5.25 * 0.6)}),
    (
        st.StudentTEstimator(5.0, 2.0, (1.0, 2.0)),
        (14.0, 70.0, 4.0),
        {"loc": 8 / 3, "scale": math.sqrt((21.0 + 4 * 25 / 36 + 2 * (4.0 / 0.6 + 25 / 9)) / 6 * 0.6)},
    ),
    (st.StudentTEstimator(5.0, 2.0, (1.0, 2.0)), (0.0, 0.0, 0.0), {"loc": 1.0, "scale": 2.0}),
    (st.BernoulliEstimator(), (4.0, 1.0), {"p": 0.25}),
    (st.BernoulliEstimator(4.0), (4.0, 1.0), {"p": 0.375}),
    (st.BernoulliEstimator(4.0, 1.0), (4.0, 1.0), {"p": 0.625}),
    (st.BernoulliEstimator(), (4.0, 0.0), {"p": 1e-12}),
    (st.BernoulliEstimator(), (0.0, 0.0), {"p": 0.5}),
    (st.UniformEstimator(), (2.0, 1.0, 3.0), {"low": 1.0, "high": 3.0}),
    (st.UniformEstimator(), (0.0, math.inf, -math.inf), {"low": 0.0, "high": 1.0}),
    (st.UniformEstimator(), (0.0, None, None), {"low": 0.0, "high": 1.0}),
    (st.UniformEstimator(1.0, (0.0, 2.0)), (2.0, 1.0, 3.0), {"low": 0.0, "high": 3.0}),
    (st.UniformEstimator(1.0, (4.0, 5.0)), (0.0, None, None), {"low": 4.0, "high": 5.0}),
    (st.UniformEstimator(min_width=2.0), (2.0, 1.0, 1.0), {"low": 0.0, "high": 2.0}),
    (st.CategoricalEstimator(), {"a": 1.0, "b": 3.0}, {"pmap": {"a": 0.25, "b": 0.75}}),
    (st.CategoricalEstimator(4.0), {"a": 1.0, "b": 3.0}, {"pmap": {"a": 0.375, "b": 0.625}}),
    (
        st.CategoricalEstimator(2.0, {"a": 1.0, "c": 1.0}),
        {"a": 1.0, "b": 3.0},
        {"pmap": {"a": 3 / 8, "b": 3 / 8, "c": 0.25}},
    ),
    (st.CategoricalEstimator(None, {"c": 4.0}), {"a": 1.0, "b": 3.0}, {"pmap": {"a": 0.125, "b": 0.375, "c": 0.5}}),
    (st.CategoricalEstimator(default_value=True), {"a": 1.0, "b": 3.0}, {"default_value": 1.0 / 16.0}),
    (st.CategoricalEstimator(), {"a": 0.0, "b": 0.0}, {"pmap": {"a": 0.5, "b": 0.5}}),
    (st.CategoricalEstimator(), {}, {"pmap": {}}),
    (st.IntegerCategoricalEstimator(), (3, [1.0, 0.0, 3.0]), {"min_val": 3, "p_vec": [0.25, 0.0, 0.75]}),
    (st.IntegerCategoricalEstimator(2, 5), (3, [1.0, 3.0]), {"min_val": 2, "p_vec": [0.0, 0.25, 0.75, 0.0]}),
    (st.IntegerCategoricalEstimator(pseudo_count=4.0), (3, [1.0, 3.0]), {"p_vec": [0.375, 0.625]}),
    (st.IntegerCategoricalEstimator(2, 5), (None, None), {"min_val": 2, "p_vec": [0.25] * 4}),
    (st.IntegerCategoricalEstimator(), (7, [0.0, 0.0]), {"min_val": 7, "p_vec": [0.5, 0.5]}),
    (
        st.IntegerCategoricalEstimator(None, None, 2.0, (4, [1.0, 1.0])),
        (3, [1.0, 3.0]),
        {"min_val": 3, "p_vec": [1 / 8, 5 / 8, 2 / 8]},
    ),
    (st.DiagonalGaussianEstimator(2), (None, None, 0.0), {"mu": [0.0, 0.0], "covar": [1e-8, 1e-8]}),
    (
        st.DiagonalGaussianEstimator(),
        ([6.0, 0.0], [14.0, 3.0], 3.0),
        {"mu": [2.0, 0.0], "covar": [2 / 3, 1.0]},
    ),
    (
        st.DiagonalGaussianEstimator(None, (2.0, 1.0), ([0.0, 0.0], [2.0, 2.0])),
        ([6.0, 0.0], [14.0, 3.0], 3.0),
        {"mu": [1.2, 0.0], "covar": [(2 + 3 * 0.64 + 2 + 1.44) / 4, 5 / 4]},
    ),
    (st.MultivariateGaussianEstimator(2), (None, None, 0.0), {"mu": [0.0, 0.0], "covar": [1e-8, 0.0, 0.0, 1e-8]}),
    (
        st.MultivariateGaussianEstimator(None, (None, 3.0), (None, [[2.0, 1.0], [1.0, 2.0]])),
        ([0.0, 0.0], [[3.0, 0.0], [0.0, 3.0]], 3.0),
        {"mu": [0.0, 0.0], "covar": [1.5, 0.5, 0.5, 1.5]},
    ),
]


@pytest.mark.parametrize(("estimator", "value", "expected"), RULES)
def test_smoothing_and_empty_data_follow_the_documented_rules(estimator, value, expected):
    fitted = estimator.estimate(None, value)
    for name, parameter in expected.items():
        found = getattr(fitted, name)
        found = np.ravel(found).tolist() if isinstance(found, np.ndarray) else found
        assert found == pytest.approx(parameter, rel=1e-12), name


@pytest.mark.parametrize(
    ("estimator", "unit"),
    [
        (st.StudentTEstimator(5.0, 2.0, (1.0, 2.0)), 5.0 / 3.0),
        (st.MultivariateStudentTEstimator(5.0, 1, 2.0, suff_stat=([1.0], [[4.0]])), 5.0 / 3.0),
        (st.LogisticEstimator(2.0, (1.0, 2.0)), math.pi**2 / 3.0),
    ],
    ids=["student t", "multivariate student t", "logistic"],
)
def test_a_prior_of_location_and_scale_counts_as_rows_of_its_variance(estimator, unit):
    """Four rows and two of the prior, pooled: `unit` is the variance at scale 1."""
    many = isinstance(estimator, st.MultivariateStudentTEstimator)
    rows = [[x] if many else x for x in (1.0, 2.0, 4.0, 7.0)]
    accumulator = estimator.accumulator_factory().make()
    accumulator.seq_update(accumulator.acc_to_encoder().seq_encode(rows), np.ones(4), None)
    fitted = estimator.estimate(4.0, accumulator.value())
    variance = (21.0 + 4 * (5 / 6) ** 2 + 2 * (4.0 * unit + (5 / 3) ** 2)) / 6
    assert np.ravel(fitted.loc) == pytest.approx(8 / 3, rel=1e-12)
    squared = fitted.shape[0][0] if many else fitted.scale**2
    assert squared == pytest.approx(variance / unit, rel=1e-12)


@pytest.mark.parametrize(
    ("estimator", "hint"),
    [
        (st.DiagonalGaussianEstimator(), "DiagonalGaussianEstimator(dim="),
        (st.MultivariateGaussianEstimator(), "MultivariateGaussianEstimator(dim="),
        (st.IntegerCategoricalEstimator(), "min_val="),
    ],
)
def test_without_rows_an_unknown_shape_is_an_error_that_says_what_to_pass(estimator, hint):
    with pytest.raises(ValueError, match="without rows") as caught:
        estimator.estimate(0.0, estimator.accumulator_factory().make().value())
    assert hint in str(caught.value)


BAD_PARAMETERS = [
    lambda: st.GaussianDistribution(math.nan, 1.0),
    lambda: st.GaussianDistribution(0.0, 0.0),
    lambda: st.GaussianDistribution("x", 1.0),
    lambda: st.LogGaussianDistribution(0.0, -1.0),
    lambda: st.PoissonDistribution(-1.0),
    lambda: st.GeometricDistribution(0.0),
    lambda: st.GeometricDistribution(1.5),
    lambda: st.ExponentialDistribution(0.0),
    lambda: st.GammaDistribution(0.0, 1.0),
    lambda: st.GammaDistribution(1.0, math.inf),
    lambda: st.UniformDistribution(1.0, 1.0),
    lambda: st.BernoulliDistribution(1.1),
    lambda: st.CategoricalDistribution({"a": -0.5, "b": 1.5}),
    lambda: st.CategoricalDistribution({"a": 0.5, "b": 0.4}),
    lambda: st.IntegerCategoricalDistribution(0, [0.5, 0.6]),
    lambda: st.IntegerCategoricalDistribution(0.5, [1.0]),
    lambda: st.IntegerCategoricalDistribution(0, []),
    lambda: st.DiagonalGaussianDistribution([0.0], [1.0, 1.0]),
    lambda: st.DiagonalGaussianDistribution([0.0, 0.0], [1.0, 0.0]),
    lambda: st.MultivariateGaussianDistribution([0.0, 0.0], [1.0, 1.0]),
    lambda: st.MultivariateGaussianDistribution([0.0, 0.0], [[1.0, 0.5], [0.4, 1.0]]),
    lambda: st.MultivariateGaussianDistribution([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]),
    lambda: st.MultivariateGaussianDistribution([0.0, 0.0], [[1.0, math.nan], [math.nan, 1.0]]),
    lambda: st.MultivariateGaussianDistribution([0.0, 0.0], [[0.0, 0.0], [0.0, 1.0]]),
    lambda: st.GaussianEstimator(-1.0),
    lambda: st.GaussianEstimator(min_covar=0.0),
    lambda: st.IntegerCategoricalEstimator(3, 2),
    lambda: st.UniformEstimator(min_width=0.0),
]


@pytest.mark.parametrize("build", BAD_PARAMETERS)
def test_invalid_parameters_are_refused_at_construction(build):
    with pytest.raises(ValueError, match=r"\w"):
        build()


def test_a_gaussian_checks_what_is_assigned_to_it():
    d = st.GaussianDistribution(0.0, 1.0)
    d.sigma2 = 4.0
    assert d.const == pytest.approx(1.0 / math.sqrt(8.0 * math.pi))
    with pytest.raises(ValueError, match="sigma2"):
        d.sigma2 = -1.0
    for name in ("const", "log_const"):
        with pytest.raises(AttributeError, match="cannot be set"):
            setattr(d, name, 1.0)
    assert d.sigma2 == 4.0


def test_sums_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="negative variance"):
        st.GaussianEstimator().estimate(None, (6.0, 1.0, 3.0, 3.0))
    with pytest.raises(ValueError, match="two counts"):
        st.GaussianEstimator().estimate(None, (6.0, 14.0, 3.0, 4.0))


@pytest.mark.parametrize("shape", [1e-3, 0.02, 0.5, 1.0, 7.3, 63.9, 64.1, 1e3, 1e6])
def test_gamma_shapes_are_right_in_every_range(shape):
    """Against Binet's second integral of log k − ψ(k), which knows nothing of series or library functions."""
    integral = quad(lambda t: t / ((t * t + shape * shape) * math.expm1(2 * math.pi * t)), 0, 20, epsabs=0, limit=500)[
        0
    ]
    assert gamma_shape(0.5 / shape + 2.0 * integral) == pytest.approx(shape, rel=1e-10)


@pytest.mark.parametrize("rows", [[3.0] * 5, [1e-300] * 3, [1e307] * 2, [1e-300, 1e300], [1.0, 1.0 + 1e-15]])
def test_gamma_fits_of_extreme_rows_stay_finite(rows):
    estimator = st.GammaEstimator()
    fitted = estimator.estimate(None, statistic(estimator, rows))
    assert 0.0 < fitted.k <= 1e8
    assert np.isfinite(fitted.seq_log_density(fitted.dist_to_encoder().seq_encode(rows))).all()
    if min(rows) == max(rows):
        assert fitted.numerical_repairs()


def test_exponential_of_zeros_and_of_tiny_rows():
    estimator = st.ExponentialEstimator()
    assert estimator.estimate(None, statistic(estimator, [0.0, 0.0])).beta == 1e-12
    assert estimator.estimate(None, statistic(estimator, [1e-20, 3e-20])).beta == pytest.approx(2e-20)


@pytest.mark.parametrize("at", [0.0, 1.7e9, -1e300, 5e-324])
def test_uniform_of_one_value_has_a_width_that_holds_it(at):
    estimator = st.UniformEstimator()
    fitted = estimator.estimate(None, statistic(estimator, [at, at]))
    assert fitted.low < at < fitted.high
    assert math.isfinite(fitted.log_density(at))
    assert fitted.numerical_repairs()


def test_uniform_bounds_ignore_rows_of_weight_zero():
    estimator = st.UniformEstimator()
    value = statistic(estimator, [-100.0, 1.0, 3.0, 100.0], [0.0, 1.0, 0.5, 0.0])
    assert value == (1.5, 1.0, 3.0)
    assert st.scale_suff_stat(value, 2.0) == (3.0, 1.0, 3.0)
    assert statistic(estimator, [1.0], [0.0]) == (0.0, None, None)


def test_integer_tables_over_huge_ranges_are_refused():
    estimator = st.IntegerCategoricalEstimator()
    with pytest.raises(ValueError, match="Categorical") as caught:
        statistic(estimator, [0, 1, 10**9])
    assert caught.value.row == 2
    wide = statistic(estimator, [0, 1_000_000])
    assert wide.min_val == 0
    assert wide.counts.sum() == 2.0


def test_bernoulli_reads_every_form_of_yes_and_no():
    d = st.BernoulliDistribution(0.25)
    rows = [True, 1, 1.0, np.True_, np.int8(1), False, 0, 0.0, np.False_]
    scores = d.seq_log_density(d.dist_to_encoder().seq_encode(rows))
    assert np.exp(scores) == pytest.approx([0.25] * 5 + [0.75] * 4)
    with pytest.raises(ValueError, match="'yes' is not a number"):
        d.log_density("yes")


def test_gamma_of_weights_too_small_for_a_mean_takes_the_geometric_one():
    estimator = st.GammaEstimator()
    fitted = estimator.estimate(None, statistic(estimator, [1e-100, 3e-100], [1e-250, 1e-250]))
    assert fitted.k * fitted.theta == pytest.approx(math.sqrt(3.0) * 1e-100)
