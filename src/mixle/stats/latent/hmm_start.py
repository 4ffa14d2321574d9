"""Starts of hidden Markov models: elements clustered about seeded centres, transitions counted between the clusters.

A start is given centres that were seeded on whole sequences, each showing a few of its elements. The centres of the
states are found among those elements, so that every shard names the states alike: k-means++ seedings, each improved
by Lloyd's iteration (1982, IEEE Transactions on Information Theory 28), the tightest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mixle.stats.contract import Column
from mixle.stats.latent.hmm_batches import ends_of, places
from mixle.stats.latent.hmm_encoder import Chains, picked
from mixle.stats.starts import SHARE, Centres, distances, sample_size, seed_centres
from mixle.stats.sums import BLOCK

__all__ = ["Begun", "Start", "seeded_here"]

#: Share of the weight of a start's initial and transition counts that is spread evenly.
EVEN = 0.1
#: Share of the transitions that a start by chance leaves in place: what tells its states apart is not yet known.
STAY = 0.5
#: Seed, seedings and improvements of the choice of centres among the elements that the seeded sequences show.
SEED, SEEDINGS, IMPROVEMENTS = 20, 8, 10


class Start:
    """How elements are assigned to states before there is a model.

    Parameters
    ----------
    states : int
        Number of states K.
    centres : Centres, optional
        Centres of the states.
    affinities : sequence of dict, optional
        For each column, the share of each state (K,) in each label.

    Notes
    -----
    With neither, elements are assigned by chance.
    """

    def __init__(
        self, states: int, centres: Centres | None = None, affinities: Sequence[dict[Any, np.ndarray]] | None = None
    ) -> None:
        self.states, self.centres, self.affinities = states, centres, affinities

    @classmethod
    def from_picks(cls, sequences: Centres, states: int) -> Start:
        """Return the start seeded among the elements that the given sequences show."""
        from numpy.random import RandomState

        columns = picked(sequences)
        if all(column.labels is not None for column in columns):
            rng = RandomState(SEED)
            shares = [rng.dirichlet(np.ones(states), size=len(column.labels or ())) for column in columns]
            pairs = zip(columns, shares, strict=True)
            return cls(states, None, [dict(zip(column.labels or (), share, strict=True)) for column, share in pairs])
        known = _some(columns)
        return cls(states, _clustered([_take(column, known) for column in columns], states))

    def assign(self, encoder: Any, x: Chains, weights: np.ndarray, rng: Any) -> Begun:
        """Return the assignment of the elements of encoded sequences with these weights."""
        from numpy.random import RandomState

        spread = np.concatenate([weights[batch.rows][batch.ranks()] for batch in x.batches()])
        chance = None
        if self.centres is None and self.affinities is None:
            chance = rng.dirichlet(np.full(self.states, 1.0 / self.states**2), size=x.total).T
        labels = np.empty(x.total, np.int64)

        def given(start: int, stop: int) -> np.ndarray:
            out = np.zeros((self.states, -(-(stop - start) // 8) * 8))
            if chance is None:
                part = self._shares(encoder.encoder.columns(x.elements, start, stop))
            else:
                part = chance[:, start:stop]
            labels[start:stop] = np.where(np.maximum.reduce(part, axis=0) > 0.5, np.argmax(part, axis=0), -1)
            out[:, : stop - start] = part * spread[start:stop]
            return out

        for start in range(0, x.total, BLOCK):
            given(start, min(start + BLOCK, x.total))
        stay = STAY if self.centres is None else 0.0
        return Begun(given, labels, self.states, RandomState(0) if rng is None else rng, stay)

    def _shares(self, columns: Sequence[Column]) -> np.ndarray:
        """Return responsibilities (K, n): nearly all to the nearest centre, shared between those as near."""
        if self.affinities is not None:
            return _product(columns, self.affinities, self.states)
        if self.centres is None or self.states == 1:
            return np.ones((1, len(columns[0].values)))
        found = distances(columns, self.centres)
        near = (found == np.minimum.reduce(found, axis=0)).astype(float)
        near *= 1.0 / np.add.reduce(near, axis=0)
        return np.asarray(near * (1.0 - SHARE) + SHARE / self.states)


def _product(columns: Sequence[Column], affinities: Sequence[dict[Any, np.ndarray]], states: int) -> np.ndarray:
    result = np.full((len(columns[0].values), states), 1.0 / states)
    for column, affinity in zip(columns, affinities, strict=True):
        even = np.full(states, 1.0 / states)
        table = np.array([affinity.get(label, even) for label in column.labels or ()]).reshape(-1, states)
        known = np.ones(len(result), bool) if column.missing is None else ~column.missing
        result[known] *= table[np.asarray(column.values)[known]]
    return np.asarray((result / np.add.reduce(result, axis=1, keepdims=True)).T)


class Begun:
    """Assigned elements: responsibilities by block, and the state of each element, -1 where several are as likely."""

    def __init__(
        self, given: Callable[[int, int], np.ndarray], labels: np.ndarray, states: int, rng: Any, stay: float
    ) -> None:
        self.given, self.labels, self.states, self.rng, self.stay = given, labels, states, rng, stay

    def counts(self, x: Chains, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return smoothed initial counts (K,) and transition counts (K, K)."""
        k, sizes = self.states, x.sizes
        laid = self.labels[places(sizes)]
        some = sizes > 0
        first = ends_of(sizes)[:-1][some]
        # element -1 stands for no state: an extra row and column, which is then spread evenly
        initial = np.bincount(laid[first] + 1, weights[some], k + 1).astype(float)
        later = np.ones(len(laid), bool)
        later[first] = False
        behind = np.flatnonzero(later)
        pairs = (laid[behind - 1] + 1) * (k + 1) + laid[behind] + 1
        moves = np.bincount(pairs, np.repeat(weights, sizes)[behind], (k + 1) ** 2).reshape(k + 1, k + 1).astype(float)
        moves = moves[1:] + moves[:1] / k
        moves = moves[:, 1:] + moves[:, :1] / k
        initial = initial[1:] + initial[:1] / k
        row = np.add.reduce(moves, axis=1, keepdims=True)
        even = np.add.reduce(initial) / k
        moves = (1.0 - EVEN - self.stay) * moves + EVEN * row / k + self.stay * row * np.eye(k)
        return (1.0 - EVEN) * initial + EVEN * even, moves


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


