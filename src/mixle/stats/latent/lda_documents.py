"""Encoded documents: pairs of a word and how often it stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats.combinators.ragged import at_places, of_its_row
from mixle.stats.contract import Column, DataSequenceEncoder
from mixle.stats.latent.hmm_encoder import PICKS
from mixle.stats.latent.hmm_take import take
from mixle.stats.reading import read_numbers
from mixle.stats.refusals import shown

__all__ = ["Documents", "LDADataEncoder"]


class Documents(NamedTuple):
    """Encoded documents.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n + 1,)
        Document i has the pairs ``offsets[i]:offsets[i + 1]``; the first offset is 0.
    counts : ndarray, shape (pairs,)
        How often each word stands there, > 0.
    elements : object
        The word encoder's payload, a row per pair.
    lengths : object
        The payload of the numbers of words.
    """

    offsets: np.ndarray
    counts: np.ndarray
    elements: Any
    lengths: Any

    @property
    def rows(self) -> int:
        """Return the number of documents."""
        return len(self.offsets) - 1

    @property
    def total(self) -> int:
        """Return the number of pairs."""
        return int(self.offsets[-1])

    @property
    def sizes(self) -> np.ndarray:
        """Return the number of pairs of each document, shape (n,)."""
        return np.diff(self.offsets)

    def owners(self) -> np.ndarray:
        """Return the document of each pair."""
        return np.repeat(np.arange(self.rows), self.sizes)

    def spread(self, weights: np.ndarray) -> np.ndarray:
        """Return the weight of each pair: its count times the weight of its document."""
        return np.asarray(np.repeat(weights, self.sizes) * self.counts)

    def words(self) -> np.ndarray:
        """Return the number of words of each document, shape (n,)."""
        result = np.zeros(self.rows)
        some = self.sizes > 0
        if some.any():
            result[some] = np.add.reduceat(self.counts, self.offsets[:-1][some])
        return result


class LDADataEncoder(DataSequenceEncoder):
    """Encoder of documents, which are sequences of pairs (word, count).

    Parameters
    ----------
    encoder, length : DataSequenceEncoder
        Encoders of a word and of a number of words.
    """

    def __init__(self, encoder: DataSequenceEncoder, length: DataSequenceEncoder) -> None:
        self.encoder, self.length = encoder, length

    def seq_encode(self, rows: Sequence[Any]) -> Documents:
        """Encode documents.

        Raises
        ------
        RowError
            For a row that is no sequence of pairs, a count that is not above 0 and finite, or a word that cannot be
            read.
        """
        words, counts, sizes = _read(rows)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        try:
            elements = self.encoder.seq_encode(words)
        except RowError as error:
            raise of_its_row(error.inside(0), offsets) from None
        found = Documents(offsets, counts, elements, None)
        try:
            return found._replace(lengths=self.length.seq_encode(_whole(found.words())))
        except RowError as error:
            raise error.inside("length") from None

    def row_count(self, payload: Documents) -> int:
        """Return the number of documents."""
        return payload.rows

    def nbytes(self, payload: Documents) -> int:
        """Return the bytes of offsets, counts, words and lengths."""
        children = self.encoder.nbytes(payload.elements) + self.length.nbytes(payload.lengths)
        return int(payload.offsets.nbytes + payload.counts.nbytes) + children

    def slice(self, payload: Documents, start: int, stop: int) -> Documents:
        """Return documents ``start:stop``."""
        stop = max(start, min(stop, payload.rows))
        offsets = payload.offsets[start : stop + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        elements = self.encoder.slice(payload.elements, first, last)
        lengths = self.length.slice(payload.lengths, start, stop)
        return Documents(offsets - first, payload.counts[first:last], elements, lengths)

    def take(self, payload: Documents, index: np.ndarray) -> Documents:
        """Return the documents at `index`, in that order."""
        sizes = payload.sizes[index]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        pairs = np.arange(offsets[-1]) + np.repeat(payload.offsets[index] - offsets[:-1], sizes)
        elements, lengths = take(self.encoder, payload.elements, pairs), take(self.length, payload.lengths, index)
        return Documents(offsets, payload.counts[pairs], elements, lengths)

    def columns(self, payload: Documents, start: int, stop: int) -> list[Column] | None:
        """Return `PICKS` words of each document, evenly spaced, as that many groups of columns."""
        part = payload if (start, stop) == (0, payload.rows) else self.slice(payload, start, stop)
        words = self.encoder.columns(part.elements, 0, part.total)
        if not words:
            return None if words is None else []
        where = np.full((part.rows, PICKS), -1, np.int64)
        some = part.sizes > 0
        steps = ((np.arange(PICKS) + 0.5) / PICKS * part.sizes[some, None]).astype(np.int64)
        where[some] = part.offsets[:-1][some, None] + steps
        return [at_places(column, places) for places in where.T for column in words]


def _read(rows: Sequence[Any]) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """Return the words and counts of all documents, and how many pairs each has."""
    kinds = (list, tuple, np.ndarray)
    if set(map(type, rows)) <= set(kinds):
        pairs = list(chain.from_iterable(rows))
        if set(map(type, pairs)) <= {list, tuple} and set(map(len, pairs)) <= {2}:
            counts = [pair[1] for pair in pairs]
            if set(map(type, counts)) <= {int, float} and all(0.0 < c < 2.0**53 for c in counts):
                sizes = np.fromiter(map(len, rows), np.int64, len(rows))
                return [pair[0] for pair in pairs], np.array(counts, float), sizes
    words, found, lengths = [], [], []
    for i, row in enumerate(rows):
        if isinstance(row, (str, bytes, Mapping)) or not (hasattr(row, "__len__") and np.iterable(row)):
            raise RowError(f"{shown(row)} is not a list of pairs; pass [(word, count), ...]", "LDA", i)
        lengths.append(len(row))  # type: ignore[arg-type]  # it was just asked whether it has one
        for j, pair in enumerate(row):
            if not isinstance(pair, kinds) or len(pair) != 2:
                raise RowError(f"{shown(pair)} is not a pair; pass (word, count)", "LDA", i, (j,))
            words.append(pair[0])
            found.append(_count(pair[1], i, j))
    return words, np.array(found, float), np.array(lengths, np.int64)


def _count(value: Any, row: int, place: int) -> float:
    try:
        number = float(read_numbers([value], "LDA")[0])
    except RowError as error:
        raise RowError(error.reason, "LDA", row, (place, 1)) from None
    if not number > 0.0:
        raise RowError(f"a count must be above 0, is {shown(value)}", "LDA", row, (place, 1))
    return number


def _whole(words: np.ndarray) -> list[Any]:
    """Return numbers of words, whole ones as integers."""
    return [int(n) if n == int(n) else n for n in words.tolist()]
