"""The exponential law of waiting times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.domains import LARGEST_FLOAT, positive
from mixle.stats.kinds import LinearLeaf, LinearSums
from mixle.stats.leaf import LeafDistribution, Rows
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.one_parameter import OneParameterEstimator
from mixle.stats.reading import read_numbers

__all__ = ["ExponentialDistribution", "ExponentialEstimator", "ExponentialSampler"]


class _Exponential(LinearLeaf):
    name: ClassVar[str] = "Exponential"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name)
        outside = x < 0.0
        return Rows((np.where(outside, 0.0, x),), None, outside) if outside.any() else Rows((x,))

    def support(self) -> str:
        return "the numbers ≥ 0"

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        return (max(-1.0 / dist.beta, -LARGEST_FLOAT),), -math.log(dist.beta)


class ExponentialDistribution(LeafDistribution):
    """Exponential distribution, ``exp(−x / β) / β`` on the numbers ≥ 0.

    Parameters
    ----------
    beta : float
        Mean, > 0.
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        Law of the parameters; the estimator of this distribution fits under it.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, chapter 19, 1994.

    Examples
    --------
    >>> ExponentialDistribution(2.0).density(0.0)
    0.5
    >>> ExponentialDistribution(2.0).log_density(-1.0)
    -inf
    """

    leaf = _Exponential()
    _fields = ("beta",)

    def __init__(self, beta: float, name: str | None = None, keys: Any = None, prior: Any = None) -> None:
        self.beta = positive(beta, "beta of an Exponential")
        self._finish(name, keys, prior)

    def sampler(self, seed: int | None = None) -> ExponentialSampler:
        """Return a sampler."""
        return ExponentialSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> ExponentialEstimator:
        """Return the estimator; `pseudo_count` weighs this mean as a prior, unless it has one."""
        pseudo_count = self._weight(pseudo_count)
        prior = None if pseudo_count is None else self.beta
        return self._under_prior(ExponentialEstimator(pseudo_count, prior, self.name, self.keys))


class ExponentialSampler(NumberSampler):
    """Sampler of an `ExponentialDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""
        return self.rng.exponential(self.dist.beta, size=size)


class ExponentialEstimator(OneParameterEstimator):
    """Estimator of an `ExponentialDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior mean; without `suff_stat` the prior mean is 1.
    suff_stat : float, optional
        Prior mean.
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        `GammaDistribution` of the rate, one over the mean;
        the likeliest law is fitted, with the posterior as its prior.

    Notes
    -----
    Without data the mean is 1; a mean of zero is raised to 1e-12.

    Examples
    --------
    >>> ExponentialEstimator().estimate(None, (4.0, 6.0))
    ExponentialDistribution(1.5, name=None, keys=None)
    """

    leaf = _Exponential()

    def _prior(self, value: float) -> float:
        return positive(value, "suff_stat")

    def _estimate(self, stat: LinearSums) -> ExponentialDistribution:
        count, total = float(stat.weight), float(stat.sums[0])
        if self.pseudo_count:
            prior = 1.0 if self.suff_stat is None else self.suff_stat
            count, total = count + self.pseudo_count, total + self.pseudo_count * prior
        mean = total / count if count > 0.0 else 1.0
        return ExponentialDistribution(max(mean, 1e-300) if mean > 0.0 else 1e-12, self.name, self.keys)
