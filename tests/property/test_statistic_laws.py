"""Laws over whole domains: exact inverses, neutral elements, and the digits that scores and sums keep."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import mixle.stats as st
from bits import bits

finite = s.floats(-1e12, 1e12, allow_subnormal=False)
weights_ = s.floats(0.0, 1e6, allow_subnormal=False)

DOMAINS = {
    st.GaussianEstimator: finite,
    st.LogGaussianEstimator: s.floats(1e-100, 1e100),
    st.PoissonEstimator: s.integers(0, 10**6),
    st.GeometricEstimator: s.integers(1, 10**6),
    st.ExponentialEstimator: s.floats(0.0, 1e100),
    st.GammaEstimator: s.floats(1e-100, 1e100),
    st.UniformEstimator: finite,
    st.BernoulliEstimator: s.booleans(),
    st.CategoricalEstimator: s.one_of(s.text(max_size=2), s.integers(), s.none()),
    st.IntegerCategoricalEstimator: s.integers(-50, 50),
    st.DiagonalGaussianEstimator: s.tuples(finite, finite),
    st.MultivariateGaussianEstimator: s.tuples(finite, finite),
}


def weighted(domain):
    return s.lists(s.tuples(domain, weights_), min_size=1, max_size=12)


def value_of(estimator, pairs):
    accumulator = estimator.accumulator_factory().make()
    rows, weights = [row for row, _ in pairs], np.array([w for _, w in pairs])
    accumulator.seq_update(accumulator.acc_to_encoder().seq_encode(rows), weights, None)
    return accumulator.value()


@pytest.mark.parametrize("build", DOMAINS, ids=lambda build: build.__name__)
@settings(max_examples=40)
@given(data=s.data())
def test_a_checkpoint_anywhere_changes_no_bit(build, data):
    estimator = build()
    make = estimator.accumulator_factory().make
    values = [value_of(estimator, data.draw(weighted(DOMAINS[build]))) for _ in range(3)]
    straight, stopped = make(), make()
    for value in values:
        straight.combine(value)
        stopped.combine(value)
        stopped = make().from_value(stopped.value())
        assert bits(stopped.value()) == bits(straight.value())


@pytest.mark.parametrize("build", DOMAINS, ids=lambda build: build.__name__)
@settings(max_examples=40)
@given(data=s.data())
def test_zero_is_neutral_and_one_scales_to_itself(build, data):
    estimator = build()
    make = estimator.accumulator_factory().make
    value = value_of(estimator, data.draw(weighted(DOMAINS[build])))
    zero = make().value()
    assert bits(make().combine(value).combine(zero).value()) == bits(value)
    assert bits(make().combine(zero).combine(value).value()) == bits(value)
    assert bits(st.scale_suff_stat(value, 1.0)) == bits(value)


@pytest.mark.parametrize("build", DOMAINS, ids=lambda build: build.__name__)
@settings(max_examples=40)
@given(data=s.data())
def test_every_statistic_has_a_valid_fit(build, data):
    """No rows that can be read lead to parameters that a distribution refuses."""
    estimator = build()
    pairs = data.draw(weighted(DOMAINS[build]))
    if not any(w for _, w in pairs) and build in (
        st.DiagonalGaussianEstimator, st.MultivariateGaussianEstimator, st.IntegerCategoricalEstimator,
    ):  # fmt: skip
        return
    fitted = estimator.estimate(None, value_of(estimator, pairs))
    # a row that hardly counts may lie so far out that its density is zero
    rows = [row for row, w in pairs if w > 1e-6 * sum(w for _, w in pairs)]
    assert np.isfinite(fitted.seq_log_density(fitted.dist_to_encoder().seq_encode(rows))).all()
    assert type(fitted).from_json(fitted.to_json()).digest() == fitted.digest()


@given(
    pairs=s.lists(s.tuples(s.floats(-1e3, 1e3), s.floats(0.01, 100.0)), min_size=2, max_size=20),
    offset=s.sampled_from([0.0, 1e6, 1.7e9]),
)
def test_moments_are_exact_to_rounding_at_any_offset(pairs, offset):
    pairs = [(x + offset, w) for x, w in pairs]
    moments = value_of(st.GaussianEstimator(), pairs)
    exact = [(Fraction(x), Fraction(w)) for x, w in pairs]
    total = sum(w for _, w in exact)
    mean = sum(x * w for x, w in exact) / total
    scatter = sum(w * (x - mean) ** 2 for x, w in exact)
    assert moments.weight == pytest.approx(float(total), rel=1e-15)
    assert abs(Fraction(moments.centre) + Fraction(moments.shift) - mean) <= Fraction(1e-12)
    assert moments.scatter == pytest.approx(float(scatter), rel=1e-12, abs=1e-12)


@given(
    left=s.lists(finite, min_size=1, max_size=8),
    right=s.lists(finite, min_size=1, max_size=8),
)
def test_merging_moments_is_exact_to_rounding(left, right):
    estimator = st.GaussianEstimator()
    merged = estimator.accumulator_factory().make()
    for part in (left, right):
        merged.combine(value_of(estimator, [(x, 1.0) for x in part]))
    stat = merged.value()
    rows = [Fraction(x) for x in left + right]
    mean = sum(rows) / len(rows)
    scatter = sum((x - mean) ** 2 for x in rows)
    size = max(map(abs, left + right))
    assert abs(Fraction(stat.centre) + Fraction(stat.shift) - mean) <= Fraction(16 * 2.0**-52 * size)
    assert stat.scatter == pytest.approx(float(scatter), rel=1e-12, abs=2.0**-45 * (2.0**-20 * size) ** 2 + 1e-300)


EPS = np.finfo(float).eps


@given(mu=s.floats(-1e3, 1e3), sigma2=s.floats(1e-6, 1e6), x=s.floats(-1e4, 1e4))
def test_gaussian_scores_lose_no_more_than_their_terms(mu, sigma2, x):
    score = st.GaussianDistribution(mu, sigma2).log_density(x)
    constant = -0.5 * math.log(2.0 * math.pi) - 0.5 * math.log(sigma2)
    quadratic = float((Fraction(x) - Fraction(mu)) ** 2 / (2 * Fraction(sigma2)))
    terms = abs(constant) + 0.92 + abs(0.5 * math.log(sigma2)) + quadratic
    assert abs(score - (constant - quadratic)) <= 4 * EPS * terms


@given(k=s.floats(1e-3, 1e6), theta=s.floats(1e-6, 1e6), x=s.floats(1e-6, 1e9))
def test_gamma_scores_lose_no_more_than_their_terms(k, theta, x):
    terms = [-x / theta, (k - 1.0) * math.log(x), -math.lgamma(k), -k * math.log(theta)]
    score = st.GammaDistribution(k, theta).log_density(x)
    assert abs(score - math.fsum(terms)) <= 4 * EPS * math.fsum(map(abs, terms))


@given(lam=s.floats(1e-6, 1e6), x=s.integers(0, 10**6))
def test_poisson_scores_lose_no_more_than_their_terms(lam, x):
    terms = [x * math.log(lam), -lam, -math.lgamma(x + 1.0)]
    score = st.PoissonDistribution(lam).log_density(x)
    assert abs(score - math.fsum(terms)) <= 4 * EPS * math.fsum(map(abs, terms))


@given(rows=s.lists(s.one_of(s.none(), s.just(math.nan), s.integers(0, 9)), max_size=40), data=s.data())
def test_missing_rows_cut_like_all_others(rows, data):
    encoder = st.OptionalDistribution(st.PoissonDistribution(3.0), p=0.5).dist_to_encoder()
    payload = encoder.seq_encode(rows)
    start = data.draw(s.integers(0, len(rows)))
    stop = data.draw(s.integers(start, len(rows)))
    cut, direct = encoder.slice(payload, start, stop), encoder.seq_encode(rows[start:stop])
    assert (cut.count, bits(cut.present)) == (direct.count, bits(direct.present))
    assert bits(cut.payload.x[0]) == bits(direct.payload.x[0])


@given(rows=s.lists(s.lists(s.integers(0, 9), max_size=5), max_size=20), data=s.data())
def test_ragged_rows_cut_like_all_others(rows, data):
    encoder = st.SequenceDistribution(st.PoissonDistribution(3.0), st.PoissonDistribution(2.0)).dist_to_encoder()
    payload = encoder.seq_encode(rows)
    start = data.draw(s.integers(0, len(rows)))
    stop = data.draw(s.integers(start, len(rows)))
    cut, direct = encoder.slice(payload, start, stop), encoder.seq_encode(rows[start:stop])
    assert bits(cut.offsets) == bits(direct.offsets)
    assert bits(cut.elements.x[0]) == bits(direct.elements.x[0])
    assert bits(cut.lengths.x[0]) == bits(direct.lengths.x[0])
