"""Location-scale laws with heavier tails than the normal, fitted by reweighting.

A law with density ``f(z) / scale``, ``z = (x − loc) / scale``, whose ``u(z) = −f'(z) / (z f(z))`` does not grow with
|z| is fitted by rounds of a normal fit in which each row has the weight u(z) under the last model. Each round raises
the likelihood: the normal law of variance ``scale² / u`` touches the log-density from below (K. Lange,
J. S. Sinsheimer, "Normal/independent distributions and their applications in robust regression", J. Comput. Graph.
Stat. 2, 1993).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.stats.leaf import Leaf, Rows
from mixle.stats.location_scale import LocationScaleEstimator
from mixle.stats.reading import read_numbers
from mixle.stats.sums import Moments, block_sum, merge_moments, raw_moments, weighted_moments

__all__ = ["LocationLeaf", "ReweightedEstimator", "ReweightedLeaf", "ReweightedSums", "first_kept"]


class ReweightedSums(NamedTuple):
    """Statistic of a reweighted fit.

    Attributes
    ----------
    count : float
        Sum of the weights w of the rows.
    plain : float
        The part of it that came without a model: those rows have u = 1.
    extra : float
        Σ w · (what else a family needs of a row).
    moments : Moments
        Moments of the rows with weights w · u.
    """

    count: float  # type: ignore[assignment]
    plain: float
    extra: float
    moments: Moments

    def scaled(self, c: float) -> ReweightedSums:
        """Return the statistic of weights times `c`."""
        return ReweightedSums(self.count * c, self.plain * c, self.extra * c, self.moments.scaled(c))


def first_kept(x: np.ndarray, weights: np.ndarray) -> Any:
    """Return the first row of positive weight, or 0.0."""
    kept = np.flatnonzero(weights > 0.0)
    if not kept.size:
        return 0.0
    return float(x[kept[0]]) if x.ndim == 1 else np.array(x[kept[0]], float)


class ReweightedLeaf(Leaf):
    """A location-scale law that is fitted by reweighting."""

    full: ClassVar[bool] = False

    @abstractmethod
    def reweight(self, dist: Any, rows: Rows) -> tuple[np.ndarray, np.ndarray | None]:
        """Return u of each row under `dist`, shape (n,), and what else is summed over the rows, or None."""

    @abstractmethod
    def centre(self, dist: Any) -> Any:
        """Return the location of `dist`."""

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> ReweightedSums:
        """Return the statistic of weighted rows; without a model every u is 1."""
        count = block_sum(weights)
        if dist is None:
            moments = weighted_moments(rows.x, weights, first_kept(rows.x, weights), self.full)
            return ReweightedSums(count, count, 0.0, moments)
        u, extra = self.reweight(dist, rows)
        moments = weighted_moments(rows.x, weights * u, self.centre(dist), self.full)
        return ReweightedSums(count, 0.0, 0.0 if extra is None else block_sum(extra, weights), moments)

    def merge(self, a: ReweightedSums, b: ReweightedSums) -> ReweightedSums:
        """Return the sum of both."""
        moments = merge_moments(a.moments, b.moments)
        return ReweightedSums(a.count + b.count, a.plain + b.plain, a.extra + b.extra, moments)

    def zero(self) -> ReweightedSums:
        """Return the statistic of no rows."""
        return ReweightedSums(0.0, 0.0, 0.0, Moments(0.0, 0.0, 0.0, 0.0))

    def from_value(self, value: Any) -> ReweightedSums:
        """Return the statistic, also of raw sums ``(Σwx, Σwx², Σw)`` without a model."""
        if isinstance(value, ReweightedSums):
            return value
        first, second, count = value
        return ReweightedSums(float(count), float(count), 0.0, raw_moments(first, second, float(count), self.full))


class LocationLeaf(ReweightedLeaf):
    """Laws of one number about a location `loc`."""

    def encode(self, rows: Sequence[Any]) -> np.ndarray:
        """Return the numbers, which are squared later."""
        return read_numbers(rows, self.name, squared=True)

    def centre(self, dist: Any) -> float:
        """Return the location."""
        return float(dist.loc)


class ReweightedEstimator(LocationScaleEstimator):
    """Estimator of a reweighted law of one number.

    Parameters
    ----------
    pseudo_count, suff_stat, min_scale, name, keys
        As for `LocationScaleEstimator`.
    """

    def _location_scale(self, stat: ReweightedSums, variance: float, mean_u: float) -> tuple[float, float] | None:
        """Return location and scale, or None without rows and prior.

        Parameters
        ----------
        stat : ReweightedSums
            The statistic.
        variance : float
            Variance of the law of scale 1, for rows that came without a model.
        mean_u : float
            Mean of u under the law itself: what a row of the prior weighs.
        """
        count, moments = stat.count, stat.moments
        plain = stat.plain / count if count > 0.0 else 0.0
        shrink = 1.0 + plain * (1.0 / variance - 1.0)  # rows without a model tell a variance, not a squared scale
        if self.weighted_pair is not None:
            weight, location, scale = self.weighted_pair
            mean_u = plain + (1.0 - plain) * mean_u
            prior = Moments(weight * mean_u, location, 0.0, weight * scale * scale / shrink)
            moments, count = merge_moments(moments, prior), count + weight
        if not count > 0.0:
            return None
        if moments.weight == 0.0:  # rows so far out that none has weight
            return 0.0, self.min_scale
        scatter = float(moments.scatter) * shrink
        return float(moments.mean), max(math.sqrt(scatter / count), self.min_scale)
