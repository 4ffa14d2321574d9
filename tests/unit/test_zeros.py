"""Zero-inflated and hurdle laws: densities, the E-step, maxima of the likelihood, edges."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

import mixle.stats as st
from bits import bits, statistic
from mixle.errors import KeyValidationError, RowError, SupportError
from mixle.inference import optimize

POISSON = st.PoissonDistribution(3.0)
COUNTS = [0] * 30 + [1] * 9 + [2] * 14 + [3] * 11 + [4] * 7 + [5] * 4 + [9]


def total(dist, rows):
    return math.fsum(dist.density(row) for row in rows)


@pytest.mark.parametrize(
    "base",
    [
        POISSON,
        st.GeometricDistribution(0.3),
        st.NegativeBinomialDistribution(2.5, 0.4),
        st.BinomialDistribution(0.3, 6),
        st.MixtureDistribution([POISSON, st.PoissonDistribution(30.0)]),
    ],
)
@pytest.mark.parametrize("kind", [st.ZeroInflatedDistribution, st.HurdleDistribution])
@pytest.mark.parametrize("pi", [0.0, 0.3, 1.0])
def test_probabilities_sum_to_one(kind, base, pi):
    assert total(kind(base, pi), range(400)) == pytest.approx(1.0, rel=1e-12)


def test_an_amount_integrates_to_its_share():
    from scipy.integrate import quad

    d = st.HurdleDistribution(st.GammaDistribution(2.0, 3.0), 0.25)
    assert d.density(0) == 0.25
    assert quad(d.density, 0.0, np.inf, epsabs=1e-12)[0] == pytest.approx(0.75, rel=1e-9)


def test_values_of_the_published_package():
    d = st.ZeroInflatedDistribution(POISSON, 0.3)
    assert [d.log_density(x) for x in (0, 1, 2)] == pytest.approx(
        [-1.0940697779372226, -2.2580626552706224, -1.8525975471624583], rel=1e-14
    )
    (weight, first), structural, whole = statistic(d.estimator(), [0, 0, 1, 2, 5], model=d)
    assert (weight, first) == pytest.approx((3.2081579764399266, 8.0), rel=1e-14)
    assert (structural, whole) == pytest.approx((1.7918420235600734, 5.0), rel=1e-14)
    fitted = d.estimator().estimate(None, ((weight, first), structural, whole))
    assert (fitted.base.lam, fitted.pi) == pytest.approx((2.493642787777412, 0.3583684047120147), rel=1e-14)
    h = st.HurdleDistribution(POISSON, 0.3)
    assert [h.log_density(x) for x in (0, 1, 2)] == pytest.approx(
        [-1.2039728043259361, -2.2069934743279207, -1.8015283662197568], rel=1e-14
    )
    assert st.ZeroInflatedEstimator(st.PoissonEstimator(), 10.0).estimate(None, ((4.0, 8.0), 1.0, 5.0)).pi == 0.4
    assert st.HurdleEstimator(st.PoissonEstimator(), 1.0).estimate(None, ((3.0, 8.0), 2.0, 5.0)).pi == 2.5 / 6


def score(dist, rows, weights):
    return float(weights @ dist.seq_log_density(dist.dist_to_encoder().seq_encode(rows)))


def generic_maximum(law, start, rows, weights):
    """Return the largest weighted log-density over unconstrained parameters, by a generic optimiser."""
    best = minimize(lambda p: -score(law(p), rows, weights), start, method="Nelder-Mead",
                    options={"xatol": 1e-11, "fatol": 1e-13, "maxiter": 20000, "maxfev": 20000})  # fmt: skip
    return -best.fun


def unit(x):
    return 1.0 / (1.0 + math.exp(-x))


FAMILIES = {
    "poisson": (st.PoissonEstimator(), lambda p: st.PoissonDistribution(math.exp(p[0])), [0.0]),
    "negative binomial": (
        st.NegativeBinomialEstimator(2.0, estimate_r=False),
        lambda p: st.NegativeBinomialDistribution(2.0, unit(p[0])),
        [0.0],
    ),
    "binomial": (st.BinomialEstimator(max_val=9), lambda p: st.BinomialDistribution(unit(p[0]), 9), [0.0]),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "rows", [COUNTS, [0] * 5 + [1] * 60 + [2], [1] * 30 + [9] * 4], ids=["some", "small", "no zeros"]
)
def test_the_base_of_a_hurdle_is_at_its_maximum(name, rows):
    estimator, law, start = FAMILIES[name]
    weights = np.random.RandomState(4).random_sample(len(rows))
    whole = st.HurdleEstimator(estimator)
    fitted = whole.estimate(None, statistic(whole, rows, weights))

    def hurdle(p):
        return st.HurdleDistribution(law(p), fitted.pi)

    reached = score(fitted, rows, weights)
    assert reached == pytest.approx(generic_maximum(hurdle, start, rows, weights), rel=1e-10)
    assert fitted.pi == pytest.approx(weights[np.array(rows) == 0].sum() / weights.sum(), rel=1e-14)
    slope = [
        score(st.HurdleDistribution(type(fitted.base)(*moved), fitted.pi), rows, weights) - reached
        for moved in nearby(fitted.base)
    ]
    assert max(slope) <= 1e-10 * abs(reached)


def nearby(dist):
    """Return the parameters of a law, the first real one moved a little to either side."""
    values = [getattr(dist, name) for name in type(dist)._fields]
    at = next(i for i, value in enumerate(values) if isinstance(value, float) and value != 2.0)
    for factor in (1.0 - 1e-6, 1.0 + 1e-6):
        yield [value * factor if i == at else value for i, value in enumerate(values)]


def test_a_free_dispersion_is_fitted_without_the_zeros():
    truth = st.HurdleDistribution(st.NegativeBinomialDistribution(3.0, 0.3), 0.2)
    rows = list(truth.sampler(5).sample(6000))
    whole = st.HurdleEstimator(st.NegativeBinomialEstimator())
    fitted = whole.estimate(None, statistic(whole, rows))
    ones = np.ones(len(rows))

    def law(p):
        return st.HurdleDistribution(st.NegativeBinomialDistribution(math.exp(p[0]), unit(p[1])), fitted.pi)

    assert score(fitted, rows, ones) == pytest.approx(generic_maximum(law, [1.0, -1.0], rows, ones), rel=1e-9)


def test_em_of_zero_inflation_never_falls_and_ends_at_the_maximum():
    estimator = st.ZeroInflatedEstimator(st.PoissonEstimator())
    model, last, ones = st.ZeroInflatedDistribution(st.PoissonDistribution(9.0), 0.05), -math.inf, np.ones(len(COUNTS))
    for _ in range(300):
        reached = score(model, COUNTS, ones)
        assert reached >= last - 1e-12 * abs(last)
        last, model = reached, estimator.estimate(None, statistic(estimator, COUNTS, model=model))

    def law(p):
        return st.ZeroInflatedDistribution(st.PoissonDistribution(math.exp(p[0])), unit(p[1]))

    assert last == pytest.approx(generic_maximum(law, [1.0, 0.0], COUNTS, ones), rel=1e-10)


@pytest.mark.parametrize("kind", [st.ZeroInflatedEstimator, st.HurdleEstimator])
def test_columns_of_zeros_and_empty_data(kind):
    estimator = kind(st.PoissonEstimator())
    fitted = optimize([0] * 40, estimator, max_its=30, seed=1, out=None)
    assert fitted.density(0) == pytest.approx(1.0, abs=1e-9)
    assert type(fitted).from_json(fitted.to_json()).digest() == fitted.digest()
    empty = estimator.estimate(0.0, estimator.accumulator_factory().make().value())
    assert empty.pi == 0.0
    assert optimize([1, 2, 3] * 9, estimator, max_its=40, seed=1, out=None).log_density(1) > -math.inf


def test_a_base_that_is_always_zero_scores_no_nan():
    d = st.HurdleDistribution(st.PoissonDistribution(0.0), 0.5)
    assert [d.log_density(x) for x in (0, 1)] == [math.log(0.5), -math.inf]
    with pytest.raises(ValueError, match="nearly always zero"):
        d.sampler(1).sample(20)
    z = st.ZeroInflatedDistribution(st.GeometricDistribution(0.5), 0.0)
    assert z.log_density(0) == -math.inf


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: st.ZeroInflatedDistribution(POISSON, 1.5), ValueError, "pi of a ZeroInflated must lie in"),
        (lambda: st.ZeroInflatedDistribution(POISSON, math.nan), ValueError, "pi of a ZeroInflated must be finite"),
        (lambda: st.ZeroInflatedDistribution(st.GaussianDistribution(0.0, 1.0), 0.5), TypeError, "HurdleDistribution"),
        (lambda: st.HurdleDistribution(POISSON, -0.1), ValueError, "pi of a Hurdle must lie in"),
        (lambda: st.HurdleDistribution(POISSON, "x"), ValueError, "pi of a Hurdle must be a number"),
        (lambda: st.ZeroInflatedEstimator(st.PoissonEstimator(), -1.0), ValueError, "pseudo_count must not be"),
        (
            lambda: st.ZeroInflatedEstimator(st.PoissonEstimator(), initial_inflation_probability=2.0),
            ValueError,
            "initial_inflation_probability must lie",
        ),
        (lambda: st.HurdleEstimator(st.PoissonEstimator(), trunc_threshold=-1.0), ValueError, "trunc_threshold"),
        (
            lambda: st.HurdleEstimator(st.PoissonEstimator(keys="a")).accumulator_factory(),
            KeyValidationError,
            "tie the whole, HurdleEstimator",
        ),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("kind", [st.ZeroInflatedDistribution, st.HurdleDistribution])
def test_bad_rows_are_named(kind):
    encoder = kind(POISSON, 0.5).dist_to_encoder()
    for row in ("x", None, math.nan, math.inf):
        with pytest.raises(RowError, match="Row 3"):
            encoder.seq_encode([0, 1, 0, row, 2])
    with pytest.raises(SupportError, match=r"Row 2 .*integers 0, 1, 2"):
        statistic(kind(POISSON, 0.5).estimator(), [0, 1, -4], model=kind(POISSON, 0.5))


@pytest.mark.parametrize("kind", [st.ZeroInflatedEstimator, st.HurdleEstimator])
def test_sites_of_one_key_share_their_parameters(kind):
    estimator = kind(st.PoissonEstimator(), keys="same")
    pair = st.CompositeEstimator([estimator, estimator])
    rows = [(a, b) for a, b in zip(COUNTS[::2], COUNTS[1::2], strict=True)]
    fitted = optimize(rows, pair, max_its=20, seed=3, out=None)
    assert fitted.dists[0].digest() == fitted.dists[1].digest()


def test_numpy_rows_and_numbers_of_any_type_are_the_same_rows():
    d = st.ZeroInflatedDistribution(POISSON, 0.5)
    encoder = d.dist_to_encoder()
    whole = d.seq_log_density(encoder.seq_encode(COUNTS))
    for rows in (np.array(COUNTS), np.array(COUNTS, float), [np.int64(x) for x in COUNTS], np.array(COUNTS, object)):
        assert bits(d.seq_log_density(encoder.seq_encode(rows))) == bits(whole)


@pytest.mark.parametrize(("rate", "planted"), [(8.0, 8), (2.0, 250), (20.0, 1), (4.0, 60)])
@pytest.mark.parametrize("seed", range(6))
def test_a_start_without_a_zero_does_not_close_the_door_to_zeros(seed, rate, planted):
    """The likeliest share has a closed equation: that of the zeros the base law does not explain."""
    counts = np.random.RandomState(8 + seed // 3).poisson(rate, 700)
    rows = [*counts[counts > 0].tolist(), *[0] * planted]
    model = optimize(
        rows, st.ZeroInflatedEstimator(st.PoissonEstimator()), max_its=2000, delta=1e-12, out=None, seed=seed
    )
    positive = np.array(rows)[np.array(rows) > 0]
    likeliest = brentq(lambda lam: lam / -np.expm1(-lam) - positive.mean(), 0.1, 50.0)
    assert model.base.lam == pytest.approx(likeliest, rel=1e-6)
    assert model.pi == pytest.approx(1.0 - len(positive) / len(rows) / -np.expm1(-likeliest), rel=1e-4)
