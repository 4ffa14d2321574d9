"""What every leaf family shares: payload rows, the kinds of statistics, accumulator, factory, encoder, estimator.

A family states its facts in a `Leaf`: how values are read, which *kind* its statistic is, how parameters become
natural parameters. Four kinds cover the exponential families here and stack over a component axis:

=========  ==========================================  =======================
kind       features of a row                           statistic
=========  ==========================================  =======================
square     x − c and (x − c)², column by column        `Moments`, diagonal
quadratic  x − c and all products of its entries       `Moments`, full
linear     a few numbers t(x)                          `LinearSums`
code       one of L labels                             `CodeCounts`
=========  ==========================================  =======================

Anything else is *general*: it brings an accumulator of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from mixle._limits import one_blas_thread
from mixle.errors import SupportError
from mixle.stats.carried import CarriesPrior
from mixle.stats.contract import (
    Column,
    DataSequenceEncoder,
    ParameterEstimator,
    SequenceEncodableProbabilityDistribution,
    SequenceEncodableStatisticAccumulator,
    StatisticAccumulatorFactory,
)
from mixle.stats.quantiles import NumberLaw
from mixle.stats.refusals import LEAVE_OUT

__all__ = [
    "Leaf",
    "LeafAccumulator",
    "LeafDistribution",
    "LeafEncoder",
    "LeafEstimator",
    "LeafFactory",
    "Rows",
    "as_rows",
    "repaired",
]


class Rows(NamedTuple):
    """Encoded rows of a leaf.

    Attributes
    ----------
    x : ndarray, shape (n,) or (n, d), or tuple of ndarray, shape (n,)
        Values, codes, or the features of a linear leaf. A row outside the support holds a harmless value.
    base : ndarray, shape (n,), or None
        Logarithm of the base measure.
    outside : ndarray of bool, shape (n,), or None
        Rows outside the support of the family.
    labels : tuple or None
        Label of each code.
    """

    x: Any
    base: np.ndarray | None = None
    outside: np.ndarray | None = None
    labels: tuple[Any, ...] | None = None

    @property
    def size(self) -> int:
        """Return the number of rows."""
        if not isinstance(self.x, tuple):
            return len(self.x)
        return len(self.x[0]) if self.x else 0  # no row has said yet how many columns there are

    def cut(self, start: int, stop: int) -> Rows:
        """Return views of rows ``start:stop``."""
        return self.take(slice(start, stop))

    def take(self, part: Any) -> Rows:
        """Return the rows of a slice, or at some positions."""
        x = tuple(f[part] for f in self.x) if isinstance(self.x, tuple) else self.x[part]
        base, outside = self.base, self.outside
        return Rows(x, None if base is None else base[part], None if outside is None else outside[part], self.labels)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the arrays."""
        arrays = [*(self.x if isinstance(self.x, tuple) else (self.x,)), self.base, self.outside]
        return sum(int(a.nbytes) for a in arrays if a is not None)


def as_rows(payload: Any) -> Rows:
    """Return a leaf's payload as `Rows`; a bare array is the values.

    Raises
    ------
    TypeError
        For anything else: rows are encoded first.
    """
    if isinstance(payload, Rows):
        return payload
    if isinstance(payload, np.ndarray):
        return Rows(payload)
    raise TypeError(
        f"encoded rows are needed, not a {type(payload).__name__}; pass model.dist_to_encoder().seq_encode(rows)"
    )


