"""The negative binomial law of counts that vary more than a Poisson allows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import Column, DistributionSampler
from mixle.stats.domains import finite, fraction, nonnegative, positive, shape_parameter, truth
from mixle.stats.enumeration import integers
from mixle.stats.kinds import LOG_ZERO, CodeCounts, CodeLeaf, number_column
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows, as_rows, repaired
from mixle.stats.reading import read_counts
from mixle.stats.special import digammas, gammaln, rising_log

__all__ = ["NegativeBinomialDistribution", "NegativeBinomialEstimator", "NegativeBinomialSampler"]

#: Estimated sizes stay within these: beyond, the law is a Poisson to every digit a score holds.
SMALLEST, LARGEST = 1e-8, 1e8


class CountLeaf(CodeLeaf):
    """Laws of counts 0, 1, 2, ...: the labels are the counts that occur, and the statistic is their histogram."""

    open_labels: ClassVar[bool] = True

    def encode(self, rows: Sequence[Any]) -> Rows:
        """Return codes of the counts."""
        codes, outside, labels = read_counts(rows, self.name)
        return Rows(codes, None, outside, labels)

    def support(self) -> str:
        """Return the support in words."""
        return "the integers 0, 1, 2, ..."

    def model_labels(self, dist: Any) -> tuple[Any, ...]:
        """Return no labels: those of the rows are scored as they come."""
        return ()

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        """Return the counts as a column of numbers for a start."""
        return [number_column(as_rows(payload).cut(start, stop))]

    def to_value(self, stat: CodeCounts) -> tuple[float, float, dict[int, float]]:
        """Return (Σw, Σw x, {x: Σw})."""
        histogram = {int(x): float(w) for x, w in zip(stat.labels, stat.counts, strict=True)}
        count, total = math.fsum(histogram.values()), math.fsum(x * w for x, w in histogram.items())
        return count, total, histogram

    def from_value(self, value: Any) -> CodeCounts:
        """Return the histogram of ``(Σw, Σw x, {x: Σw})``."""
        if isinstance(value, CodeCounts):
            return value
        histogram = value[2]
        return CodeCounts(tuple(histogram), np.array(list(histogram.values()), float))


class _NegativeBinomial(CountLeaf):
    name: ClassVar[str] = "NegativeBinomial"

    def log_table(self, dist: Any, labels: tuple[Any, ...]) -> np.ndarray:
        x = np.array(labels, float)
        if dist.p == 1.0:
            return np.where(x == 0.0, 0.0, LOG_ZERO)
        return np.asarray(
            rising_log(x, dist.r) - gammaln(x + 1.0) + (dist.r * math.log(dist.p) + x * math.log1p(-dist.p))
        )


class NegativeBinomialDistribution(LeafDistribution):
    """Negative binomial distribution of counts 0, 1, 2, ..., ``Γ(x + r) / (x! Γ(r)) pʳ (1 − p)ˣ``.

    Parameters
    ----------
    r : float
        Size, > 0: the number of successes before which the failures are counted, or any positive number.
    p : float
        Probability of a success, in (0, 1]; the mean is ``r (1 − p) / p``, the variance the mean over p.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kemp and Kotz, "Univariate Discrete Distributions", chapter 5, 2005.

    Examples
    --------
    >>> round(NegativeBinomialDistribution(3.0, 0.4).log_density(1), 12)
    -2.16108553072
    >>> NegativeBinomialDistribution(3.0, 0.4).log_density(-1)
    -inf
    """

    leaf = _NegativeBinomial()
    _fields = ("r", "p")

    def __init__(self, r: float, p: float, name: str | None = None, keys: Any = None) -> None:
        self.r = shape_parameter(r, "r of a NegativeBinomial")
        self.p = fraction(p, "p of a NegativeBinomial")
        if self.p == 0.0:
            raise ValueError("p of a NegativeBinomial must be above 0")
        self._finish(name, keys)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the counts, the most probable first."""
        return integers(self.log_density, max(0, int((self.r - 1.0) * (1.0 - self.p) / self.p)), 0)

    def sampler(self, seed: int | None = None) -> NegativeBinomialSampler:
        """Return a sampler."""
        return NegativeBinomialSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> NegativeBinomialEstimator:
        """Return the estimator, of this size; `pseudo_count` weighs this distribution's p as a prior."""
        prior = None if pseudo_count is None else self.p
        return NegativeBinomialEstimator(
            self.r, pseudo_count, prior, estimate_r=pseudo_count is None, name=self.name, keys=self.keys
        )


