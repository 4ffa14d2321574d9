"""Laws seen through a function: densities, fits, domains, files."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

import mixle.stats as st
from bits import bits, statistic
from mixle.errors import (
    RowError,
    SerializationError,
    SupportError,
    TransformCompatibilityError,
)
from mixle.inference import optimize

G = st.GaussianDistribution
POSITIVE = st.GammaDistribution(2.0, 1.5)


@pytest.mark.parametrize(
    ("base", "transform", "low", "high"),
    [
        (G(0.3, 0.5), "exp", 0.0, np.inf),
        (G(0.5, 2.0), "logit", 0.0, 1.0),
        (G(0.5, 2.0), st.AffineTransform(3.0, -2.0), -np.inf, np.inf),
        (POSITIVE, "log", -np.inf, np.inf),
        (POSITIVE, "sqrt", 0.0, np.inf),
        (POSITIVE, st.PowerTransform(-0.5), 0.0, np.inf),
        (st.MixtureDistribution([G(-1.0, 0.2), G(1.0, 0.5)]), "logit", 0.0, 1.0),
    ],
)
def test_densities_integrate_to_one(base, transform, low, high):
    d = st.TransformDistribution(base, transform)

    def density(y):
        return d.density(y) if low < y < high else 0.0

    total = quad(density, low, high, epsabs=1e-12, epsrel=1e-12, limit=500)[0]
    assert total == pytest.approx(1.0, abs=1e-8)
    drawn = d.sampler(4).sample(200)
    assert np.isfinite(d.seq_log_density(d.dist_to_encoder().seq_encode(drawn))).all()


def test_the_exponential_of_a_gaussian_is_the_log_gaussian():
    rows = [1e-300, 1e-5, 0.5, 2.0, 1e8, 1e300]
    d, known = st.TransformDistribution(G(0.5, 4.0), "exp"), st.LogGaussianDistribution(0.5, 4.0)
    assert [d.log_density(y) for y in rows] == pytest.approx([known.log_density(y) for y in rows], rel=1e-13)
    fitted = optimize(rows, st.TransformEstimator(st.GaussianEstimator(), "exp"), out=None).dist
    other = optimize(rows, st.LogGaussianEstimator(), out=None)
    assert (fitted.mu, fitted.sigma2) == pytest.approx((other.mu, other.sigma2), rel=1e-12)


def test_values_of_the_published_package():
    for transform, value in (
        (None, -1.0439385332046727),
        ("exp", -0.46601785960382813),
        (st.AffineTransform(2.0, 3.0), -2.1425508218727822),
        ("logit", 0.4673558279152179),
    ):
        assert st.TransformDistribution(G(0.0, 1.0), transform).log_density(0.5) == pytest.approx(value, rel=1e-14)
    counts = st.TransformDistribution(st.PoissonDistribution(2.0), st.AffineTransform(1.0, 2.0))
    assert not counts.density_correction
    assert [counts.log_density(x) for x in (1, 3, 2)] == pytest.approx([-2.0, -1.3068528194400546, -math.inf])
    value = statistic(st.TransformEstimator(st.GaussianEstimator(), "exp"), [1.0, 2.0, 3.0])
    assert value[0] == 1
    assert value[2:] == (3.0, 0.0)
    raw = value._replace(child=(1.791759469228055, 1.6874019747307836, 3.0, 3.0))
    fitted = st.TransformEstimator(st.GaussianEstimator(), "exp").estimate(3.0, raw).dist
    assert (fitted.mu, fitted.sigma2) == pytest.approx((0.5972531564093516, 0.2057559920693277), rel=1e-12)


@pytest.mark.parametrize("transform", ["exp", "logit", "identity", st.AffineTransform(-3.0, 0.1)])
def test_a_transform_and_its_inverse_undo_each_other(transform):
    made = st.TransformDistribution(G(0.0, 1.0), transform).transform
    x = np.linspace(-6.0, 6.0, 40)
    assert made.inverse(made.forward(x)) == pytest.approx(x, rel=1e-9, abs=1e-9)
    y, step = made.forward(x), 1e-6
    slope = (made.inverse(y * (1 + step)) - made.inverse(y * (1 - step))) / (2 * step * y)
    seen = np.abs(y) > 1e-3
    seen &= (y < 1 - 1e-4) if made == st.LogitTransform() else True
    assert made.log_abs_det_inverse_jacobian(y)[seen] == pytest.approx(np.log(np.abs(slope))[seen], rel=1e-3, abs=1e-3)


def test_counts_are_found_again_to_rounding():
    d = st.TransformDistribution(st.PoissonDistribution(4.0), st.AffineTransform(0.1, 0.3))
    assert [d.log_density(0.1 + 0.3 * k) for k in range(12)] == [d.dist.log_density(k) for k in range(12)]
    assert d.log_density(0.7) == d.dist.log_density(2)
    assert d.log_density(0.7001) == -math.inf


def test_rows_outside_the_domain_score_minus_infinity_and_are_refused_by_a_fit():
    estimator = st.TransformEstimator(st.GaussianEstimator(), "exp")
    with pytest.raises(SupportError, match=r"Row 2 \(Transform\): no number gives the value by ExpTransform\(\)"):
        statistic(estimator, [1.0, 2.0, 0.0])
    kept = statistic(estimator, [1.0, 2.0, 0.0], [1.0, 1.0, 0.0])
    assert bits(kept.child) == bits(statistic(estimator, [1.0, 2.0]).child)
    mixture = st.MixtureDistribution(
        [st.TransformDistribution(G(0.0, 1.0), "exp"), st.TransformDistribution(st.ParetoDistribution(1.0, 2.0), "log")]
    )
    assert mixture.log_density(-1.0) == -math.inf
    assert mixture.log_density(0.5) > -math.inf
    with pytest.raises(RowError, match=r"Row 1 \(Transform\)"):
        mixture.dist_to_encoder().seq_encode([1.0, math.nan])


def test_functions_of_ones_own_stay_in_memory_until_they_have_a_name():
    def forward(x):
        return x**3

    def inverse(y):
        return np.cbrt(y)

    def log_slope(y):
        return -math.log(3.0) - 2.0 * np.log(np.abs(np.cbrt(y)))

    cube = st.FunctionTransform(forward, inverse, log_slope)
    d = st.TransformDistribution(G(2.0, 0.01), cube)
    assert quad(d.density, 1.0, 27.0)[0] == pytest.approx(1.0, abs=1e-7)
    fitted = optimize([8.0, 27.0], d.estimator(), out=None)
    assert fitted.dist.mu == pytest.approx(2.5)
    with pytest.raises(SerializationError, match="register_function"):
        fitted.to_json()
    for name, function in (("forward", forward), ("inverse", inverse), ("log slope", log_slope)):
        st.register_function(function, f"cube's {name}")
    assert type(fitted).from_json(fitted.to_json()).digest() == fitted.digest()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: st.TransformDistribution(G(0.0, 1.0), "lag"),
            TransformCompatibilityError,
            "pass one of exp, identity",
        ),
        (lambda: st.TransformDistribution(G(0.0, 1.0), np.exp), TransformCompatibilityError, "is no transform"),
        (
            lambda: st.TransformDistribution(G(0.0, 1.0), "log"),
            TransformCompatibilityError,
            "a Gaussian law has others",
        ),
        (lambda: st.TransformEstimator(st.GaussianEstimator(), "sqrt"), TypeError, "takes numbers above 0"),
        (lambda: st.AffineTransform(0.0, 0.0), ValueError, "scale of an AffineTransform must not be 0"),
        (lambda: st.AffineTransform(math.inf), ValueError, "loc of an AffineTransform must be finite"),
        (lambda: st.PowerTransform(0.0), ValueError, "power of a PowerTransform must not be 0"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("transform", ["exp", st.AffineTransform(1.0, 2.0), st.PowerTransform(3.0), None])
def test_transforms_are_written_and_read(transform):
    d = st.TransformDistribution(POSITIVE, transform)
    again = type(d).from_json(d.to_json())
    assert again.transform == d.transform
    assert again.digest() == d.digest()
    assert eval(repr(d.transform), vars(st) | {n: getattr(st, n) for n in st.__all__}) == d.transform