def _clustered(columns: list[Column], states: int) -> Centres:
    from numpy.random import RandomState

    found: list[tuple[float, Centres]] = []
    for trial in range(SEEDINGS):
        centres = seed_centres(columns, states, RandomState(SEED + trial))
        for _ in range(IMPROVEMENTS):
            centres = _improved(columns, centres)
        found.append((float(np.add.reduce(np.minimum.reduce(distances(columns, centres), axis=0))), centres))
    return min(found, key=lambda one: one[0])[1]


def _improved(columns: Sequence[Column], centres: Centres) -> Centres:
    """Return the centres with their real columns moved to the means of the elements nearest to them."""
    nearest = np.argmin(distances(columns, centres), axis=0)
    moved = []
    for column, old in zip(columns, centres.columns, strict=True):
        if column.labels is not None:
            moved.append(old)
            continue
        known = np.ones(len(nearest)) if column.missing is None else 1.0 - column.missing
        weight = np.bincount(nearest, known, centres.components)
        total = np.bincount(nearest, np.where(known > 0.0, column.values, 0.0), centres.components)
        values = np.where(weight > 0.0, total / np.maximum(weight, 1.0), old.values)
        missing = None if old.missing is None else old.missing & (weight == 0.0)
        moved.append(Column(values, None, missing))
    return Centres(tuple(moved), centres.scales)


def _some(columns: tuple[Column, ...]) -> np.ndarray:
    """Return the elements that have a value in some column, or all if none has."""
    gone = np.array([np.zeros(len(c.values), bool) if c.missing is None else c.missing for c in columns])
    known = np.flatnonzero(~gone.all(axis=0))
    return known if known.size else np.arange(gone.shape[1])


def _take(column: Column, index: np.ndarray) -> Column:
    return Column(column.values[index], column.labels, None if column.missing is None else column.missing[index])
