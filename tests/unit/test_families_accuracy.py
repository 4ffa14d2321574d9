"""Digits: offsets, scales, floors, ill-conditioned and singular covariances."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import mixle.stats as st
from bits import fold, statistic


def exact_log_density(mu, covar, x):
    """Return the normal log-density by rational arithmetic: exact but for the last few operations."""
    d = len(mu)
    rows = [[Fraction(float(v)) for v in row] for row in covar]
    y = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(x, mu, strict=True)]
    det, half = Fraction(1), Fraction(0)
    for j in range(d):
        det *= rows[j][j]
        half += y[j] * y[j] / rows[j][j]
        for i in range(j + 1, d):
            factor = rows[i][j] / rows[j][j]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[j], strict=True)]
            y[i] -= factor * y[j]
    log_det = math.log(det.numerator) - math.log(det.denominator)
    return -0.5 * (d * math.log(2.0 * math.pi) + log_det + float(half))


def rotated(d, condition, seed):
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    covar = (q * np.geomspace(1.0, 1.0 / condition, d)) @ q.T
    return rng.normal(size=d), 0.5 * (covar + covar.T), rng


@pytest.mark.parametrize("d", [2, 3, 5, 8])
@pytest.mark.parametrize("condition", [1e2, 1e5, 1e7, 1e10])
def test_full_covariances_score_to_nine_digits(d, condition):
    for seed in range(3):
        mu, covar, rng = rotated(d, condition, seed)
        dist = st.MultivariateGaussianDistribution(mu, covar)
        rows = mu + rng.normal(size=(4, d)) @ dist.chol.T
        got = dist.seq_log_density(dist.dist_to_encoder().seq_encode(rows))
        expected = [exact_log_density(mu, dist.covar, row) for row in rows]
        assert got == pytest.approx(expected, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("scale", [1e-120, 1e-6, 1e6, 1e120])
def test_the_unit_of_a_column_does_not_cost_digits(scale):
    mu, covar, _ = rotated(3, 1e8, 5)
    unit = np.array([1.0, scale, 1.0 / scale])
    dist = st.MultivariateGaussianDistribution(mu * unit, covar * unit[:, None] * unit)
    row = mu * unit + unit * 0.1
    assert dist.log_density(row) == pytest.approx(exact_log_density(dist.mu, dist.covar, row), rel=1e-9)


def test_both_ways_to_a_factor_agree_at_their_border():
    """The factor is computed again where LAPACK's would lose digits; the two agree where both are good."""
    from mixle.stats.cholesky import _double_cholesky, cholesky

    for condition in (1e1, 1e2, 1e3, 1e4, 1e5):
        covar = rotated(6, condition, 1)[1]
        assert cholesky(covar) == pytest.approx(_double_cholesky(covar, "covar"), rel=1e-9, abs=1e-12)
        assert _double_cholesky(covar, "x") @ _double_cholesky(covar, "x").T == pytest.approx(covar, abs=1e-15)


SPARK = np.array([
    [166769.00466698944, 169336.6705268059, 12.820670788921873, 164243.93314092053],
    [169336.6705268059, 172041.5670061245, 21.62590020524533, 166678.01075856484],
    [12.820670788921873, 21.62590020524533, 0.872524191943962, 4.283255814732373],
    [164243.93314092053, 166678.01075856484, 4.283255814732373, 161848.9196719207],
])  # fmt: skip


def test_T03_an_ill_conditioned_density_is_exact():
    mu = (1055.3910505836575, 1070.489299610895, 1.39020554474708, 1040.5907503867697)
    dist = st.MultivariateGaussianDistribution(mu, SPARK)
    assert dist.density((629, 640, 1.7188, 618.19)) == pytest.approx(7.15478225273647e-05, rel=1e-9)


@pytest.mark.parametrize("d", [2, 3, 5, 9])
def test_T04_a_singular_covariance_is_refused_with_its_rank(d):
    with pytest.raises(ValueError, match=r"rank 1 of 2"):
        st.MultivariateGaussianDistribution([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]])
    half = np.random.default_rng(d).normal(size=(d, d - 1))
    with pytest.raises(ValueError, match=rf"singular: rank {d - 1} of {d}"):
        st.MultivariateGaussianDistribution(np.zeros(d), half @ half.T)


def test_T04_an_indefinite_matrix_is_no_covariance():
    with pytest.raises(ValueError, match="negative"):
        st.MultivariateGaussianDistribution([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])


def test_T06_densities_above_one_are_densities():
    dist = st.GaussianDistribution(0.0, 1e-8)
    assert dist.log_density(0.0) == pytest.approx(8.291402, rel=1e-6)
    assert dist.density(0.0) > 1.0
    estimator = st.GaussianEstimator()
    fitted = estimator.estimate(None, statistic(estimator, [1.0, 1.0 + 1e-6]))
    assert fitted.log_density(1.0) > 0.0


@pytest.mark.parametrize("copies", [2, 5, 50])
def test_T14_a_near_singular_design_is_repaired_without_warnings(copies):
    rng = np.random.default_rng(copies)
    x = rng.normal(size=(300, 1))
    rows = np.hstack([x + 1e-9 * rng.normal(size=(300, 1)) for _ in range(copies)])
    estimator = st.MultivariateGaussianEstimator()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="raise"):
            fitted = estimator.estimate(None, statistic(estimator, rows))
            scores = fitted.seq_log_density(rows)
    assert np.isfinite(scores).all()
    assert any("ridge" in note for note in fitted.numerical_repairs())
    assert fitted.covar == pytest.approx(np.cov(rows.T, bias=True), rel=1e-6)


