"""The Pareto law: incomes, file sizes and other heavy tails above a threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.stats.domains import positive
from mixle.stats.leaf import Leaf, Rows, repaired
from mixle.stats.linear import inside
from mixle.stats.location_scale import PairDistribution, PairEstimator
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers
from mixle.stats.sums import block_sum

__all__ = ["ParetoDistribution", "ParetoEstimator", "ParetoSampler", "ParetoStatistic"]


class ParetoStatistic(NamedTuple):
    """Weight, weighted sum of the logarithms, and smallest number; without rows the last is None."""

    count: float  # type: ignore[assignment]
    sum_log: float
    low: float | None

    def scaled(self, c: float) -> ParetoStatistic:
        """Return the statistic with its sums times `c`; the smallest number stays unless nothing is left."""
        return ZERO if c == 0.0 else ParetoStatistic(self.count * c, self.sum_log * c, self.low)


ZERO = ParetoStatistic(0.0, 0.0, None)


class _Pareto(Leaf):
    name: ClassVar[str] = "Pareto"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name)
        x, outside = inside(x, x <= 0.0, 1.0)
        return Rows((x, np.log(x)), None, outside)

    def support(self) -> str:
        return "the numbers > 0"

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        x, log = rows.x
        start = math.log(dist.alpha) - math.log(dist.xm)
        return np.where(x >= dist.xm, start - (dist.alpha + 1.0) * (log - math.log(dist.xm)), -np.inf)

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> ParetoStatistic:
        x, log = rows.x
        kept = x if (weights > 0.0).all() else x[weights > 0.0]
        return ParetoStatistic(block_sum(weights), block_sum(log, weights), float(kept.min())) if kept.size else ZERO

    def merge(self, a: ParetoStatistic, b: ParetoStatistic) -> ParetoStatistic:
        lows = [low for low in (a.low, b.low) if low is not None]
        return ParetoStatistic(a.count + b.count, a.sum_log + b.sum_log, min(lows) if lows else None)

    def zero(self) -> ParetoStatistic:
        return ZERO

    def from_value(self, value: Any) -> ParetoStatistic:
        if isinstance(value, ParetoStatistic):
            return value
        count, sum_log, low = value
        return ParetoStatistic(float(count), float(sum_log), None if low is None or low == math.inf else float(low))


class ParetoSampler(NumberSampler):
    """Sampler of a `ParetoDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""
        with np.errstate(over="ignore"):
            drawn = self.dist.xm * np.exp(self.rng.exponential(1.0 / self.dist.alpha, size=size))
        return np.minimum(drawn, np.finfo(float).max)


class ParetoDistribution(PairDistribution):
    """Pareto distribution, ``α xmᵅ / x^(α+1)`` on the numbers x ≥ xm.

    Parameters
    ----------
    xm : float
        Smallest number, > 0.
    alpha : float
        Shape, > 0; the mean is finite where it is above 1.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, chapter 20, 1994.

    Examples
    --------
    >>> round(ParetoDistribution(1.0, 2.0).log_density(1.0), 12)
    0.69314718056
    >>> ParetoDistribution(1.0, 2.0).log_density(0.5)
    -inf
    """

    leaf = _Pareto()
    sampler_type = ParetoSampler
    _fields = ("xm", "alpha")

    def __init__(self, xm: float, alpha: float, name: str | None = None, keys: Any = None) -> None:
        self.xm = positive(xm, "xm of a Pareto")
        self.alpha = positive(alpha, "alpha of a Pareto")
        self._finish(name, keys)


class ParetoEstimator(PairEstimator):
    """Maximum-likelihood estimator of a `ParetoDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : (float, float), optional
        Smallest number and shape of the prior: its rows have the mean logarithm that these give.
    min_denom : float
        Smallest mean of log(x / xm); the shape is at most its reciprocal.
    name, keys
        Label and tying key.

    Notes
    -----
    xm is the smallest number of positive weight, and 1/α the mean of log(x / xm) (N. L. Johnson, S. Kotz,
    N. Balakrishnan, "Continuous Univariate Distributions" 1, 1994). Without data both are 1.

    Examples
    --------
    >>> ParetoEstimator().estimate(None, (2.0, 1.0, 1.0))
    ParetoDistribution(1.0, 2.0, name=None, keys=None)
    """

    leaf = _Pareto()
    domains = (positive, positive)
    _keyword_fields = ("pseudo_count", "suff_stat", "min_denom", "name", "keys")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: tuple[float, float] | None = None,
        min_denom: float = 1e-12,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        super().__init__(pseudo_count, suff_stat, name, keys)
        self.min_denom = positive(min_denom, "min_denom")

    def _estimate(self, stat: ParetoStatistic) -> ParetoDistribution:
        count, sum_log, low = stat
        if self.weighted_pair is not None:
            weight, xm, alpha = self.weighted_pair
            low = xm if low is None else min(low, xm)
            count, sum_log = count + weight, sum_log + weight * (math.log(xm) + 1.0 / alpha)
        if low is None or not count > 0.0:
            return ParetoDistribution(1.0, 1.0, self.name, self.keys)
        excess = sum_log / count - math.log(low)
        model = ParetoDistribution(low, 1.0 / max(excess, self.min_denom), self.name, self.keys)
        return repaired(model, "Pareto: the shape was held at its bound") if excess < self.min_denom else model
