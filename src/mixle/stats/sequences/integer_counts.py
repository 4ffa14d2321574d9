"""Encoder and statistic of chains of integers that remember a fixed number of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mixle.errors import RowError, SupportError
from mixle.stats.combinators.parts import update_part
from mixle.stats.combinators.ragged import RaggedRows, SequenceEncoder, initialize_lengths, update_lengths
from mixle.stats.contract import (
    Column,
    DataSequenceEncoder,
    SequenceEncodableStatisticAccumulator,
    StatisticAccumulatorFactory,
)
from mixle.stats.reading import read_integers
from mixle.stats.refusals import refuse_statistic
from mixle.stats.sums import block_sum, signed_suff_stat

__all__ = [
    "IntegerChains",
    "IntegerMarkovChainAccumulator",
    "IntegerMarkovChainEncoder",
    "IntegerMarkovChainFactory",
    "IntegerMarkovChainStatistics",
]


class IntegerMarkovChainStatistics(NamedTuple):
    """Statistic of chains of integers.

    Attributes
    ----------
    schema_version : int
        Version of this layout.
    num_values, lag : int
        The values are 0, ..., num_values − 1; each depends on `lag` values before it.
    transition_counts : tuple of (tuple of int, int, float)
        Values before, value, weight; those of weight zero are left out.
    initial_nobs : float
        Weight of the sequences whose first values were counted.
    initial : object
        Statistic of the first `lag` values.
    length_nobs : float
        Weight of the sequences.
    length : object
        Statistic of the lengths.
    """

    schema_version: int
    num_values: int
    lag: int
    transition_counts: tuple[tuple[tuple[int, ...], int, float], ...]
    initial_nobs: float
    initial: Any
    length_nobs: float
    length: Any

    def scaled(self, c: float) -> IntegerMarkovChainStatistics:
        """Return the statistic with every weight times `c`."""
        moves = tuple((before, value, w * c) for before, value, w in self.transition_counts if w * c != 0.0)
        return self._replace(
            transition_counts=moves,
            initial_nobs=self.initial_nobs * c,
            initial=signed_suff_stat(self.initial, c),
            length_nobs=self.length_nobs * c,
            length=signed_suff_stat(self.length, c),
        )


class IntegerChains(NamedTuple):
    """Encoded sequences of integers.

    Attributes
    ----------
    rows : RaggedRows
        Offsets, values and lengths; a value outside of 0, ..., num_values − 1 is −1.
    initial : object
        Payload of the first `lag` values of each sequence, zeros where it is too short or outside.
    outside : ndarray of bool, shape (n,)
        Sequences that are too short or hold a value outside.
    """

    rows: RaggedRows
    initial: Any
    outside: np.ndarray


class _Values(DataSequenceEncoder):
    """Encoder of one value: an integer, −1 if it is outside the range."""

    def __init__(self, num_values: int) -> None:
        self.num_values = num_values

    def seq_encode(self, rows: Sequence[Any]) -> np.ndarray:
        x, broken = read_integers(rows, "IntegerMarkovChain")
        outside = (x < 0.0) | (x >= self.num_values)
        outside = outside if broken is None else outside | broken
        return np.where(outside, -1.0, x).astype(np.int64)

    def columns(self, payload: np.ndarray, start: int, stop: int) -> list[Column] | None:
        return [Column(payload[start:stop].astype(float))]

    def take(self, payload: np.ndarray, index: np.ndarray) -> np.ndarray:
        part: np.ndarray = payload[index]
        return part


class IntegerMarkovChainEncoder(DataSequenceEncoder):
    """Encoder of sequences of integers.

    Parameters
    ----------
    num_values, lag : int
        Range of the values, and how many of them come first.
    initial, length : DataSequenceEncoder
        Encoders of the list of the first values, and of the length.
    """

    def __init__(self, num_values: int, lag: int, initial: DataSequenceEncoder, length: DataSequenceEncoder) -> None:
        self.num_values, self.lag, self.initial = num_values, lag, initial
        self.inner = SequenceEncoder(_Values(num_values), length)

    def seq_encode(self, rows: Sequence[Any]) -> IntegerChains:
        """Encode sequences.

        Raises
        ------
        RowError
            For a row that is not a sequence, or with the element that is no number as the innermost field.
        """
        ragged = self.inner.seq_encode(rows)
        sizes = ragged.sizes()
        outside = np.asarray((sizes < self.lag) | (np.bincount(ragged.owners(), ragged.elements < 0, ragged.rows) > 0))
        heads = np.zeros((ragged.rows, self.lag), np.int64)
        kept = np.flatnonzero(~outside)
        heads[kept] = ragged.elements[ragged.offsets[kept][:, None] + np.arange(self.lag)]
        return IntegerChains(ragged, self.initial.seq_encode(heads.tolist()), outside)

    def row_count(self, payload: IntegerChains) -> int:
        """Return the number of sequences."""
        return payload.rows.rows

    def nbytes(self, payload: IntegerChains) -> int:
        """Return the bytes of all parts."""
        return self.inner.nbytes(payload.rows) + self.initial.nbytes(payload.initial) + int(payload.outside.nbytes)

    def slice(self, payload: IntegerChains, start: int, stop: int) -> IntegerChains:
        """Return sequences ``start:stop``."""
        initial = self.initial.slice(payload.initial, start, stop)
        return IntegerChains(self.inner.slice(payload.rows, start, stop), initial, payload.outside[start:stop])

    def columns(self, payload: IntegerChains, start: int, stop: int) -> list[Column] | None:
        """Return the length and the mean of the values of each sequence."""
        return self.inner.columns(payload.rows, start, stop)


def contexts(x: IntegerChains, num_values: int, lag: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return owner, code of the values before, and value of each element that has `lag` values before it.

    Sequences that are outside have none.
    """
    ragged, sizes = x.rows, x.rows.sizes()
    owners = ragged.owners()
    place = np.arange(len(owners)) - ragged.offsets[:-1][owners]
    at = np.flatnonzero((place >= lag) & ~x.outside[owners]) if len(sizes) else np.zeros(0, np.int64)
    before = np.zeros(len(at), np.int64)
    for back in range(lag, 0, -1):
        before = before * num_values + ragged.elements[at - back]
    return owners[at], before, ragged.elements[at]


