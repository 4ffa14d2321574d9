"""Rows of which some are missing: how they are told and kept apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats.contract import Column, DataSequenceEncoder
from mixle.stats.label_column import LabelColumn
from mixle.stats.reading import is_missing, masked_rows

__all__ = ["OptionalEncoder", "OptionalRows", "missing_rows", "of_all_rows"]

_PLAIN = frozenset({int, str, bool, tuple, list, dict, type(None), np.int64, np.int32, np.bool_, np.str_})


class OptionalRows(NamedTuple):
    """Encoded rows of which some are missing.

    Attributes
    ----------
    count : int
        Number of rows.
    present : ndarray of int32, or None
        Positions of the rows with a value, ascending; None if all have one.
    payload : object
        The child's payload of just those rows.
    """

    count: int  # type: ignore[assignment]  # hides tuple.count
    present: np.ndarray | None
    payload: Any


def missing_rows(rows: Sequence[Any] | np.ndarray, sentinel: Any) -> np.ndarray:
    """Return which rows are missing, shape (n,): None and NaN by default, else those equal to `sentinel`."""
    if isinstance(rows, LabelColumn) and sentinel is None:
        return rows.missing
    mask = masked_rows(rows)
    if mask is not None and mask.ndim == 1 and (sentinel is None or is_missing(sentinel)):
        either: np.ndarray = mask | missing_rows(np.asarray(rows), sentinel)
        return either
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "biuf":
        if sentinel is None or is_missing(sentinel):
            nan = rows.ndim == 1 and rows.dtype.kind == "f"
            return np.asarray(np.isnan(rows)) if nan else np.zeros(len(rows), bool)
        if rows.ndim == 1:
            same: np.ndarray = np.array(np.broadcast_to(rows == sentinel, rows.shape), bool)
            return same
    if sentinel is None:
        kinds = set(map(type, rows))
        if kinds <= {float, type(None)}:
            return np.asarray(np.isnan(np.array(rows, dtype=float)))
        plain = kinds <= _PLAIN
        found: Iterable[bool] = [value is None for value in rows] if plain else map(is_missing, rows)
    elif is_missing(sentinel):
        found = (value is not None and is_missing(value) for value in rows)
    else:
        found = (_same(value, sentinel) for value in rows)
    return np.fromiter(found, dtype=bool, count=len(rows))


def _same(value: Any, sentinel: Any) -> bool:
    if value is sentinel:
        return True
    equal = value == sentinel
    return bool(equal) if isinstance(equal, (bool, np.bool_)) else False


class OptionalEncoder(DataSequenceEncoder):
    """Encoder that sets missing rows apart and hands the others to the child's encoder."""

    def __init__(self, encoder: DataSequenceEncoder, missing_value: Any = None) -> None:
        self.encoder, self.missing_value = encoder, missing_value

    @property
    def row_form(self) -> str:
        """Return the form of a row that is there."""
        return getattr(self.encoder, "row_form", "value")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, OptionalEncoder):
            return False
        same = _same(self.missing_value, other.missing_value)
        return self.encoder == other.encoder and (same or _both_nan(self.missing_value, other.missing_value))

    def __hash__(self) -> int:
        return id(type(self))

    def seq_encode(self, rows: Sequence[Any]) -> OptionalRows:
        """Encode rows.

        Raises
        ------
        RowError
            As the child raises it for a row that is there, with its position among all rows.
        """
        missing = missing_rows(rows, self.missing_value)
        if not missing.any():
            return OptionalRows(len(rows), None, self.encoder.seq_encode(rows))
        there = ~missing
        present = np.flatnonzero(there).astype(np.int32)
        kept = rows[there] if isinstance(rows, (np.ndarray, LabelColumn)) else list(compress(rows, there.tolist()))
        try:
            return OptionalRows(len(rows), present, self.encoder.seq_encode(kept))
        except RowError as error:
            raise of_all_rows(error, present) from None

    def row_count(self, payload: OptionalRows) -> int:
        """Return the number of rows, missing ones included."""
        return payload.count

    def nbytes(self, payload: OptionalRows) -> int:
        """Return the bytes of the positions and the child's payload."""
        positions = 0 if payload.present is None else int(payload.present.nbytes)
        return positions + self.encoder.nbytes(payload.payload)

    def slice(self, payload: OptionalRows, start: int, stop: int) -> OptionalRows:
        """Return rows ``start:stop``."""
        if payload.present is None:
            return OptionalRows(stop - start, None, self.encoder.slice(payload.payload, start, stop))
        low, high = (int(i) for i in np.searchsorted(payload.present, (start, stop)))
        child = self.encoder.slice(payload.payload, low, high)
        full = high - low == stop - start
        present = None if full else (payload.present[low:high] - start).astype(np.int32)
        return OptionalRows(stop - start, present, child)

    def columns(self, payload: OptionalRows, start: int, stop: int) -> list[Column] | None:
        """Return the child's columns, missing rows marked; without any, one that only tells what is missing."""
        part = self.slice(payload, start, stop)
        known = part.count if part.present is None else len(part.present)
        columns = self.encoder.columns(part.payload, 0, known)
        if columns is None:
            return None
        if part.present is None:
            return columns or [Column(np.zeros(part.count), None, np.zeros(part.count, bool))]
        return [_spread(c, part.count, part.present) for c in columns or [Column(np.zeros(known))]]


def _both_nan(a: Any, b: Any) -> bool:
    return a is not None and b is not None and is_missing(a) and is_missing(b)


def _spread(column: Column, count: int, present: np.ndarray) -> Column:
    values = np.zeros(count, column.values.dtype)
    values[present] = column.values
    missing = np.ones(count, bool)
    missing[present] = False if column.missing is None else column.missing
    return column._replace(values=values, missing=missing)


def of_all_rows(error: RowError, present: np.ndarray | None) -> RowError:
    """Return `error` of the row among those present as one of the row among all."""
    return error if error.row is None or present is None else error.at(int(present[error.row]))
