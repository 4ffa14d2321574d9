"""Batches of sequences of like length, time-major.

Sequences are sorted by length, longest first, and cut into batches. A batch holds the first elements of all its
sequences, then their second elements, and so on: one small matrix product per step serves them all, and the elements
of a step are neighbours. No step is padded.

A long sequence is cut into segments that stand in a batch like sequences of their own; whether it is depends on its
length alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["LONG", "Batch", "batch_of", "batches", "ends_of", "places", "sources"]

#: Sequences of a batch at most, and elements of a batch unless one sequence has more.
BATCH_ROWS, BATCH_ELEMENTS = 1000, 1 << 19
#: Longer sequences are cut into segments.
LONG = 4096


class Batch(NamedTuple):
    """Sequences, or segments of long ones, that are worked on together.

    Attributes
    ----------
    rows : ndarray of int, shape (n,)
        The sequence of each, by its position in the chunk, the longest first.
    begins : ndarray of int, shape (n,)
        Where in its sequence each begins; 0 unless it is a segment.
    counts : ndarray of int, shape (T,)
        How many of them have a t-th element: they are the first ones.
    starts : ndarray of int, shape (T + 1,)
        Where the elements of a step start, relative to the batch; last, how many there are.
    offset : int
        Where the elements of the batch start in the chunk.
    chained : bool
        Whether these are segments.
    """

    rows: np.ndarray
    begins: np.ndarray
    counts: np.ndarray
    starts: np.ndarray
    offset: int
    chained: bool

    @property
    def total(self) -> int:
        """Return the number of elements."""
        return int(self.starts[-1])

    def spans(self) -> list[tuple[int, int]]:
        """Return (start, count) of each step."""
        return list(zip(self.starts[:-1].tolist(), self.counts.tolist(), strict=True))

    def ranks(self) -> np.ndarray:
        """Return the sequence of each element, as its position in `rows`."""
        return np.asarray(np.arange(self.total) - np.repeat(self.starts[:-1], self.counts))

    def times(self) -> np.ndarray:
        """Return the place of each element in its sequence."""
        steps = np.repeat(np.arange(len(self.counts)), self.counts)
        return np.asarray(steps + self.begins[self.ranks()]) if self.chained else steps


def batch_of(rows: np.ndarray, sizes: np.ndarray, offset: int = 0, begins: np.ndarray | None = None) -> Batch:
    """Return the batch of sequences (or segments, with `begins`) of these lengths, the longest first."""
    counts = len(rows) - np.cumsum(np.bincount(sizes))[:-1]
    starts = ends_of(counts)
    return Batch(rows, np.zeros_like(rows) if begins is None else begins, counts, starts, offset, begins is not None)


def batches(sizes: np.ndarray) -> list[Batch]:
    """Return the batches of sequences of these lengths; sequences without elements are in none.

    Examples
    --------
    >>> batch, = batches(np.array([1, 3, 0]))
    >>> batch.rows.tolist(), batch.counts.tolist()
    ([1, 0], [2, 1, 1])
    """
    result: list[Batch] = []
    offset = 0
    for rows in _groups(sizes):
        make = _segments if sizes[rows[0]] > LONG else batch_of
        batch = make(rows, sizes[rows], offset)
        result.append(batch)
        offset += batch.total
    return result


def _groups(sizes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the sequences of each batch, the longest first; long ones and others apart."""
    order = np.argsort(-sizes, kind="stable")[: int(np.count_nonzero(sizes))]
    long = int(np.count_nonzero(sizes > LONG))
    for part in (order[:long], order[long:]):
        if not len(part):
            continue
        evenly = -(-len(part) // -(-len(part) // BATCH_ROWS))
        width, first = -(-evenly // 8) * 8, 0
        while first < len(part):
            rows = part[first : first + width]
            fitting = int(np.searchsorted(np.cumsum(sizes[rows]), BATCH_ELEMENTS, side="right"))
            rows = rows[: max(1, fitting)]
            yield rows
            first += len(rows)


def _segments(rows: np.ndarray, sizes: np.ndarray, offset: int) -> Batch:
    owners, begins, lengths = [], [], []
    for row, size in zip(rows.tolist(), sizes.tolist(), strict=True):
        length = 1 << -(-(size - 1).bit_length() // 2)  # about as many segments as each has elements
        cuts = np.arange(0, size, length)
        owners.append(np.full(len(cuts), row))
        begins.append(cuts)
        lengths.append(np.minimum(length, size - cuts))
    every = np.concatenate(lengths)
    order = np.argsort(-every, kind="stable")
    return batch_of(np.concatenate(owners)[order], every[order], offset, np.concatenate(begins)[order])


def ends_of(sizes: np.ndarray) -> np.ndarray:
    """Return where sequences laid end to end start, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def sources(sizes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return where each element of the batches stands among sequences laid end to end from `offsets` on."""
    parts = [offsets[batch.rows][batch.ranks()] + batch.times() for batch in batches(sizes)]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def places(sizes: np.ndarray) -> np.ndarray:
    """Return where each element of sequences laid end to end stands in the batches."""
    result = np.empty(int(sizes.sum()), np.int64)
    result[sources(sizes, ends_of(sizes)[:-1])] = np.arange(len(result))
    return result
