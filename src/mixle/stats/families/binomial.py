"""The binomial law: successes among a known number of trials."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.stats.contract import Column, DistributionSampler
from mixle.stats.domains import fraction, integer, nonnegative
from mixle.stats.enumeration import integers
from mixle.stats.kinds import LOG_ZERO, number_column
from mixle.stats.leaf import Leaf, LeafDistribution, LeafEstimator, Rows, as_rows
from mixle.stats.reading import integer_codes, read_integers
from mixle.stats.special import log_factorial

__all__ = ["BinomialDistribution", "BinomialEstimator", "BinomialSampler", "BinomialStatistic"]

#: An estimated probability keeps this distance from 0 and 1, so that a count not seen yet can still be explained.
MARGIN = 1e-12


class BinomialStatistic(NamedTuple):
    """Weight, weighted sum and range of the counts; without rows the range is None.

    Attributes
    ----------
    count : float
        Sum of weights.
    total : float
        Weighted sum of the counts.
    min_val, max_val : int or None
        Smallest and largest count of positive weight.
    """

    count: float  # type: ignore[assignment]
    total: float
    min_val: int | None
    max_val: int | None

    def scaled(self, c: float) -> BinomialStatistic:
        """Return the statistic with its sums times `c`; the range stays unless nothing is left."""
        return ZERO if c == 0.0 else BinomialStatistic(self.count * c, self.total * c, self.min_val, self.max_val)


ZERO = BinomialStatistic(0.0, 0.0, None, None)


class _Binomial(Leaf):
    name: ClassVar[str] = "Binomial"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x, broken = read_integers(rows, self.name)
        if not len(x):
            return Rows(np.zeros(0, np.int8), labels=())
        codes, labels = integer_codes(np.floor(x))
        return Rows(codes, None, broken, labels)

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        return [number_column(as_rows(payload).cut(start, stop))]

    def support(self) -> str:
        return "the integers"

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        if not rows.labels:
            return np.zeros(rows.size)
        x = np.array(rows.labels, float) - (dist.min_val or 0)
        inside = (x >= 0.0) & (x <= dist.n)
        x = np.where(inside, x, 0.0)
        table = log_factorial(np.full(1, float(dist.n)))[0] - log_factorial(x) - log_factorial(dist.n - x)
        with np.errstate(invalid="ignore"):
            table = table + _times(x, _log(dist.p)) + _times(dist.n - x, _log1m(dist.p))
        return np.asarray(np.where(inside & (table > LOG_ZERO), table, -np.inf)[rows.x])

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> BinomialStatistic:
        if not rows.labels:
            return ZERO
        counts = np.bincount(rows.x, weights, len(rows.labels))
        seen = np.flatnonzero(counts > 0.0)
        if not seen.size:
            return ZERO
        labels, counts = np.array(rows.labels)[seen], counts[seen]
        total = math.fsum((labels * counts).tolist())
        return BinomialStatistic(math.fsum(counts.tolist()), total, int(labels.min()), int(labels.max()))

    def merge(self, a: BinomialStatistic, b: BinomialStatistic) -> BinomialStatistic:
        if a.min_val is None or a.max_val is None:
            return BinomialStatistic(a.count + b.count, a.total + b.total, b.min_val, b.max_val)
        if b.min_val is None or b.max_val is None:
            return BinomialStatistic(a.count + b.count, a.total + b.total, a.min_val, a.max_val)
        low, high = min(a.min_val, b.min_val), max(a.max_val, b.max_val)
        return BinomialStatistic(a.count + b.count, a.total + b.total, low, high)

    def zero(self) -> BinomialStatistic:
        return ZERO

    def from_value(self, value: Any) -> BinomialStatistic:
        if isinstance(value, BinomialStatistic):
            return value
        count, total, low, high = value
        if high is None:
            return BinomialStatistic(float(count), float(total), None, None)
        return BinomialStatistic(float(count), float(total), int(low or 0), int(high))


def _log(p: float) -> float:
    return math.log(p) if p > 0.0 else -math.inf


def _log1m(p: float) -> float:
    return math.log1p(-p) if p < 1.0 else -math.inf


def _times(x: np.ndarray, log: float) -> np.ndarray:
    """Return x · log, 0 where x is 0."""
    return np.where(x > 0.0, x * log, 0.0)


class BinomialDistribution(LeafDistribution):
    """Binomial distribution, ``n! / (x! (n − x)!) pˣ (1 − p)ⁿ⁻ˣ`` on min_val, ..., min_val + n.

    Parameters
    ----------
    p : float
        Probability of a success, in [0, 1].
    n : int
        Number of trials, ≥ 0.
    min_val : int, optional
        Count that stands for no success; None means 0.
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        Law of the parameters; the estimator of this distribution fits under it.

    References
    ----------
    Johnson, Kemp and Kotz, "Univariate Discrete Distributions", chapter 3, 2005.

    Examples
    --------
    >>> round(BinomialDistribution(0.3, 5).log_density(1), 12)
    -1.021234667647
    >>> BinomialDistribution(0.3, 5).log_density(6)
    -inf
    """

    leaf = _Binomial()
    _fields = ("p", "n")
    _keyword_fields = ("min_val", "name", "keys")

    def __init__(
        self, p: float, n: int, min_val: int | None = None, name: str | None = None, keys: Any = None, prior: Any = None
    ) -> None:
        self.p = fraction(p, "p of a Binomial")
        self.n = integer(n, "n of a Binomial")
        if self.n < 0:
            raise ValueError(f"n of a Binomial must not be negative, is {n!r}")
        self.min_val = None if min_val is None else integer(min_val, "min_val of a Binomial")
        self._finish(name, keys, prior)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the counts, the most probable first."""
        low = self.min_val or 0
        return integers(self.log_density, low + min(self.n, int((self.n + 1) * self.p)), low, low + self.n)

    def sampler(self, seed: int | None = None) -> BinomialSampler:
        """Return a sampler."""
        return BinomialSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> BinomialEstimator:
        """Return the estimator, of this range; `pseudo_count` weighs this law's mean as a prior, unless it has one."""
        low, pseudo_count = self.min_val or 0, self._weight(pseudo_count)
        prior = None if pseudo_count is None else pseudo_count * self.p * self.n
        return self._under_prior(BinomialEstimator(low + self.n, low, pseudo_count, prior, self.name, self.keys))


