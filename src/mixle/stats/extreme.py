"""The fit of extreme-value laws, shared by Weibull and Gumbel.

With t = log x a Weibull law, and with t = −x a Gumbel law, has the density ``k exp(k (t − m) − exp(k (t − m)))``. At
the best m the likelihood of k is concave, and needs ``S(k) = Σ w exp(k (t − m))``: no statistic of fixed size holds S
for all k. A round sums it at a few k around that of the last model, with two derivatives there, and the next k is the
best one that those bracket. Each round raises the likelihood, and the last ones converge as Newton's method does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixle.stats.domains import LARGEST_FLOAT
from mixle.stats.leaf import Rows
from mixle.stats.local_sums import LocalLeaf, LocalSums
from mixle.stats.sums import Moments, block_sum, merge_moments

__all__ = ["EULER", "ExtremeLeaf", "fit_extreme"]

EULER = 0.5772156649015329
#: Shapes at which S is summed, relative to that of the last model.
FACTORS = (1.0, 0.25, 0.7, 0.97, 1.03, 1.4, 4.0)
_LARGEST_EXPONENT = 700.0


class ExtremeLeaf(LocalLeaf):
    """A law whose t has the extreme-value density; the rows hold t, and `parameters` are k and m.

    The sums are S at the shapes `FACTORS` times k, then its first and second derivative at k, shape (9,).
    """

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        """Return the log-density of t."""
        k, m = self.parameters(dist)
        with np.errstate(over="ignore"):
            z = k * (rows.x - m)
            np.minimum(z, LARGEST_FLOAT, out=z)
            return np.asarray(math.log(k) + z - np.exp(z))

    def local_sums(self, x: np.ndarray, weights: np.ndarray, *at: float) -> np.ndarray:
        """Return S and its derivatives."""
        k, m = at
        y = x - m
        powers = [np.exp(np.minimum(factor * k * y, _LARGEST_EXPONENT)) for factor in FACTORS]
        slope = powers[0] * y
        return np.array([block_sum(power, weights) for power in (*powers, slope, slope * y)])


def fit_extreme(
    stat: LocalSums, prior: tuple[float, float, float] | None, bounds: tuple[float, float]
) -> tuple[float, float] | None:
    """Return k and m of a statistic, or None without rows and prior.

    Parameters
    ----------
    stat : LocalSums
        The statistic.
    prior : (float, float, float) or None
        Weight of the prior in rows, its k and its m.
    bounds : (float, float)
        Smallest and largest k.
    """
    weight, mean = stat.moments.weight, 0.0 if stat.moments.weight == 0.0 else stat.moments.mean
    if weight == 0.0 and prior is None:
        return None
    if stat.sums is None or stat.at is None:
        return _by_moments(stat.moments, prior, bounds)
    k0, m0 = stat.at
    shapes = k0 * np.array(FACTORS)
    sums = stat.sums.copy()
    if prior is not None:
        count, k, m = prior
        sums = sums + count * _expected(shapes, k, m, m0)
        mean = (weight * mean + count * (m - EULER / k)) / (weight + count)
        weight += count
    offset = mean - m0
    values = np.array([_likelihood(k, total, weight, offset) for k, total in zip(shapes, sums, strict=False)])
    if not math.isfinite(float(np.max(values))):
        return _by_moments(stat.moments, prior, bounds)
    new = min(max(_next_shape(shapes, values, sums, offset), bounds[0]), bounds[1])
    return new, m0 + _log_sum(new, shapes, sums, weight) / new


def _likelihood(k: float, total: float, weight: float, offset: float) -> float:
    """Return the mean log-likelihood of shape k at its best m."""
    return math.log(k) + k * offset - math.log(total / weight) - 1.0 if 0.0 < total < math.inf else -math.inf


def _next_shape(shapes: np.ndarray, values: np.ndarray, sums: np.ndarray, offset: float) -> float:
    """Return a shape that is no worse than ``shapes[0]``."""
    k, total, first, second = float(shapes[0]), sums[0], sums[len(FACTORS)], sums[len(FACTORS) + 1]
    best = int(np.argmax(values))
    if not (math.isfinite(values[0]) and math.isfinite(second)):  # rows so far out that their powers overflow
        return float(shapes[best])
    ratio = first / total
    slope, curvature = 1.0 / k + offset - ratio, -1.0 / (k * k) - (second / total - ratio * ratio)
    newton = k - slope / curvature if curvature < 0.0 else k
    if best == 0:  # the maximum lies between the neighbours of the last shape
        return float(min(max(newton, 0.97 * k), 1.03 * k))
    # any shape between the last one and one that is no worse is no worse: the likelihood is concave
    low, high = sorted((k, float(shapes[best])))
    return float(newton) if low <= newton <= high and abs(newton - k) < 0.1 * k else float(shapes[best])


def _log_sum(k: float, shapes: np.ndarray, sums: np.ndarray, weight: float) -> float:
    """Return log(S(k) / W): as summed, or by the series about the last shape."""
    for known, total in zip(shapes, sums, strict=False):
        if known == k:
            return math.log(total / weight)
    step = k - float(shapes[0])
    total, first, second = sums[0], sums[len(FACTORS)], sums[len(FACTORS) + 1]
    ratio = first / total
    series = step * ratio + 0.5 * step * step * (second / total - ratio * ratio)
    return math.log(total / weight) + float(series)


def _expected(shapes: np.ndarray, k: float, m: float, m0: float) -> np.ndarray:
    """Return the expectation, under a law (k, m), of what a row adds to the sums about m0."""
    from scipy.special import digamma, gamma, polygamma

    a = 1.0 + shapes / k
    power = gamma(a) * np.exp(shapes * (m - m0))
    # E[y exp(k₀ y)] and E[y² exp(k₀ y)] are derivatives of the moment generating function Γ(1 + s/k) exp(s (m − m0))
    slope = digamma(a[0]) / k + (m - m0)
    return np.concatenate([power, power[:1] * slope, power[:1] * (slope * slope + polygamma(1, a[0]) / (k * k))])


def _by_moments(
    moments: Moments, prior: tuple[float, float, float] | None, bounds: tuple[float, float]
) -> tuple[float, float]:
    if prior is not None:
        count, k, m = prior
        spread = count * math.pi**2 / (6.0 * k * k)
        moments = merge_moments(moments, Moments(count, m - EULER / k, 0.0, spread))
    deviation = math.sqrt(max(moments.scatter, 0.0) / moments.weight)
    k = math.pi / (math.sqrt(6.0) * deviation) if deviation > 0.0 else bounds[1]
    k = min(max(k, bounds[0]), bounds[1])
    return k, float(moments.mean) + EULER / k