def test_T14_what_needs_no_repair_gets_none():
    for condition in (1e2, 1e6, 1e10):
        mu, covar, _ = rotated(4, condition, 3)
        estimator = st.MultivariateGaussianEstimator()
        fitted = estimator.estimate(None, (mu * 0.0, covar * 50.0, 50.0))
        assert fitted.numerical_repairs() == ()
        assert fitted.covar == pytest.approx(covar, rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6, 1.7e9])
@pytest.mark.parametrize("given_model", [False, True])
def test_variance_keeps_its_digits_at_any_offset(offset, given_model):
    x = np.random.default_rng(0).normal(size=5000)
    rows = x + offset
    exact = np.array([math.fsum(rows) / 5000])
    y = [Fraction(v) for v in rows.tolist()]
    mean = sum(y) / 5000
    variance = float(sum((v - mean) ** 2 for v in y) / 5000)
    estimator = st.GaussianEstimator()
    accumulator = estimator.accumulator_factory().make()
    start = st.GaussianDistribution(offset + 3.0, 2.0) if given_model else None
    for part in np.split(rows, 10):
        accumulator.seq_update(part, np.ones(500), start)
    fitted = estimator.estimate(None, accumulator.value())
    assert fitted.sigma2 == pytest.approx(variance, rel=1e-12)
    assert fitted.mu == pytest.approx(float(exact[0]), rel=1e-15, abs=1e-12)
    assert fitted.numerical_repairs() == ()


@pytest.mark.parametrize(
    "build", [st.GaussianEstimator, st.DiagonalGaussianEstimator, st.MultivariateGaussianEstimator]
)
def test_shards_agree_to_thirteen_digits_at_1e9(build):
    """However rows are cut, shifts and scatters agree; and no digit is lost to the offset."""
    rng = np.random.default_rng(4)
    rows = 1e9 + rng.normal(size=(4096, 3))
    rows = rows[:, 0] if build is st.GaussianEstimator else rows
    estimator = build()
    whole = statistic(estimator, rows)
    for shards in (2, 7, 64):
        folded = fold(estimator, [statistic(estimator, rows[s::shards]) for s in range(shards)])
        assert folded.scatter == pytest.approx(whole.scatter, rel=1e-12, abs=1e-9)
        shift = (folded.centre - whole.centre) + folded.shift
        assert shift == pytest.approx(whole.shift, rel=1e-13, abs=1e-13)


def test_small_spread_on_a_large_mean_is_not_floored():
    estimator = st.GaussianEstimator()
    rows = 1e6 + 1e-3 * np.random.default_rng(1).normal(size=1000)
    assert estimator.estimate(None, statistic(estimator, rows)).sigma2 == pytest.approx(np.var(rows - 1e6), rel=1e-9)
    assert estimator.estimate(None, statistic(estimator, [1e-9, 2e-9])).sigma2 == pytest.approx(2.5e-19, rel=1e-12)


@pytest.mark.parametrize("at", [0.0, 1.0, -1.7e9, 1e-150, 1e150])
def test_T08_one_value_many_times_has_a_floored_variance_in_every_family(at):
    rows = [at] * 7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for estimator, data in (
            (st.GaussianEstimator(), rows),
            (st.DiagonalGaussianEstimator(), [[v, 0.0] for v in rows]),
            (st.MultivariateGaussianEstimator(), [[v, 0.0] for v in rows]),
            (st.GaussianEstimator(min_covar=0.1), rows),
        ):
            fitted = estimator.estimate(None, statistic(estimator, data))
            payload = fitted.dist_to_encoder().seq_encode(data)
            assert np.isfinite(fitted.seq_log_density(payload)).all()
            assert fitted.numerical_repairs()
    if abs(at) > 1e-130:  # below, the floor itself underflows and is 1e-8 as at zero
        assert st.GaussianEstimator().estimate(None, statistic(st.GaussianEstimator(), rows)).sigma2 == pytest.approx(
            2.0**-80 * at * at
        )


def test_the_floor_is_a_maximum():
    """Just above the floor nothing changes, and the note is there only if something did."""
    estimator = st.GaussianEstimator(min_covar=0.25)
    above = estimator.estimate(None, (0.0, 4.0, 8.0, 8.0))
    below = estimator.estimate(None, (0.0, 1.0, 8.0, 8.0))
    assert (above.sigma2, above.numerical_repairs()) == (0.5, ())
    assert below.sigma2 == 0.25
    assert "floor" in below.numerical_repairs()[0]


def test_min_covar_of_a_full_covariance_is_its_least_eigenvalue():
    estimator = st.MultivariateGaussianEstimator(min_covar=0.5)
    fitted = estimator.estimate(None, ([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]], 1.0))
    assert np.linalg.eigvalsh(fitted.covar) == pytest.approx([0.5, 2.0])
    assert fitted.numerical_repairs()


def test_repairs_survive_a_pickle_and_leave_the_digest_alone():
    import pickle

    fitted = st.GaussianEstimator().estimate(None, (0.0, 0.0, 3.0, 3.0))
    again = pickle.loads(pickle.dumps(fitted))
    assert again.numerical_repairs() == fitted.numerical_repairs() != ()
    assert again.digest() == st.GaussianDistribution(fitted.mu, fitted.sigma2).digest()
