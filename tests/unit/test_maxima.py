"""The M-step of every family is at the maximum of its weighted likelihood, told by the point and not by the likelihood.

From the estimate a step of Newton's method on the weighted log-likelihood, which is written down here and worked out
to 50 digits, leads to the maximum up to the square of its length. It has to move no parameter by 1e-8 of its size.
Families whose maximum is at a border, or has no derivative, are held to its closed form.
"""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.stats

import mixle.stats as st
from bits import statistic

ROWS = 60
#: How far a parameter may be from the maximum, relative to its size.
CLOSE = 1e-8


def newton(formula, rows, weights, at):
    """Return the step of Newton's method from parameters `at`, relative to their sizes.

    Parameters
    ----------
    formula : callable
        Parameters to the function that gives the log-density of a row.
    rows, weights : list
        The data.
    at : list of float
        Parameters.
    """
    with mp.workdps(50):
        d, start = len(at), [mp.mpf(float(x)) for x in at]
        weights = [mp.mpf(float(w)) for w in weights]
        steps = [mp.mpf("1e-12") * (abs(x) if x else 1) for x in start]

        def likelihood(*moves):
            point = list(start)
            for j, sign in moves:
                point[j] += sign * steps[j]
            density = formula(*point)
            return mp.fsum(w * density(row) for w, row in zip(weights, rows, strict=True))

        centre, gradient, hessian = likelihood(), mp.matrix(d, 1), mp.matrix(d, d)
        for j in range(d):
            above, below = likelihood((j, 1)), likelihood((j, -1))
            gradient[j] = (above - below) / (2 * steps[j])
            hessian[j, j] = (above - 2 * centre + below) / steps[j] ** 2
            for k in range(j):
                corners = [a * b * likelihood((j, a), (k, b)) for a in (1, -1) for b in (1, -1)]
                hessian[j, k] = hessian[k, j] = mp.fsum(corners) / (4 * steps[j] * steps[k])
        assert all(value < 0 for value in mp.eigsy(hessian, eigvals_only=True)), "no maximum"
        moved = mp.lu_solve(hessian, -gradient)
        return [float(abs(moved[j]) / (abs(start[j]) if start[j] else 1)) for j in range(d)]


def number(*names):
    return lambda law: [float(v) for name in names for v in np.ravel(getattr(law, name))]


def log_beta(*shapes):
    return mp.fsum(map(mp.loggamma, shapes)) - mp.loggamma(mp.fsum(shapes))


def gaussian(mu, s2):
    return lambda x: -mp.log(s2) / 2 - (x - mu) ** 2 / (2 * s2)


def over_log(law):
    return lambda *at: lambda x, density=None: law(*at)(mp.log(mp.mpf(x)))


def gamma(k, theta):
    constant = mp.loggamma(k) + k * mp.log(theta)
    return lambda x: (k - 1) * mp.log(mp.mpf(x)) - mp.mpf(x) / theta - constant


def negative_binomial(r, p):
    constant = r * mp.log(p) - mp.loggamma(r)
    return lambda x: mp.loggamma(x + r) + constant + x * mp.log(1 - p)


def dirichlet(*alpha):
    constant = log_beta(*alpha)
    return lambda x: mp.fsum((a - 1) * mp.log(mp.mpf(v)) for a, v in zip(alpha, x, strict=True)) - constant


def dirichlet_multinomial(*alpha):
    total, base = mp.fsum(alpha), mp.fsum(map(mp.loggamma, alpha))
    return lambda x: (
        mp.fsum(mp.loggamma(a + int(n)) for a, n in zip(alpha, x, strict=True))
        - base + mp.loggamma(total) - mp.loggamma(total + int(sum(x)))
    )  # fmt: skip


def student_t(df, loc, scale):
    constant = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df) / 2 - mp.log(scale)
    return lambda x: constant - (df + 1) / 2 * mp.log1p(((x - loc) / scale) ** 2 / df)


def logistic(loc, scale):
    return lambda x: -(x - loc) / scale - mp.log(scale) - 2 * mp.log1p(mp.exp(-(x - loc) / scale))


def gumbel(loc, scale):
    return lambda x: -(x - loc) / scale - mp.log(scale) - mp.exp(-(x - loc) / scale)


