"""The gamma law of positive numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.domains import LARGEST_FLOAT, finite, nonnegative, parts_of, positive, shape_parameter
from mixle.stats.kinds import LinearLeaf, LinearSums
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows, repaired
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers
from mixle.stats.special import digamma, trigamma

__all__ = ["GammaDistribution", "GammaEstimator", "GammaSampler", "gamma_shape"]

#: Estimated shapes stay within these: beyond, log x does not hold the digits of a shape, nor a score its own.
SMALLEST, LARGEST = 1e-8, 1e8
#: From here on the asymptotic series have every digit.
SERIES = 64.0


class _Gamma(LinearLeaf):
    name: ClassVar[str] = "Gamma"
    width: ClassVar[int] = 2

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name)
        outside = x <= 0.0
        if not outside.any():
            return Rows((x, np.log(x)))
        x = np.where(outside, 1.0, x)
        return Rows((x, np.log(x)), None, outside)

    def support(self) -> str:
        return "the numbers > 0"

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        return (max(-1.0 / dist.theta, -LARGEST_FLOAT), dist.k - 1.0), -math.lgamma(dist.k) - dist.k * math.log(
            dist.theta
        )


class GammaDistribution(LeafDistribution):
    """Gamma distribution, ``x^(k−1) exp(−x / θ) / (Γ(k) θᵏ)`` on the numbers > 0.

    Parameters
    ----------
    k : float
        Shape, > 0.
    theta : float
        Scale, > 0; the mean is ``k * theta``.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, chapter 17, 1994.

    Examples
    --------
    >>> GammaDistribution(1.0, 2.0).log_density(2.0)
    -1.6931471805599454
    >>> GammaDistribution(1.0, 2.0).log_density(0.0)
    -inf
    """

    leaf = _Gamma()
    _fields = ("k", "theta")

    def __init__(self, k: float, theta: float, name: str | None = None, keys: Any = None) -> None:
        self.k = shape_parameter(k, "k of a Gamma")
        self.theta = positive(theta, "theta of a Gamma")
        self._finish(name, keys)

    def sampler(self, seed: int | None = None) -> GammaSampler:
        """Return a sampler."""
        return GammaSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> GammaEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's mean and mean log as a prior."""
        if pseudo_count is None:
            return GammaEstimator(name=self.name, keys=self.keys)
        prior = (self.k * self.theta, digamma(self.k) + math.log(self.theta))
        return GammaEstimator((pseudo_count, pseudo_count), prior, name=self.name, keys=self.keys)


class GammaSampler(NumberSampler):
    """Sampler of a `GammaDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,); draws that underflow become the smallest normal number."""
        return np.maximum(self.rng.gamma(self.dist.k, self.dist.theta, size=size), np.finfo(float).tiny)


class GammaEstimator(LeafEstimator):
    """Maximum-likelihood estimator of a `GammaDistribution`.

    Parameters
    ----------
    pseudo_count : (float, float)
        Weights of the prior mean and of the prior mean log.
    suff_stat : (float, float)
        Prior mean and prior mean log.
    threshold : float
        Relative change of the shape at which Newton's method stops.
    name, keys
        Label and tying key.

    Notes
    -----
    The shape solves ``log k − ψ(k) = log mean − mean log`` by the generalised Newton step of Minka (2002, "Estimating
    a Gamma distribution"). It is kept within [1e-8, 1e8]. Without data the law is Gamma(1, 1).

    Examples
    --------
    >>> model = GammaEstimator().estimate(None, (2.0, 4.0, 1.0))
    >>> round(model.k * model.theta, 12)
    2.0
    """

    leaf = _Gamma()
    _keyword_fields = ("pseudo_count", "suff_stat", "threshold", "name", "keys")

    def __init__(
        self,
        pseudo_count: tuple[float, float] = (0.0, 0.0),
        suff_stat: tuple[float, float] = (1.0, 0.0),
        threshold: float = 1e-8,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        first, second = parts_of(pseudo_count, "pseudo_count", 2)
        mean, mean_log = parts_of(suff_stat, "suff_stat", 2)
        self.pseudo_count = (nonnegative(first, "pseudo_count"), nonnegative(second, "pseudo_count"))
        self.suff_stat = (positive(mean, "suff_stat"), finite(mean_log, "suff_stat"))
        self.threshold = positive(threshold, "threshold")
        self.name, self.keys = name, keys

    def _estimate(self, stat: LinearSums) -> GammaDistribution:
        count = float(stat.weight)
        if count + min(self.pseudo_count) <= 0.0:
            return GammaDistribution(1.0, 1.0, self.name, self.keys)
        (c_mean, c_log), (m0, l0) = self.pseudo_count, self.suff_stat
        mean = (float(stat.sums[0]) + c_mean * m0) / (count + c_mean)
        mean_log = (float(stat.sums[1]) + c_log * l0) / (count + c_log)
        mean = max(mean, math.exp(min(mean_log, 709.0)), np.finfo(float).tiny)  # no mean lies below the geometric one
        k = gamma_shape(math.log(mean) - mean_log, self.threshold)
        model = GammaDistribution(k, mean / k, self.name, self.keys)
        return repaired(model, "Gamma: the shape was held at its bound") if k in {SMALLEST, LARGEST} else model


def gamma_shape(gap: float, threshold: float = 1e-8) -> float:
    """Return the shape k with ``log k − ψ(k) = gap``, within the bounds of estimated shapes.

    Parameters
    ----------
    gap : float
        Log of the mean less the mean of the logs, ≥ 0 up to rounding.
    threshold : float
        Relative change at which to stop.

    Examples
    --------
    >>> round(gamma_shape(0.5772156649015329), 12)
    1.0
    """
    if not gap > 0.5 / LARGEST:
        return LARGEST
    k = (3.0 - gap + math.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
    for _ in range(100):
        previous = k
        excess, slope = _log_less_digamma(k), _reciprocal_less_trigamma(k)
        k = 1.0 / (1.0 / k + (excess - gap) / (k * k * slope))
        if abs(k - previous) <= threshold * k:
            break
    return min(max(k, SMALLEST), LARGEST)


def _log_less_digamma(k: float) -> float:
    """Return log k − ψ(k)."""
    if k < SERIES:
        return math.log(k) - digamma(k)
    y = 1.0 / (k * k)
    return 0.5 / k + y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y / 240)))


def _reciprocal_less_trigamma(k: float) -> float:
    """Return 1/k − ψ'(k), the derivative of `_log_less_digamma`."""
    if k < SERIES:
        return 1.0 / k - trigamma(k)
    y = 1.0 / (k * k)
    return -y * (0.5 + (1 / 6 - y * (1 / 30 - y * (1 / 42 - y / 30))) / k)
