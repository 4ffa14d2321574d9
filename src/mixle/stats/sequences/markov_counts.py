"""Encoder and statistic of Markov chains over labels: weights of first states and of pairs of neighbours."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixle.errors import ContractError, SupportError
from mixle.stats.combinators.ragged import RaggedRows, SequenceEncoder, initialize_lengths, update_lengths
from mixle.stats.contract import Column, SequenceEncodableStatisticAccumulator, StatisticAccumulatorFactory
from mixle.stats.refusals import shown
from mixle.stats.sums import block_sum, signed_suff_stat

__all__ = [
    "MarkovChainAccumulator",
    "MarkovChainEncoder",
    "MarkovChainFactory",
    "MarkovChainStatistics",
    "neighbours",
]

#: Elements of a sequence that a start looks at.
SHOWN = 6


class MarkovChainStatistics(NamedTuple):
    """Statistic of Markov chains over S labels.

    Attributes
    ----------
    schema_version : int
        Version of this layout.
    states : tuple
        The labels.
    initial_counts : tuple of float, length S
        Weight of each label as the first one.
    transition_counts : tuple of tuple of float, S by S
        Weight of each label (column) after each label (row).
    length_nobs : float
        Weight of the sequences.
    length : object
        Statistic of the lengths.
    """

    schema_version: int
    states: tuple[Any, ...]
    initial_counts: tuple[float, ...]
    transition_counts: tuple[tuple[float, ...], ...]
    length_nobs: float
    length: Any

    def scaled(self, c: float) -> MarkovChainStatistics:
        """Return the statistic with every weight times `c`."""
        initial = tuple(x * c for x in self.initial_counts)
        moves = tuple(tuple(x * c for x in row) for row in self.transition_counts)
        length = signed_suff_stat(self.length, c)
        return MarkovChainStatistics(self.schema_version, self.states, initial, moves, self.length_nobs * c, length)


def neighbours(x: RaggedRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows that have elements, where their first elements stand, and where all later elements stand."""
    begun = np.flatnonzero(x.sizes() > 0)
    first = x.offsets[:-1][begun]
    later = np.ones(int(x.offsets[-1]), bool)
    later[first] = False
    return begun, first, np.flatnonzero(later)


class MarkovChainEncoder(SequenceEncoder):
    """Encoder of sequences of labels."""

    def columns(self, payload: RaggedRows, start: int, stop: int) -> list[Column] | None:
        """Return the length of each sequence and a few of its labels, evenly spaced."""
        part = self.slice(payload, start, stop)
        sizes = part.sizes()
        gone = sizes == 0
        shares = np.arange(SHOWN) / (SHOWN - 1)
        places = part.offsets[:-1, None] + (shares * np.maximum(sizes - 1, 0)[:, None]).astype(np.int64)
        places[gone] = 0
        codes = part.elements.x if len(part.elements.x) else np.zeros(1, np.int8)
        labels = part.elements.labels or (None,)
        missing = gone if gone.any() else None
        shown = [Column(np.asarray(codes[places[:, j]]), labels, missing) for j in range(SHOWN)]
        return [Column(sizes.astype(float)), *shown]