def weibull(shape, scale):
    return lambda x: mp.log(shape) - shape * mp.log(scale) + (shape - 1) * mp.log(mp.mpf(x)) - (x / scale) ** shape


def skew_normal(loc, scale, shape):
    return lambda x: -((x - loc) ** 2) / (2 * scale**2) - mp.log(scale) + mp.log(mp.ncdf(shape * (x - loc) / scale))


def inverse_gaussian(mu, lam):
    return lambda x: mp.log(lam) / 2 - lam * (x - mu) ** 2 / (2 * mu**2 * x)


def von_mises(mu, kappa):
    constant = mp.log(mp.besseli(0, kappa))
    return lambda x: kappa * mp.cos(x - mu) - constant


def von_mises_fisher(*eta):
    """Return the log-density by κμ, which is free."""
    d, kappa = len(eta), mp.sqrt(mp.fsum(x * x for x in eta))
    constant = (mp.mpf(d) / 2 - 1) * mp.log(kappa) - mp.log(mp.besseli(mp.mpf(d) / 2 - 1, kappa))
    return lambda x: constant + mp.fsum(a * mp.mpf(float(v)) for a, v in zip(eta, x, strict=True))


def two(loc, other, a, b, c):
    """Return log-determinant and distance of a normal law of two columns of covariance ((a, b), (b, c))."""
    det = a * c - b * b

    def distance(row):
        x, y = row[0] - loc, row[1] - other
        return (c * x * x - 2 * b * x * y + a * y * y) / det

    return mp.log(det), distance


def multivariate_gaussian(*at):
    log_det, distance = two(*at)
    return lambda x: -log_det / 2 - distance(x) / 2


def multivariate_student_t(*at):
    log_det, distance = two(*at)
    return lambda x: -log_det / 2 - mp.mpf(5) / 2 * mp.log1p(distance(x) / 3)


def diagonal_gaussian(*at):
    laws = [gaussian(mu, s2) for mu, s2 in zip(at[:2], at[2:], strict=True)]
    return lambda row: mp.fsum(law(x) for law, x in zip(laws, row, strict=True))


def shares(labels):
    """Return the formula of the probabilities of labels, the last one being what is left."""

    def formula(*p):
        logs = dict(zip(labels, map(mp.log, [*p, 1 - mp.fsum(p)]), strict=True))
        return lambda x: logs[x]

    return formula


def members(labels):
    def formula(*p):
        pairs = list(zip(labels, p, strict=True))
        return lambda row: mp.fsum(mp.log(q) if label in row else mp.log(1 - q) for label, q in pairs)

    return formula


def bags(labels):
    def formula(*p):
        share = shares(labels)(*p)
        return lambda row: mp.fsum(n * share(label) for label, n in row)

    return formula


def zero_inflated_poisson(pi, lam):
    nothing = mp.log(pi + (1 - pi) * mp.exp(-lam))
    return lambda x: nothing if x == 0 else mp.log(1 - pi) + x * mp.log(lam) - lam


def hurdle_poisson(pi, lam):
    return lambda x: mp.log(pi) if x == 0 else mp.log(1 - pi) + x * mp.log(lam) - mp.log(mp.expm1(lam))


def truncated_gaussian(mu, s2):
    low, high = (mp.ncdf((mp.mpf(end) - mu) / mp.sqrt(s2)) for end in (-1.0, 4.0))
    return lambda x: gaussian(mu, s2)(x) - mp.log(high - low)


def censored_gaussian(mu, s2):
    above = mp.log(mp.ncdf((mu - 4) / mp.sqrt(s2)))
    constant = -mp.log(2 * mp.pi) / 2
    return lambda x: above if isinstance(x, tuple) else gaussian(mu, s2)(x) + constant


def drawn_sets(r):
    return [[label for label, p in zip("abc", (0.2, 0.5, 0.8), strict=True) if r.rand() < p] for _ in range(ROWS)]


def drawn_bags(r):
    return [[(i, int(n)) for i, n in enumerate(r.multinomial(5, [0.2, 0.3, 0.5])) if n] for _ in range(ROWS)]