class Leaf(ABC):
    """Facts of one family, shared by its five pieces. Stateless or small; equal by type and attributes."""

    name: ClassVar[str]
    kind: ClassVar[str] = "general"
    vector: ClassVar[bool] = False

    @abstractmethod
    def encode(self, rows: Sequence[Any]) -> Any:
        """Return the payload of `rows`: an array, or `Rows`."""

    @abstractmethod
    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        """Return the log-density without base measure and support, shape (n,)."""

    @abstractmethod
    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> Any:
        """Return the statistic of weighted rows; `dist` is a model of them or None."""

    def scores(self, dists: Sequence[Any], rows: Rows) -> np.ndarray | None:
        """Return `score` under each of K distributions, shape (K, n) and with its bits; None: one by one."""
        return None

    def accumulate_all(self, rows: Rows, weights: np.ndarray, dists: Sequence[Any]) -> list[Any] | None:
        """Return `accumulate` for each of K weightings (K, n), with its bits; None: one by one."""
        return None

    @abstractmethod
    def merge(self, a: Any, b: Any) -> Any:
        """Return the sum of two statistics, sharing nothing with `b`."""

    @abstractmethod
    def zero(self) -> Any:
        """Return the statistic of no rows."""

    def to_value(self, stat: Any) -> Any:
        """Return the documented layout of `stat` (a copy)."""
        return stat

    def from_value(self, value: Any) -> Any:
        """Return the statistic behind a documented layout (or a statistic itself)."""
        return value

    def member(self, stat: Any) -> Any:
        """Return one component's statistic, cut out of a stack, as `merge` knows it."""
        return stat

    def base(self, rows: Rows) -> np.ndarray | None:
        """Return the logarithm of the base measure of each row, or None for 0."""
        return rows.base

    def support(self) -> str:
        """Return the support in words, for messages."""
        return "its support"

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        """Return rows as columns for a start."""
        rows = as_rows(payload).cut(start, stop)
        if rows.labels is not None:
            return [Column(rows.x, rows.labels)]
        x = rows.x[0] if isinstance(rows.x, tuple) else rows.x
        if x.shape == (0, 0):
            return [Column(np.zeros(0), wide=True)]
        return [Column(np.asarray(x[:, j])) for j in range(x.shape[1])] if x.ndim == 2 else [Column(np.asarray(x))]

    def refuse(self, payload: Any, weights: np.ndarray) -> None:
        """Raise `SupportError` for the first weighted row outside the support."""
        outside = as_rows(payload).outside
        if outside is not None:
            bad = np.flatnonzero(outside & (weights > 0.0))
            if bad.size:
                raise SupportError(f"the value is outside {self.support()}; {LEAVE_OUT}", self.name, int(bad[0]))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return id(type(self))


class LeafEncoder(DataSequenceEncoder):
    """Encoder of a leaf family."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf

    @property
    def row_form(self) -> str:
        """Return how a table's row is read: as a "tuple" of its columns by a vector family, else as one "value"."""
        return "tuple" if self.leaf.vector else "value"

    def seq_encode(self, rows: Sequence[Any]) -> Any:
        """Encode rows; see the family for what it accepts."""
        return self.leaf.encode(rows)

    def row_count(self, payload: Any) -> int:
        """Return the number of rows of `payload`."""
        return as_rows(payload).size

    def nbytes(self, payload: Any) -> int:
        """Return the bytes held by `payload`."""
        return as_rows(payload).nbytes

    def slice(self, payload: Any, start: int, stop: int) -> Any:
        """Return views of rows ``start:stop``."""
        return payload[start:stop] if isinstance(payload, np.ndarray) else payload.cut(start, stop)

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        """Return rows ``start:stop`` as columns."""
        return self.leaf.columns(payload, start, stop)

    def __str__(self) -> str:
        return f"{self.leaf.name}DataEncoder"


