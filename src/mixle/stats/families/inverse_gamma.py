"""The inverse gamma law of positive numbers: variances, rates and other reciprocals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.domains import positive, shape_parameter
from mixle.stats.families.gamma import LARGEST, SMALLEST, gamma_shape
from mixle.stats.kinds import LinearLeaf
from mixle.stats.leaf import LeafDistribution, Rows, repaired
from mixle.stats.linear import LinearEstimator, inside
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers
from mixle.stats.special import digamma

__all__ = ["InverseGammaDistribution", "InverseGammaEstimator", "InverseGammaSampler"]


class _InverseGamma(LinearLeaf):
    name: ClassVar[str] = "InverseGamma"
    width: ClassVar[int] = 2

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name)
        x, outside = inside(x, x < 1e-300, 1.0)
        return Rows((1.0 / x, np.log(x)), None, outside)

    def support(self) -> str:
        return "the numbers > 0 (those below 1e-300 count as 0)"

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        return (-dist.beta, -dist.alpha - 1.0), dist.alpha * math.log(dist.beta) - math.lgamma(dist.alpha)


class InverseGammaDistribution(LeafDistribution):
    """Inverse gamma distribution, ``βᵅ / Γ(α) x^(−α−1) exp(−β/x)`` on the numbers > 0.

    Parameters
    ----------
    alpha : float
        Shape, > 0.
    beta : float
        Scale, > 0; the mean is ``beta / (alpha − 1)`` where alpha > 1.
    name, keys
        Label and tying key.

    References
    ----------
    A. Gelman et al., "Bayesian Data Analysis", 2013, appendix A.

    Examples
    --------
    >>> round(InverseGammaDistribution(3.0, 2.0).log_density(1.0), 12)
    -0.61370563888
    """

    leaf = _InverseGamma()
    _fields = ("alpha", "beta")

    def __init__(self, alpha: float, beta: float, name: str | None = None, keys: Any = None) -> None:
        self.alpha = shape_parameter(alpha, "alpha of an InverseGamma")
        self.beta = positive(beta, "beta of an InverseGamma")
        self._finish(name, keys)

    def sampler(self, seed: int | None = None) -> InverseGammaSampler:
        """Return a sampler."""
        return InverseGammaSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> InverseGammaEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's means of 1/x and log x as a prior."""
        prior = None if pseudo_count is None else (self.alpha / self.beta, math.log(self.beta) - digamma(self.alpha))
        return InverseGammaEstimator(pseudo_count, prior, name=self.name, keys=self.keys)


class InverseGammaSampler(NumberSampler):
    """Sampler of an `InverseGammaDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,); draws whose reciprocal overflows become 1e300."""
        return self.dist.beta / np.maximum(self.rng.gamma(self.dist.alpha, 1.0, size=size), self.dist.beta * 1e-300)


class InverseGammaEstimator(LinearEstimator):
    """Maximum-likelihood estimator of an `InverseGammaDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : (float, float), optional
        Prior means of 1/x and of log x.
    threshold : float
        Relative change of the shape at which Newton's method stops.
    name, keys
        Label and tying key.

    Notes
    -----
    1/x has a gamma law of the same shape, which is fitted as `GammaEstimator` does. Without data α = β = 1.

    Examples
    --------
    >>> model = InverseGammaEstimator().estimate(None, (2.0, 2.0, 1.0))
    >>> round(model.alpha / model.beta, 12)
    1.0
    """

    leaf = _InverseGamma()
    features = 2
    _keyword_fields = ("pseudo_count", "suff_stat", "threshold", "name", "keys")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: tuple[float, float] | None = None,
        threshold: float = 1e-8,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        super().__init__(pseudo_count, suff_stat, name, keys)
        self.threshold = positive(threshold, "threshold")

    def _fit(self, means: list[float]) -> InverseGammaDistribution:
        reciprocal, log = means
        reciprocal = max(reciprocal, math.exp(max(min(-log, 709.0), -700.0)))  # no mean lies below the geometric one
        alpha = gamma_shape(math.log(reciprocal) + log, self.threshold)
        model = InverseGammaDistribution(alpha, alpha / reciprocal, self.name, self.keys)
        held = alpha in {SMALLEST, LARGEST}
        return repaired(model, "InverseGamma: the shape was held at its bound") if held else model

    def _without_data(self) -> InverseGammaDistribution:
        return InverseGammaDistribution(1.0, 1.0, self.name, self.keys)