#: name -> (estimator, what draws rows, formula of the log-density up to a constant, reader of its parameters)
INTERIOR = {
    "Gaussian": (st.GaussianEstimator(), lambda r: r.normal(3, 2, ROWS), gaussian, number("mu", "sigma2")),
    "Gaussian far out": (
        st.GaussianEstimator(), lambda r: r.normal(1.7e9, 2, ROWS), gaussian, number("mu", "sigma2"),
    ),
    "LogGaussian": (
        st.LogGaussianEstimator(), lambda r: np.exp(r.normal(1, 0.5, ROWS)), over_log(gaussian), number("mu", "sigma2"),
    ),
    "Poisson": (
        st.PoissonEstimator(), lambda r: r.poisson(4, ROWS), lambda lam: lambda x: x * mp.log(lam) - lam, number("lam"),
    ),
    "Exponential": (
        st.ExponentialEstimator(), lambda r: r.exponential(4, ROWS), lambda b: lambda x: -mp.log(b) - x / b,
        number("beta"),
    ),
    "Geometric": (
        st.GeometricEstimator(), lambda r: r.geometric(0.2, ROWS),
        lambda p: lambda x: mp.log(p) + (x - 1) * mp.log(1 - p), number("p"),
    ),
    "Bernoulli": (
        st.BernoulliEstimator(), lambda r: (r.rand(ROWS) < 0.2).astype(int),
        lambda p: lambda x: mp.log(p if x else 1 - p), number("p"),
    ),
    "Binomial": (
        st.BinomialEstimator(7), lambda r: r.binomial(7, 0.4, ROWS),
        lambda p: lambda x: x * mp.log(p) + (7 - x) * mp.log(1 - p), number("p"),
    ),
    **{
        f"Gamma of shape {k:g}": (
            st.GammaEstimator(), lambda r, k=k: np.maximum(r.gamma(k, 3, ROWS), 1e-300), gamma, number("k", "theta"),
        )
        for k in (0.1, 2.0, 60.0, 1e4)
    },
    **{
        f"InverseGamma of shape {k:g}": (
            st.InverseGammaEstimator(), lambda r, k=k: 1 / r.gamma(k, 3, ROWS),
            lambda a, b: lambda x: a * mp.log(b) - mp.loggamma(a) - (a + 1) * mp.log(mp.mpf(x)) - b / x,
            number("alpha", "beta"),
        )
        for k in (0.5, 2.0, 1e3)
    },
    **{
        f"InverseGaussian of shape {lam:g}": (
            st.InverseGaussianEstimator(), lambda r, lam=lam: r.wald(2, lam, ROWS), inverse_gaussian,
            number("mu", "lam"),
        )
        for lam in (0.05, 3.0, 1e6)
    },
    **{
        f"NegativeBinomial of size {size:g}": (
            st.NegativeBinomialEstimator(), lambda r, size=size: r.negative_binomial(size, 0.3, ROWS),
            negative_binomial, number("r", "p"),
        )
        for size in (0.05, 0.3, 2.0, 20.0)
    },
    "NegativeBinomial of a fixed size": (
        st.NegativeBinomialEstimator(3.0, estimate_r=False), lambda r: r.negative_binomial(2, 0.3, ROWS),
        lambda p: negative_binomial(3, p), number("p"),
    ),
    **{
        f"Beta of shapes {a:g} and {b:g}": (
            st.BetaEstimator(), lambda r, a=a, b=b: r.beta(a, b, ROWS),
            lambda a, b: lambda x: (a - 1) * mp.log(mp.mpf(x)) + (b - 1) * mp.log(1 - mp.mpf(x)) - log_beta(a, b),
            number("a", "b"),
        )
        for a, b in ((0.7, 3.0), (0.2, 0.3), (200.0, 600.0), (2e4, 6e3))
    },
    "Dirichlet": (
        st.DirichletEstimator(), lambda r: r.dirichlet([0.5, 2, 4], ROWS), dirichlet, number("alpha"),
    ),
    "Dirichlet of large concentrations": (
        st.DirichletEstimator(), lambda r: r.dirichlet([50, 200, 400], ROWS), dirichlet, number("alpha"),
    ),
    "DirichletMultinomial": (
        st.DirichletMultinomialEstimator(3, 8),
        lambda r: [r.multinomial(8, r.dirichlet([2, 0.5, 1])).tolist() for _ in range(ROWS)],
        dirichlet_multinomial, number("alpha"),
    ),
    "DirichletMultinomial of large concentrations": (
        st.DirichletMultinomialEstimator(3, 400),
        lambda r: [r.multinomial(400, r.dirichlet([50, 200, 400])).tolist() for _ in range(ROWS)],
        dirichlet_multinomial, number("alpha"),
    ),
    "Rayleigh": (
        st.RayleighEstimator(), lambda r: r.rayleigh(3, ROWS), lambda s: lambda x: -2 * mp.log(s) - x**2 / (2 * s**2),
        number("sigma"),
    ),
    "HalfNormal": (
        st.HalfNormalEstimator(), lambda r: np.abs(r.normal(0, 3, ROWS)),
        lambda s: lambda x: -mp.log(s) - x**2 / (2 * s**2), number("sigma"),
    ),
    **{
        f"VonMises of concentration {k:g}": (
            st.VonMisesEstimator(), lambda r, k=k: r.vonmises(2, k, ROWS), von_mises, number("mu", "kappa"),
        )
        for k in (0.7, 5.0, 400.0, 1e6)
    },
    **{
        f"VonMisesFisher of concentration {k:g}": (
            st.VonMisesFisherEstimator(),
            lambda r, k=k: st.VonMisesFisherDistribution([0.6, 0.64, 0.48], k).sampler(r.randint(99)).sample(ROWS),
            von_mises_fisher, lambda law: (law.kappa * law.mu).tolist(),
        )
        for k in (1.0, 30.0, 1e4)
    },
    "StudentT": (
        st.StudentTEstimator(3.0), lambda r: 1 + 2 * r.standard_t(3, ROWS), lambda *at: student_t(mp.mpf(3), *at),
        number("loc", "scale"),
    ),
    "StudentT far out": (
        st.StudentTEstimator(3.0), lambda r: 1e7 + 2 * r.standard_t(3, ROWS), lambda *at: student_t(mp.mpf(3), *at),
        number("loc", "scale"),
    ),
    "StudentT of free degrees of freedom": (
        st.StudentTEstimator(9.0, estimate_df=True), lambda r: 1 + 2 * r.standard_t(2, ROWS), student_t,
        number("df", "loc", "scale"),
    ),
    "MultivariateStudentT": (
        st.MultivariateStudentTEstimator(3.0),
        lambda r: (r.normal(2, 1, (ROWS, 2)) @ [[1, 0.8], [0, 0.5]]) / np.sqrt(r.gamma(2, 1, (ROWS, 1))),
        multivariate_student_t, lambda law: [*law.loc.tolist(), *law.shape[[0, 0, 1], [0, 1, 1]].tolist()],
    ),
    "Logistic far out": (
        st.LogisticEstimator(), lambda r: r.logistic(1e7, 2, ROWS), logistic, number("loc", "scale"),
    ),
    "Logistic": (st.LogisticEstimator(), lambda r: r.logistic(1, 2, ROWS), logistic, number("loc", "scale")),
    "Gumbel far out": (st.GumbelEstimator(), lambda r: r.gumbel(1e7, 2, ROWS), gumbel, number("loc", "scale")),
    "Gumbel": (st.GumbelEstimator(), lambda r: r.gumbel(1, 2, ROWS), gumbel, number("loc", "scale")),
    **{
        f"Weibull of shape {k:g}": (
            st.WeibullEstimator(), lambda r, k=k: 3 * r.weibull(k, ROWS), weibull, number("shape", "scale"),
        )
        for k in (0.4, 2.0, 50.0)
    },
    **{
        f"SkewNormal of shape {a:g}": (
            st.SkewNormalEstimator(),
            lambda r, a=a: scipy.stats.skewnorm(a, 3.0, 2.0).rvs(200, random_state=r), skew_normal,
            number("loc", "scale", "shape"),
        )
        for a in (-1.5, 3.0)
    },
    "DiagonalGaussian": (
        st.DiagonalGaussianEstimator(), lambda r: r.normal([1, 5], [1, 3], (ROWS, 2)), diagonal_gaussian,
        number("mu", "covar"),
    ),
    "MultivariateGaussian": (
        st.MultivariateGaussianEstimator(), lambda r: r.normal(2, 1, (ROWS, 2)) @ [[1, 0.8], [0, 0.5]],
        multivariate_gaussian, lambda law: [*law.mu.tolist(), *law.covar[[0, 0, 1], [0, 1, 1]].tolist()],
    ),
    "Categorical": (
        st.CategoricalEstimator(), lambda r: r.choice(list("abc"), ROWS, p=[0.2, 0.3, 0.5]).tolist(), shares("abc"),
        lambda law: [law.pmap["a"], law.pmap["b"]],
    ),
    "IntegerCategorical": (
        st.IntegerCategoricalEstimator(), lambda r: r.choice(3, ROWS, p=[0.2, 0.3, 0.5]).tolist(), shares(range(3)),
        lambda law: law.p_vec[:2].tolist(),
    ),
    "Multinomial": (
        st.MultinomialEstimator(st.CategoricalEstimator()), drawn_bags, bags(range(3)),
        lambda law: [law.dist.pmap[0], law.dist.pmap[1]],
    ),
    "IntegerMultinomial": (
        st.IntegerMultinomialEstimator(), drawn_bags, bags(range(3)), lambda law: law.p_vec[:2].tolist(),
    ),
    "BernoulliSet": (
        st.BernoulliSetEstimator(), drawn_sets, members("abc"), lambda law: [law.pmap[label] for label in "abc"],
    ),
    "IntegerBernoulliSet": (
        st.IntegerBernoulliSetEstimator(3), lambda r: [["abc".index(x) for x in row] for row in drawn_sets(r)],
        members(range(3)), lambda law: np.exp(law.log_pvec).tolist(),
    ),
    "ZeroInflated": (
        st.ZeroInflatedEstimator(st.PoissonEstimator()), lambda r: r.poisson(4, ROWS) * (r.rand(ROWS) > 0.3),
        zero_inflated_poisson, lambda law: [law.pi, law.base.lam],
    ),
    "Hurdle": (
        st.HurdleEstimator(st.PoissonEstimator()), lambda r: r.poisson(2, ROWS) * (r.rand(ROWS) > 0.3),
        hurdle_poisson, lambda law: [law.pi, law.base.lam],
    ),
    "Truncated": (
        st.TruncatedEstimator(st.GaussianEstimator(), low=-1.0, high=4.0),
        lambda r: scipy.stats.truncnorm(-1, 1.5, 1, 2).rvs(ROWS, random_state=r),
        truncated_gaussian, lambda law: [law.base.mu, law.base.sigma2],
    ),
    "Censored": (
        st.CensoredEstimator(st.GaussianEstimator()),
        lambda r: [x if x < 4 else (4.0, None) for x in r.normal(2, 2, ROWS).tolist()],
        censored_gaussian, lambda law: [law.base.mu, law.base.sigma2],
    ),
}  # fmt: skip


