"""Starts of hidden Markov models: elements clustered about seeded centres, transitions counted between the clusters.

A start is given centres that were seeded on whole sequences, each showing a few of its elements. Centres of the
states are seeded among those elements, so that every shard names the states alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mixle.stats.contract import Column
from mixle.stats.latent.hmm_batches import ends_of, places
from mixle.stats.latent.hmm_encoder import Chains, picked
from mixle.stats.starts import Centres, near_hard, sample_size, seed_centres
from mixle.stats.sums import BLOCK

__all__ = ["Begun", "Start", "seeded_here"]

#: Share of the weight of a start's initial and transition counts that is spread evenly.
EVEN = 0.1
#: Seed of the choice among the elements that the seeded sequences show.
SEED = 20


class Start:
    """How elements are assigned to states before there is a model.

    Parameters
    ----------
    centres : Centres or None
        Centres of the states; None assigns by chance.
    states : int
        Number of states K.
    """

    def __init__(self, centres: Centres | None, states: int) -> None:
        self.centres, self.states = centres, states

    @classmethod
    def from_picks(cls, sequences: Centres, states: int) -> Start:
        """Return the start seeded among the elements that the given sequences show."""
        from numpy.random import RandomState

        columns = picked(sequences)
        columns = tuple(_take(c, _some(columns)) for c in columns)
        return cls(seed_centres(list(columns), states, RandomState(SEED)), states)

    def assign(self, encoder: Any, x: Chains, weights: np.ndarray, rng: Any) -> Begun:
        """Return the assignment of the elements of encoded sequences with these weights."""
        from numpy.random import RandomState

        spread = np.concatenate([weights[batch.rows][batch.ranks()] for batch in x.batches()])
        if self.centres is None:
            r = rng.dirichlet(np.full(self.states, 1.0 / self.states**2), size=x.total).T
        else:
            r = np.empty((0, 0))
        labels = np.empty(x.total, np.int64)

        def given(start: int, stop: int) -> np.ndarray:
            out = np.zeros((self.states, -(-(stop - start) // 8) * 8))
            if self.centres is None:
                part = r[:, start:stop]
            else:
                part = near_hard(encoder.encoder.columns(x.elements, start, stop), self.centres)
            labels[start:stop] = np.argmax(part, axis=0)
            out[:, : stop - start] = part * spread[start:stop]
            return out

        for start in range(0, x.total, BLOCK):
            given(start, min(start + BLOCK, x.total))
        return Begun(given, labels, self.states, RandomState(0) if rng is None else rng)


class Begun:
    """Assigned elements: responsibilities by block, and the likeliest state of each element."""

    def __init__(self, given: Callable[[int, int], np.ndarray], labels: np.ndarray, states: int, rng: Any) -> None:
        self.given, self.labels, self.states, self.rng = given, labels, states, rng

    def counts(self, x: Chains, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return smoothed initial counts (K,) and transition counts (K, K)."""
        k, sizes = self.states, x.sizes
        laid = self.labels[places(sizes)]
        some = sizes > 0
        first = ends_of(sizes)[:-1][some]
        initial = np.bincount(laid[first], weights[some], k).astype(float)
        later = np.ones(len(laid), bool)
        later[first] = False
        behind = np.flatnonzero(later)
        pairs = laid[behind - 1] * k + laid[behind]
        moves = np.bincount(pairs, np.repeat(weights, sizes)[behind], k * k).astype(float)
        transitions = moves.reshape(k, k)
        row = np.add.reduce(transitions, axis=1, keepdims=True)
        even = np.add.reduce(initial) / k
        return (1.0 - EVEN) * initial + EVEN * even, (1.0 - EVEN) * transitions + EVEN * row / k


def seeded_here(encoder: Any, x: Chains, weights: np.ndarray, states: int, rng: Any) -> Start | None:
    """Return a start seeded among sequences of positive weight; None if their elements have no columns."""
    kept = np.flatnonzero(weights > 0.0)
    if not kept.size or x.total == 0:
        return None
    sample = rng.permutation(kept)[: sample_size(states)]
    columns = encoder.columns(encoder.take(x, sample), 0, len(sample))
    if not columns:
        return None
    return Start.from_picks(seed_centres(columns, states, rng), states)


def _some(columns: tuple[Column, ...]) -> np.ndarray:
    """Return the elements that have a value in some column, or all if none has."""
    gone = np.array([np.zeros(len(c.values), bool) if c.missing is None else c.missing for c in columns])
    known = np.flatnonzero(~gone.all(axis=0))
    return known if known.size else np.arange(gone.shape[1])


def _take(column: Column, index: np.ndarray) -> Column:
    return Column(column.values[index], column.labels, None if column.missing is None else column.missing[index])
