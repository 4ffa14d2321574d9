"""What records of independent fields share: one encoder, accumulator and factory over child parts."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np

from mixle.errors import ArityError, RowError
from mixle.stats.combinators.parts import PartsAccumulator, is_latent, supported, update_part
from mixle.stats.contract import (
    Column,
    DataSequenceEncoder,
    ParameterEstimator,
    StatisticAccumulatorFactory,
)
from mixle.stats.refusals import refuse_statistic, shown
from mixle.stats.starts import seed_fields
from mixle.stats.table import Table

__all__ = [
    "FieldsAccumulator",
    "FieldsEncoder",
    "FieldsEstimator",
    "FieldsFactory",
    "estimate_fields",
    "keep_fields",
    "plain_list",
    "read_parts",
    "split_rows",
]


def split_rows(rows: Sequence[Any], count: int) -> list[Sequence[Any]]:
    """Return `rows` of `count` fields as columns.

    Raises
    ------
    ArityError
        Naming the first row that has another number of fields, or is no row at all.
    """
    if isinstance(rows, Table) and not rows.mappings and len(rows.columns) == count and len(rows):
        return list(rows.columns)
    if isinstance(rows, np.ndarray):
        if rows.ndim == 2 and (rows.shape[1] == count or not len(rows)):
            return [rows[:, j] for j in range(count)] if len(rows) else [()] * count
        if rows.ndim == 1 and rows.dtype.kind in "OV":
            rows = rows.tolist()
    if not len(rows):
        return [()] * count
    if not set(map(type, rows)) <= {tuple, list}:
        for i, row in enumerate(rows):
            if isinstance(row, (str, bytes, bytearray, Mapping, AbstractSet)) or not np.iterable(row):
                advice = "use RecordEstimator for mappings" if isinstance(row, Mapping) else "pass a tuple"
                raise ArityError(f"{shown(row)} is not a row of {count} fields; {advice}", row=i)
    if set(map(len, rows)) != {count}:
        at = next(i for i, row in enumerate(rows) if len(row) != count)
        advice = "write None for what is missing" if len(rows[at]) < count else "give the model a law for each"
        raise ArityError(f"expected {count} fields, got {len(rows[at])}; {advice}", row=at)
    return list(zip(*rows, strict=True))


def read_parts(readers: Sequence[tuple[Callable[[], Any], tuple[Any, ...]]]) -> list[Any]:
    """Return what each reader returns.

    Parameters
    ----------
    readers : sequence of (callable, path)
        What reads a part of the rows, and the field that it reads, as a path.

    Raises
    ------
    RowError
        The one that names the first row, its field ahead of what it names.
    """
    found, errors = [], []
    for read, path in readers:
        try:
            found.append(read())
        except RowError as error:
            errors.append(error.inside(path[0]) if path else error)
    if errors:
        raise min(errors, key=lambda error: math.inf if error.row is None else error.row)
    return found


def plain_list(values: Any) -> list[Any]:
    """Return a sampled collection as a list of plain values (of arrays, for vector families)."""
    return values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else list(values)


class FieldsEncoder(DataSequenceEncoder):
    """Encoder of rows of independent fields: the payload is the tuple of the fields' payloads."""

    row_form: ClassVar[str] = "tuple"

    def __init__(self, encoders: Sequence[DataSequenceEncoder], fields: Sequence[Any] | None = None) -> None:
        self.encoders = tuple(encoders)
        self.fields = tuple(range(len(self.encoders))) if fields is None else tuple(fields)

    def split(self, rows: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the rows as columns."""
        return split_rows(rows, len(self.encoders))

    def seq_encode(self, rows: Sequence[Any]) -> tuple[Any, ...]:
        """Encode rows field by field.

        Raises
        ------
        RowError
            Naming the first row with a value that its field cannot read, and the field.
        ArityError
            Naming the first row with other fields.
        """
        columns = zip(self.encoders, self.fields, self.split(rows), strict=True)
        return tuple(read_parts([(partial(e.seq_encode, column), (field,)) for e, field, column in columns]))

    def row_count(self, payload: Any) -> int:
        """Return the number of rows, from the first field that knows."""
        for encoder, part in zip(self.encoders, payload, strict=True):
            try:
                return encoder.row_count(part)
            except NotImplementedError:
                continue
        raise NotImplementedError("no field of this payload tells its number of rows")

    def nbytes(self, payload: Any) -> int:
        """Return the bytes held by all fields."""
        return sum(encoder.nbytes(part) for encoder, part in zip(self.encoders, payload, strict=True))

    def slice(self, payload: Any, start: int, stop: int) -> tuple[Any, ...]:
        """Return rows ``start:stop`` of every field."""
        parts = zip(self.encoders, payload, strict=True)
        return tuple(encoder.slice(part, start, stop) for encoder, part in parts)

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        """Return the fields' columns one after another; None if a field has none."""
        result: list[Column] = []
        for i, (encoder, part) in enumerate(zip(self.encoders, payload, strict=True)):
            columns = encoder.columns(part, start, stop)
            if columns is None:
                return None
            result += [column._replace(path=(i, *column.path)) for column in columns]
        return result


class FieldsAccumulator(PartsAccumulator):
    """Statistic of independent fields: the tuple of the fields' statistics."""

    encoder: ClassVar[type[FieldsEncoder]] = FieldsEncoder

    def __init__(self, accumulators: Sequence[Any], fields: Sequence[Any], keys: Any = None) -> None:
        self.accumulators, self.fields, self.keys = tuple(accumulators), tuple(fields), keys

    def seq_update(self, x: Any, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded rows to every field; `estimate` is a model of these fields or None.

        Raises
        ------
        RowError
            As a field raises it, with the field named.
        """
        models = (None,) * len(self.accumulators) if estimate is None else estimate.dists
        for accumulator, field, part, model in zip(self.accumulators, self.fields, x, models, strict=True):
            try:
                update_part(accumulator, part, weights, model)
            except RowError as error:
                raise error.inside(field) from None

    def seq_initialize(self, x: Any, weights: np.ndarray, rng: Any) -> None:
        """Add encoded rows to every field, each with a seed of its own."""
        from numpy.random import RandomState

        seeds = rng.randint(2**31, size=len(self.accumulators))
        for accumulator, field, part, seed in zip(self.accumulators, self.fields, x, seeds, strict=True):
            try:
                accumulator.seq_initialize(part, weights, RandomState(seed))
            except RowError as error:
                raise error.inside(field) from None

    def supported_rows(self, x: Any) -> np.ndarray | None:
        """Return which encoded rows every field supports, shape (n,), or None for all."""
        masks = [supported(a, part) for a, part in zip(self.accumulators, x, strict=True)]
        known = [mask for mask in masks if mask is not None]
        return np.logical_and.reduce(known) if known else None

    def start(self, enc: Any, draws: np.ndarray, centres: Any, p: float, weights: np.ndarray | None = None) -> None:
        """Add the rows whose draw is below `p`; fields with seeded centres start from them.

        Parameters
        ----------
        enc : payload
            Encoded rows.
        draws : ndarray, shape (n,)
            One uniform number per row.
        centres : tuple
            What `seed_fields` gave for each field.
        p : float
            Share of rows to keep.
        weights : ndarray, shape (n,), optional
            Row weights.
        """
        from numpy.random import RandomState

        kept = np.where(draws < p, 1.0 if weights is None else weights, 0.0)
        for accumulator, field, part, seeds in zip(self.accumulators, self.fields, enc, centres, strict=True):
            try:
                if seeds is None:
                    accumulator.seq_initialize(part, kept, RandomState(0))
                else:
                    accumulator.start(part, draws, seeds, p, weights)
            except RowError as error:
                raise error.inside(field) from None

    def combine(self, suff_stat: Any) -> FieldsAccumulator:
        """Add the statistics of as many fields.

        Raises
        ------
        ValueError
            If `suff_stat` is of another number of fields.
        """
        self._check(suff_stat)
        for accumulator, value in zip(self.accumulators, suff_stat, strict=True):
            accumulator.combine(value)
        return self

    def value(self) -> tuple[Any, ...]:
        """Return the tuple of the fields' statistics."""
        return tuple(accumulator.value() for accumulator in self.accumulators)

    def from_value(self, x: Any) -> FieldsAccumulator:
        """Replace every field's statistic."""
        self._check(x)
        for accumulator, value in zip(self.accumulators, x, strict=True):
            accumulator.from_value(value)
        return self

    def _check(self, value: Any) -> None:
        if len(value) != len(self.accumulators):
            _refuse_arity(value, len(self.accumulators))

    def scale(self, c: float) -> FieldsAccumulator:
        """Scale every field."""
        for accumulator in self.accumulators:
            accumulator.scale(c)
        return self

    def acc_to_encoder(self) -> FieldsEncoder:
        """Return the encoder of the fields."""
        return self.encoder([accumulator.acc_to_encoder() for accumulator in self.accumulators], self.fields)


class FieldsFactory(StatisticAccumulatorFactory):
    """Factory of `kind` accumulators over the fields' factories."""

    def __init__(
        self, kind: type[FieldsAccumulator], estimators: Sequence[Any], fields: Sequence[Any], keys: Any
    ) -> None:
        self.kind, self.fields, self.keys = kind, tuple(fields), keys
        self.factories = tuple(estimator.accumulator_factory() for estimator in estimators)

    def make(self) -> FieldsAccumulator:
        """Return a fresh accumulator."""
        return self.kind([factory.make() for factory in self.factories], self.fields, self.keys)


def estimate_fields(estimators: Sequence[Any], nobs: float | None, suff_stat: Any) -> list[Any]:
    """Return each field's fitted distribution; every field has seen the same `nobs`.

    Raises
    ------
    ContractError
        If the statistic is of another number of fields.
    """
    if len(suff_stat) != len(estimators):
        _refuse_arity(suff_stat, len(estimators))
    return [estimator.estimate(nobs, value) for estimator, value in zip(estimators, suff_stat, strict=True)]


def keep_fields(estimators: Sequence[Any], dists: Sequence[Any], previous: Any, suff_stat: Any) -> list[Any] | None:
    """Return the fields with their empty components as they were in `previous`, or None if no field is latent."""
    old = getattr(previous, "dists", None)
    if old is None or len(old) != len(dists) or not any(is_latent(estimator) for estimator in estimators):
        return None
    return [
        estimator.keep_empty(new, before, value) if is_latent(estimator) else new
        for estimator, new, before, value in zip(estimators, dists, old, suff_stat, strict=True)
    ]


class FieldsEstimator(ParameterEstimator):
    """Estimator of independent fields: `estimators` in order, and how their laws make up the law of a row."""

    estimators: Any

    @abstractmethod
    def _of_dists(self, dists: list[Any], model: Any) -> Any:
        """Return a law like `model` of these laws."""

    def keep_empty(self, model: Any, previous: Any, suff_stat: Any) -> Any:
        """Return `model` with the empty components of its fields as they were in `previous`."""
        kept = keep_fields(self.estimators, model.dists, previous, suff_stat)
        return model if kept is None else self._of_dists(kept, model)

    @property
    def start_parts(self) -> tuple[Any, ...]:
        """Return the parts that a start may seed centres for."""
        return tuple(self.estimators)

    def seed_start(self, columns: list[Column], rng: Any) -> tuple[Any, ...] | None:
        """Return seeds of the fields' mixtures on sampled rows, or None without any."""
        return seed_fields(self.estimators, columns, rng)

    def stack_node(self) -> tuple[str, Any]:
        """Return how this part stacks over a component axis."""
        return ("composite", self.estimators)


def _refuse_arity(value: Any, count: int) -> NoReturn:
    refuse_statistic(len(value), count, "fields")
