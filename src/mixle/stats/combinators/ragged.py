"""Rows of varying length: their elements end to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats.combinators.parts import update_part
from mixle.stats.contract import Column, DataSequenceEncoder
from mixle.stats.refusals import shown

__all__ = ["RaggedRows", "SequenceEncoder", "initialize_lengths", "of_its_row", "row_sums"]
__all__ += ["update_lengths"]


class RaggedRows(NamedTuple):
    """Encoded rows of varying length.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n + 1,)
        Row i holds the elements ``offsets[i]:offsets[i + 1]``; the first offset is 0.
    elements : object
        The element encoder's payload.
    lengths : object
        The length encoder's payload.
    """

    offsets: np.ndarray
    elements: Any
    lengths: Any

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.offsets) - 1

    def sizes(self) -> np.ndarray:
        """Return the length of each row, shape (n,)."""
        return np.diff(self.offsets)

    def owners(self) -> np.ndarray:
        """Return the row of each element."""
        return np.repeat(np.arange(self.rows), self.sizes())


def row_sums(offsets: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Return the sums (K, n) of the terms (K, elements) of each row, added in their order; the first offset is 0."""
    from scipy.sparse import csr_array

    count = terms.shape[1]
    matrix = csr_array((np.ones(count), np.arange(count), offsets), shape=(len(offsets) - 1, count))
    return np.ascontiguousarray((matrix @ np.ascontiguousarray(terms.T)).T)


def of_its_row(error: RowError, offsets: np.ndarray) -> RowError:
    """Return `error` of an element as one of its row, the element's position being a field of it."""
    if error.row is None:
        return error
    row = int(np.searchsorted(offsets, error.row, side="right")) - 1
    return error.inside(error.row - int(offsets[row])).at(row)


def update_lengths(accumulator: Any, lengths: Any, weights: np.ndarray, model: Any) -> None:
    """Add encoded lengths of sequences; a length that is refused is told as that of its row."""
    try:
        update_part(accumulator, lengths, weights, None if model is None else model.len_dist)
    except RowError as error:
        raise error.inside("length") from None


def initialize_lengths(accumulator: Any, lengths: Any, weights: np.ndarray, rng: Any) -> None:
    """Add encoded lengths before there is a model, as `update_lengths` does."""
    try:
        accumulator.seq_initialize(lengths, weights, rng)
    except RowError as error:
        raise error.inside("length") from None


class SequenceEncoder(DataSequenceEncoder):
    """Encoder of rows that are sequences of elements."""

    def __init__(self, encoder: DataSequenceEncoder, length: DataSequenceEncoder) -> None:
        self.encoder, self.length = encoder, length

    def seq_encode(self, rows: Sequence[Any]) -> RaggedRows:
        """Encode rows.

        Raises
        ------
        RowError
            For a row that is not a sequence, or with the element that cannot be read as the innermost field.
        """
        kinds = set(map(type, rows))
        if not kinds <= {list, tuple}:
            for i, row in enumerate(rows):
                if isinstance(row, (Mapping, AbstractSet)) or not (hasattr(row, "__len__") and np.iterable(row)):
                    raise RowError(f"{shown(row)} is not a sequence of elements; pass a list", "Sequence", i)
        sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        try:
            elements = self.encoder.seq_encode(_end_to_end(rows, kinds == {np.ndarray}))
        except RowError as error:
            raise of_its_row(error, offsets) from None
        try:
            return RaggedRows(offsets, elements, self.length.seq_encode(sizes.tolist()))
        except RowError as error:
            raise error.inside("length") from None

    def row_count(self, payload: RaggedRows) -> int:
        """Return the number of rows."""
        return payload.rows

    def nbytes(self, payload: RaggedRows) -> int:
        """Return the bytes of offsets, elements and lengths."""
        children = self.encoder.nbytes(payload.elements) + self.length.nbytes(payload.lengths)
        return int(payload.offsets.nbytes) + children

    def slice(self, payload: RaggedRows, start: int, stop: int) -> RaggedRows:
        """Return rows ``start:stop``."""
        offsets = payload.offsets[start : stop + 1]
        first, last = (0, 0) if start >= stop else (int(offsets[0]), int(offsets[-1]))
        elements = self.encoder.slice(payload.elements, first, last)
        offsets = np.zeros(1, np.int64) if start >= stop else offsets - first
        return RaggedRows(offsets, elements, self.length.slice(payload.lengths, start, stop))

    def columns(self, payload: RaggedRows, start: int, stop: int) -> list[Column] | None:
        """Return the length and, for each real column of the elements, its mean over the row."""
        part = self.slice(payload, start, stop)
        result = [Column(part.sizes().astype(float))]
        elements = self.encoder.columns(part.elements, 0, int(part.offsets[-1])) or []
        return result + [_row_means(column, part) for column in elements if column.labels is None]


def _end_to_end(rows: Sequence[Any], arrays: bool) -> Sequence[Any]:
    if arrays and len({(row.ndim, row.dtype) for row in rows}) == 1:
        joined: Any = np.concatenate(list(rows))
        return joined  # type: ignore[no-any-return]
    return list(chain.from_iterable(rows))


def _row_means(column: Column, part: RaggedRows) -> Column:
    known = np.ones(len(column.values)) if column.missing is None else 1.0 - column.missing
    owners = part.owners()
    weight = np.bincount(owners, known, part.rows)
    total = np.bincount(owners, known * column.values, part.rows)
    missing = weight == 0.0 if (weight == 0.0).any() else None
    return Column(total / np.maximum(weight, 1.0), None, missing, wide=column.wide)
