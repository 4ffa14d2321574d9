"""Distribution functions and quantiles of laws of one number, and the moments that a law is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mixle.errors import ContractError
from mixle.stats.domains import fraction
from mixle.stats.means import tabled_mean, variance_of
from mixle.stats.tails import has_tails, tails_of

__all__ = ["NumberLaw", "cdf_of", "quantile_of"]


class NumberLaw:
    """What a law of one number is asked for besides its density; a law of anything else refuses by `ContractError`."""

    def mean(self) -> Any:
        """Return the mean: a number, or a vector for a law of vectors; NaN or infinity where it does not exist."""
        return tabled_mean(self)

    def variance(self) -> float:
        """Return the variance of a law of one number; NaN or infinity where it does not exist."""
        return variance_of(self)

    def cdf(self, x: float) -> float:
        """Return the probability of values up to and with `x`."""
        return cdf_of(self, x)

    def quantile(self, q: float) -> float:
        """Return the smallest value whose `cdf` is at least `q`, in [0, 1]."""
        return quantile_of(self, q)


def cdf_of(law: Any, x: float) -> float:
    """Return the probability of values up to and with `x`.

    Raises
    ------
    ContractError
        If the distribution function of the family is not known.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, PoissonDistribution
    >>> cdf_of(GaussianDistribution(1.0, 4.0), 1.0), round(cdf_of(PoissonDistribution(3.0), 0.8), 9)
    (0.5, 0.049787068)
    """
    value = float(x)
    if math.isnan(value):
        return math.nan
    if has_tails(law):
        return math.exp(float(tails_of(law).below(np.array(value))))
    below = _COUNTS.get(_name(law))
    if below is None:
        raise ContractError(f"the distribution function of {_name(law)} is not known; count draws of it instead")
    return float(below(law, math.floor(value) if math.isfinite(value) else value))


def quantile_of(law: Any, q: float) -> float:
    """Return the smallest value whose probability of values up to it is at least `q`.

    Raises
    ------
    ContractError
        If the distribution function of the family is not known.
    ValueError
        If `q` is not in [0, 1].

    Examples
    --------
    >>> from mixle.stats import ExponentialDistribution, PoissonDistribution
    >>> round(quantile_of(ExponentialDistribution(2.0), 0.5), 9), quantile_of(PoissonDistribution(3.0), 0.3)
    (1.386294361, 2.0)
    """
    share = fraction(q, "q of a quantile")
    if has_tails(law):
        with np.errstate(divide="ignore"):
            tails = tails_of(law)
            if share <= 0.5:
                return float(tails.low_point(np.log(np.array(share))))
            return float(tails.high_point(np.log1p(np.array(-share))))
    if _name(law) not in _COUNTS:
        raise ContractError(f"the distribution function of {_name(law)} is not known; sort draws of it instead")
    low, high = _range(law)
    if share == 1.0:
        return high
    bottom, step = low - 1, 1  # nothing up to it
    while cdf_of(law, bottom + step) < share:
        bottom, step = bottom + step, 2 * step
    top = bottom + step
    while top - bottom > 1:
        middle = (bottom + top) // 2
        bottom, top = (middle, top) if cdf_of(law, middle) < share else (bottom, middle)
    return float(max(top, low))


def _name(law: Any) -> str:
    return type(law).__name__.removesuffix("Distribution")


def _range(law: Any) -> tuple[int, float]:
    """Return the least and the largest count."""
    if _name(law) == "Binomial":
        return (law.min_val or 0), float((law.min_val or 0) + law.n)
    return (1, math.inf) if _name(law) == "Geometric" else (0, 1.0 if _name(law) == "Bernoulli" else math.inf)


def _bernoulli(law: Any, k: float) -> float:
    return 0.0 if k < 0 else 1.0 if k >= 1 else 1.0 - law.p


def _binomial(law: Any, k: float) -> float:
    from scipy.special import betaincc

    k -= law.min_val or 0
    return 0.0 if k < 0 else 1.0 if k >= law.n else float(betaincc(k + 1.0, law.n - k, law.p))


def _geometric(law: Any, k: float) -> float:
    return 0.0 if k < 1 else 1.0 if law.p >= 1.0 else -math.expm1(k * math.log1p(-law.p))


def _negative_binomial(law: Any, k: float) -> float:
    from scipy.special import betainc

    return 0.0 if k < 0 else 1.0 if math.isinf(k) else float(betainc(law.r, k + 1.0, law.p))


def _poisson(law: Any, k: float) -> float:
    from scipy.special import gammaincc

    return 0.0 if k < 0 else float(gammaincc(k + 1.0, law.lam))


#: Probability of counts up to k, a whole number or an infinity.
_COUNTS: dict[str, Callable[[Any, float], float]] = {
    "Bernoulli": _bernoulli,
    "Binomial": _binomial,
    "Geometric": _geometric,
    "NegativeBinomial": _negative_binomial,
    "Poisson": _poisson,
}