class MarkovChainAccumulator(SequenceEncodableStatisticAccumulator):
    """Accumulator of a `MarkovChainEstimator`.

    Parameters
    ----------
    encoder : LeafEncoder
        Encoder of a label.
    length : accumulator
        That of the lengths.
    levels : tuple, optional
        All the labels there may be; others are refused.
    keys : hashable, optional
        Tying key.
    """

    def __init__(self, encoder: Any, length: Any, levels: tuple[Any, ...] | None, keys: Any) -> None:
        self.encoder, self.length, self.levels, self.keys = encoder, length, levels, keys
        self._index: dict[Any, int] = {}
        self.initial, self.moves, self.nobs = np.zeros(0), np.zeros((0, 0)), 0.0
        self._grow(levels or ())

    def _grow(self, labels: tuple[Any, ...]) -> np.ndarray:
        """Return the index of each label, new ones being entered."""
        before = len(self._index)
        places = np.array([self._index.setdefault(label, len(self._index)) for label in labels], np.intp)
        more = len(self._index) - before
        if more:
            self.initial = np.pad(self.initial, (0, more))
            self.moves = np.pad(self.moves, (0, more))
        return places

    def supported_rows(self, x: RaggedRows) -> np.ndarray | None:
        """Return which sequences hold only labels there may be, shape (n,), or None for all."""
        if self.levels is None:
            return None
        known = np.array([label in self._index for label in x.elements.labels or ()], bool)
        if known.all():
            return None
        lost = np.zeros(x.rows, bool)
        lost[x.owners()[~known[x.elements.x]]] = True
        return ~lost

    def _refuse(self, x: RaggedRows, weights: np.ndarray) -> None:
        supported = self.supported_rows(x)
        if supported is None:
            return
        bad = np.flatnonzero(~supported & (weights > 0.0))
        if bad.size:
            reason = "the sequence holds a label that is not among levels; add it to levels=, or leave the row out"
            raise SupportError(reason, "MarkovChain", int(bad[0]))

    def _count(self, x: RaggedRows, weights: np.ndarray) -> None:
        """Add the labels of encoded sequences; those of weight zero show no label."""
        self.nobs += block_sum(weights)
        begun, first, later = neighbours(x)
        spread = weights[x.owners()]
        codes, labels = x.elements.x, x.elements.labels or ()
        seen = np.bincount(codes[spread > 0.0], minlength=len(labels)) > 0
        places = np.zeros(len(labels), np.intp)
        places[seen] = self._grow(tuple(label for label, there in zip(labels, seen.tolist(), strict=True) if there))
        if not seen.any():
            return
        states, size = places[codes], len(self._index)
        self.initial = self.initial + np.bincount(states[first], weights[begun], size)
        pairs = states[later - 1] * size + states[later]
        if size * size <= max(4 * len(pairs), 4096):
            self.moves += np.bincount(pairs, spread[later], size * size).reshape(size, size)
        else:
            which, inverse = np.unique(pairs, return_inverse=True)
            self.moves.reshape(-1)[which] += np.bincount(inverse, spread[later], len(which))

    def seq_update(self, x: RaggedRows, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded sequences.

        Raises
        ------
        SupportError
            If a sequence of positive weight holds a label that is not among the levels.
        """
        self._refuse(x, weights)
        self._count(x, weights)
        update_lengths(self.length, x.lengths, weights, estimate)

    def seq_initialize(self, x: RaggedRows, weights: np.ndarray, rng: Any) -> None:
        """Add encoded sequences before there is a model."""
        self._refuse(x, weights)
        self._count(x, weights)
        initialize_lengths(self.length, x.lengths, weights, rng)

    def combine(self, suff_stat: Any) -> MarkovChainAccumulator:
        """Add another statistic.

        Raises
        ------
        ValueError
            If it holds a label that is not among the levels.
        """
        self._add(suff_stat)
        self.length.combine(suff_stat[5])
        return self

    def _add(self, suff_stat: Any) -> None:
        """Add the counts of a statistic."""
        _, states, initial, moves, nobs, _ = suff_stat
        unknown = [s for s in states if s not in self._index] if self.levels is not None else []
        if unknown:
            label = shown(unknown[0])
            raise ContractError(f"the statistic holds the label {label}, none of the levels; add it to levels=")
        places = self._grow(tuple(states))
        if len(places):
            self.initial[places] += np.asarray(initial, float)
            self.moves[np.ix_(places, places)] += np.asarray(moves, float)
        self.nobs += nobs

    def value(self) -> MarkovChainStatistics:
        """Return the statistic."""
        moves = tuple(tuple(row) for row in self.moves.tolist())
        return MarkovChainStatistics(
            1, tuple(self._index), tuple(self.initial.tolist()), moves, self.nobs, self.length.value()
        )

    def from_value(self, x: Any) -> MarkovChainAccumulator:
        """Replace the statistic."""
        self._index, self.nobs = {}, 0.0
        self.initial, self.moves = np.zeros(0), np.zeros((0, 0))
        self._grow(self.levels or ())
        self._add(x)
        self.length.from_value(x[5])
        return self

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Pool the whole under its key, then the lengths under theirs."""
        super().key_merge(stats_dict)
        self.length.key_merge(stats_dict)

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take the pooled whole, then the pooled lengths."""
        super().key_replace(stats_dict)
        self.length.key_replace(stats_dict)

    def acc_to_encoder(self) -> MarkovChainEncoder:
        """Return the encoder."""
        return MarkovChainEncoder(self.encoder, self.length.acc_to_encoder())


class MarkovChainFactory(StatisticAccumulatorFactory):
    """Factory of `MarkovChainAccumulator`."""

    def __init__(self, encoder: Any, length: Any, levels: tuple[Any, ...] | None, keys: Any) -> None:
        self.encoder, self.length, self.levels, self.keys = encoder, length, levels, keys

    def make(self) -> MarkovChainAccumulator:
        """Return a fresh accumulator."""
        return MarkovChainAccumulator(self.encoder, self.length.make(), self.levels, self.keys)
