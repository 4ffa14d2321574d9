"""The half-normal law: the size of a normal error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.domains import scale_parameter
from mixle.stats.kinds import LinearLeaf
from mixle.stats.leaf import LeafDistribution, Rows, repaired
from mixle.stats.linear import LinearEstimator, inside
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers

__all__ = ["HalfNormalDistribution", "HalfNormalEstimator", "HalfNormalSampler", "root_mean_square"]

#: Smallest scale of a fit to zeros.
SMALLEST_SCALE = 1e-8


class _HalfNormal(LinearLeaf):
    name: ClassVar[str] = "HalfNormal"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name, squared=True)
        x, outside = inside(x, x < 0.0, 0.0)
        return Rows((x * x,), None, outside)

    def support(self) -> str:
        return "the numbers ≥ 0"

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        return (-0.5 / dist.sigma / dist.sigma,), 0.5 * math.log(2.0 / math.pi) - math.log(dist.sigma)


def root_mean_square(mean: float, floor: float) -> float:
    """Return the root of a mean of squares, or `floor` where it is smaller."""
    return max(math.sqrt(max(mean, 0.0)), floor)


class HalfNormalDistribution(LeafDistribution):
    """Half-normal distribution, ``√(2/π) / σ exp(−x² / 2σ²)`` on the numbers ≥ 0.

    Parameters
    ----------
    sigma : float
        Scale, > 0: the standard deviation of the normal law whose absolute value this is.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, chapter 13, 1994.

    Examples
    --------
    >>> round(HalfNormalDistribution(2.0).log_density(1.0), 12)
    -1.043938533205
    """

    leaf = _HalfNormal()
    _fields = ("sigma",)

    def __init__(self, sigma: float, name: str | None = None, keys: Any = None) -> None:
        self.sigma = scale_parameter(sigma, "sigma of a HalfNormal")
        self._finish(name, keys)

    def sampler(self, seed: int | None = None) -> HalfNormalSampler:
        """Return a sampler."""
        return HalfNormalSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> HalfNormalEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's mean square as a prior."""
        prior = None if pseudo_count is None else self.sigma * self.sigma
        return HalfNormalEstimator(pseudo_count, prior, self.name, self.keys)


class HalfNormalSampler(NumberSampler):
    """Sampler of a `HalfNormalDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""
        return np.abs(self.rng.normal(0.0, self.dist.sigma, size=size))


class HalfNormalEstimator(LinearEstimator):
    """Maximum-likelihood estimator of a `HalfNormalDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : float, optional
        Prior mean of x².
    name, keys
        Label and tying key.

    Notes
    -----
    σ² is the mean of x². σ has a floor of 1e-8. Without data σ is 1.

    Examples
    --------
    >>> HalfNormalEstimator().estimate(None, (2.0, 8.0))
    HalfNormalDistribution(2.0, name=None, keys=None)
    """

    leaf = _HalfNormal()

    def _fit(self, means: list[float]) -> HalfNormalDistribution:
        sigma = root_mean_square(means[0], SMALLEST_SCALE)
        model = HalfNormalDistribution(sigma, self.name, self.keys)
        return repaired(model, "HalfNormal: the scale was raised to its floor") if sigma == SMALLEST_SCALE else model

    def _without_data(self) -> HalfNormalDistribution:
        return HalfNormalDistribution(1.0, self.name, self.keys)
