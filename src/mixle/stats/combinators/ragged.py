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
from mixle.stats.starts import known_rows, take_columns

__all__ = ["RaggedRows", "SequenceEncoder", "at_places", "initialize_lengths", "joined_elements", "of_its_row"]
__all__ += ["row_sums", "shown_elements", "update_lengths"]

#: Elements that a row shows to the start of a mixture of elements.
SHOWN = 8


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
    """Encoder of rows that are sequences of elements.

    Parameters
    ----------
    encoder, length : DataSequenceEncoder
        Encoders of an element and of a length.
    shows : bool
        Whether `columns` has elements too, for the start of a mixture of elements.
    """

    def __init__(self, encoder: DataSequenceEncoder, length: DataSequenceEncoder, shows: bool = False) -> None:
        self.encoder, self.length, self.shows = encoder, length, shows

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
        """Return the length and, for each real column of the elements, its mean over the row; and what is shown."""
        part = self.slice(payload, start, stop)
        result = [Column(part.sizes().astype(float))]
        elements = self.encoder.columns(part.elements, 0, int(part.offsets[-1])) or []
        result += [_row_means(column, part) for column in elements if column.labels is None and not column.within]
        if not self.shows:
            return result
        where = _evenly(part)
        return result + [at_places(c._replace(within=c.within + 1), at) for at in where.T for c in elements]


def _end_to_end(rows: Sequence[Any], arrays: bool) -> Sequence[Any]:
    if arrays and len({(row.ndim, row.dtype) for row in rows}) == 1:
        joined: Any = np.concatenate(list(rows))
        return joined  # type: ignore[no-any-return]
    return list(chain.from_iterable(rows))


def shown_elements(columns: Sequence[Column]) -> list[Column]:
    """Return the elements that rows show in their columns, as columns of elements; none if they show none.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, NullDistribution
    >>> number, nothing = GaussianDistribution(0, 1).dist_to_encoder(), NullDistribution().dist_to_encoder()
    >>> encoder = SequenceEncoder(number, nothing, shows=True)
    >>> columns = encoder.columns(encoder.seq_encode([[1.0, 2.0], [], [3.0]]), 0, 3)
    >>> sorted(set(shown_elements(columns)[0].values.tolist()))
    [1.0, 2.0, 3.0]
    """
    shown = [column._replace(within=column.within - 1) for column in columns if column.within]
    joined = joined_elements(shown, SHOWN)
    return list(take_columns(joined, known_rows(joined))) if joined else []


def _evenly(part: RaggedRows) -> np.ndarray:
    """Return the places (n, SHOWN) of evenly spaced elements of each row; -1 for a row without any."""
    sizes = part.sizes()[:, None]
    places = part.offsets[:-1, None] + ((np.arange(SHOWN) + 0.5) / SHOWN * sizes).astype(np.int64)
    return np.where(sizes > 0, places, -1)


def _row_means(column: Column, part: RaggedRows) -> Column:
    known = np.ones(len(column.values)) if column.missing is None else 1.0 - column.missing
    owners = part.owners()
    weight = np.bincount(owners, known, part.rows)
    total = np.bincount(owners, known * column.values, part.rows)
    missing = weight == 0.0 if (weight == 0.0).any() else None
    return Column(total / np.maximum(weight, 1.0), None, missing, wide=column.wide)


def at_places(column: Column, places: np.ndarray) -> Column:
    """Return the column of the rows at `places`; place -1 is a missing value."""
    gone = places < 0
    values = column.values[places] if len(column.values) else np.zeros(len(places), column.values.dtype)
    missing = gone if column.missing is None else gone | column.missing[places] if len(column.missing) else gone
    return column._replace(values=values, missing=missing if missing.any() else None)


def joined_elements(shown: Sequence[Column], count: int) -> tuple[Column, ...]:
    """Return `count` groups of columns, each with an element of every row, as columns of elements: group after group.

    Examples
    --------
    >>> first, second = Column(np.array([1.0, 2.0])), Column(np.array([3.0, 4.0]))
    >>> joined_elements([first, second], 2)[0].values.tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    width = len(shown) // count
    return tuple(_joined(shown[j::width]) for j in range(width))


def _joined(parts: Sequence[Column]) -> Column:
    gone = np.concatenate([np.zeros(len(p.values), bool) if p.missing is None else p.missing for p in parts])
    if parts[0].labels is None:
        return parts[0]._replace(values=np.concatenate([p.values for p in parts]), missing=gone)
    table: dict[Any, int] = {}
    codes = []
    for p in parts:
        own = np.array([table.setdefault(label, len(table)) for label in p.labels or ()], np.intp)
        codes.append(own[p.values] if len(own) else np.zeros(len(p.values), np.intp))
    return parts[0]._replace(values=np.concatenate(codes), labels=tuple(table), missing=gone)