class NegativeBinomialSampler(DistributionSampler):
    """Sampler of a `NegativeBinomialDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return an int, or an integer array of shape (size,)."""
        # as a Poisson of a gamma mean: numpy's own sampler refuses p = 1
        scale = (1.0 - self.dist.p) / self.dist.p
        drawn = self.rng.poisson(self.rng.gamma(self.dist.r, 1.0, size=size) * scale)
        return int(drawn) if size is None else drawn


class NegativeBinomialEstimator(LeafEstimator):
    """Maximum-likelihood estimator of a `NegativeBinomialDistribution`.

    Parameters
    ----------
    r : float
        Size without data, and where it is not estimated.
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : float, optional
        Prior value of p: the prior rows have the mean that the size and this p give.
    estimate_r : bool
        Whether the size is fitted.
    threshold : float
        Relative width of the interval at which the search for the size ends.
    name, keys
        Label and tying key.

    Notes
    -----
    The size is the root of the profile score, which has one if the variance exceeds the mean (K. Simonsen, 1976, "On
    the solution of a maximum-likelihood equation of the negative binomial distribution"); else it is held at 1e8, where
    the law is a Poisson. Without data the law has p = 1/2.

    Examples
    --------
    >>> NegativeBinomialEstimator(2.0, estimate_r=False).estimate(None, (2.0, 4.0, {0: 1.0, 4: 1.0}))
    NegativeBinomialDistribution(2.0, 0.5, name=None, keys=None)
    """

    leaf = _NegativeBinomial()
    _fields = ("r",)
    _keyword_fields = ("pseudo_count", "suff_stat", "estimate_r", "threshold", "name", "keys")

    def __init__(
        self,
        r: float = 1.0,
        pseudo_count: float | None = None,
        suff_stat: float | None = None,
        estimate_r: bool = True,
        threshold: float = 1e-8,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.r = shape_parameter(r, "r")
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None if suff_stat is None else fraction(suff_stat, "suff_stat")
        if self.suff_stat == 0.0:
            raise ValueError("suff_stat, a prior p of a NegativeBinomial, must be above 0")
        self.estimate_r = truth(estimate_r, "estimate_r")
        self.threshold = positive(finite(threshold, "threshold"), "threshold")
        self.name, self.keys = name, keys

    def _estimate(self, stat: CodeCounts) -> NegativeBinomialDistribution:
        x, w = np.array(stat.labels, float), np.asarray(stat.counts, float)
        count = math.fsum(w.tolist())
        if not count > 0.0:
            p = self.suff_stat if self.pseudo_count and self.suff_stat is not None else 0.5
            return NegativeBinomialDistribution(self.r, p, self.name, self.keys)
        total = math.fsum((x * w).tolist())
        r = self._size(x, w / count, total / count) if self.estimate_r else self.r
        if self.pseudo_count:
            mean = r * (1.0 / (0.5 if self.suff_stat is None else self.suff_stat) - 1.0)
            count, total = count + self.pseudo_count, total + self.pseudo_count * mean
        model = NegativeBinomialDistribution(r, r / (r + total / count), self.name, self.keys)
        held = self.estimate_r and r in {SMALLEST, LARGEST}
        return repaired(model, "NegativeBinomial: the size was held at its bound") if held else model

    def _size(self, x: np.ndarray, w: np.ndarray, mean: float) -> float:
        """Return the size that fits the shares `w` (L,) of the counts `x` (L,)."""
        from scipy.optimize import brentq

        if not mean > 0.0:
            return self.r

        def score(log_r: float) -> float:
            r = math.exp(log_r)
            return float(np.add.reduce(w * _rise(x, r))) - math.log1p(mean / r)

        low, high = math.log(SMALLEST), math.log(LARGEST)
        if not score(high) < 0.0:
            return LARGEST
        if not score(low) > 0.0:
            return SMALLEST
        return math.exp(brentq(score, low, high, xtol=self.threshold, rtol=1e-13))


def _rise(x: np.ndarray, r: float) -> np.ndarray:
    """Return ψ(x + r) − ψ(r), by the asymptotic series where r is so large that the terms cancel."""
    if r < 1e4:
        return np.asarray(digammas(x + r) - digammas(np.array(r)))
    high = x + r
    return np.asarray(np.log1p(x / r) - 0.5 * (1.0 / high - 1.0 / r) - (1.0 / high**2 - 1.0 / r**2) / 12.0)
