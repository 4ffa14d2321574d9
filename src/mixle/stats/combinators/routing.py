"""What combinators share that send each row to one of several laws."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import RowError, SupportError
from mixle.stats.combinators.missing import OptionalEncoder, OptionalRows, of_all_rows
from mixle.stats.combinators.parts import PartsAccumulator, is_latent, supported, update_part
from mixle.stats.combinators.wrapping import kept_rows
from mixle.stats.contract import (
    Column,
    DataSequenceEncoder,
    ParameterEstimator,
    StatisticAccumulatorFactory,
)
from mixle.stats.refusals import LEAVE_OUT
from mixle.stats.starts import seed_start, start_components, take_columns
from mixle.stats.sums import block_sum

__all__ = [
    "RoutedAccumulator",
    "RoutedEncoder",
    "RoutedEstimator",
    "RoutedFactory",
    "RoutedRows",
    "code_type",
    "scatter",
]


class RoutedRows(NamedTuple):
    """Encoded rows that were sent to parts.

    Attributes
    ----------
    codes : ndarray of int, shape (n,)
        The branch of each row, −1 for a row of none.
    parts : tuple of OptionalRows
        What each part sees: each branch its own rows, parts after the branches all of them.
    """

    codes: np.ndarray
    parts: tuple[OptionalRows, ...]


def code_type(count: int) -> type[np.signedinteger[Any]]:
    """Return the smallest type of codes of `count` branches."""
    return np.int8 if count < 128 else np.int32


class RoutedEncoder(DataSequenceEncoder):
    """Encoder of `RoutedRows`; a combinator writes `seq_encode`."""

    def __init__(self, encoders: Sequence[DataSequenceEncoder]) -> None:
        self.inner = tuple(OptionalEncoder(encoder) for encoder in encoders)

    def branch(self, values: Sequence[Any], codes: np.ndarray, k: int) -> OptionalRows:
        """Return the rows of branch `k`, encoded.

        Raises
        ------
        RowError
            As the branch raises it, with the position among all rows.
        """
        return kept_rows(values, codes == k, self.inner[k].encoder)

    def row_count(self, payload: RoutedRows) -> int:
        """Return the number of rows."""
        return len(payload.codes)

    def nbytes(self, payload: RoutedRows) -> int:
        """Return the bytes held by all parts."""
        parts = zip(self.inner, payload.parts, strict=True)
        return int(payload.codes.nbytes) + sum(encoder.nbytes(part) for encoder, part in parts)

    def slice(self, payload: RoutedRows, start: int, stop: int) -> RoutedRows:
        """Return rows ``start:stop``."""
        parts = zip(self.inner, payload.parts, strict=True)
        return RoutedRows(payload.codes[start:stop], tuple(e.slice(part, start, stop) for e, part in parts))

    def labels(self) -> tuple[Any, ...]:
        """Return what the codes of a start's column of branches stand for."""
        return tuple(range(len(self.inner)))

    def columns(self, payload: RoutedRows, start: int, stop: int) -> list[Column] | None:
        """Return the branch of each row as a column of labels, and the columns of the parts that have some."""
        codes = payload.codes[start:stop]
        result = [Column(np.maximum(codes, 0), self.labels(), codes < 0 if (codes < 0).any() else None)]
        for i, (encoder, part) in enumerate(zip(self.inner, payload.parts, strict=True)):
            found = encoder.columns(part, start, stop) or []
            result += [column._replace(path=(i, *column.path)) for column in found]
        return result


