"""A law of values that may be missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from mixle.stats.combinators.drawing import WrappingSampler
from mixle.stats.combinators.fields import plain_list
from mixle.stats.combinators.missing import OptionalEncoder, OptionalRows
from mixle.stats.combinators.wrapping import WrappingAccumulator, WrappingEstimator, WrappingFactory
from mixle.stats.contract import SequenceEncodableProbabilityDistribution
from mixle.stats.domains import fraction, nonnegative
from mixle.stats.enumeration import ranked, refuse, united
from mixle.stats.given import estimator_given, law_given
from mixle.stats.kinds import LOG_ZERO
from mixle.stats.sums import block_sum

__all__ = [
    "OptionalAccumulator",
    "OptionalDistribution",
    "OptionalEncoder",
    "OptionalEstimator",
    "OptionalRows",
    "OptionalSampler",
]


class OptionalAccumulator(WrappingAccumulator):
    """Statistic ``((missing weight, present weight), child's value)``."""

    part: ClassVar[str] = "dist"

    def __init__(self, accumulator: Any, missing_value: Any = None, keys: Any = None) -> None:
        super().__init__(accumulator, keys)
        self.missing_value = missing_value

    def wraps(self, x: OptionalRows) -> OptionalRows:
        """Return the rows: they are as the child sees them."""
        return x

    def weigh(self, x: OptionalRows, weights: np.ndarray, model: Any) -> np.ndarray:
        """Count missing and present rows; the child sees the present ones."""
        if x.present is None:
            self.sums[1] += block_sum(weights)
            return weights
        known: np.ndarray = weights[x.present]
        absent = np.ones(x.count, bool)
        absent[x.present] = False
        self.sums[0] += block_sum(weights[absent])
        self.sums[1] += block_sum(known)
        return known

    def pack(self, child: Any) -> tuple[tuple[float, float], Any]:
        """Return the statistic."""
        return (self.sums[0], self.sums[1]), child

    def unpack(self, value: Any) -> tuple[Any, tuple[float, ...]]:
        """Return the child's statistic and the weights."""
        weights, child = value
        return child, weights

    def acc_to_encoder(self) -> OptionalEncoder:
        """Return the encoder."""
        return OptionalEncoder(self.accumulator.acc_to_encoder(), self.missing_value)


class OptionalDistribution(SequenceEncodableProbabilityDistribution):
    """Law of a value that may be missing: ``p`` if it is, ``(1 − p) f(x)`` if it is there.

    A missing row scores log p, a present one log(1 − p) plus the child's log-density. With `p` None both terms are
    0: missing rows are marginalised.

    Parameters
    ----------
    dist : distribution
        Law of the values that are there.
    p : float, optional
        Probability that a value is missing.
    missing_value : object, optional
        What stands for a missing value. By default both None and NaN do. Any other is found by identity or equality;
        NaN matches NaN.
    name, keys
        Label and tying key of the whole.

    References
    ----------
    R. J. A. Little, D. B. Rubin, "Statistical Analysis with Missing Data", 2002.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> d = OptionalDistribution(PoissonDistribution(2.0), p=0.25)
    >>> d.density(None), round(d.density(0), 6)
    (0.25, 0.101501)
    """

    _fields = ("dist",)
    _keyword_fields = ("p", "missing_value", "name", "keys")

    def __init__(
        self, dist: Any, p: float | None = None, missing_value: Any = None, name: str | None = None, keys: Any = None
    ) -> None:
        self.dist = law_given(dist, "Optional")
        self.p = None if p is None else fraction(p, "p of an Optional")
        self.missing_value = missing_value
        self.name, self.keys = name, keys

    @property
    def has_p(self) -> bool:
        """Return whether the model says how often a value is missing."""
        return self.p is not None

    @property
    def log_missing(self) -> float:
        """Return log p (0 if `p` is None); a large negative number stands for log 0."""
        return 0.0 if self.p is None else math.log(self.p) if self.p > 0.0 else LOG_ZERO

    @property
    def log_present(self) -> float:
        """Return log(1 − p) (0 if `p` is None); a large negative number stands for log 0."""
        return 0.0 if self.p is None else math.log1p(-self.p) if self.p < 1.0 else LOG_ZERO

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the missing value among the present ones, the most probable first."""
        if self.p is None:
            raise refuse(self, "without p nothing is said of how often a value is missing")
        there = (
            ((value, score + self.log_present) for value, score in self.dist.outcomes()) if self.p < 1.0 else iter(())
        )
        return united([ranked([(self.missing_value, -math.inf if self.p == 0.0 else self.log_missing)]), there])

    def dist_to_encoder(self) -> OptionalEncoder:
        """Return the encoder."""
        return OptionalEncoder(self.dist.dist_to_encoder(), self.missing_value)

    def seq_log_density(self, x: OptionalRows) -> np.ndarray:
        """Return the log-densities, shape (n,)."""
        there = self.dist.seq_log_density(x.payload) + (-math.inf if self.p == 1.0 else self.log_present)
        if x.present is None:
            return np.asarray(there)
        result = np.full(x.count, -math.inf if self.p == 0.0 else self.log_missing)
        result[x.present] = there
        return result

    def sampler(self, seed: int | None = None) -> OptionalSampler:
        """Return a sampler."""
        return OptionalSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> OptionalEstimator:
        """Return the estimator; the probability of a missing value is estimated if this distribution has one."""
        return OptionalEstimator(
            self.dist.estimator(pseudo_count),
            self.missing_value,
            self.p is not None,
            pseudo_count,
            self.name,
            self.keys,
        )

    def stack_node(self) -> tuple[str, Any]:
        """Return how this part stacks over a component axis."""
        return ("optional", self.dist)


class OptionalSampler(WrappingSampler):
    """Sampler of an `OptionalDistribution`; without a `p` no value is missing."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a value, or a list of `size` values."""
        p = self.dist.p or 0.0
        missing = self.rng.random_sample(1 if size is None else size) < p
        values = [self.child.sample()] if size is None else plain_list(self.child.sample(size))
        drawn = [
            self.dist.missing_value if gone else value for gone, value in zip(missing.tolist(), values, strict=True)
        ]
        return drawn[0] if size is None else drawn


class OptionalEstimator(WrappingEstimator):
    """Estimator of an `OptionalDistribution`.

    Parameters
    ----------
    estimator : estimator
        Estimator of the values that are there.
    missing_value : object, optional
        What stands for a missing value; None and NaN by default.
    est_prob : bool
        Estimate the probability of a missing value; otherwise missing rows are marginalised.
    pseudo_count : float, optional
        Weight added to the missing and to the present rows.
    name, keys
        Label and tying key of what is fitted.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> OptionalEstimator(PoissonEstimator(), est_prob=True).estimate(None, ((1.0, 3.0), (3.0, 6.0))).p
    0.25
    """

    part: ClassVar[str] = "estimator"
    _laws: ClassVar[tuple[str, ...]] = ("dist",)
    _fields = ("estimator",)
    _keyword_fields = ("missing_value", "est_prob", "pseudo_count", "name", "keys")

    def __init__(
        self,
        estimator: Any,
        missing_value: Any = None,
        est_prob: bool = False,
        pseudo_count: float | None = None,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.estimator = estimator_given(estimator, "Optional")
        self.missing_value, self.est_prob = missing_value, bool(est_prob)
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.name, self.keys = name, keys

    def accumulator_factory(self) -> WrappingFactory:
        """Return the factory."""
        factory = self.estimator.accumulator_factory()
        return WrappingFactory(OptionalAccumulator, factory, self.missing_value, self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> OptionalDistribution:
        """Return the fitted distribution; the child is told the weight of present rows."""
        (missing, present), child = suff_stat
        dist = self.estimator.estimate(None if self.keys is not None else present, child)
        p = None
        if self.est_prob:
            extra = self.pseudo_count or 0.0
            total = 2.0 * extra + missing + present
            p = float((missing + extra) / total) if total > 0.0 else 0.5
        return OptionalDistribution(dist, p, self.missing_value, self.name, self.keys)

    def child_value(self, suff_stat: Any) -> Any:
        """Return the child's part of a statistic."""
        return suff_stat[1]

    def stack_node(self) -> tuple[str, Any]:
        """Return how this part stacks over a component axis."""
        return ("optional", self.estimator)

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return (("value", self.estimator),)
