"""Encoded sequences of a hidden Markov model: batches of sequences of like length, time-major.

Sequences are sorted by length, longest first, and cut into batches. A batch holds the first elements of all its
sequences, then their second elements, and so on: one small matrix product per step serves them all, and the elements
of a step are neighbours. No step is padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats.combinators.ragged import SequenceEncoder
from mixle.stats.contract import Column, DataSequenceEncoder
from mixle.stats.latent.hmm_take import take

__all__ = ["PICKS", "Batch", "Chains", "HiddenMarkovDataEncoder", "picked"]

#: Sequences of a batch at most, and elements of a batch unless one sequence has more.
BATCH_ROWS, BATCH_ELEMENTS = 1000, 1 << 19
#: Elements that a sequence shows to a start.
PICKS = 32


class Batch(NamedTuple):
    """Sequences that are worked on together.

    Attributes
    ----------
    rows : ndarray of int, shape (n,)
        Their positions in the chunk, the longest first.
    counts : ndarray of int, shape (T,)
        How many of them have a t-th element: they are the first ones.
    starts : ndarray of int, shape (T + 1,)
        Where the elements of a step start, relative to the batch; last, how many there are.
    offset : int
        Where the elements of the batch start in the chunk.
    """

    rows: np.ndarray
    counts: np.ndarray
    starts: np.ndarray
    offset: int

    @property
    def total(self) -> int:
        """Return the number of elements."""
        return int(self.starts[-1])

    def ranks(self) -> np.ndarray:
        """Return the sequence of each element, as its position in `rows`."""
        return np.arange(self.total) - np.repeat(self.starts[:-1], self.counts)

    def steps(self) -> np.ndarray:
        """Return the time of each element."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


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
        """Return the batches; sequences without elements are in none."""
        return batches(self.sizes)


def batches(sizes: np.ndarray) -> list[Batch]:
    """Return the batches of sequences of these lengths.

    Examples
    --------
    >>> batch, = batches(np.array([1, 3, 0]))
    >>> batch.rows.tolist(), batch.counts.tolist()
    ([1, 0], [2, 1, 1])
    """
    order = np.argsort(-sizes, kind="stable")
    order = order[: int(np.count_nonzero(sizes))]
    if not len(order):
        return []
    evenly = -(-len(order) // -(-len(order) // BATCH_ROWS))
    width = -(-evenly // 8) * 8
    result, first, offset = [], 0, 0
    while first < len(order):
        rows = order[first : first + width]
        ends = np.cumsum(sizes[rows])
        rows = rows[: max(1, int(np.searchsorted(ends, BATCH_ELEMENTS, side="right")))]
        own = sizes[rows]
        counts = len(rows) - np.cumsum(np.bincount(own))[:-1]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        result.append(Batch(rows, counts, starts, offset))
        first, offset = first + len(rows), offset + int(starts[-1])
    return result


def sources(sizes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return where each element of the batches stands among sequences laid end to end from `offsets` on."""
    parts = [offsets[batch.rows][batch.ranks()] + batch.steps() for batch in batches(sizes)]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def ends_of(sizes: np.ndarray) -> np.ndarray:
    """Return where sequences laid end to end start, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


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
        if not {type(row) for row in rows} <= {list, tuple, np.ndarray} or any(np.ndim(row) == 0 for row in rows[:1]):
            self._refuse(rows[:0], rows)
        try:
            sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
            order = sources(sizes, ends_of(sizes)[:-1])
            elements = self.encoder.seq_encode(_ordered(rows, order))
        except (RowError, TypeError):
            self._refuse(rows, rows)
            raise
        try:
            return Chains(sizes, elements, self.length.seq_encode(sizes.tolist()))
        except RowError as error:
            raise error.inside("length") from None
