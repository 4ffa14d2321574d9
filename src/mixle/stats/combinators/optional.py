"""A law of values that may be missing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from mixle.errors import RowError
from mixle.stats.combinators.fields import plain_list
from mixle.stats.combinators.missing import OptionalEncoder, OptionalRows, of_all_rows
from mixle.stats.combinators.parts import is_latent, supported, update_part
from mixle.stats.contract import (
    Column,
    DistributionSampler,
    ParameterEstimator,
    SequenceEncodableProbabilityDistribution,
    SequenceEncodableStatisticAccumulator,
    StatisticAccumulatorFactory,
)
from mixle.stats.domains import fraction, nonnegative
from mixle.stats.enumeration import ranked, refuse, united
from mixle.stats.kinds import LOG_ZERO
from mixle.stats.starts import seed_start, start_components, take_columns
from mixle.stats.sums import block_sum

__all__ = [
    "OptionalAccumulator",
    "OptionalDistribution",
    "OptionalEncoder",
    "OptionalEstimator",
    "OptionalFactory",
    "OptionalRows",
    "OptionalSampler",
]


class OptionalAccumulator(SequenceEncodableStatisticAccumulator):
    """Statistic ``((missing weight, present weight), child's value)``."""

    def __init__(self, accumulator: Any, missing_value: Any = None, keys: Any = None) -> None:
        self.accumulator, self.missing_value, self.keys = accumulator, missing_value, keys
        self.missing, self.present = 0.0, 0.0

    def _count(self, x: OptionalRows, weights: np.ndarray) -> np.ndarray:
        if x.present is None:
            self.present += block_sum(weights)
            return weights
        known: np.ndarray = weights[x.present]
        absent = np.ones(x.count, bool)
        absent[x.present] = False
        self.missing += block_sum(weights[absent])
        self.present += block_sum(known)
        return known

    def seq_update(self, x: OptionalRows, weights: np.ndarray, estimate: Any) -> None:
        """Count missing and present rows; the child sees the present ones."""
        known = self._count(x, weights)
        try:
            update_part(self.accumulator, x.payload, known, None if estimate is None else estimate.dist)
        except RowError as error:
            raise of_all_rows(error, x.present) from None

    def seq_initialize(self, x: OptionalRows, weights: np.ndarray, rng: Any) -> None:
        """Count missing and present rows; the child is started on the present ones."""
        known = self._count(x, weights)
        try:
            self.accumulator.seq_initialize(x.payload, known, rng)
        except RowError as error:
            raise of_all_rows(error, x.present) from None

    def supported_rows(self, x: OptionalRows) -> np.ndarray | None:
        """Return which rows are missing or supported by the child, shape (n,), or None for all."""
        mask = supported(self.accumulator, x.payload)
        if mask is None or x.present is None:
            return mask
        result = np.ones(x.count, bool)
        result[x.present] = mask
        return result

    def start(self, enc: OptionalRows, draws: np.ndarray, centres: Any, p: float, weights: Any = None) -> None:
        """Add the rows whose draw is below `p`, the child's mixtures starting from seeded centres."""
        known = self._count(enc, np.where(draws < p, 1.0 if weights is None else weights, 0.0))
        try:
            self.accumulator.start(enc.payload, np.zeros(len(known)), centres, 1.0, known)
        except RowError as error:
            raise of_all_rows(error, enc.present) from None

    def combine(self, suff_stat: Any) -> OptionalAccumulator:
        """Add another statistic."""
        (missing, present), child = suff_stat
        self.missing, self.present = self.missing + float(missing), self.present + float(present)
        self.accumulator.combine(child)
        return self

    def value(self) -> tuple[tuple[float, float], Any]:
        """Return ``((missing weight, present weight), child's value)``."""
        return (self.missing, self.present), self.accumulator.value()

    def from_value(self, x: Any) -> OptionalAccumulator:
        """Replace the statistic."""
        (missing, present), child = x
        self.missing, self.present = float(missing), float(present)
        self.accumulator.from_value(child)
        return self

    def scale(self, c: float) -> OptionalAccumulator:
        """Scale the weights and the child."""
        self.accumulator.scale(c)
        self.missing, self.present = self.missing * c, self.present * c
        return self

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Pool the whole under its key, then the child under its own."""
        super().key_merge(stats_dict)
        self.accumulator.key_merge(stats_dict)

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take the pooled whole, then the child's pooled statistic."""
        super().key_replace(stats_dict)
        self.accumulator.key_replace(stats_dict)

    def acc_to_encoder(self) -> OptionalEncoder:
        """Return the encoder."""
        return OptionalEncoder(self.accumulator.acc_to_encoder(), self.missing_value)


class OptionalFactory(StatisticAccumulatorFactory):
    """Factory of `OptionalAccumulator`."""

    def __init__(self, factory: Any, missing_value: Any = None, keys: Any = None) -> None:
        self.factory, self.missing_value, self.keys = factory, missing_value, keys

    def make(self) -> OptionalAccumulator:
        """Return a fresh accumulator."""
        return OptionalAccumulator(self.factory.make(), self.missing_value, self.keys)


class OptionalDistribution(SequenceEncodableProbabilityDistribution):
    """Law of a value that may be missing.

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
    name : str, optional
        Label carried along.
    keys : hashable, optional
        Tying key of the whole.

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
        self.dist = dist
        self.p = None if p is None else fraction(p, "p of an Optional")
        self.missing_value = missing_value
        self.name, self.keys = name, keys

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


class OptionalSampler(DistributionSampler):
    """Sampler of an `OptionalDistribution`; without a `p` no value is missing."""

    def __init__(self, dist: OptionalDistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.child = dist.dist.sampler(self.new_seed())

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a value, or a list of `size` values."""
        p = self.dist.p or 0.0
        missing = self.rng.random_sample(1 if size is None else size) < p
        values = [self.child.sample()] if size is None else plain_list(self.child.sample(size))
        drawn = [
            self.dist.missing_value if gone else value for gone, value in zip(missing.tolist(), values, strict=True)
        ]
        return drawn[0] if size is None else drawn


class OptionalEstimator(ParameterEstimator):
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
    name : str, optional
        Label of the fitted distribution.
    keys : hashable, optional
        Tying key of the whole.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> OptionalEstimator(PoissonEstimator(), est_prob=True).estimate(None, ((1.0, 3.0), (3.0, 6.0))).p
    0.25
    """

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
        self.estimator, self.missing_value, self.est_prob = estimator, missing_value, bool(est_prob)
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.name, self.keys = name, keys

    def accumulator_factory(self) -> OptionalFactory:
        """Return the factory."""
        return OptionalFactory(self.estimator.accumulator_factory(), self.missing_value, self.keys)

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

    def keep_empty(self, model: OptionalDistribution, previous: Any, suff_stat: Any) -> OptionalDistribution:
        """Return `model` with the empty components of its child as they were in `previous`."""
        if not (is_latent(self.estimator) and isinstance(previous, OptionalDistribution)):
            return model
        kept = self.estimator.keep_empty(model.dist, previous.dist, suff_stat[1])
        return OptionalDistribution(kept, model.p, model.missing_value, model.name, model.keys)

    @property
    def start_parts(self) -> tuple[Any, ...]:
        """Return the parts that a start may seed centres for."""
        return (self.estimator,)

    def seed_start(self, columns: list[Column], rng: Any) -> Any:
        """Return seeds of the child's mixtures on the sampled rows that have a value."""
        masks = [column.missing for column in columns if column.missing is not None]
        if not start_components(self.estimator):
            return None
        there = ~np.logical_and.reduce(masks) if len(masks) == len(columns) and masks else None
        kept = columns if there is None or not there.any() else list(take_columns(columns, np.flatnonzero(there)))
        return seed_start(self.estimator, kept, rng)

    def stack_node(self) -> tuple[str, Any]:
        """Return how this part stacks over a component axis."""
        return ("optional", self.estimator)

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return (("value", self.estimator),)
