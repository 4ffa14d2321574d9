"""Censored laws: probabilities of intervals, EM, maxima, edges."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
import scipy.stats as ss
from scipy.optimize import minimize
from test_maxima import newton

import mixle.stats as st
from bits import bits, statistic
from mixle.errors import RowError, SupportError
from mixle.inference import optimize
from mixle.stats.regions import close_points, log_mass, region_points

G, C, I = st.GaussianDistribution, st.CensoredDistribution, st.CensoredInterval


def score(dist, rows, weights=None):
    found = dist.seq_log_density(dist.dist_to_encoder().seq_encode(rows))
    return float(found.sum() if weights is None else weights @ found)


def test_values_of_the_published_package():
    d = C(G(0.0, 1.0))
    rows = [1.0, I(0.0, 1.0), I(-math.inf, 1.0), I(1.0, math.inf)]
    known = [-1.4189385332046727, -1.0748623268620714, -0.1727537790234499, -1.8410216450092634]
    assert [d.log_density(row) for row in rows] == pytest.approx(known, rel=1e-14)
    assert C(st.PoissonDistribution(3.0)).log_density(I(1, 3)) == pytest.approx(-0.5150933502119996, rel=1e-14)


def test_intervals_of_all_forms_are_the_same_rows():
    d = C(G(0.0, 1.0))
    assert d.log_density((1.0, None)) == d.log_density(I(1.0, math.inf)) == d.log_density([1.0, math.inf])
    assert d.log_density((None, 1.0)) == d.log_density(np.array([-np.inf, 1.0]))
    assert d.log_density((2.0, 2.0)) == d.log_density(2.0)
    assert d.log_density((None, None)) == 0.0
    numbers = np.array([0.5, 1.5])
    assert bits(d.seq_log_density(d.dist_to_encoder().seq_encode(numbers))) == bits(
        d.base.seq_log_density(d.base.dist_to_encoder().seq_encode(numbers))
    )


def test_far_intervals_keep_their_digits():
    d = C(G(0.0, 1.0))
    assert d.log_density((50.0, None)) == pytest.approx(ss.norm.logsf(50.0), rel=1e-12)
    assert d.log_density((50.0, 51.0)) == pytest.approx(ss.norm.logsf(50.0), rel=1e-9)
    counts = C(st.PoissonDistribution(3.0))
    assert counts.log_density((60, None)) == pytest.approx(ss.poisson(3.0).logsf(59), rel=1e-9)


def test_a_partition_has_probability_one():
    for base in (G(1.0, 4.0), st.GammaDistribution(2.0, 3.0), st.LaplaceDistribution(0.0, 1.0)):
        d = C(base)
        cuts = [-math.inf, -2.0, 0.5, 3.0, math.inf]
        assert math.fsum(d.density(pair) for pair in itertools.pairwise(cuts)) == pytest.approx(1.0, rel=1e-13)
    d = C(st.PoissonDistribution(4.0))
    assert math.fsum(d.density(pair) for pair in ((0, 2), (3, 3), (4, 9), (10, None))) == pytest.approx(1.0, rel=1e-13)


def test_lifetimes_of_an_exponential_have_a_closed_maximum():
    rows = [1.0, 2.0, 0.5, (3.0, None), (4.0, None), (0.25, None)]
    fitted = optimize(rows, st.CensoredEstimator(st.ExponentialEstimator()), max_its=400, delta=1e-14, out=None)
    assert fitted.base.beta == pytest.approx((3.5 + 7.25) / 3.0, rel=1e-7)


def unit(x):
    return 1.0 / (1.0 + math.exp(-x))


CASES = {
    "gaussian": (st.GaussianEstimator(), lambda p: G(p[0], math.exp(p[1])), G(2.0, 4.0)),
    "log gaussian": (
        st.LogGaussianEstimator(), lambda p: st.LogGaussianDistribution(p[0], math.exp(p[1])),
        st.LogGaussianDistribution(0.5, 0.5)),
    "weibull": (
        st.WeibullEstimator(), lambda p: st.WeibullDistribution(math.exp(p[0]), math.exp(p[1])),
        st.WeibullDistribution(1.5, 2.0)),
    "gamma": (
        st.GammaEstimator(), lambda p: st.GammaDistribution(math.exp(p[0]), math.exp(p[1])),
        st.GammaDistribution(2.0, 1.0)),
    "logistic": (
        st.LogisticEstimator(), lambda p: st.LogisticDistribution(p[0], math.exp(p[1])),
        st.LogisticDistribution(1.0, 1.0)),
    "poisson": (st.PoissonEstimator(), lambda p: st.PoissonDistribution(math.exp(p[0])), st.PoissonDistribution(3.0)),
    "geometric": (
        st.GeometricEstimator(), lambda p: st.GeometricDistribution(unit(p[0])), st.GeometricDistribution(0.3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_em_never_falls_and_ends_at_the_maximum(name):
    base, law, truth = CASES[name]
    whole = name in {"poisson", "geometric"}
    values = [float(x) for x in truth.sampler(3).sample(150)]
    rows = [
        I(3.0, math.inf) if x > 3.0 else (x, x + 1.0) if i % 4 == 0 else (None, 1.0) if x < 1.0 else x
        for i, x in enumerate(values)
    ]
    if whole:
        rows = [x if isinstance(x, (tuple, I)) else int(x) for x in rows]
    weights = np.random.RandomState(2).random_sample(len(rows)) + 0.2
    estimator, model, last = st.CensoredEstimator(base), C(truth), -math.inf
    for _ in range(150 if name == "logistic" else 60):
        reached = score(model, rows, weights)
        assert reached >= last - 1e-10 * abs(last)
        last, model = reached, estimator.estimate(None, statistic(estimator, rows, weights, model=model))
    best = minimize(
        lambda p: -score(C(law(p)), rows, weights), [0.5] if whole else [0.5, 0.0], method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-11, "maxiter": 2000, "maxfev": 2000},
    )  # fmt: skip
    assert last == pytest.approx(-best.fun, rel=1e-8)


@pytest.mark.parametrize("base", [st.GaussianEstimator(), st.ExponentialEstimator(), st.PoissonEstimator()])
def test_data_of_intervals_only(base):
    rows = [(0, 1), (1, 2), (1, 3), (2, 5), (0, 2)] * 8
    fitted = optimize(rows, st.CensoredEstimator(base), max_its=60, out=None, seed=1)
    assert math.isfinite(score(fitted, rows))
    right = optimize([(2.0, None)] * 10, st.CensoredEstimator(base), max_its=5, delta=None, out=None, seed=1)
    assert math.isfinite(score(right, [(2.0, None)]))


def test_a_mixture_under_censoring_and_pools_agree():
    pair = st.MixtureDistribution([st.ExponentialDistribution(0.5), st.ExponentialDistribution(8.0)])
    rows = [(6.0, None) if x > 6.0 else x for x in pair.sampler(2).sample(300)]
    for estimator in (
        st.CensoredEstimator(st.MixtureEstimator([st.ExponentialEstimator()] * 2)),
        st.MixtureEstimator([st.CensoredEstimator(st.ExponentialEstimator())] * 2),
    ):
        options = {"max_its": 6, "delta": None, "seed": 1, "num_shards": 5, "out": None}
        one = optimize(rows, estimator, **options)
        assert one.digest() == optimize(rows, estimator, backend="mp", num_workers=2, **options).digest()
        assert score(one, rows) > -math.inf


def test_an_interval_that_cannot_be_is_refused():
    estimator, d = st.CensoredEstimator(st.GammaEstimator()), C(st.GammaDistribution(2.0, 1.0))
    assert d.log_density((-3.0, -1.0)) == -math.inf
    with pytest.raises(SupportError, match=r"Row 1 \(Censored\): the interval from -3.0 to -1.0 has no probability"):
        statistic(estimator, [1.0, (-3.0, -1.0)], model=d)
    kept = statistic(estimator, [1.0, (-3.0, -1.0), 2.0], [1.0, 0.0, 1.0], model=d)
    assert bits(kept) == bits(statistic(estimator, [1.0, 2.0], model=d))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: C(st.VonMisesDistribution(0.0, 1.0)), TypeError, "cannot be censored; known are those of Bernoulli, "),
        (lambda: st.CensoredEstimator(st.CategoricalEstimator()), TypeError, "cannot be censored"),
        (lambda: I(2.0, 1.0), ValueError, "the lower end 2.0 of an interval is above its upper end 1.0"),
        (lambda: I("a", 1.0), ValueError, "not a number"),
        (lambda: I(math.nan, 1.0), ValueError, "nan is missing"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((2.0, 1.0), "Row 2 .*is above its upper end"),
        ((1.0,), "Row 2 .*two ends, not 1"),
        ((1.0, 2.0, 3.0), "Row 2 .*two ends, not 3"),
        (("a", 2.0), "Row 2, field 0 .*not a number"),
        ((math.nan, 2.0), "Row 2, field 0 .*is missing"),
        ("a", "Row 2 .*'a' is not a number"),
        (None, "Row 2 .*is missing"),
        (math.inf, "Row 2 .*not finite"),
    ],
)
def test_bad_rows_are_named(row, message):
    later = "no number either" if isinstance(row, tuple) else 2.0
    with pytest.raises(RowError, match=message):
        C(G(0.0, 1.0)).dist_to_encoder().seq_encode([1.0, (0.0, 1.0), row, later])


@pytest.mark.parametrize("form", ["mixture", "composite", "truncated", "censored", "transform", "hidden"])
def test_a_row_outside_every_pareto_scores_minus_infinity_on_every_path(form):
    base = st.MixtureDistribution([st.ParetoDistribution(1.0, 2.0), st.ParetoDistribution(3.0, 1.0)])
    d, row, inside = {
        "mixture": (base, 0.5, 2.0),
        "composite": (st.CompositeDistribution((base, G(0.0, 1.0))), (0.5, 0.0), (2.0, 0.0)),
        "truncated": (st.TruncatedDistribution(base, high=9.0), 0.5, 2.0),
        "censored": (C(base), (0.1, 0.5), (0.1, 2.0)),
        "transform": (st.TransformDistribution(base, "log"), -0.5, 0.5),
        "hidden": (
            st.HiddenMarkovModelDistribution(list(base.components), [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]),
            [2.0, 0.5], [2.0],
        ),
    }[form]  # fmt: skip
    assert d.log_density(row) == -math.inf
    encoded = d.dist_to_encoder().seq_encode([inside, row, inside])
    for law in (d, type(d).from_json(d.to_json()), st.MixtureDistribution([d, d])):
        found = law.seq_log_density(encoded)
        assert np.isneginf(found).tolist() == [False, True, False]
        assert found[0] <= 0.5
    assert bits(d.kernel().score(encoded)) == bits(d.seq_log_density(encoded))


#: law -> intervals in which few points tell all
NARROW = {
    G(1.0, 4.0): [(-3.0, 2.0), (1.0, 1.0 + 1e-6), (41.0, 42.0), (-60.0, -59.9)],
    st.LogisticDistribution(1.0, 2.0): [(0.0, 3.0), (-80.0, -79.0)],
    st.StudentTDistribution(3.0, 1.0, 2.0): [(0.0, 2.0), (100.0, 150.0)],
    st.ExponentialDistribution(2.0): [(0.0, 1.0), (30.0, 40.0)],
    st.HalfNormalDistribution(2.0): [(0.0, 1.0), (20.0, 21.0)],
    st.GammaDistribution(0.5, 2.0): [(1.0, 2.0), (1e-9, 2e-9), (60.0, 70.0)],
    st.InverseGammaDistribution(3.0, 2.0): [(0.5, 0.75), (100.0, 200.0)],
    st.LogGaussianDistribution(0.5, 0.25): [(1.0, 1.75), (1e3, 1.1e3)],
    st.RayleighDistribution(2.0): [(0.5, 1.5), (20.0, 21.0)],
    st.BetaDistribution(2.0, 3.5): [(0.25, 0.5), (0.9, 0.93)],
}


@pytest.mark.parametrize("law", NARROW, ids=lambda law: type(law).__name__)
def test_few_points_stand_for_an_interval_as_well_as_many(law):
    low, high = np.array(NARROW[law]).T
    mass = log_mass(law, low, high)
    points, shares, good = close_points(law, low, high, mass)
    assert good.all()
    many, logs = region_points(law, low, high)
    start, width = low[:, None], (high - low)[:, None]
    summed = [np.ones_like, lambda x: (x - start) / width, lambda x: ((x - start) / width) ** 2]
    if isinstance(law, (st.GammaDistribution, st.InverseGammaDistribution, st.LogGaussianDistribution)):
        summed.append(np.log)
    for feature in summed:
        few = np.sum(feature(points) * shares, axis=1)
        known = np.sum(feature(many) * np.exp(logs - mass[:, None]), axis=1)
        assert few == pytest.approx(known, rel=2e-9)


@pytest.mark.parametrize(
    ("law", "low", "high"),
    [
        (G(0.0, 1.0), -20.0, 20.0),
        (G(0.0, 1.0), -1.0, math.inf),
        (st.StudentTDistribution(3.0, 1.0, 1e-3), 0.0, 2.0),
        (st.GammaDistribution(2.0, 1.0), 0.0, 1.0),
        (st.RayleighDistribution(2.0), 0.0, 1.0),
        (st.BetaDistribution(2.0, 3.0), 0.5, 1.0),
        (st.LaplaceDistribution(0.0, 1.0), -1.0, 1.0),
        (st.UniformDistribution(0.0, 1.0), 0.25, 0.5),
        (st.ParetoDistribution(1.0, 2.0), 0.5, 2.0),
        (st.PoissonDistribution(3.0), 1.0, 2.0),
    ],
)
def test_where_few_points_would_not_do_many_are_taken(law, low, high):
    ends = np.array([low]), np.array([high])
    assert close_points(law, *ends, log_mass(law, *ends))[2].tolist() == [False]


def interval(mu, s2):
    """Return the log-probability of an interval under a normal law."""
    sd = mp.sqrt(s2)
    return lambda row: mp.log(mp.ncdf((row[1] - mu) / sd) - mp.ncdf((row[0] - mu) / sd))


def test_intervals_of_each_row_its_own_are_fitted_at_the_maximum():
    """Narrow and wide ones in one fit."""
    rng = np.random.default_rng(3)
    x, widths = rng.normal(1.0, 2.0, 80).tolist(), [1e-6, 0.5, 3.0, 40.0] * 20
    rows = [(a - w, a + 0.5 * w) for a, w in zip(x, widths, strict=True)]
    model = optimize(rows, st.CensoredEstimator(st.GaussianEstimator()), max_its=200, delta=None, out=None)
    assert max(newton(interval, rows, np.ones(80), [model.base.mu, model.base.sigma2])) <= 1e-8


@pytest.mark.parametrize("width", [1e-3, 1e-6, 1e-10, 0.0])
@pytest.mark.parametrize("at", [1.0, 2.0, 40.0])
def test_the_probability_of_a_narrow_interval_keeps_its_digits(at, width):
    """A difference of two distribution functions would lose all of them."""
    high = max(at + width, math.nextafter(at, math.inf))
    laws = {
        G(0.0, 1.0): lambda x: mp.ncdf(-x),
        st.ExponentialDistribution(2.0): lambda x: mp.exp(-x / 2),
        st.LogisticDistribution(0.0, 1.0): lambda x: 1 / (1 + mp.exp(x)),
        st.RayleighDistribution(2.0): lambda x: mp.exp(-(x**2) / 8),
    }
    with mp.workdps(60):
        known = [float(mp.log(above(mp.mpf(at)) - above(mp.mpf(high)))) for above in laws.values()]
    assert [C(law).log_density((at, high)) for law in laws] == pytest.approx(known, rel=1e-12)
