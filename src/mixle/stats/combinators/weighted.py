"""Rows that bring a weight of their own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats.combinators.drawing import WrappingSampler
from mixle.stats.combinators.fields import plain_list, read_parts, split_rows
from mixle.stats.combinators.missing import OptionalRows
from mixle.stats.combinators.wrapping import (
    WrappedRows,
    WrappingAccumulator,
    WrappingEncoder,
    WrappingEstimator,
    WrappingFactory,
)
from mixle.stats.contract import SequenceEncodableProbabilityDistribution
from mixle.stats.given import estimator_given, law_given
from mixle.stats.reading import read_numbers
from mixle.stats.sums import block_sum, signed_suff_stat

__all__ = [
    "WeightedAccumulator",
    "WeightedDistribution",
    "WeightedEncoder",
    "WeightedEstimator",
    "WeightedObservation",
    "WeightedSampler",
    "WeightedStatistics",
]


class WeightedObservation(NamedTuple):
    """A row of a `WeightedDistribution`.

    Parameters
    ----------
    value : object
        A row of the law of the values.
    weight : float
        What it counts in a fit, ≥ 0.

    Examples
    --------
    >>> WeightedObservation(3, 0.5)
    WeightedObservation(value=3, weight=0.5)
    """

    value: Any
    weight: float


class WeightedStatistics(NamedTuple):
    """Statistic of a `WeightedEstimator`: the child's, and the sum of the weights (of the row, times its own)."""

    child: Any
    effective_weight: float

    def scaled(self, c: float) -> WeightedStatistics:
        """Return the statistic of weights times `c`."""
        return WeightedStatistics(signed_suff_stat(self.child, c), self.effective_weight * c)


class WeightedEncoder(WrappingEncoder):
    """Encoder of pairs ``(value, weight)``."""

    row_form: ClassVar[str] = "tuple"

    def seq_encode(self, rows: Sequence[Any]) -> WrappedRows:
        """Encode rows.

        Raises
        ------
        RowError
            Naming the first row whose value (field 0) or weight (field 1) cannot be read.
        ArityError
            Naming the first row that is no pair.
        """
        values, attached = split_rows(rows, 2)
        weights, payload = read_parts(
            [(partial(_read_weights, attached), (1,)), (partial(self.encoder.seq_encode, values), (0,))]
        )
        return WrappedRows(OptionalRows(len(weights), None, payload), (weights,))


def _read_weights(attached: Sequence[Any]) -> np.ndarray:
    weights = read_numbers(attached, "Weighted")
    bad = np.flatnonzero(weights < 0.0)
    if bad.size:
        raise RowError(f"the weight {attached[int(bad[0])]!r} is negative; it must be ≥ 0", "Weighted", int(bad[0]))
    return weights


class WeightedAccumulator(WrappingAccumulator):
    """Accumulator of a `WeightedEstimator`."""

    width: ClassVar[int] = 1
    part: ClassVar[str] = "dist"

    def weigh(self, x: WrappedRows, weights: np.ndarray, model: Any) -> np.ndarray:
        """Return each row's weight times the one it brings."""
        both = np.asarray(weights * x.extra[0])
        self.sums[0] += block_sum(both)
        return both

    def pack(self, child: Any) -> WeightedStatistics:
        """Return the statistic."""
        return WeightedStatistics(child, self.sums[0])

    def unpack(self, value: Any) -> tuple[Any, tuple[float, ...]]:
        """Return the child's statistic and the weight."""
        child, weight = value
        return child, (weight,)

    def acc_to_encoder(self) -> WeightedEncoder:
        """Return the encoder."""
        return WeightedEncoder(self.accumulator.acc_to_encoder())


class WeightedDistribution(SequenceEncodableProbabilityDistribution):
    """Law of pairs ``(value, weight)``: the weight counts in a fit, not in the density.

    Parameters
    ----------
    dist : distribution
        Law of the values.
    name, keys
        Label and tying key of the whole.

    References
    ----------
    F. Hu, J. V. Zidek, "The weighted likelihood", Canadian Journal of Statistics 30, 2002.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> d = WeightedDistribution(PoissonDistribution(2.0))
    >>> d.log_density((0, 5.0)), d.log_density(WeightedObservation(0, 0.0))
    (-2.0, -2.0)
    """

    _fields = ("dist",)
    _keyword_fields = ("name", "keys")

    def __init__(self, dist: Any, name: str | None = None, keys: Any = None) -> None:
        self.dist, self.name, self.keys = law_given(dist, "Weighted"), name, keys

    def dist_to_encoder(self) -> WeightedEncoder:
        """Return the encoder."""
        return WeightedEncoder(self.dist.dist_to_encoder())

    def seq_log_density(self, x: WrappedRows) -> np.ndarray:
        """Return the log-densities of the values, shape (n,)."""
        return np.asarray(self.dist.seq_log_density(x.rows.payload))

    def sampler(self, seed: int | None = None) -> WeightedSampler:
        """Return a sampler of pairs of weight 1."""
        return WeightedSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> WeightedEstimator:
        """Return the estimator; `pseudo_count` weighs the child's parameters as a prior."""
        return WeightedEstimator(self.dist.estimator(pseudo_count), self.name, self.keys)


class WeightedSampler(WrappingSampler):
    """Sampler of a `WeightedDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a `WeightedObservation` of weight 1, or a list of `size`."""
        if size is None:
            return WeightedObservation(self.child.sample(), 1.0)
        return [WeightedObservation(value, 1.0) for value in plain_list(self.child.sample(size))]


class WeightedEstimator(WrappingEstimator):
    """Estimator of a `WeightedDistribution`: a row counts with its weight times the one it brings.

    Parameters
    ----------
    estimator : estimator
        Estimator of the law of the values.
    name, keys
        Label and tying key of what is fitted.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> from mixle.stats import GaussianEstimator
    >>> optimize([(1.0, 3.0), (5.0, 1.0)], WeightedEstimator(GaussianEstimator()), out=None).dist.mu
    2.0
    """

    _fields = ("estimator",)
    _keyword_fields = ("name", "keys")
    _laws: ClassVar[tuple[str, ...]] = ("dist",)
    part: ClassVar[str] = "estimator"

    def __init__(self, estimator: Any, name: str | None = None, keys: Any = None) -> None:
        self.estimator, self.name, self.keys = estimator_given(estimator, "Weighted"), name, keys

    def accumulator_factory(self) -> WrappingFactory:
        """Return the factory."""
        return WrappingFactory(WeightedAccumulator, self.estimator.accumulator_factory(), self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> WeightedDistribution:
        """Return the fitted distribution; the child is told the effective weight."""
        child, weight = suff_stat
        dist = self.estimator.estimate(None if self.keys is not None else float(weight), child)
        return WeightedDistribution(dist, self.name, self.keys)
