"""The skew-normal law where fits by moments, or by plain EM, go wrong: no skew, all skew, any offset and scale."""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.stats

import mixle.stats as st
from bits import statistic
from mixle.inference import optimize
from mixle.stats.skew import _derivatives, _mills

ESTIMATOR = st.SkewNormalEstimator()


def rounds(rows, count, weights=None, estimator=ESTIMATOR):
    """Return the model after a start without a model and `count` rounds."""
    fitted = estimator.estimate(None, statistic(estimator, rows, weights))
    for _ in range(count):
        fitted = estimator.estimate(None, statistic(estimator, rows, weights, model=fitted))
    return fitted


def drawn(shape, size=400, seed=5):
    return scipy.stats.skewnorm(shape).rvs(size, random_state=np.random.RandomState(seed))


def test_the_mills_ratio_and_its_slopes_keep_their_digits():
    t = np.array([-1e8, -1e3, -40.0, -4.001, -3.999, -1.0, 0.0, 2.0, 9.0, 60.0])
    h, sum_ = _mills(t)
    with mp.workdps(60):
        exact = [mp.npdf(v) / mp.ncdf(v) for v in map(mp.mpf, t.tolist())]
        sums = [float(value + mp.mpf(v)) for value, v in zip(exact, t.tolist(), strict=True)]
        third = [float(mp.diff(lambda v: mp.log(mp.ncdf(v)), mp.mpf(v), 3)) for v in (-3.0, 0.0, 1.5)]
    assert h == pytest.approx(np.array(exact, float), rel=1e-13)
    assert sum_ == pytest.approx(sums, rel=1e-12)
    assert _derivatives(np.array([-3.0, 0.0, 1.5]))[3] == pytest.approx(third, rel=1e-9)


@pytest.mark.parametrize("shape", [0.0, 1.0, -5.0, 1e3])
def test_the_density_integrates_to_one(shape):
    x = np.linspace(-12.0, 12.0, 2_000_001)
    density = np.exp(st.SkewNormalDistribution(0.0, 1.0, shape).seq_log_density(x))
    assert float(np.trapezoid(density, x)) == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize("shape", [0.7, -3.0, 12.0])
def test_a_few_rounds_settle(shape):
    rows = drawn(shape)
    few, many = rounds(rows, 7), rounds(rows, 12)
    assert [few.loc, few.scale, few.shape] == pytest.approx([many.loc, many.scale, many.shape], rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(("offset", "scale"), [(1.7e9, 1.0), (-1e12, 1e3), (0.0, 1e-9), (0.0, 1e120)])
def test_a_fit_moves_with_its_rows(offset, scale):
    rows = np.round(drawn(4.0) * 1024.0) / 1024.0
    moved = offset + scale * rows
    plain, other = rounds(rows, 8), rounds(moved, 8)
    assert other.loc == pytest.approx(offset + scale * plain.loc, rel=1e-9)
    assert other.scale == pytest.approx(scale * plain.scale, rel=1e-6)
    assert other.shape == pytest.approx(plain.shape, rel=1e-5)


def test_mirrored_rows_have_the_mirrored_fit():
    rows = drawn(3.0)
    one, other = rounds(rows, 8), rounds(-rows, 8)
    assert [-other.loc, other.scale, -other.shape] == pytest.approx([one.loc, one.scale, one.shape], rel=1e-9)


@pytest.mark.parametrize("rows", [[-1.0, 0.0, 1.0], [-2.0, -1.0, -1.0, 1.0, 1.0, 2.0], [5.0 - 7.0, 5.0 + 7.0]])
def test_rows_without_skew_keep_a_normal_law(rows):
    fitted = rounds(rows, 5)
    assert fitted.shape == 0.0
    assert (fitted.loc, fitted.scale) == pytest.approx((np.mean(rows), np.std(rows)))
    assert fitted.numerical_repairs() == ()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_where_the_likelihood_rises_for_ever_the_shape_is_held(sign):
    """Half of a normal sample has a skewness near 0.9953, which no skew-normal law exceeds."""
    rows = sign * np.abs(np.random.RandomState(1).normal(size=60))
    fitted = rounds(rows, 20)
    assert fitted.shape == sign * 1e3
    assert any("held" in note for note in fitted.numerical_repairs())
    scores = fitted.seq_log_density(rows)
    assert np.isfinite(scores).all()
    limit = scipy.stats.halfnorm(scale=math.sqrt(np.mean(rows**2))).logpdf(sign * rows).sum()
    assert scores.sum() > limit - 1.0


@pytest.mark.parametrize("rows", [[3.0], [3.0] * 9, [1e-300, 2e-300]])
def test_constant_rows_have_a_floored_scale(rows):
    fitted = rounds(rows, 3)
    assert (fitted.scale, fitted.shape) == (1e-12, 0.0)
    assert any("floor" in note for note in fitted.numerical_repairs())
    assert np.isfinite(fitted.seq_log_density(np.array(rows))).all()


def test_outliers_do_not_break_a_fit():
    for rows in ([0.0] * 7 + [10.0], [1e150, -1e150, 3.0], [0.0, 1.0, 1e9]):
        fitted = rounds(rows, 15)
        assert math.isfinite(fitted.loc)
        assert np.isfinite(fitted.seq_log_density(np.array(rows))).all()


def test_optimize_finds_both_halves_of_a_mixture():
    rng = np.random.RandomState(3)
    rows = np.concatenate([10.0 - 2.0 * np.abs(drawn(5.0, 1500, 1)), 12.0 + drawn(5.0, 1500, 2)])
    rng.shuffle(rows)
    model = optimize(list(rows), st.MixtureEstimator([ESTIMATOR] * 2), max_its=60, seed=1, out=None)
    left, right = sorted(model.components, key=lambda part: part.shape)
    assert left.shape < -3.0
    assert right.shape > 3.0


def test_a_prior_of_its_own_moments_is_a_fixed_point():
    law = st.SkewNormalDistribution(-2.0, 0.5, 3.0)
    estimator = law.estimator(50.0)
    fitted = rounds(law.sampler(1).sample(20), 12, estimator=estimator)
    assert [fitted.loc, fitted.scale, fitted.shape] == pytest.approx([-2.0, 0.5, 3.0], abs=0.6)
    assert estimator.estimate(0.0, estimator.accumulator_factory().make().value()).shape == pytest.approx(3.0)