class RoutedAccumulator(PartsAccumulator):
    """Statistics of the parts, and the weight that each of them saw."""

    name: ClassVar[str] = ""

    def __init__(self, accumulators: Sequence[Any], keys: Any = None) -> None:
        self.accumulators, self.keys = tuple(accumulators), keys
        self.nobs = [0.0] * len(self.accumulators)

    @abstractmethod
    def models(self, estimate: Any) -> tuple[Any, ...]:
        """Return the law of each part of a model."""

    @abstractmethod
    def pack(self, values: tuple[Any, ...]) -> Any:
        """Return the statistic, given those of the parts."""

    @abstractmethod
    def unpack(self, value: Any) -> tuple[tuple[Any, ...], tuple[float, ...]]:
        """Return (statistics, weights) of the parts."""

    def place(self, error: RowError, i: int) -> RowError:
        """Return the error of part `i` with the field it is in."""
        return error

    def _own(self, x: RoutedRows, weights: np.ndarray) -> list[np.ndarray]:
        """Count the weight of each part, and return the weights of its rows."""
        lost = np.flatnonzero((x.codes < 0) & (weights > 0.0))
        if lost.size:
            raise SupportError(f"the row belongs to no branch; {LEAVE_OUT}", self.name, int(lost[0]))
        own = [weights if part.present is None else weights[part.present] for part in x.parts]
        self.nobs = [total + block_sum(part) for total, part in zip(self.nobs, own, strict=True)]
        return own

    def seq_update(self, x: RoutedRows, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded rows, each to the parts that see it.

        Raises
        ------
        SupportError
            If a row of positive weight belongs to no branch.
        RowError
            As a part raises it, with the position among all rows.
        """
        models = (None,) * len(self.accumulators) if estimate is None else self.models(estimate)
        for i, (own, model) in enumerate(zip(self._own(x, weights), models, strict=True)):
            try:
                update_part(self.accumulators[i], x.parts[i].payload, own, model)
            except RowError as error:
                raise self.place(of_all_rows(error, x.parts[i].present), i) from None

    def seq_initialize(self, x: RoutedRows, weights: np.ndarray, rng: Any) -> None:
        """Add encoded rows before there is a model, each part with a seed of its own."""
        seeds = rng.randint(2**31, size=len(self.accumulators))
        self._begin(x, self._own(x, weights), (None,) * len(seeds), seeds)

    def start(self, enc: RoutedRows, draws: np.ndarray, centres: Any, p: float, weights: Any = None) -> None:
        """Add the rows whose draw is below `p`; parts with seeded centres start from them."""
        own = self._own(enc, np.where(draws < p, 1.0 if weights is None else weights, 0.0))
        self._begin(enc, own, centres, np.zeros(len(own), int))

    def _begin(self, x: RoutedRows, own: list[np.ndarray], centres: Sequence[Any], seeds: np.ndarray) -> None:
        from numpy.random import RandomState

        for i, (accumulator, part) in enumerate(zip(self.accumulators, x.parts, strict=True)):
            try:
                if centres[i] is None:
                    accumulator.seq_initialize(part.payload, own[i], RandomState(int(seeds[i])))
                else:
                    accumulator.start(part.payload, np.zeros(len(own[i])), centres[i], 1.0, own[i])
            except RowError as error:
                raise self.place(of_all_rows(error, part.present), i) from None

    def supported_rows(self, x: RoutedRows) -> np.ndarray | None:
        """Return which rows belong to a branch and are supported by all parts that see them, shape (n,)."""
        result = np.asarray(x.codes >= 0)
        for accumulator, part in zip(self.accumulators, x.parts, strict=True):
            mask = supported(accumulator, part.payload)
            if mask is not None:
                result[slice(None) if part.present is None else part.present] &= mask
        return result

    def combine(self, suff_stat: Any) -> RoutedAccumulator:
        """Add another statistic of the same branches."""
        values, nobs = self.unpack(suff_stat)
        self.nobs = [a + float(b) for a, b in zip(self.nobs, nobs, strict=True)]
        for accumulator, value in zip(self.accumulators, values, strict=True):
            accumulator.combine(value)
        return self

    def value(self) -> Any:
        """Return the statistic."""
        return self.pack(tuple(accumulator.value() for accumulator in self.accumulators))

    def from_value(self, x: Any) -> RoutedAccumulator:
        """Replace the statistic."""
        values, nobs = self.unpack(x)
        self.nobs = [float(part) for part in nobs]
        for accumulator, value in zip(self.accumulators, values, strict=True):
            accumulator.from_value(value)
        return self

    def scale(self, c: float) -> RoutedAccumulator:
        """Scale every part."""
        for accumulator in self.accumulators:
            accumulator.scale(c)
        self.nobs = [part * c for part in self.nobs]
        return self


class RoutedFactory(StatisticAccumulatorFactory):
    """Factory of `kind` accumulators over the parts' factories; `arguments` follow the parts."""

    def __init__(self, kind: type[RoutedAccumulator], estimators: Sequence[Any], *arguments: Any) -> None:
        self.kind, self.arguments = kind, arguments
        self.factories = tuple(estimator.accumulator_factory() for estimator in estimators)

    def make(self) -> RoutedAccumulator:
        """Return a fresh accumulator."""
        return self.kind([factory.make() for factory in self.factories], *self.arguments)


class RoutedEstimator(ParameterEstimator):
    """Estimator of a combinator that sends rows to parts."""

    @abstractmethod
    def parts(self) -> tuple[tuple[str, Any], ...]:
        """Return (name, estimator) of each part, in the order of the payload's."""

    @abstractmethod
    def build(self, laws: list[Any], suff_stat: Any) -> Any:
        """Return the model of these laws."""

    @abstractmethod
    def laws(self, model: Any) -> tuple[Any, ...]:
        """Return the law of each part of a model."""

    @abstractmethod
    def split(self, suff_stat: Any) -> tuple[tuple[Any, ...], tuple[float, ...]]:
        """Return (statistics, weights) of the parts."""

    def estimate(self, nobs: float | None, suff_stat: Any) -> Any:
        """Return the fitted distribution; each part is told the weight that it saw."""
        values, seen = self.split(suff_stat)
        told = zip(self.parts(), values, seen, strict=True)
        return self.build([part.estimate(weight, value) for (_, part), value, weight in told], suff_stat)

    def keep_empty(self, model: Any, previous: Any, suff_stat: Any) -> Any:
        """Return `model` with the empty components of its parts as they were in `previous`."""
        if type(previous) is not type(model) or not any(is_latent(part) for _, part in self.parts()):
            return model
        values, _ = self.split(suff_stat)
        kept = [
            part.keep_empty(new, old, value) if is_latent(part) else new
            for (_, part), new, old, value in zip(
                self.parts(), self.laws(model), self.laws(previous), values, strict=True
            )
        ]
        return self.build(kept, suff_stat)

    @property
    def start_parts(self) -> tuple[Any, ...]:
        """Return the parts that a start may seed centres for."""
        return tuple(part for _, part in self.parts())

    def seed_start(self, columns: list[Column], rng: Any) -> tuple[Any, ...] | None:
        """Return seeds of the parts' mixtures on the sampled rows that each of them sees, or None without any."""
        seeds: list[Any] = []
        for i, (_, part) in enumerate(self.parts()):
            own = [c._replace(path=c.path[1:]) for c in columns if c.path[:1] == (i,)]
            there = _seen(own) if own and start_components(part) else np.zeros(0, int)
            seeds.append(seed_start(part, list(take_columns(own, there)), rng) if there.size else None)
        return tuple(seeds) if any(seed is not None for seed in seeds) else None

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return self.parts()


def _seen(columns: list[Column]) -> np.ndarray:
    """Return the rows that have a value in some column."""
    gone = [np.zeros(len(c.values), bool) if c.missing is None else c.missing for c in columns]
    return np.flatnonzero(~np.logical_and.reduce(gone))


def scatter(laws: Sequence[Any], x: RoutedRows) -> np.ndarray:
    """Return the sum of the parts' log-densities for each row, -inf for a row of no branch, shape (n,)."""
    result = np.where(x.codes >= 0, 0.0, -math.inf)
    for law, part in zip(laws, x.parts, strict=True):
        own = law.seq_log_density(part.payload)
        if part.present is None:
            result += own
        else:
            result[part.present] += own
    return result
