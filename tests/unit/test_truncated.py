"""Truncated laws: densities into the tails, maxima of the likelihood, draws, edges."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats as ss
from scipy.integrate import quad
from scipy.optimize import minimize

import mixle.stats as st
from bits import statistic
from mixle.errors import KeyValidationError, RowError, SupportError
from mixle.inference import optimize
from mixle.stats.regions import log_mass, region_points
from mixle.stats.tails import log_between, tails_of

G, T = st.GaussianDistribution, st.TruncatedDistribution

LAWS = {
    "gaussian": (G(1.0, 4.0), ss.norm(1, 2)),
    "log gaussian": (st.LogGaussianDistribution(0.5, 0.25), ss.lognorm(0.5, scale=np.exp(0.5))),
    "exponential": (st.ExponentialDistribution(2.0), ss.expon(scale=2.0)),
    "gamma": (st.GammaDistribution(2.5, 1.5), ss.gamma(2.5, scale=1.5)),
    "weibull": (st.WeibullDistribution(1.7, 3.0), ss.weibull_min(1.7, scale=3.0)),
    "rayleigh": (st.RayleighDistribution(2.0), ss.rayleigh(scale=2.0)),
    "half normal": (st.HalfNormalDistribution(2.0), ss.halfnorm(scale=2.0)),
    "logistic": (st.LogisticDistribution(1.0, 2.0), ss.logistic(1, 2)),
    "gumbel": (st.GumbelDistribution(1.0, 2.0), ss.gumbel_r(1, 2)),
    "laplace": (st.LaplaceDistribution(1.0, 2.0), ss.laplace(1, 2)),
    "pareto": (st.ParetoDistribution(1.5, 2.0), ss.pareto(2.0, scale=1.5)),
    "uniform": (st.UniformDistribution(-1.0, 3.0), ss.uniform(-1, 4)),
    "beta": (st.BetaDistribution(2.0, 3.0), ss.beta(2, 3)),
    "inverse gamma": (st.InverseGammaDistribution(3.0, 2.0), ss.invgamma(3, scale=2)),
    "student t": (st.StudentTDistribution(5.0, 1.0, 2.0), ss.t(5, 1, 2)),
}


@pytest.mark.parametrize("name", LAWS)
def test_tails_agree_with_scipy(name):
    law, known = LAWS[name]
    tails = tails_of(law)
    for p in (1e-300, 1e-100, 1e-30, 1e-9, 0.01, 0.3, 0.5, 0.7, 0.99):
        low, high = known.ppf(p), known.isf(p)
        if not (np.isfinite(low) and np.isfinite(high)):
            continue
        with np.errstate(all="ignore"):
            found = [tails.below(np.array(low)), tails.above(np.array(high))]
            assert found == pytest.approx([known.logcdf(low), known.logsf(high)], rel=1e-9)
        points = [tails.low_point(np.log(np.array(p))), tails.high_point(np.log(np.array(p)))]
        assert points == pytest.approx([low, high], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("a", "b"), [(0.2, np.inf), (-np.inf, 0.8), (0.3, 0.9), (2.0, np.inf), (6.0, 9.0)])
def test_points_of_a_region_give_its_mass_and_mean(name, a, b):
    law, known = LAWS[name]
    low, high = max(a, known.support()[0]), min(b, known.support()[1])
    mass = float(log_mass(law, [a], [b])[0])
    if not low < high:
        assert mass == -math.inf
        return
    points, masses = region_points(law, [a], [b])
    weights = np.exp(masses)
    assert float(weights.sum()) == pytest.approx(math.exp(mass), rel=1e-12)
    cuts = [law.mu] if name == "laplace" and low < law.mu < high else []
    ends = [low, *cuts, high]
    with np.errstate(over="ignore"):
        mean = math.fsum(
            quad(lambda x: x * known.pdf(x), *pair, epsabs=0, epsrel=1e-12, limit=300)[0]
            for pair in itertools.pairwise(ends)
        )
    assert float((points * weights).sum()) == pytest.approx(mean, rel=1e-8)


def test_far_tails_do_not_underflow():
    d = T(G(0.0, 1.0), low=50.0)
    assert d.log_density(50.0) == pytest.approx(ss.truncnorm(50.0, np.inf).logpdf(50.0), rel=1e-12)
    assert d.log_density(50.5) == pytest.approx(ss.truncnorm(50.0, np.inf).logpdf(50.5), rel=1e-12)
    rows = d.sampler(2).sample(2000)
    assert min(rows) >= 50.0
    assert np.mean(rows) == pytest.approx(50.0 + 1.0 / 50.0, abs=2e-3)
    tails = tails_of(G(0.0, 1.0))
    assert float(log_between(tails, -51.0, -50.0)) == float(log_between(tails, 50.0, 51.0))


def score(dist, rows, weights):
    return float(weights @ dist.seq_log_density(dist.dist_to_encoder().seq_encode(rows)))


def unit(x):
    return 1.0 / (1.0 + math.exp(-x))


CASES = {
    "gaussian between": (
        st.GaussianEstimator(), lambda p: G(p[0], math.exp(p[1])), G(1.0, 4.0), {"low": -1.0, "high": 3.5}),
    "gaussian above": (st.GaussianEstimator(), lambda p: G(p[0], math.exp(p[1])), G(1.0, 4.0), {"low": 1.5}),
    "exponential below": (
        st.ExponentialEstimator(), lambda p: st.ExponentialDistribution(math.exp(p[0])),
        st.ExponentialDistribution(2.0), {"high": 3.0}),
    "exponential above": (
        st.ExponentialEstimator(), lambda p: st.ExponentialDistribution(math.exp(p[0])),
        st.ExponentialDistribution(2.0), {"low": 3.0}),
    "gamma below": (
        st.GammaEstimator(), lambda p: st.GammaDistribution(math.exp(p[0]), math.exp(p[1])),
        st.GammaDistribution(2.5, 1.5), {"high": 6.0}),
    "log gaussian above": (
        st.LogGaussianEstimator(), lambda p: st.LogGaussianDistribution(p[0], math.exp(p[1])),
        st.LogGaussianDistribution(0.5, 0.25), {"low": 1.0}),
    "beta between": (
        st.BetaEstimator(), lambda p: st.BetaDistribution(math.exp(p[0]), math.exp(p[1])),
        st.BetaDistribution(2.0, 3.0), {"low": 0.1, "high": 0.8}),
    "poisson above": (
        st.PoissonEstimator(), lambda p: st.PoissonDistribution(math.exp(p[0])), st.PoissonDistribution(2.0),
        {"low": 2.0}),
    "poisson listed": (
        st.PoissonEstimator(), lambda p: st.PoissonDistribution(math.exp(p[0])), st.PoissonDistribution(2.0),
        {"allowed": [1, 2, 5]}),
    "geometric without": (
        st.GeometricEstimator(), lambda p: st.GeometricDistribution(unit(p[0])), st.GeometricDistribution(0.4),
        {"forbidden": [1, 3]}),
    "binomial between": (
        st.BinomialEstimator(max_val=8), lambda p: st.BinomialDistribution(unit(p[0]), 8),
        st.BinomialDistribution(0.3, 8), {"low": 1.0, "high": 5.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_fit_is_at_the_maximum_of_the_weighted_likelihood(name):
    base, law, truth, kept = CASES[name]
    rows = list(T(truth, **kept).sampler(7).sample(400))
    weights = np.random.RandomState(4).random_sample(len(rows)) + 0.1
    estimator = st.TruncatedEstimator(base, **kept)
    fitted = estimator.estimate(None, statistic(estimator, rows, weights))
    reached = score(fitted, rows, weights)
    start = [0.0] * (2 if len([v for v in vars(fitted.base).values() if isinstance(v, float)]) > 1 else 1)
    try:
        law(start)
    except IndexError:
        start = [0.0, 0.0]
    best = minimize(
        lambda p: -score(T(law(p), **kept), rows, weights), start, method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 4000, "maxfev": 4000},
    )  # fmt: skip
    assert reached >= -best.fun - 1e-8 * abs(best.fun)
    assert reached == pytest.approx(-best.fun, rel=1e-8)


def test_an_exponential_above_a_bound_is_the_exponential_from_there():
    rows = [3.5, 4.0, 9.0, 3.1]
    estimator = st.TruncatedEstimator(st.ExponentialEstimator(), low=3.0)
    fitted = estimator.estimate(None, statistic(estimator, rows))
    assert fitted.base.beta == pytest.approx(np.mean(rows) - 3.0, rel=1e-9)


@pytest.mark.parametrize(
    ("base", "start", "kept"),
    [
        (st.LaplaceEstimator(), st.LaplaceDistribution(0.0, 3.0), {"low": -1.0}),
        (st.LogisticEstimator(), st.LogisticDistribution(0.0, 3.0), {"high": 4.0}),
        (st.MixtureEstimator([st.PoissonEstimator()] * 2),
         st.MixtureDistribution([st.PoissonDistribution(2.0), st.PoissonDistribution(9.0)]), {"forbidden": [0]}),
    ],
)  # fmt: skip
def test_the_likelihood_of_laws_that_are_fitted_by_em_never_falls(base, start, kept):
    estimator, model, last = st.TruncatedEstimator(base, **kept), T(start, **kept), -math.inf
    rows = list(model.sampler(3).sample(300))
    for _ in range(25):
        reached = score(model, rows, np.ones(300))
        assert reached >= last - 1e-9 * abs(last)
        last, model = reached, estimator.estimate(None, statistic(estimator, rows, model=model))


def test_values_of_the_published_package():
    p = st.PoissonDistribution(3.0)
    assert [T(p, [1, 2, 3]).log_density(x) for x in (0, 1, 2, 4)] == pytest.approx(
        [-math.inf, -1.3862943611198906, -0.9808292530117262, -math.inf], rel=1e-14
    )
    assert [T(p, forbidden=[0]).log_density(x) for x in (0, 1, 2)] == pytest.approx(
        [-math.inf, -1.8503185303891887, -1.4448534222810243], rel=1e-14
    )
    assert T(G(0.0, 1.0), forbidden=[0.0]).log_density(1.0) == G(0.0, 1.0).log_density(1.0)


def test_labels_may_be_cut_off():
    law = st.CategoricalDistribution({"a": 0.5, "b": 0.25, "c": 0.25})
    assert T(law, ["a", "b"]).density("a") == pytest.approx(2 / 3)
    estimator = st.TruncatedEstimator(st.CategoricalEstimator(), forbidden=["c"])
    fitted = optimize(["a", "a", "b"], estimator, out=None)
    assert fitted.density("a") == pytest.approx(2 / 3)
    with pytest.raises(SupportError, match=r"Row 1 \(Truncated\): the value is cut off: \['c'\] are never seen"):
        statistic(estimator, ["a", "c"])


def test_a_truncated_pool_gives_the_bits_of_one_process():
    rows = list(T(G(0.0, 1.0), low=0.5).sampler(1).sample(200))
    estimator = st.MixtureEstimator([st.TruncatedEstimator(st.GaussianEstimator(), low=0.5)] * 2)
    options = {"max_its": 3, "delta": None, "seed": 1, "num_shards": 4, "out": None}
    one = optimize(rows, estimator, **options)
    assert one.digest() == optimize(rows, estimator, backend="mp", num_workers=2, **options).digest()


def test_without_rows_and_with_one_value_only():
    estimator = st.TruncatedEstimator(st.GaussianEstimator(), low=0.0)
    assert estimator.estimate(0.0, estimator.accumulator_factory().make().value()).log_seen > -math.inf
    fitted = optimize([2.0] * 30, estimator, out=None)
    assert math.isfinite(fitted.log_density(2.0))
    ones = optimize([1] * 30, st.TruncatedEstimator(st.PoissonEstimator(), forbidden=[0]), out=None)
    assert ones.density(1) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: T(G(0.0, 1.0)), ValueError, "one kind of limit; pass allowed=, or forbidden=, or low= and high="),
        (lambda: T(st.PoissonDistribution(1.0), [1], [2]), ValueError, "one kind of limit"),
        (lambda: T(G(0.0, 1.0), [0.0]), TypeError, "have no probability; pass low= and high="),
        (lambda: T(G(0.0, 1.0), low=2.0, high=1.0), ValueError, "low of a Truncated must not be above high"),
        (lambda: T(G(0.0, 1.0), low=math.nan), ValueError, "low of a Truncated must be a number"),
        (lambda: T(st.UniformDistribution(0.0, 1.0), low=2.0), ValueError, "needs values of positive probability"),
        (lambda: T(st.PoissonDistribution(1.0), []), ValueError, "at least one value"),
        (lambda: T(st.PoissonDistribution(1.0), [[1]]), ValueError, "must be hashable"),
        (lambda: T(st.VonMisesDistribution(0.0, 1.0), low=0.0), TypeError, "known are those of .*Gaussian.*Weibull"),
        (
            lambda: st.TruncatedEstimator(st.GaussianEstimator(keys="k"), low=0.0).accumulator_factory(),
            KeyValidationError,
            "tie the whole",
        ),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_bad_rows_are_named():
    for d in (
        T(G(0.0, 1.0), low=0.0),
        T(st.PoissonDistribution(3.0), [1, 2]),
        T(st.PoissonDistribution(3.0), None, [0]),
    ):
        for row in ("x", None, math.nan, math.inf):
            with pytest.raises(RowError, match="Row 1"):
                d.dist_to_encoder().seq_encode([1, row])


def test_data_like_an_exponential_come_near_the_limit_of_cut_off_gaussians():
    """The likelihood has no maximum: it rises while the mean falls and the variance grows."""
    rows = list(np.random.RandomState(1).exponential(size=200))
    estimator = st.TruncatedEstimator(st.GaussianEstimator(), low=0.0)
    fitted = estimator.estimate(None, statistic(estimator, rows))
    limit = -200.0 * (math.log(np.mean(rows)) + 1.0)
    assert limit - 0.5 < score(fitted, rows, np.ones(200)) < limit
    level = st.TruncatedEstimator(st.GeometricEstimator(), [1, 2, 3])
    flat = level.estimate(None, statistic(level, [1, 2, 3, 3]))
    assert [flat.density(k) for k in (1, 2, 3)] == pytest.approx([1 / 3] * 3, rel=2e-3)