class IntegerMarkovChainAccumulator(SequenceEncodableStatisticAccumulator):
    """Accumulator of an `IntegerMarkovChainEstimator`."""

    def __init__(self, num_values: int, lag: int, initial: Any, length: Any, keys: Any) -> None:
        self.num_values, self.lag, self.keys = num_values, lag, keys
        self.initial, self.length = initial, length
        self.moves = np.zeros((num_values**lag, num_values))
        self.initial_nobs, self.length_nobs = 0.0, 0.0

    def supported_rows(self, x: IntegerChains) -> np.ndarray | None:
        """Return which sequences are long enough and inside the range, shape (n,), or None for all."""
        return ~x.outside if x.outside.any() else None

    def _count(self, x: IntegerChains, weights: np.ndarray) -> None:
        bad = np.flatnonzero(x.outside & (weights > 0.0))
        if bad.size:
            what = f"the sequence is shorter than lag={self.lag} or holds a value outside of 0 to {self.num_values - 1}"
            what += "; leave it out, or raise num_values"
            raise SupportError(what, "IntegerMarkovChain", int(bad[0]))
        owners, before, values = contexts(x, self.num_values, self.lag)
        codes = before * self.num_values + values
        self.moves += np.bincount(codes, weights[owners], self.moves.size).reshape(self.moves.shape)
        total = block_sum(weights)
        self.initial_nobs, self.length_nobs = self.initial_nobs + total, self.length_nobs + total

    def seq_update(self, x: IntegerChains, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded sequences.

        Raises
        ------
        SupportError
            If a sequence of positive weight is too short or holds a value outside the range.
        """
        self._count(x, weights)
        try:
            update_part(self.initial, x.initial, weights, None if estimate is None else estimate.init_dist)
        except RowError as error:
            raise error.inside("first values") from None
        update_lengths(self.length, x.rows.lengths, weights, estimate)

    def seq_initialize(self, x: IntegerChains, weights: np.ndarray, rng: Any) -> None:
        """Add encoded sequences before there is a model."""
        self._count(x, weights)
        self.initial.seq_initialize(x.initial, weights, rng)
        initialize_lengths(self.length, x.rows.lengths, weights, rng)

    def combine(self, suff_stat: Any) -> IntegerMarkovChainAccumulator:
        """Add another statistic.

        Raises
        ------
        ValueError
            If it is of another range or lag.
        """
        self._add(suff_stat)
        self.initial.combine(suff_stat[5])
        self.length.combine(suff_stat[7])
        return self

    def _add(self, suff_stat: Any) -> None:
        stat = IntegerMarkovChainStatistics(*suff_stat)
        if (stat.num_values, stat.lag) != (self.num_values, self.lag):
            refuse_statistic((stat.num_values, stat.lag), (self.num_values, self.lag), "as (num_values, lag)")
        self.moves += dense_counts(stat)
        self.initial_nobs += stat.initial_nobs
        self.length_nobs += stat.length_nobs

    def value(self) -> IntegerMarkovChainStatistics:
        """Return the statistic."""
        rows, values = np.nonzero(self.moves)
        digits = [((rows // self.num_values ** (self.lag - 1 - j)) % self.num_values).tolist() for j in range(self.lag)]
        weights = self.moves[rows, values].tolist()
        moves = tuple(zip(zip(*digits, strict=True), values.tolist(), weights, strict=True))
        return IntegerMarkovChainStatistics(
            1, self.num_values, self.lag, moves,
            self.initial_nobs, self.initial.value(), self.length_nobs, self.length.value(),
        )  # fmt: skip

    def from_value(self, x: Any) -> IntegerMarkovChainAccumulator:
        """Replace the statistic."""
        self.moves = np.zeros_like(self.moves)
        self.initial_nobs, self.length_nobs = 0.0, 0.0
        self._add(x)
        self.initial.from_value(x[5])
        self.length.from_value(x[7])
        return self

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Pool the whole under its key, then both children under theirs."""
        super().key_merge(stats_dict)
        self.initial.key_merge(stats_dict)
        self.length.key_merge(stats_dict)

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take the pooled whole, then the pooled statistics of both children."""
        super().key_replace(stats_dict)
        self.initial.key_replace(stats_dict)
        self.length.key_replace(stats_dict)

    def acc_to_encoder(self) -> IntegerMarkovChainEncoder:
        """Return the encoder."""
        initial, length = self.initial.acc_to_encoder(), self.length.acc_to_encoder()
        return IntegerMarkovChainEncoder(self.num_values, self.lag, initial, length)


def dense_counts(stat: IntegerMarkovChainStatistics) -> np.ndarray:
    """Return the transition counts as an array (num_values ** lag, num_values)."""
    counts = np.zeros((stat.num_values**stat.lag, stat.num_values))
    for before, value, weight in stat.transition_counts:
        row = 0
        for digit in before:
            row = row * stat.num_values + int(digit)
        counts[row, int(value)] += weight
    return counts


class IntegerMarkovChainFactory(StatisticAccumulatorFactory):
    """Factory of `IntegerMarkovChainAccumulator`."""

    def __init__(self, num_values: int, lag: int, initial: Any, length: Any, keys: Any) -> None:
        self.num_values, self.lag, self.initial, self.length, self.keys = num_values, lag, initial, length, keys

    def make(self) -> IntegerMarkovChainAccumulator:
        """Return a fresh accumulator."""
        return IntegerMarkovChainAccumulator(
            self.num_values, self.lag, self.initial.make(), self.length.make(), self.keys
        )
