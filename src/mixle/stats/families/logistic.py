"""The logistic law: like a normal, with heavier tails."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from mixle.stats.leaf import Rows
from mixle.stats.location_scale import LocationScaleDistribution
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.scale_mixture import LocationLeaf, ReweightedEstimator, ReweightedSums

__all__ = ["LogisticDistribution", "LogisticEstimator", "LogisticSampler"]

VARIANCE = math.pi**2 / 3.0
#: Mean of tanh(z/2)/z under the law: 7 ζ(3) / 2π².
MEAN_U = 0.4262783988175058


class _Logistic(LocationLeaf):
    name: ClassVar[str] = "Logistic"

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        with np.errstate(over="ignore"):
            z = np.abs((rows.x - dist.loc) / dist.scale)
            return np.asarray(-z - 2.0 * np.log1p(np.exp(-z)) - math.log(dist.scale))

    def reweight(self, dist: Any, rows: Rows) -> tuple[np.ndarray, None]:
        with np.errstate(over="ignore"):
            z = np.abs((rows.x - dist.loc) / dist.scale)
        small = z < 1e-4
        z = np.where(small, 1.0, z)
        return np.where(small, 0.5, np.tanh(0.5 * z) / z), None


class LogisticSampler(NumberSampler):
    """Sampler of a `LogisticDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""
        return self.rng.logistic(self.dist.loc, self.dist.scale, size=size)


class LogisticDistribution(LocationScaleDistribution):
    """Logistic distribution, ``exp(−z) / s (1 + exp(−z))²`` with ``z = (x − loc) / s``.

    Parameters
    ----------
    loc : float
        Location, the mean.
    scale : float
        Scale s, > 0; the variance is ``s² π² / 3``.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 2, chapter 23, 1995.

    Examples
    --------
    >>> round(LogisticDistribution(1.0, 2.0).log_density(1.0), 12)
    -2.07944154168
    """

    leaf = _Logistic()
    sampler_type = LogisticSampler


class LogisticEstimator(ReweightedEstimator):
    """Estimator of a `LogisticDistribution`.

    Parameters
    ----------
    pseudo_count, suff_stat, min_scale, name, keys
        As for `LaplaceEstimator`.

    Notes
    -----
    Each round of EM weighs a row by ``tanh(z/2) / z`` under the last model, the tangent of the log-density as a
    function of z² (T. S. Jaakkola, M. I. Jordan, "Bayesian parameter estimation via variational methods", Stat.
    Comput. 10, 2000). `optimize` thus converges to the maximum-likelihood fit; rows without a model give the fit by
    moments. Without data the law has location 0 and scale 1.

    Examples
    --------
    >>> LogisticEstimator().estimate(None, (2.0, 4.0, 2.0)).loc
    1.0
    """

    leaf = _Logistic()

    def _estimate(self, stat: ReweightedSums) -> Any:
        loc, scale = self._location_scale(stat, VARIANCE, MEAN_U) or (0.0, 1.0)
        return self.above_floor(scale, loc)
