"""The Laplace law: the median and the mean distance from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.domains import finite, positive
from mixle.stats.leaf import Rows
from mixle.stats.local_sums import LocalLeaf, LocalSums
from mixle.stats.location_scale import LocationScaleEstimator, PairDistribution
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers

__all__ = ["LaplaceDistribution", "LaplaceEstimator", "LaplaceSampler"]

#: Edges of the bins, in scales from the last median: zero, and powers of two on both sides.
_POWERS = np.exp2(np.arange(-40.0, 6.0))
LADDER = np.concatenate([-_POWERS[::-1], [0.0], _POWERS])


class _Laplace(LocalLeaf):
    """`parameters` are b and mu; the sums are Σw and Σw(x − mu) of each bin between the edges mu + b · `LADDER`."""

    name: ClassVar[str] = "Laplace"

    def encode(self, rows: Sequence[Any]) -> np.ndarray:
        return read_numbers(rows, self.name, squared=True)

    def parameters(self, dist: Any) -> tuple[float, float]:
        return dist.b, dist.mu

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.asarray(-np.abs(rows.x - dist.mu) / dist.b - math.log(2.0) - math.log(dist.b))

    def local_sums(self, x: np.ndarray, weights: np.ndarray, *at: float) -> np.ndarray:
        b, mu = at
        y = x - mu
        bins = np.searchsorted(LADDER * b, y)
        count = len(LADDER) + 1
        return np.concatenate([np.bincount(bins, weights, count), np.bincount(bins, weights * y, count)])


class LaplaceSampler(NumberSampler):
    """Sampler of a `LaplaceDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""
        return self.rng.laplace(self.dist.mu, self.dist.b, size=size)


class LaplaceDistribution(PairDistribution):
    """Laplace distribution, ``exp(−|x − mu| / b) / 2b``.

    Parameters
    ----------
    mu : float
        Location, the median.
    b : float
        Scale, > 0, the mean distance from the median; the variance is ``2 b²``.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 2, chapter 24, 1995.

    Examples
    --------
    >>> round(LaplaceDistribution(1.0, 2.0).log_density(1.0), 12)
    -1.38629436112
    """

    leaf = _Laplace()
    sampler_type = LaplaceSampler
    _fields = ("mu", "b")

    def __init__(self, mu: float, b: float, name: str | None = None, keys: Any = None) -> None:
        self.mu = finite(mu, "mu of a Laplace")
        self.b = positive(b, "b of a Laplace")
        self._finish(name, keys)


class LaplaceEstimator(LocationScaleEstimator):
    """Estimator of a `LaplaceDistribution`.

    Parameters
    ----------
    pseudo_count, suff_stat : float and (float, float), optional
        Weight of the prior in rows, and its location and scale.
    min_scale : float
        Floor of the scale.
    name, keys
        Label and tying key.

    Notes
    -----
    The maximum-likelihood location is the weighted median, which needs all rows. Here each round of EM counts the rows
    in bins around the last median, the finer the nearer, and moves the median inside its bin: the sum of distances is
    convex, known at the edges, and never rises. `optimize` thus converges to the maximum-likelihood fit with a
    statistic of fixed size; rows without a model give the fit by moments. Without data mu is 0 and b is 1.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> model = optimize([0.0, 1.0, 2.0, 3.0, 100.0], LaplaceEstimator(), max_its=100)
    >>> round(model.mu, 6), round(model.b, 6)
    (2.0, 20.4)
    """

    leaf = _Laplace()

    def _estimate(self, stat: LocalSums) -> Any:
        mu, b = self._fit(stat)
        return self.above_floor(b, mu)

    def _fit(self, stat: LocalSums) -> tuple[float, float]:
        weight = stat.moments.weight
        prior = self.suff_stat if self.pseudo_count else None
        if weight == 0.0:
            return prior or (0.0, 1.0)
        if stat.sums is None or stat.at is None:
            mu, b = float(stat.moments.mean), math.sqrt(0.5 * stat.moments.scatter / weight)
        else:
            mu, b = _median(stat.sums, stat.at[0])
            mu += stat.at[1]
        if prior is not None and self.pseudo_count:
            total = weight + self.pseudo_count
            mu = (weight * mu + self.pseudo_count * prior[0]) / total
            b = (weight * b + self.pseudo_count * prior[1]) / total
        return mu, b


def _median(sums: np.ndarray, b: float) -> tuple[float, float]:
    """Return the median, told from the last one, and the mean distance from it."""
    edges = LADDER * b
    weights, firsts = np.split(sums, 2)
    total = float(np.add.reduce(weights))
    left, left_first = np.cumsum(weights)[:-1], np.cumsum(firsts)[:-1]
    right, right_first = total - left, float(np.add.reduce(firsts)) - left_first
    distance = (right_first - edges * right) - (left_first - edges * left)
    best = int(np.argmin(distance))
    found, least = float(edges[best]), float(distance[best])
    here = float(distance[len(LADDER) // 2])
    slope = left - right
    low = int(np.searchsorted(slope, 0.0))  # the first edge with at least half of the weight on its left
    if 0 < low < len(edges) and slope[low] > slope[low - 1]:
        share = float(-slope[low - 1] / (slope[low] - slope[low - 1]))
        bound = (1.0 - share) * float(distance[low - 1]) + share * float(distance[low])
        if bound <= here:
            found, least = float((1.0 - share) * edges[low - 1] + share * edges[low]), bound
    return found, least / total
