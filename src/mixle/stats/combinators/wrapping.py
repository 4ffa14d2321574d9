"""What combinators over one law share: rows set apart, a child's statistic with a few weights beside it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats.combinators.missing import OptionalEncoder, OptionalRows, of_all_rows
from mixle.stats.combinators.parts import is_latent, supported, update_part
from mixle.stats.contract import (
    Column,
    DataSequenceEncoder,
    ParameterEstimator,
    SequenceEncodableStatisticAccumulator,
    StatisticAccumulatorFactory,
)
from mixle.stats.label_column import LabelColumn
from mixle.stats.leaf import as_rows
from mixle.stats.starts import seed_start, start_components, take_columns

__all__ = [
    "ShellAccumulator",
    "WrappedRows",
    "WrappingAccumulator",
    "WrappingEncoder",
    "WrappingEstimator",
    "WrappingFactory",
    "kept_rows",
    "outside_rows",
    "rows_at",
]


class WrappedRows(NamedTuple):
    """Encoded rows of which the child sees some.

    Attributes
    ----------
    rows : OptionalRows
        Number of rows, positions of those that the child sees, and its payload of them.
    extra : tuple of ndarray, shape (n,)
        What else is known of each row.
    """

    rows: OptionalRows
    extra: tuple[np.ndarray, ...] = ()


def kept_rows(rows: Any, keep: np.ndarray, encoder: DataSequenceEncoder) -> OptionalRows:
    """Return the rows with those where `keep` is true encoded.

    Raises
    ------
    RowError
        As `encoder` raises it, with the position among all rows.
    """
    if keep.all():
        return OptionalRows(len(rows), None, encoder.seq_encode(rows))
    present = np.flatnonzero(keep).astype(np.int32)
    kept = rows[keep] if isinstance(rows, (np.ndarray, LabelColumn)) else [rows[i] for i in present.tolist()]
    try:
        return OptionalRows(len(rows), present, encoder.seq_encode(kept))
    except RowError as error:
        raise of_all_rows(error, present) from None


class WrappingEncoder(DataSequenceEncoder):
    """Encoder of `WrappedRows`; a combinator writes `seq_encode`."""

    def __init__(self, encoder: DataSequenceEncoder) -> None:
        self.inner = OptionalEncoder(encoder)

    @property
    def encoder(self) -> DataSequenceEncoder:
        """Return the child's encoder."""
        return self.inner.encoder

    @property
    def row_form(self) -> str:
        """Return the form of the child's rows."""
        return self.inner.row_form

    def row_count(self, payload: WrappedRows) -> int:
        """Return the number of rows."""
        return payload.rows.count

    def nbytes(self, payload: WrappedRows) -> int:
        """Return the bytes held by `payload`."""
        return self.inner.nbytes(payload.rows) + sum(int(part.nbytes) for part in payload.extra)

    def slice(self, payload: WrappedRows, start: int, stop: int) -> WrappedRows:
        """Return rows ``start:stop``."""
        extra = tuple(part[start:stop] for part in payload.extra)
        return WrappedRows(self.inner.slice(payload.rows, start, stop), extra)

    def columns(self, payload: WrappedRows, start: int, stop: int) -> list[Column] | None:
        """Return the child's columns, the rows it does not see marked as missing."""
        return self.inner.columns(payload.rows, start, stop)