def settled(estimator, rows, weights, read):
    """Return the fit after as many rounds as move it; where the statistic needs no model that is the first one."""
    fitted = estimator.estimate(None, statistic(estimator, rows, weights))
    for _ in range(4000):
        last = np.array(read(fitted))
        fitted = estimator.estimate(None, statistic(estimator, rows, weights, model=fitted))
        if np.max(np.abs(np.array(read(fitted)) - last) / (np.abs(last) + 1e-300)) <= 1e-14:
            break
    return fitted


def drawn_and_settled(estimator, draw, read):
    """Return drawn rows, their weights, and the fit to them."""
    rng = np.random.RandomState(17)
    rows = draw(rng)
    weights = rng.gamma(1.0, 1.0, len(rows))
    return rows, weights, settled(estimator, rows, weights, read)


@pytest.mark.parametrize("name", INTERIOR)
def test_a_step_of_newtons_method_from_the_estimate_moves_nothing(name):
    estimator, draw, formula, read = INTERIOR[name]
    rows, weights, fitted = drawn_and_settled(estimator, draw, read)
    exact = rows.tolist() if isinstance(rows, np.ndarray) else rows
    moved = newton(formula, exact, weights, read(fitted))
    assert max(moved) <= CLOSE


def median(rows, weights):
    """Return the smallest row that has half of the weight at it or below."""
    order = np.argsort(rows)
    shares = np.cumsum(weights[order]) / math.fsum(weights)
    return float(rows[order][np.searchsorted(shares, 0.5)])