class BinomialSampler(DistributionSampler):
    """Sampler of a `BinomialDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return an int, or a list of `size` ints."""
        drawn = self.rng.binomial(self.dist.n, self.dist.p, size=size) + (self.dist.min_val or 0)
        return int(drawn) if size is None else drawn.tolist()


class BinomialEstimator(LeafEstimator):
    """Maximum-likelihood estimator of the probability of a `BinomialDistribution`.

    Parameters
    ----------
    max_val : int, optional
        Largest count, ``min_val + n``; by default the largest one seen.
    min_val : int, optional
        Count that stands for no success; None is the smallest one seen.
    pseudo_count : float, optional
        Weight of the prior, in rows.
    suff_stat : float, optional
        Sum of the successes of those prior rows; by default half of their trials.
    name, keys
        Label and tying key.
    prior : BetaDistribution, optional
        Law of the probability.

    Notes
    -----
    The estimated probability stays 1e-12 away from 0 and 1. Without data it is 1/2.

    Examples
    --------
    >>> BinomialEstimator(4).estimate(None, (3.0, 6.0, 0, 4))
    BinomialDistribution(0.5, 4, min_val=0, name=None, keys=None)
    """

    leaf = _Binomial()
    _keyword_fields = ("max_val", "min_val", "pseudo_count", "suff_stat", "name", "keys", "prior")

    def __init__(
        self,
        max_val: int | None = None,
        min_val: int | None = 0,
        pseudo_count: float | None = None,
        suff_stat: float | None = None,
        name: str | None = None,
        keys: Any = None,
        prior: Any = None,
    ) -> None:
        self.max_val = None if max_val is None else integer(max_val, "max_val")
        self.min_val = None if min_val is None else integer(min_val, "min_val")
        if self.max_val is not None and self.min_val is not None and self.max_val < self.min_val:
            raise ValueError(f"max_val {max_val!r} is below min_val {min_val!r}; pass one from {min_val!r} on")
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None if suff_stat is None else nonnegative(suff_stat, "suff_stat")
        self.name, self.keys = name, keys
        self._take_prior(prior, bool(self.pseudo_count))

    def range_of(self, stat: BinomialStatistic) -> tuple[int, int]:
        """Return the count that stands for no success, and the number of trials.

        Raises
        ------
        ValueError
            If a count seen lies outside.
        """
        low = self.min_val if self.min_val is not None else (stat.min_val or 0)
        high = self.max_val if self.max_val is not None else low if stat.max_val is None else stat.max_val
        n = high - low
        if (stat.min_val is not None and stat.min_val < low) or (stat.max_val is not None and stat.max_val > high):
            raise ValueError(
                f"Binomial: the counts run from {stat.min_val} to {stat.max_val}, outside {low} to {high}; "
                "raise max_val or lower min_val"
            )
        return low, n

    def outcomes(self, stat: BinomialStatistic) -> tuple[float, float]:
        """Return the weight of the trials that succeeded, and of those that failed."""
        low, n = self.range_of(stat)
        successes = stat.total - stat.count * low
        return successes, stat.count * n - successes

    def of_outcomes(self, stat: BinomialStatistic, successes: float, trials: float) -> BinomialDistribution:
        """Return the distribution that fits so many successes best, over the range of a statistic."""
        low, n = self.range_of(stat)
        p = min(max(successes / trials, MARGIN), 1.0 - MARGIN) if trials > 0.0 else 0.5
        return BinomialDistribution(p, n, low, self.name, self.keys)

    def _estimate(self, stat: BinomialStatistic) -> BinomialDistribution:
        low, n = self.range_of(stat)
        trials, successes = stat.count * n, stat.total - stat.count * low
        if self.pseudo_count:
            trials += self.pseudo_count * n
            successes += 0.5 * self.pseudo_count * n if self.suff_stat is None else self.suff_stat
        return self.of_outcomes(stat, successes, trials)