class LeafAccumulator(SequenceEncodableStatisticAccumulator):
    """Accumulator of a leaf family: the family's statistic and its tying key."""

    def __init__(self, leaf: Leaf, name: str | None = None, keys: Any = None) -> None:
        self.leaf, self.name, self.keys = leaf, name, keys
        self.stat = leaf.zero()

    def seq_update(self, x: Any, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded rows.

        Raises
        ------
        SupportError
            If a row of positive weight lies outside the support.
        """
        self.leaf.refuse(x, weights)
        self.stat = self.leaf.merge(self.stat, self.leaf.accumulate(as_rows(x), weights, self.known(estimate)))

    def known(self, model: Any) -> Any:
        """Return `model` if it is of this family."""
        return model if getattr(getattr(model, "leaf", None), "name", None) == self.leaf.name else None

    def seq_initialize(self, x: Any, weights: np.ndarray, rng: Any) -> None:
        """Add encoded rows; a leaf needs no random start."""
        self.seq_update(x, weights, None)

    def supported_rows(self, x: Any) -> np.ndarray | None:
        """Return which encoded rows the family supports, shape (n,), or None for all."""
        outside = as_rows(x).outside
        return None if outside is None else ~outside

    def combine(self, suff_stat: Any) -> LeafAccumulator:
        """Add another statistic of this family."""
        self.stat = self.leaf.merge(self.stat, self.leaf.from_value(suff_stat))
        return self

    def value(self) -> Any:
        """Return the statistic in the family's documented layout."""
        return self.leaf.to_value(self.stat)

    def from_value(self, x: Any) -> LeafAccumulator:
        """Replace the statistic."""
        self.stat = self.leaf.merge(self.leaf.zero(), self.leaf.from_value(x))
        return self

    def acc_to_encoder(self) -> LeafEncoder:
        """Return the family's encoder."""
        return LeafEncoder(self.leaf)


class LeafFactory(StatisticAccumulatorFactory):
    """Factory of a leaf family's accumulators."""

    def __init__(self, leaf: Leaf, name: str | None = None, keys: Any = None) -> None:
        self.leaf, self.name, self.keys = leaf, name, keys

    def make(self) -> LeafAccumulator:
        """Return a fresh accumulator."""
        return LeafAccumulator(self.leaf, self.name, self.keys)


class LeafDistribution(CarriesPrior, NumberLaw, SequenceEncodableProbabilityDistribution):
    """A distribution whose facts stand in a `Leaf`."""

    leaf: Leaf
    _keyword_fields: ClassVar[tuple[str, ...]] = ("name", "keys")
    keys: Any = None

    def dist_to_encoder(self) -> LeafEncoder:
        """Return the family's encoder."""
        return LeafEncoder(self.leaf)

    def seq_log_density(self, x: Any) -> np.ndarray:
        """Return the log-densities of encoded rows, shape (n,)."""
        rows = as_rows(x)
        if not rows.size:  # how wide rows are may not be known
            return np.zeros(0)
        result = self.leaf.score(self, rows)
        base = self.leaf.base(rows)
        if base is not None:
            result = result + base
        if rows.outside is not None:
            result[rows.outside] = -np.inf
        return result

    def stack_node(self) -> tuple[str, Any]:
        """Return how this part stacks over a component axis."""
        return ("leaf", self.leaf)


class LeafEstimator(ParameterEstimator):
    """An estimator whose facts stand in a `Leaf`; a family writes `_estimate`."""

    leaf: Leaf
    _keyword_fields: ClassVar[tuple[str, ...]] = ("name", "keys")
    name: str | None = None
    keys: Any = None
    prior: Any = None

    def _take_prior(self, prior: Any, smoothed: bool) -> None:
        """Take a conjugate prior.

        Raises
        ------
        ValueError
            If it is not conjugate to this family, has no mode, or comes beside `pseudo_count`, a second prior.
        """
        if prior is None:
            return
        from mixle.stats.priors import check_prior

        self.prior = check_prior(prior, self.leaf.name)
        if smoothed:
            raise ValueError(f"{self.leaf.name}: prior and pseudo_count are two priors; pass one of them")

    def accumulator_factory(self) -> LeafFactory:
        """Return the factory of this family's accumulators."""
        return LeafFactory(self.leaf, self.name, self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> Any:
        """Return the fitted distribution; `nobs` is not needed, the statistic knows its weight.

        Under a prior it is the likeliest one, and carries the posterior as its prior.
        """
        stat = self.leaf.from_value(suff_stat)
        if self.prior is None:
            return self._estimate(stat)
        from mixle.stats.priors import CONJUGATES

        rule = CONJUGATES[self.leaf.name]
        model = rule.mode(self.prior, stat, self)
        model.prior = rule.posterior(self.prior, stat, self)
        return model

    def own_log_density(self, model: Any) -> float:
        """Return the log-density of the parameters of `model` under the prior; 0 without one."""
        if self.prior is None:
            return 0.0
        from mixle.stats.priors import CONJUGATES

        with one_blas_thread():
            return CONJUGATES[self.leaf.name].log_density(self.prior, model)

    def most_likely(self, stat: Any) -> Any:
        """Return the distribution that fits a statistic best, without a prior."""
        return self._estimate(stat)

    def law(self, *parameters: Any) -> Any:
        """Return the distribution of this family with these parameters, and the name and key of this estimator."""
        import mixle.stats

        return getattr(mixle.stats, f"{self.leaf.name}Distribution")(*parameters, name=self.name, keys=self.keys)

    @abstractmethod
    def _estimate(self, stat: Any) -> Any:
        """Return the distribution that fits the statistic."""

    def stack_node(self) -> tuple[str, Any]:
        """Return how this part stacks over a component axis."""
        return ("leaf", self.leaf)


D = TypeVar("D", bound=SequenceEncodableProbabilityDistribution)


def repaired(model: D, *notes: str) -> D:
    """Return `model`, its `numerical_repairs` telling what was done to its parameters."""
    model.__dict__["_repairs"] = notes
    return model