class WrappingAccumulator(SequenceEncodableStatisticAccumulator):
    """A child's statistic, and sums of weights beside it.

    A combinator says what its rows weigh for the child (`weigh`), and how the statistic is laid out (`pack`,
    `unpack`).
    """

    width: ClassVar[int] = 2
    part: ClassVar[str] = "base"

    def __init__(self, accumulator: Any, keys: Any = None) -> None:
        self.accumulator, self.keys = accumulator, keys
        self.sums = [0.0] * self.width

    @abstractmethod
    def weigh(self, x: Any, weights: np.ndarray, model: Any) -> np.ndarray:
        """Add to the sums, and return the weights of the rows that the child sees; `model` may be None."""

    @abstractmethod
    def pack(self, child: Any) -> Any:
        """Return the statistic, given the child's."""

    @abstractmethod
    def unpack(self, value: Any) -> tuple[Any, tuple[float, ...]]:
        """Return (child's statistic, sums) of a statistic."""

    def wraps(self, x: Any) -> OptionalRows:
        """Return the rows as the child sees them."""
        return x.rows  # type: ignore[no-any-return]

    def seq_update(self, x: Any, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded rows under the model `estimate`, or None where the child needs none.

        Raises
        ------
        RowError
            As the child raises it, with the position among all rows.
        """
        own, inner = self.wraps(x), self.weigh(x, weights, estimate)
        try:
            update_part(
                self.accumulator, own.payload, inner, None if estimate is None else getattr(estimate, self.part)
            )
        except RowError as error:
            raise of_all_rows(error, own.present) from None

    def seq_initialize(self, x: Any, weights: np.ndarray, rng: Any) -> None:
        """Add encoded rows before there is a model."""
        own, inner = self.wraps(x), self.weigh(x, weights, None)
        try:
            self.accumulator.seq_initialize(own.payload, inner, rng)
        except RowError as error:
            raise of_all_rows(error, own.present) from None

    def start(self, enc: Any, draws: np.ndarray, centres: Any, p: float, weights: Any = None) -> None:
        """Add the rows whose draw is below `p`, the child's mixtures starting from seeded centres."""
        own = self.wraps(enc)
        inner = self.weigh(enc, np.where(draws < p, 1.0 if weights is None else weights, 0.0), None)
        try:
            self.accumulator.start(own.payload, np.zeros(len(inner)), centres, 1.0, inner)
        except RowError as error:
            raise of_all_rows(error, own.present) from None

    def supported_rows(self, x: Any) -> np.ndarray | None:
        """Return which rows the child supports or does not see, shape (n,), or None for all."""
        own = self.wraps(x)
        mask = supported(self.accumulator, own.payload)
        if mask is None or own.present is None:
            return mask
        result = np.ones(own.count, bool)
        result[own.present] = mask
        return result

    def combine(self, suff_stat: Any) -> WrappingAccumulator:
        """Add another statistic."""
        child, sums = self.unpack(suff_stat)
        self.sums = [a + float(b) for a, b in zip(self.sums, sums, strict=True)]
        self.accumulator.combine(child)
        return self

    def value(self) -> Any:
        """Return the statistic."""
        return self.pack(self.accumulator.value())

    def from_value(self, x: Any) -> WrappingAccumulator:
        """Replace the statistic."""
        child, sums = self.unpack(x)
        self.sums = [float(part) for part in sums]
        self.accumulator.from_value(child)
        return self

    def scale(self, c: float) -> WrappingAccumulator:
        """Scale the sums and the child."""
        self.accumulator.scale(c)
        self.sums = [part * c for part in self.sums]
        return self

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Pool the whole under its key, then the child under its own."""
        super().key_merge(stats_dict)
        self.accumulator.key_merge(stats_dict)

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take the pooled whole, then the child's pooled statistic."""
        super().key_replace(stats_dict)
        self.accumulator.key_replace(stats_dict)


class ShellAccumulator(WrappingAccumulator):
    """A child's statistic and the weight of its rows, laid out as ``layout(1, child, weight, 0.0)``."""

    width: ClassVar[int] = 1
    layout: ClassVar[type[Any]]

    def pack(self, child: Any) -> Any:
        """Return the statistic."""
        return self.layout(1, child, self.sums[0], 0.0)

    def unpack(self, value: Any) -> tuple[Any, tuple[float, ...]]:
        """Return the child's statistic and the weight."""
        _, child, accepted, _ = value
        return child, (accepted,)


class WrappingFactory(StatisticAccumulatorFactory):
    """Factory of `kind` accumulators over a child's factory; `arguments` follow the child's accumulator."""

    def __init__(self, kind: type[WrappingAccumulator], factory: Any, *arguments: Any) -> None:
        self.kind, self.factory, self.arguments = kind, factory, arguments

    def make(self) -> WrappingAccumulator:
        """Return a fresh accumulator."""
        return self.kind(self.factory.make(), *self.arguments)


def rows_at(rows: Any, keep: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the encoded rows of a leaf that a mask (n,) keeps, and their positions."""
    kept = np.flatnonzero(keep)
    found = as_rows(rows).take(kept)
    outside = found.outside if found.outside is not None and found.outside.any() else None
    return found._replace(outside=outside), kept


def outside_rows(rows: OptionalRows) -> np.ndarray | None:
    """Return which rows the child does not see, shape (n,), or None."""
    if rows.present is None:
        return None
    outside = np.ones(rows.count, bool)
    outside[rows.present] = False
    return outside


class WrappingEstimator(ParameterEstimator):
    """Estimator of a combinator over one law; `part` names the child's estimator, `_laws` the child's law."""

    part: ClassVar[str] = "base_estimator"
    _laws: ClassVar[tuple[str, ...]] = ("base",)

    @property
    def _child(self) -> Any:
        return getattr(self, self.part)

    def child_value(self, suff_stat: Any) -> Any:
        """Return the child's part of a statistic."""
        return suff_stat[0]

    def keep_empty(self, model: Any, previous: Any, suff_stat: Any) -> Any:
        """Return `model` with the empty components of its child as they were in `previous`."""
        law = self._laws[0]
        if not is_latent(self._child) or type(previous) is not type(model):
            return model
        kept = self._child.keep_empty(getattr(model, law), getattr(previous, law), self.child_value(suff_stat))
        again = copy.copy(model)
        setattr(again, law, kept)
        return again

    @property
    def start_parts(self) -> tuple[Any, ...]:
        """Return the parts that a start may seed centres for."""
        return (self._child,)

    def seed_start(self, columns: list[Column], rng: Any) -> Any:
        """Return seeds of the child's mixtures on the sampled rows that it sees."""
        masks = [column.missing for column in columns if column.missing is not None]
        if not start_components(self._child):
            return None
        there = ~np.logical_and.reduce(masks) if len(masks) == len(columns) and masks else None
        kept = columns if there is None or not there.any() else list(take_columns(columns, np.flatnonzero(there)))
        return seed_start(self._child, kept, rng)

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return ((self._laws[0], self._child),)
