"""Means of laws, and the shares of laws of labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mixle.errors import ContractError

__all__ = ["label_shares", "mean_of", "tabled_mean", "variance_of"]

_EULER = 0.5772156649015329


def mean_of(law: Any) -> Any:
    """Return the mean of a law of numbers: a float, or an array for a law of vectors.

    The mean of a von Mises law is its direction. NaN or infinity where the integral does not exist or is infinite. A
    family of your own says it with a method ``mean()``.

    Parameters
    ----------
    law : distribution
        A law of a number or of a vector, a mixture of such, or one that may be missing.

    Raises
    ------
    ContractError
        For a law of anything else.

    Examples
    --------
    >>> from mixle.stats import ExponentialDistribution, GammaDistribution, MixtureDistribution
    >>> mean_of(MixtureDistribution([GammaDistribution(2.0, 3.0), ExponentialDistribution(2.0)], [0.5, 0.5]))
    4.0
    """
    own = getattr(law, "mean", None)
    return own() if callable(own) else tabled_mean(law)


def tabled_mean(law: Any) -> Any:
    """Return the mean of a law of a family of this library; see `mean_of`."""
    name = type(law).__name__.removesuffix("Distribution")
    if name not in _MEANS:
        raise ContractError(f"the mean of a {name} is not known; draw values instead, or give it a method mean()")
    value = _MEANS[name](law)
    return value if isinstance(value, np.ndarray) else float(value)


def variance_of(law: Any) -> float:
    """Return the variance of a law of one number; NaN or infinity where the integral does not exist or is infinite.

    Raises
    ------
    ContractError
        For a law of anything else, and for an angle.

    Examples
    --------
    >>> from mixle.stats import GammaDistribution
    >>> variance_of(GammaDistribution(2.0, 3.0))
    18.0
    """
    name = type(law).__name__.removesuffix("Distribution")
    if name not in _VARIANCES:
        raise ContractError(f"the variance of a {name} is not known; draw values instead")
    return float(_VARIANCES[name](law))


def label_shares(law: Any) -> dict[Any, float] | None:
    """Return the probability of each label of a law of labels, None for any other law.

    Parameters
    ----------
    law : distribution
        The law.

    Examples
    --------
    >>> from mixle.stats import BernoulliDistribution
    >>> label_shares(BernoulliDistribution(0.25))
    {True: 0.25, False: 0.75}
    """
    name = type(law).__name__.removesuffix("Distribution")
    if name == "Categorical":
        return {label: float(p) for label, p in law.pmap.items()}
    if name == "IntegerCategorical":
        return {int(law.min_val) + i: float(p) for i, p in enumerate(law.p_vec)}
    if name == "PointMass":
        return {law.value: 1.0}
    return {True: float(law.p), False: 1.0 - float(law.p)} if name == "Bernoulli" else None


def _mixture(law: Any) -> Any:
    parts = [np.multiply(w, mean_of(one)) for w, one in zip(law.w, law.components, strict=True)]
    total = np.sum(parts, axis=0)
    return total if np.ndim(total) else float(total)


def _dirichlet(alpha: Any, total: float = 1.0) -> np.ndarray:
    weights = np.asarray(alpha, float)
    return np.asarray(total * weights / weights.sum())


_MEANS: dict[str, Callable[[Any], Any]] = {
    "Bernoulli": lambda law: law.p,
    "Beta": lambda law: law.a / (law.a + law.b),
    "Binomial": lambda law: (law.min_val or 0) + law.n * law.p,
    "DiagonalGaussian": lambda law: np.array(law.mu, float),
    "Dirichlet": lambda law: _dirichlet(law.alpha),
    "DirichletMultinomial": lambda law: _dirichlet(law.alpha, float(law.n)),
    "Exponential": lambda law: law.beta,
    "Gamma": lambda law: law.k * law.theta,
    "Gaussian": lambda law: law.mu,
    "GaussianMixture": _mixture,
    "Geometric": lambda law: 1.0 / law.p,
    "Gumbel": lambda law: law.loc + _EULER * law.scale,
    "HalfNormal": lambda law: law.sigma * math.sqrt(2.0 / math.pi),
    "HeterogeneousMixture": _mixture,
    "IntegerCategorical": lambda law: float(np.dot(law.min_val + np.arange(len(law.p_vec)), law.p_vec)),
    "InverseGamma": lambda law: law.beta / (law.alpha - 1.0) if law.alpha > 1.0 else math.inf,
    "InverseGaussian": lambda law: law.mu,
    "Laplace": lambda law: law.mu,
    "LogGaussian": lambda law: math.exp(law.mu + 0.5 * law.sigma2),
    "Logistic": lambda law: law.loc,
    "Mixture": _mixture,
    "MultivariateGaussian": lambda law: np.array(law.mu, float),
    "MultivariateStudentT": lambda law: np.array(law.loc, float) * (1.0 if law.dof > 1.0 else math.nan),
    "NegativeBinomial": lambda law: law.r * (1.0 - law.p) / law.p,
    "Optional": lambda law: mean_of(law.dist),
    "Pareto": lambda law: law.alpha * law.xm / (law.alpha - 1.0) if law.alpha > 1.0 else math.inf,
    "Poisson": lambda law: law.lam,
    "Rayleigh": lambda law: law.sigma * math.sqrt(math.pi / 2.0),
    "SkewNormal": lambda law: law.loc + law.scale * _lean(law) * math.sqrt(2.0 / math.pi),
    "StudentT": lambda law: law.loc if law.df > 1.0 else math.nan,
    "Uniform": lambda law: 0.5 * (law.low + law.high),
    "VonMises": lambda law: law.mu,
    "Weibull": lambda law: law.scale * math.gamma(1.0 + 1.0 / law.shape),
}


def _lean(law: Any) -> float:
    """Return δ = α / √(1 + α²) of a skew-normal law."""
    return float(law.shape / math.hypot(1.0, law.shape))


def _heavy(shape: float, value: Callable[[], float]) -> float:
    """Return a variance that is infinite up to the shape 2."""
    return value() if shape > 2.0 else math.inf


def _of_weibull(law: Any) -> float:
    first, second = (math.gamma(1.0 + k / law.shape) for k in (1.0, 2.0))
    return float(law.scale**2 * (second - first**2))


def _of_labels(law: Any) -> float:
    x = np.arange(len(law.p_vec)) - float(np.dot(np.arange(len(law.p_vec)), law.p_vec))
    return float(np.dot(x * x, law.p_vec))


_VARIANCES: dict[str, Callable[[Any], float]] = {
    "Bernoulli": lambda law: law.p * (1.0 - law.p),
    "Beta": lambda law: law.a * law.b / ((law.a + law.b) ** 2 * (law.a + law.b + 1.0)),
    "Binomial": lambda law: law.n * law.p * (1.0 - law.p),
    "Exponential": lambda law: law.beta**2,
    "Gamma": lambda law: law.k * law.theta**2,
    "Gaussian": lambda law: law.sigma2,
    "Geometric": lambda law: (1.0 - law.p) / law.p**2,
    "Gumbel": lambda law: (math.pi * law.scale) ** 2 / 6.0,
    "HalfNormal": lambda law: law.sigma**2 * (1.0 - 2.0 / math.pi),
    "IntegerCategorical": _of_labels,
    "InverseGamma": lambda law: _heavy(law.alpha, lambda: law.beta**2 / ((law.alpha - 1.0) ** 2 * (law.alpha - 2.0))),
    "InverseGaussian": lambda law: law.mu**3 / law.lam,
    "Laplace": lambda law: 2.0 * law.b**2,
    "LogGaussian": lambda law: math.expm1(law.sigma2) * math.exp(2.0 * law.mu + law.sigma2),
    "Logistic": lambda law: (math.pi * law.scale) ** 2 / 3.0,
    "NegativeBinomial": lambda law: law.r * (1.0 - law.p) / law.p**2,
    "Pareto": lambda law: _heavy(
        law.alpha, lambda: law.alpha * law.xm**2 / ((law.alpha - 1.0) ** 2 * (law.alpha - 2.0))
    ),
    "Poisson": lambda law: law.lam,
    "Rayleigh": lambda law: law.sigma**2 * (2.0 - math.pi / 2.0),
    "SkewNormal": lambda law: law.scale**2 * (1.0 - 2.0 * _lean(law) ** 2 / math.pi),
    "StudentT": lambda law: math.nan if law.df <= 1.0 else _heavy(law.df, lambda: law.scale**2 * law.df / (law.df - 2)),
    "Uniform": lambda law: (law.high - law.low) ** 2 / 12.0,
    "Weibull": _of_weibull,
}