def laplace(rows, weights):
    middle = median(rows, weights)
    return [middle, math.fsum(weights * np.abs(rows - middle)) / math.fsum(weights)]


def pareto(rows, weights):
    least = float(rows.min())
    return [least, math.fsum(weights) / math.fsum(weights * np.log(rows / least))]


def principal(rows, weights):
    """Return mean, covariance and noise: the largest two variances stay, the others become their mean."""
    mean = weights @ rows / weights.sum()
    values, vectors = np.linalg.eigh((rows - mean).T @ ((rows - mean) * weights[:, None]) / weights.sum())
    noise = values[:-2].mean()
    values[:-2] = noise
    return [*mean, *((vectors * values) @ vectors.T).ravel(), noise]


#: name -> (estimator, what draws rows, parameters at the maximum, reader of them)
AT_A_BORDER = {
    "Laplace": (st.LaplaceEstimator(), lambda r: r.laplace(1, 2, 61), laplace, number("mu", "b")),
    "Laplace far out": (st.LaplaceEstimator(), lambda r: r.laplace(1e7, 2, 61), laplace, number("mu", "b")),
    "Pareto": (
        st.ParetoEstimator(), lambda r: 2 * (1 + r.pareto(3, ROWS)), pareto, number("xm", "alpha"),
    ),
    "Uniform": (
        st.UniformEstimator(), lambda r: r.uniform(-2, 5, ROWS), lambda rows, _: [rows.min(), rows.max()],
        number("low", "high"),
    ),
    "ProbabilisticPCA": (
        st.ProbabilisticPCAEstimator(2, 4), lambda r: r.normal(1, 1, (ROWS, 4)) @ np.diag([3, 2, 1, 0.5]) + 1,
        principal, number("mu", "covar", "sigma2"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_A_BORDER)
def test_a_maximum_at_a_border_is_that_of_its_closed_form(name):
    estimator, draw, closed, read = AT_A_BORDER[name]
    rows, weights, fitted = drawn_and_settled(estimator, draw, read)
    assert read(fitted) == pytest.approx(closed(rows, weights), rel=CLOSE, abs=1e-14)


@pytest.mark.parametrize("name", ["Beta of shapes 200 and 600", "DirichletMultinomial of large concentrations"])
@pytest.mark.parametrize("seed", range(4, 8))
def test_where_a_likelihood_is_flat_its_slope_leads_on(name, seed):
    """The likelihood of such rows tells shapes apart to seven digits only."""
    estimator, draw, formula, read = INTERIOR[name]
    rng = np.random.RandomState(seed)
    rows = draw(rng)
    weights = rng.gamma(1.0, 1.0, len(rows))
    at = read(settled(estimator, rows, weights, read))
    assert max(newton(formula, rows, weights, at)) <= 1e-10


@pytest.mark.parametrize("rows", [[[2, 3, 5]] * 4, [[2, 3, 5], [3, 2, 5], [2, 4, 4]]])
def test_counts_that_vary_less_than_a_multinomials_are_fitted_by_one(rows):
    fitted = settled(st.DirichletMultinomialEstimator(3, 10), rows, np.ones(len(rows)), number("alpha"))
    assert fitted.alpha / fitted.alpha.sum() == pytest.approx(np.mean(rows, axis=0) / 10, rel=1e-6)
    assert fitted.alpha.max() == 1e8
    assert "bound" in fitted.numerical_repairs()[0]


def test_a_step_tells_an_estimate_that_is_off():
    estimator, draw, formula, read = INTERIOR["Gamma of shape 2"]
    rows = draw(np.random.RandomState(17))
    at = read(settled(estimator, rows, np.ones(ROWS), read))
    k, theta = newton(formula, rows.tolist(), np.ones(ROWS), [at[0] * (1.0 + 1e-6), at[1]])
    assert (k, theta) == (pytest.approx(1e-6, rel=1e-3), pytest.approx(0.0, abs=1e-11))


def test_every_family_is_held_to_its_maximum():
    estimators = {getattr(st, name) for name in st.__all__ if name.endswith("Estimator")}
    families = {kind for kind in estimators if kind.__module__.startswith("mixle.stats.families.")}
    held = {type(estimator) for estimator, *_ in (*INTERIOR.values(), *AT_A_BORDER.values())}
    assert len(families) > 35
    assert families - held == {st.PointMassEstimator}, "which has nothing to fit"
