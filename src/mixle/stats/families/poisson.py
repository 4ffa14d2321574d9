"""The Poisson law of counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import DistributionSampler
from mixle.stats.domains import nonnegative
from mixle.stats.enumeration import integers
from mixle.stats.kinds import LinearLeaf, LinearSums, log_or_floor
from mixle.stats.leaf import LeafDistribution, Rows
from mixle.stats.one_parameter import OneParameterEstimator
from mixle.stats.reading import read_integers
from mixle.stats.special import log_factorial

__all__ = ["PoissonDistribution", "PoissonEstimator", "PoissonSampler"]


class _Poisson(LinearLeaf):
    name: ClassVar[str] = "Poisson"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x, broken = read_integers(rows, self.name)
        outside = x < 0.0 if broken is None else (x < 0.0) | broken
        if not outside.any():
            return Rows((x,), -log_factorial(x))
        x = np.where(outside, 0.0, x)
        return Rows((x,), -log_factorial(x), outside)

    def support(self) -> str:
        return "the integers 0, 1, 2, ..."

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        return (float(log_or_floor(dist.lam)),), -dist.lam


class PoissonDistribution(LeafDistribution):
    """Poisson distribution, ``λˣ exp(−λ) / x!`` of counts 0, 1, 2, ...

    Parameters
    ----------
    lam : float
        Mean, ≥ 0.
    name : str, optional
        Label carried along.
    keys : hashable, optional
        Tying key.
    prior : conjugate law, optional
        Law of the parameters; the estimator of this distribution fits under it.

    References
    ----------
    Johnson, Kemp and Kotz, "Univariate Discrete Distributions", chapter 4, 2005.

    Examples
    --------
    >>> PoissonDistribution(2.0).log_density(0)
    -2.0
    >>> PoissonDistribution(2.0).log_density(-1)
    -inf
    """

    leaf = _Poisson()
    _fields = ("lam",)

    def __init__(self, lam: float, name: str | None = None, keys: Any = None, prior: Any = None) -> None:
        self.lam = nonnegative(lam, "lam of a Poisson")
        self._finish(name, keys, prior)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the counts, the most probable first."""
        return integers(self.log_density, int(self.lam), 0)

    def sampler(self, seed: int | None = None) -> PoissonSampler:
        """Return a sampler."""
        return PoissonSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> PoissonEstimator:
        """Return the estimator; `pseudo_count` weighs this mean as a prior, unless it has one."""
        pseudo_count = self._weight(pseudo_count)
        prior = None if pseudo_count is None else self.lam
        return self._under_prior(PoissonEstimator(pseudo_count, prior, self.name, self.keys))


class PoissonSampler(DistributionSampler):
    """Sampler of a `PoissonDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return an int, or an integer array of shape (size,)."""
        draw = self.rng.poisson(self.dist.lam, size=size)
        return int(draw) if size is None else draw


class PoissonEstimator(OneParameterEstimator):
    """Maximum-likelihood estimator of a `PoissonDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior mean; without `suff_stat` it has no effect.
    suff_stat : float, optional
        Prior mean.
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        `GammaDistribution` of the mean;
        the likeliest law is fitted, with the posterior as its prior.

    Notes
    -----
    The mean has a floor of 1e-12, so that a component of zeros can still take part. Without data it is 1.

    Examples
    --------
    >>> PoissonEstimator().estimate(None, (4.0, 6.0))
    PoissonDistribution(1.5, name=None, keys=None)
    """

    leaf = _Poisson()

    def _prior(self, value: float) -> float:
        return nonnegative(value, "suff_stat")

    def _estimate(self, stat: LinearSums) -> PoissonDistribution:
        count, total = float(stat.weight), float(stat.sums[0])
        if self.pseudo_count and self.suff_stat is not None:
            count, total = count + self.pseudo_count, total + self.pseudo_count * self.suff_stat
        mean = total / count if count > 0.0 else 1.0
        return PoissonDistribution(mean if math.isfinite(mean) and mean > 1e-12 else 1e-12, self.name, self.keys)
