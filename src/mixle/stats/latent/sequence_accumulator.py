"""What the accumulators of models of sequences share: the elements' laws, the length, and counts of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixle.stats.contract import SequenceEncodableStatisticAccumulator
from mixle.stats.latent.mixture_accumulator import MixtureAccumulator
from mixle.stats.stacking.statistic import StackedStatistic

__all__ = ["SequenceModelAccumulator", "as_mixture"]


class SequenceModelAccumulator(SequenceEncodableStatisticAccumulator):
    """Statistic of a model of sequences whose elements' laws are kept as a mixture keeps its components.

    Parameters
    ----------
    estimators : sequence of estimators
        Of the laws of an element.
    length : accumulator
        That of the lengths.
    key : hashable
        Tying key of the elements' laws.
    """

    #: Names, here and in the statistic, of counts of the model's own, in groups that a key ties.
    _counts: tuple[tuple[str, ...], ...] = ()

    def __init__(self, estimators: Sequence[Any], length: Any, key: Any) -> None:
        self.states = len(estimators)
        self.emissions = MixtureAccumulator(estimators, (None, key))
        self.length = length
        self.own_keys: tuple[Any, ...] = (None,) * len(self._counts)

    @abstractmethod
    def seq_update_scored(self, x: Any, weights: np.ndarray | None, estimate: Any) -> tuple[float, int]:
        """Add encoded sequences under a model; return their summed log-density, and how many were left out."""

    @abstractmethod
    def _begin(self, x: Any, weights: np.ndarray, start: Any, rng: Any) -> None:
        """Add encoded sequences of these weights before there is a model."""

    @abstractmethod
    def _seeded(self, x: Any, weights: np.ndarray, rng: Any) -> Any:
        """Return what `_begin` takes, seeded among encoded sequences."""

    def seq_update(self, x: Any, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded sequences under the model `estimate`."""
        self.seq_update_scored(x, weights, estimate)

    def start(self, enc: Any, draws: np.ndarray, centres: Any, p: float, weights: np.ndarray | None = None) -> None:
        """Add the sequences whose draw is below `p`, their elements assigned as a start says.

        Parameters
        ----------
        enc : payload
            Encoded sequences.
        draws : ndarray, shape (n,)
            One uniform number per sequence.
        centres : object
            What the estimator's `seed_start` returned.
        p : float
            Share of sequences to keep.
        weights : ndarray, shape (n,), optional
            Weights of the sequences.
        """
        from numpy.random import RandomState

        kept = np.where(draws < p, 1.0 if weights is None else weights, 0.0)
        if kept.any():
            self._begin(enc, kept, centres, RandomState(int(float(draws[0]) * (2**32 - 1))))

    def seq_initialize(self, x: Any, weights: np.ndarray, rng: Any) -> None:
        """Add encoded sequences before there is a model, a start seeded among them, or by chance without columns."""
        if weights.any():
            self._begin(x, weights, self._seeded(x, weights, rng), rng)

    def _element_value(self) -> tuple[np.ndarray, Any]:
        """Return the counts of the elements' laws, and their statistic."""
        value = self.emissions.value()
        return (value.counts.copy(), value) if isinstance(value, StackedStatistic) else value

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Pool the counts and the elements' laws under their keys, then the children's own keys."""
        for key, names in zip(self.own_keys, self._counts, strict=True):
            if key is not None:
                mine = [getattr(self, name) for name in names]
                pooled = stats_dict.setdefault(key, [np.zeros_like(part) for part in mine])
                for into, part in zip(pooled, mine, strict=True):
                    np.add(into, part, out=into)
        self.emissions.key_merge(stats_dict)
        self.length.key_merge(stats_dict)

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take the pooled counts and elements' laws."""
        for key, names in zip(self.own_keys, self._counts, strict=True):
            if key is not None and key in stats_dict:
                for name, part in zip(names, stats_dict[key], strict=True):
                    setattr(self, name, part.copy())
        self.emissions.key_replace(stats_dict)
        self.length.key_replace(stats_dict)

    def _merge(self, stat: Any, counts: np.ndarray, elements: Any) -> None:
        """Add the counts of the model's own, the elements' laws and the lengths of a statistic."""
        for name in (name for names in self._counts for name in names):
            setattr(self, name, getattr(self, name) + np.asarray(getattr(stat, name), float))
        self.emissions.combine(as_mixture(counts, elements))
        self.length.combine(stat.length)

    def _take(self, stat: Any, counts: np.ndarray, elements: Any) -> None:
        """Take the same in place of what is there."""
        for name in (name for names in self._counts for name in names):
            setattr(self, name, np.array(getattr(stat, name), float))
        self.emissions.from_value(as_mixture(counts, elements))
        self.length.from_value(stat.length)


def as_mixture(counts: Any, elements: Any) -> Any:
    """Return the statistic of the elements' laws as a mixture has it."""
    if isinstance(elements, StackedStatistic):
        return elements
    return np.asarray(counts, float), tuple(elements)
