"""The geometric law: how many trials until the first success."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import DistributionSampler
from mixle.stats.domains import fraction
from mixle.stats.enumeration import integers
from mixle.stats.kinds import LinearLeaf, LinearSums, log_or_floor
from mixle.stats.leaf import LeafDistribution, Rows
from mixle.stats.one_parameter import OneParameterEstimator
from mixle.stats.reading import read_integers

__all__ = ["GeometricDistribution", "GeometricEstimator", "GeometricSampler"]

#: Estimated probabilities keep this distance from 0 and 1.
EDGE = 1e-12


class _Geometric(LinearLeaf):
    """The feature is x − 1, the number of failures, so that p = 1 scores x = 1 with 0 times log 0."""

    name: ClassVar[str] = "Geometric"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x, broken = read_integers(rows, self.name)
        outside = x < 1.0 if broken is None else (x < 1.0) | broken
        if not outside.any():
            return Rows((x - 1.0,))
        return Rows((np.where(outside, 0.0, x - 1.0),), None, outside)

    def support(self) -> str:
        return "the integers 1, 2, 3, ..."

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        return (math.log1p(-dist.p) if dist.p < 1.0 else float(log_or_floor(0.0)),), math.log(dist.p)

    def merge(self, a: LinearSums, b: LinearSums) -> LinearSums:
        # rounded as the documented layout (Σw, Σwx) rounds, so that value and from_value are exact inverses
        weight, failures = a.weight + b.weight, a.sums + b.sums
        return LinearSums(weight, (failures + weight) - weight)

    def to_value(self, stat: LinearSums) -> tuple[float, float]:
        return float(stat.weight), float(stat.sums[0] + stat.weight)

    def from_value(self, value: Any) -> LinearSums:
        if isinstance(value, LinearSums):
            return value
        return LinearSums(float(value[0]), np.array([float(value[1]) - float(value[0])]))


class GeometricDistribution(LeafDistribution):
    """Geometric distribution, ``p (1 − p)^(x−1)`` of the number of trials 1, 2, 3, ... until the first success.

    Parameters
    ----------
    p : float
        Probability of success, in (0, 1].
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        Law of the parameters; the estimator of this distribution fits under it.

    References
    ----------
    Johnson, Kemp and Kotz, "Univariate Discrete Distributions", chapter 5, 2005.

    Examples
    --------
    >>> GeometricDistribution(0.5).density(2)
    0.25
    >>> GeometricDistribution(0.5).density(0)
    0.0
    """

    leaf = _Geometric()
    _fields = ("p",)

    def __init__(self, p: float, name: str | None = None, keys: Any = None, prior: Any = None) -> None:
        self.p = fraction(p, "p of a Geometric")
        if self.p == 0.0:
            raise ValueError("p of a Geometric must be positive: with 0 no trial ever succeeds")
        self._finish(name, keys, prior)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the counts, the most probable first."""
        return integers(self.log_density, 1, 1)

    def sampler(self, seed: int | None = None) -> GeometricSampler:
        """Return a sampler."""
        return GeometricSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> GeometricEstimator:
        """Return the estimator; `pseudo_count` weighs this probability as a prior, unless it has one."""
        pseudo_count = self._weight(pseudo_count)
        prior = None if pseudo_count is None else self.p
        return self._under_prior(GeometricEstimator(pseudo_count, prior, self.name, self.keys))


class GeometricSampler(DistributionSampler):
    """Sampler of a `GeometricDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return an int, or an integer array of shape (size,)."""
        drawn = self.rng.geometric(self.dist.p, size=size)
        return int(drawn) if size is None else drawn


class GeometricEstimator(OneParameterEstimator):
    """Estimator of a `GeometricDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Number of trials that the prior is worth.
    suff_stat : float, optional
        Prior probability, in (0, 1]; 1 by default.
    name, keys
        Label and tying key.
    prior : BetaDistribution, optional
        As for `BernoulliEstimator`.

    Notes
    -----
    The probability is kept within [1e-12, 1 − 1e-12]; without data it is 0.5.

    Examples
    --------
    >>> GeometricEstimator().estimate(None, (4.0, 10.0))
    GeometricDistribution(0.4, name=None, keys=None)
    """

    leaf = _Geometric()

    def _prior(self, value: float) -> float:
        return GeometricDistribution(value).p

    def _estimate(self, stat: LinearSums) -> GeometricDistribution:
        count, failures = float(stat.weight), float(stat.sums[0])
        if self.pseudo_count:
            prior = 1.0 if self.suff_stat is None else self.suff_stat
            count += self.pseudo_count * prior
            failures += self.pseudo_count * (1.0 - prior)
        p = count / (count + failures) if count > 0.0 else 0.5
        return GeometricDistribution(min(max(p, EDGE), 1.0 - EDGE), self.name, self.keys)
