"""Probability below and above a point, and the points of given probabilities, on the scale of logarithms.

One table for all families of one number: what is cut off, censored or between two bounds is measured with it. In the
far tails a probability is below the smallest float64; its logarithm is not, and neither is the quantile of a
logarithm. Formulas are those of N. L. Johnson, S. Kotz, N. Balakrishnan, "Continuous Univariate Distributions",
2nd edition, 1994/95; the functions behind them are scipy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Tails", "between", "has_tails", "known_tails", "log_between", "log_one_minus_exp", "tails_of"]

_Function = Callable[[np.ndarray], np.ndarray]


class Tails(NamedTuple):
    """Distribution function of a law of one number.

    Attributes
    ----------
    below, above : callable
        Logarithm of the probability of values ≤ x, and > x.
    low_point, high_point : callable
        The x that has a given logarithm of the probability below it, and above it.
    """

    below: _Function
    above: _Function
    low_point: _Function
    high_point: _Function


def log_one_minus_exp(x: Any) -> np.ndarray:
    """Return log(1 − eˣ) at x ≤ 0, without cancellation (M. Mächler, "Accurately computing log(1 − exp(−|a|))", 2012).

    Examples
    --------
    >>> log_one_minus_exp(np.array([-1e-20, -math.log(2.0), -800.0])).round(6).tolist()
    [-46.051702, -0.693147, -0.0]
    """
    x = np.minimum(np.asarray(x, float), 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(x > -math.log(2.0), np.log(-np.expm1(x)), np.log1p(-np.exp(x))))


def _log(x: Any) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(x, 0.0)))


def _gaussian(mu: float, scale: float) -> Tails:
    from scipy.special import log_ndtr, ndtri_exp

    return Tails(
        lambda x: log_ndtr((x - mu) / scale),
        lambda x: log_ndtr((mu - x) / scale),
        lambda p: mu + scale * ndtri_exp(p),
        lambda q: mu - scale * ndtri_exp(q),
    )


def _of_survival(above: _Function, high_point: _Function) -> Tails:
    """Return the tails of a law whose survival function and its inverse are closed forms."""
    return Tails(
        lambda x: log_one_minus_exp(above(x)),
        above,
        lambda p: high_point(log_one_minus_exp(p)),
        high_point,
    )


def _stretched(scale: float, shape: float) -> Tails:
    """Return the tails of ``P(X > x) = exp(−(x / scale)^shape)``."""
    with np.errstate(over="ignore"):
        return _of_survival(
            lambda x: -((np.maximum(x, 0.0) / scale) ** shape), lambda q: scale * (-np.asarray(q)) ** (1.0 / shape)
        )


def _logistic(loc: float, scale: float) -> Tails:
    def log_sigmoid(z: np.ndarray) -> np.ndarray:
        return np.asarray(-np.logaddexp(0.0, -z))

    def point(p: np.ndarray) -> np.ndarray:
        return np.asarray(p - log_one_minus_exp(p))

    return Tails(
        lambda x: log_sigmoid((x - loc) / scale),
        lambda x: log_sigmoid((loc - x) / scale),
        lambda p: loc + scale * point(p),
        lambda q: loc - scale * point(q),
    )


def _gumbel(loc: float, scale: float) -> Tails:
    def below(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.asarray(-np.exp((loc - x) / scale))

    return Tails(
        below,
        lambda x: log_one_minus_exp(below(x)),
        lambda p: loc - scale * _log(-p),
        lambda q: loc - scale * _log(-log_one_minus_exp(q)),
    )


def _laplace(mu: float, b: float) -> Tails:
    half = -math.log(2.0)

    def side(z: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(z < 0.0, z + half, log_one_minus_exp(half - np.abs(z))))

    def point(p: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(p < half, p - half, half - log_one_minus_exp(np.maximum(p, half))))

    return Tails(
        lambda x: side((x - mu) / b),
        lambda x: side((mu - x) / b),
        lambda p: mu + b * point(p),
        lambda q: mu - b * point(q),
    )


def _pareto(xm: float, alpha: float) -> Tails:
    return _of_survival(
        lambda x: -alpha * np.log(np.maximum(x, xm) / xm), lambda q: xm * np.exp(-np.asarray(q) / alpha)
    )


def _uniform(low: float, high: float) -> Tails:
    width = high - low
    return Tails(
        lambda x: _log(np.clip((x - low) / width, 0.0, 1.0)),
        lambda x: _log(np.clip((high - x) / width, 0.0, 1.0)),
        lambda p: low + width * np.exp(p),
        lambda q: high - width * np.exp(q),
    )


def _incomplete(dist: Any) -> Tails:
    """Return the tails of a Gamma law."""
    from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv

    k, theta = dist.k, dist.theta
    return Tails(
        lambda x: _log(gammainc(k, np.maximum(x, 0.0) / theta)),
        lambda x: _log(gammaincc(k, np.maximum(x, 0.0) / theta)),
        lambda p: theta * gammaincinv(k, np.exp(p)),
        lambda q: theta * gammainccinv(k, np.exp(q)),
    )


def _inverse_gamma(dist: Any) -> Tails:
    from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv

    alpha, beta = dist.alpha, dist.beta

    def inverse(x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.asarray(beta / np.maximum(x, 0.0))

    return Tails(
        lambda x: _log(gammaincc(alpha, inverse(x))),
        lambda x: _log(gammainc(alpha, inverse(x))),
        lambda p: inverse(gammainccinv(alpha, np.exp(p))),
        lambda q: inverse(gammaincinv(alpha, np.exp(q))),
    )


def _beta(dist: Any) -> Tails:
    from scipy.special import betainc, betaincinv

    a, b = dist.a, dist.b

    def clip(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(x, 0.0, 1.0))

    return Tails(
        lambda x: _log(betainc(a, b, clip(x))),
        lambda x: _log(betainc(b, a, 1.0 - clip(x))),
        lambda p: betaincinv(a, b, np.exp(p)),
        lambda q: 1.0 - betaincinv(b, a, np.exp(q)),
    )


def _student_t(dist: Any) -> Tails:
    from scipy.special import stdtr, stdtrit

    df, loc, scale = dist.df, dist.loc, dist.scale
    return Tails(
        lambda x: _log(stdtr(df, (x - loc) / scale)),
        lambda x: _log(stdtr(df, (loc - x) / scale)),
        lambda p: loc + scale * np.where(p > -np.inf, stdtrit(df, np.exp(p)), -np.inf),  # scipy has +inf there
        lambda q: loc - scale * np.where(q > -np.inf, stdtrit(df, np.exp(q)), -np.inf),
    )


def _log_gaussian(dist: Any) -> Tails:
    inner = _gaussian(dist.mu, math.sqrt(dist.sigma2))
    return Tails(
        lambda x: inner.below(_log(x)),
        lambda x: inner.above(_log(x)),
        lambda p: np.exp(inner.low_point(p)),
        lambda q: np.exp(inner.high_point(q)),
    )


def _half_normal(dist: Any) -> Tails:
    inner, two = _gaussian(0.0, dist.sigma), math.log(2.0)
    return _of_survival(lambda x: two + inner.above(np.maximum(x, 0.0)), lambda q: inner.high_point(q - two))


_TABLE: dict[str, Callable[[Any], Tails]] = {
    "Beta": _beta,
    "Exponential": lambda d: _stretched(d.beta, 1.0),
    "Gamma": _incomplete,
    "Gaussian": lambda d: _gaussian(d.mu, math.sqrt(d.sigma2)),
    "Gumbel": lambda d: _gumbel(d.loc, d.scale),
    "HalfNormal": _half_normal,
    "InverseGamma": _inverse_gamma,
    "Laplace": lambda d: _laplace(d.mu, d.b),
    "LogGaussian": _log_gaussian,
    "Logistic": lambda d: _logistic(d.loc, d.scale),
    "Pareto": lambda d: _pareto(d.xm, d.alpha),
    "Rayleigh": lambda d: _stretched(math.sqrt(2.0) * d.sigma, 2.0),
    "StudentT": _student_t,
    "Uniform": lambda d: _uniform(d.low, d.high),
    "Weibull": lambda d: _stretched(d.scale, d.shape),
}


def _leaf_name(dist: Any) -> str:
    return str(getattr(getattr(dist, "leaf", None), "name", ""))


def known_tails() -> tuple[str, ...]:
    """Return the names of the families of the table."""
    return tuple(sorted(_TABLE))


def has_tails(dist: Any) -> bool:
    """Return whether the distribution function of a law (or of an estimator's law) is known."""
    return _leaf_name(dist) in _TABLE


def tails_of(dist: Any) -> Tails:
    """Return the distribution function of a continuous law of one number.

    Raises
    ------
    TypeError
        If it is not known; the message names the families of the table.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> tails = tails_of(GaussianDistribution(0.0, 1.0))
    >>> float(tails.above(np.array(40.0)).round(6)), float(tails.high_point(np.array(-804.608442)).round(6))
    (-804.608442, 40.0)
    """
    if not has_tails(dist):
        raise TypeError(
            f"the distribution function of {type(dist).__name__} is not known here; known are those of "
            f"{', '.join(sorted(_TABLE))}"
        )
    return _TABLE[_leaf_name(dist)](dist)


def log_between(tails: Tails, low: Any, high: Any) -> np.ndarray:
    """Return the logarithm of the probability of values between `low` and `high`, accurate in both tails.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> tails = tails_of(GaussianDistribution(0.0, 1.0))
    >>> log_between(tails, np.array([-1.0, 50.0]), np.array([1.0, 51.0])).round(6).tolist()
    [-0.381715, -1254.831361]
    """
    return between(tails, low, high)[0]


def between(tails: Tails, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of the probability of intervals, and of the smaller tail that it is a difference of."""
    low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
    with np.errstate(invalid="ignore"):
        upper = tails.above(low) < tails.below(high)  # the smaller tail holds the digits of the difference
        big = np.where(upper, tails.above(low), tails.below(high))
        small = np.where(upper, tails.above(high), tails.below(low))
        found = big + log_one_minus_exp(np.where(small > -np.inf, small - big, -np.inf))
    return np.asarray(np.where(big > -np.inf, found, -np.inf)), big
