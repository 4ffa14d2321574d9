"""The uniform law on an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.stats.domains import finite, nonnegative, parts_of, positive
from mixle.stats.leaf import Leaf, LeafDistribution, LeafEstimator, Rows, repaired
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers
from mixle.stats.sums import block_sum

__all__ = ["UniformDistribution", "UniformEstimator", "UniformSampler", "UniformStatistic"]


class UniformStatistic(NamedTuple):
    """Weight and bounds of the rows seen; without any the bounds are None.

    Attributes
    ----------
    count : float
        Sum of weights.
    low, high : float or None
        Smallest and largest row of positive weight.
    """

    count: float  # type: ignore[assignment]
    low: float | None
    high: float | None

    def scaled(self, c: float) -> UniformStatistic:
        """Return the statistic with its weight times `c`; bounds stay unless nothing is left."""
        return ZERO if c == 0.0 else UniformStatistic(self.count * c, self.low, self.high)


ZERO = UniformStatistic(0.0, None, None)


class _Uniform(Leaf):
    name: ClassVar[str] = "Uniform"

    def encode(self, rows: Sequence[Any]) -> np.ndarray:
        return read_numbers(rows, self.name)

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        inside = (rows.x >= dist.low) & (rows.x <= dist.high)
        return np.where(inside, -_log_width(dist.low, dist.high), -np.inf)

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> UniformStatistic:
        x = rows.x if (weights > 0.0).all() else rows.x[weights > 0.0]
        return UniformStatistic(block_sum(weights), float(x.min()), float(x.max())) if x.size else ZERO

    def merge(self, a: UniformStatistic, b: UniformStatistic) -> UniformStatistic:
        if a.low is None or a.high is None:
            return UniformStatistic(a.count + b.count, b.low, b.high)
        if b.low is None or b.high is None:
            return UniformStatistic(a.count + b.count, a.low, a.high)
        return UniformStatistic(a.count + b.count, min(a.low, b.low), max(a.high, b.high))

    def zero(self) -> UniformStatistic:
        return ZERO

    def from_value(self, value: Any) -> UniformStatistic:
        if isinstance(value, UniformStatistic):
            return value
        count, low, high = value
        if low is None or high is None or low > high:
            return UniformStatistic(float(count), None, None)
        return UniformStatistic(float(count), finite(low, "the lower bound"), finite(high, "the upper bound"))


def _log_width(low: float, high: float) -> float:
    width = high - low
    return math.log(width) if math.isfinite(width) else math.log(high / 2.0 - low / 2.0) + math.log(2.0)


class UniformDistribution(LeafDistribution):
    """Uniform distribution, ``1 / (high − low)`` on a closed interval.

    Parameters
    ----------
    low, high : float
        Bounds, low < high.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 2, chapter 26, 1995.

    Examples
    --------
    >>> d = UniformDistribution(0.0, 4.0)
    >>> d.density(4.0), d.density(5.0)
    (0.25, 0.0)
    """

    leaf = _Uniform()
    _fields = ("low", "high")

    def __init__(self, low: float, high: float, name: str | None = None, keys: Any = None) -> None:
        self.low, self.high = finite(low, "low of a Uniform"), finite(high, "high of a Uniform")
        if not self.low < self.high:
            raise ValueError(f"a Uniform needs low < high, not {self.low!r} and {self.high!r}")
        self._finish(name, keys)

    def sampler(self, seed: int | None = None) -> UniformSampler:
        """Return a sampler."""
        return UniformSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> UniformEstimator:
        """Return the estimator; with `pseudo_count` its interval covers this one."""
        prior = None if pseudo_count is None else (self.low, self.high)
        return UniformEstimator(pseudo_count, prior, name=self.name, keys=self.keys)


class UniformSampler(NumberSampler):
    """Sampler of a `UniformDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""
        drawn = self.dist.low + self.rng.random_sample(size) * (self.dist.high - self.dist.low)
        return np.clip(drawn, self.dist.low, self.dist.high)


class UniformEstimator(LeafEstimator):
    """Maximum-likelihood estimator of a `UniformDistribution`: the interval of the rows.

    Parameters
    ----------
    pseudo_count : float, optional
        If positive, the interval also covers `suff_stat`; how large it is makes no difference.
    suff_stat : (float, float), optional
        Prior bounds.
    min_width : float
        Least width; a narrower interval is widened about its middle.
    name, keys
        Label and tying key.

    Notes
    -----
    Without data the interval is [0, 1], or the prior's.

    Examples
    --------
    >>> UniformEstimator().estimate(None, (3.0, 1.0, 5.0))
    UniformDistribution(1.0, 5.0, name=None, keys=None)
    """

    leaf = _Uniform()
    _keyword_fields = ("pseudo_count", "suff_stat", "min_width", "name", "keys")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: tuple[float, float] | None = None,
        min_width: float = 1e-8,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None
        low, high = (None, None) if suff_stat is None else parts_of(suff_stat, "suff_stat", 2)
        if low is not None and high is not None:
            self.suff_stat = (finite(low, "suff_stat"), finite(high, "suff_stat"))
        self.min_width = positive(min_width, "min_width")
        self.name, self.keys = name, keys

    def _estimate(self, stat: UniformStatistic) -> UniformDistribution:
        low, high = stat.low, stat.high
        if self.pseudo_count and self.suff_stat is not None:
            low = self.suff_stat[0] if low is None else min(low, self.suff_stat[0])
            high = self.suff_stat[1] if high is None else max(high, self.suff_stat[1])
        if low is None or high is None:
            return UniformDistribution(0.0, 1.0, self.name, self.keys)
        if high - low >= self.min_width:
            return UniformDistribution(low, high, self.name, self.keys)
        middle = 0.5 * low + 0.5 * high
        low = min(low, middle - 0.5 * self.min_width, math.nextafter(low, -math.inf))
        high = max(high, middle + 0.5 * self.min_width, math.nextafter(high, math.inf))
        model = UniformDistribution(low, high, self.name, self.keys)
        return repaired(model, "Uniform: the interval was widened to its least width")
