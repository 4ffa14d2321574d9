"""Starts of hidden Markov models: elements clustered about seeded centres, transitions counted between the clusters.

A start is seeded on a sample of sequences, each showing a few of its elements, so that every shard names the states
alike. The centres of the states are found among those elements: k-means++ seedings, each improved by Lloyd's iteration
(1982, IEEE Transactions on Information Theory 28), the tightest of them. Elements that are labels and nothing else
have no distances to speak of: each label is shared between the states by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mixle.stats.contract import Column
from mixle.stats.latent.hmm_batches import ends_of, places
from mixle.stats.latent.hmm_encoder import Chains, picked
from mixle.stats.starts import (
    SHARE,
    Centres,
    distances,
    known_rows,
    sample_size,
    seed_centres,
    seed_components,
    seed_start,
    start_components,
    take_columns,
    telling,
)
from mixle.stats.sums import BLOCK

__all__ = ["Begun", "Start", "seeded_here"]

#: Share of the weight of a start's initial and transition counts that is spread evenly.
EVEN = 0.1
#: Share of the transitions that a start by chance leaves in place: what tells its states apart is not yet known.
STAY = 0.5
#: Share of a label that a start gives to the state it was dealt to.
HOME = 0.5
#: Elements per state, and at least, among which centres are sought; seedings, and improvements of each.
PER_STATE, AT_LEAST, SEEDINGS, IMPROVEMENTS = 64, 1024, 8, 10


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
    parts : tuple
        Seeds of mixtures inside the emissions, one entry per state, or empty.

    Notes
    -----
    With neither centres nor affinities, elements are assigned by chance.
    """

    def __init__(
        self,
        states: int,
        centres: Centres | None = None,
        affinities: Sequence[dict[Any, np.ndarray]] | None = None,
        parts: tuple[Any, ...] = (),
    ) -> None:
        self.states, self.centres, self.affinities, self.parts = states, centres, affinities, parts

    @classmethod
    def seeded(cls, estimators: Sequence[Any], sequences: Sequence[Column], rng: Any) -> Start:
        """Return a start seeded on the columns of sampled sequences.

        Parameters
        ----------
        estimators : sequence of estimators
            Those of the states' emissions.
        sequences : sequence of Column
            What the encoder shows of each sequence.
        rng : numpy.random.RandomState
            Source of the draws.
        """
        states, columns = len(estimators), picked(sequences)
        known = known_rows(columns)
        sample = list(take_columns(columns, rng.permutation(known)[: max(PER_STATE * states, AT_LEAST)]))
        if all(column.labels is not None for column in telling(columns)):
            affinities = [_dealt(column.labels or (), states, rng) for column in telling(columns)]
            inner = [seed_start(e, sample, rng) if start_components(e) else None for e in estimators]
            return cls(states, None, affinities, tuple(inner) if any(part is not None for part in inner) else ())
        centres = seed_components(estimators, _clustered(telling(sample), states, rng), sample, rng)
        return cls(states, centres, None, centres.parts)

    def assign(self, encoder: Any, x: Any, weights: np.ndarray, rng: Any) -> Begun:
        """Return the assignment of the elements of encoded sequences, or of words of documents, with these weights."""
        spread = x.spread(weights)
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
            labels[start:stop] = _likeliest(part)
            out[:, : stop - start] = part * spread[start:stop]
            return out

        for start in range(0, x.total, BLOCK):
            given(start, min(start + BLOCK, x.total))
        stay = STAY if self.centres is None else 0.0
        return Begun(given, labels, self.states, stay)

    def labels(self, columns: Sequence[Column]) -> np.ndarray:
        """Return the state of each element (n,), -1 where several are as likely."""
        if self.centres is None and self.affinities is None:
            return np.full(len(columns[0].values), -1, np.int64)
        return _likeliest(self._shares(columns))

    def _shares(self, columns: Sequence[Column]) -> np.ndarray:
        """Return responsibilities (K, n): nearly all to the nearest centre, shared between those as near."""
        if self.affinities is not None:
            return _product(telling(columns), self.affinities, self.states)
        if self.centres is None or self.states == 1:
            return np.ones((1, len(columns[0].values)))
        found = distances(columns, self.centres)
        near = (found == np.minimum.reduce(found, axis=0)).astype(float)
        near *= 1.0 / np.add.reduce(near, axis=0)
        return np.asarray(near * (1.0 - SHARE) + SHARE / self.states)


def _likeliest(shares: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(np.maximum.reduce(shares, axis=0) > 0.5, np.argmax(shares, axis=0), -1))


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

    def __init__(self, given: Callable[[int, int], np.ndarray], labels: np.ndarray, states: int, stay: float) -> None:
        self.given, self.labels, self.states, self.stay = given, labels, states, stay

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


def seeded_here(accumulator: Any, x: Any, weights: np.ndarray, rng: Any) -> Start | None:
    """Return a start seeded among sequences of positive weight; None if their elements have no columns."""
    kept = np.flatnonzero(weights > 0.0)
    if not kept.size or x.total == 0:
        return None
    encoder, estimators = accumulator.acc_to_encoder(), accumulator.emissions.estimators
    sample = rng.permutation(kept)[: sample_size(len(estimators))]
    columns = encoder.columns(encoder.take(x, sample), 0, len(sample))
    return Start.seeded(estimators, columns, rng) if columns else None


def _dealt(labels: tuple[Any, ...], states: int, rng: Any) -> dict[Any, np.ndarray]:
    """Return the share of each state (K,) in each label: by chance, and few labels are dealt out to the states too.

    Of few labels chance alone often makes states that are nearly the same.
    """
    shares, order = rng.dirichlet(np.ones(states), size=len(labels)), rng.permutation(len(labels))
    if len(labels) <= 2 * states:
        shares *= 1.0 - HOME
        shares[order, np.arange(len(labels)) % states] += HOME
    return dict(zip(labels, shares, strict=True))


def _clustered(columns: list[Column], states: int, rng: Any) -> Centres:
    found: list[tuple[float, Centres]] = []
    for _ in range(SEEDINGS):
        centres = seed_centres(columns, states, rng)
        for _step in range(IMPROVEMENTS):
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
        moved.append(old._replace(values=values, missing=missing))
    return Centres(tuple(moved), centres.scales)
