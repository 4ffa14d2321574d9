"""Encoded sequences of a hidden Markov model, their elements in the order of the batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats.combinators.ragged import SequenceEncoder, at_places, joined_elements
from mixle.stats.contract import Column, DataSequenceEncoder
from mixle.stats.latent.hmm_batches import Batch, batches, ends_of, places, sources
from mixle.stats.latent.hmm_take import take

__all__ = ["PICKS", "Chains", "HiddenMarkovDataEncoder", "picked"]

#: Elements that a sequence shows to a start.
PICKS = 128


class Chains(NamedTuple):
    """Encoded sequences.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n,)
        Lengths, in the order of the rows.
    elements : object
        The element encoder's payload, in the order of the batches.
    lengths : object
        The length encoder's payload.
    """

    sizes: np.ndarray
    elements: Any
    lengths: Any

    @property
    def rows(self) -> int:
        """Return the number of sequences."""
        return len(self.sizes)

    @property
    def total(self) -> int:
        """Return the number of elements."""
        return int(self.sizes.sum())

    def batches(self) -> list[Batch]:
        """Return the batches of the sequences."""
        return batches(self.sizes)

    def owners(self) -> np.ndarray:
        """Return the sequence of each element, in the order of the batches."""
        owners = [batch.rows[batch.ranks()] for batch in self.batches()]
        return np.concatenate(owners) if owners else np.zeros(0, np.int64)

    def spread(self, weights: np.ndarray) -> np.ndarray:
        """Return the weight of each element: that of its sequence."""
        return np.asarray(weights[self.owners()])


class HiddenMarkovDataEncoder(DataSequenceEncoder):
    """Encoder of rows that are sequences of elements.

    Parameters
    ----------
    encoder, length : DataSequenceEncoder
        Encoders of an element and of a length.
    """

    def __init__(self, encoder: DataSequenceEncoder, length: DataSequenceEncoder) -> None:
        self.encoder, self.length = encoder, length

    def seq_encode(self, rows: Sequence[Any]) -> Chains:
        """Encode rows.

        Raises
        ------
        RowError
            For a row that is not a sequence, or with the element that cannot be read as the innermost field.
        """
        try:
            sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
            elements = self.encoder.seq_encode(_ordered(rows, sizes))
        except (RowError, TypeError):
            SequenceEncoder(self.encoder, self.length).seq_encode(rows)  # names the first bad row as the rows stand
            raise
        try:
            return Chains(sizes, elements, self.length.seq_encode(sizes.tolist()))
        except RowError as error:
            raise error.inside("length") from None

    def row_count(self, payload: Chains) -> int:
        """Return the number of sequences."""
        return payload.rows

    def nbytes(self, payload: Chains) -> int:
        """Return the bytes of sizes, elements and lengths."""
        children = self.encoder.nbytes(payload.elements) + self.length.nbytes(payload.lengths)
        return int(payload.sizes.nbytes) + children

    def slice(self, payload: Chains, start: int, stop: int) -> Chains:
        """Return sequences ``start:stop``."""
        return self.take(payload, np.arange(start, max(start, stop)))

    def take(self, payload: Chains, index: np.ndarray) -> Chains:
        """Return the sequences at `index`, in that order."""
        sizes = payload.sizes[index]
        offsets = ends_of(payload.sizes)[:-1]
        order = places(payload.sizes)[sources(sizes, offsets[index])]
        return Chains(sizes, take(self.encoder, payload.elements, order), take(self.length, payload.lengths, index))

    def columns(self, payload: Chains, start: int, stop: int) -> list[Column] | None:
        """Return `PICKS` elements of each sequence, evenly spaced, as that many groups of columns."""
        part = payload if (start, stop) == (0, payload.rows) else self.slice(payload, start, stop)
        elements = self.encoder.columns(part.elements, 0, part.total)
        if not elements:
            return None if elements is None else []
        where = _pick(part)
        return [at_places(column, places) for places in where.T for column in elements]


def _ordered(rows: Sequence[Any], sizes: np.ndarray) -> Sequence[Any]:
    """Return the elements of all rows in the order of the batches."""
    kinds = {type(row) for row in rows}
    if any(issubclass(kind, (Mapping, AbstractSet)) for kind in kinds):
        raise TypeError("a mapping or a set is not a sequence of elements; pass a list")
    order = sources(sizes, ends_of(sizes)[:-1])
    if kinds == {np.ndarray} and len({(row.ndim, row.dtype) for row in rows}) == 1:
        joined: Any = np.concatenate(list(rows))
        return joined[order]  # type: ignore[no-any-return]
    laid = list(chain.from_iterable(rows))
    return [laid[i] for i in order.tolist()]


def _pick(part: Chains) -> np.ndarray:
    """Return the places (n, PICKS) of evenly spaced elements of each sequence; -1 for a sequence without any."""
    result = np.full((part.rows, PICKS), -1, np.int64)
    some = part.sizes > 0
    sizes, offsets = part.sizes[some], ends_of(part.sizes)[:-1][some]
    times = ((np.arange(PICKS) + 0.5) / PICKS * sizes[:, None]).astype(np.int64)
    result[some] = places(part.sizes)[offsets[:, None] + times]
    return result


def picked(sequences: Sequence[Column]) -> tuple[Column, ...]:
    """Return the elements that sequences show in their columns, as columns of elements."""
    return joined_elements(sequences, PICKS)
