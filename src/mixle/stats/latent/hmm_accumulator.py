"""Statistic of hidden Markov models; emissions are kept as a mixture keeps its components."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixle.stats.combinators.ragged import initialize_lengths
from mixle.stats.contract import StatisticAccumulatorFactory
from mixle.stats.latent.hmm_encoder import Chains, HiddenMarkovDataEncoder
from mixle.stats.latent.hmm_forward import Passes, Totals
from mixle.stats.latent.hmm_start import Start, seeded_here
from mixle.stats.latent.sequence_accumulator import SequenceModelAccumulator
from mixle.stats.refusals import check_shape, refuse_statistic
from mixle.stats.stacking.statistic import StackedStatistic
from mixle.stats.sums import block_sum, signed_suff_stat

__all__ = ["HiddenMarkovAccumulator", "HiddenMarkovFactory", "HiddenMarkovStatistics", "as_statistics"]


Blocks = Iterator[tuple[int, int, np.ndarray]]


class HiddenMarkovStatistics(NamedTuple):
    """Statistic of a hidden Markov model of S states.

    Attributes
    ----------
    num_states : int
        S.
    init_counts, state_counts : ndarray, shape (S,)
        Weight of each state at the first element, and over all elements.
    trans_counts : ndarray, shape (S, S)
        Weight of each transition.
    emissions : StackedStatistic or tuple
        Statistic of the emissions: over the component axis where they share a tree, else one value per state.
    length : object
        Statistic of the lengths.
    """

    num_states: int
    init_counts: np.ndarray
    state_counts: np.ndarray
    trans_counts: np.ndarray
    emissions: Any
    length: Any

    def scaled(self, c: float) -> HiddenMarkovStatistics:
        """Return the statistic with every weight multiplied by `c` ≥ 0."""
        return HiddenMarkovStatistics(
            self.num_states,
            self.init_counts * c,
            self.state_counts * c,
            self.trans_counts * c,
            signed_suff_stat(self.emissions, c),
            signed_suff_stat(self.length, c),
        )

    @property
    def children(self) -> tuple[Any, ...]:
        """Return the value of each state's emission in its family's own layout."""
        stacked = isinstance(self.emissions, StackedStatistic)
        return self.emissions.children if stacked else tuple(self.emissions)


def as_statistics(value: Any, states: int) -> HiddenMarkovStatistics:
    """Return a statistic of either layout as `HiddenMarkovStatistics`.

    Raises
    ------
    ValueError
        If it is of another number of states.
    """
    stat = value if isinstance(value, HiddenMarkovStatistics) else HiddenMarkovStatistics(*value)
    if stat.num_states != states:
        refuse_statistic(stat.num_states, states, "states")
    check_shape(stat.init_counts, (states,), "weights of first states")
    check_shape(stat.state_counts, (states,), "weights of states")
    check_shape(stat.trans_counts, (states, states), "weights of transitions")
    return stat


class HiddenMarkovFactory(StatisticAccumulatorFactory):
    """Factory of `HiddenMarkovAccumulator`."""

    def __init__(self, estimators: Sequence[Any], length: Any, keys: tuple[Any, Any, Any], terminal: Any) -> None:
        self.estimators, self.length, self.keys, self.terminal = list(estimators), length, keys, terminal

    def make(self) -> HiddenMarkovAccumulator:
        """Return a fresh accumulator."""
        return HiddenMarkovAccumulator(
            self.estimators, self.length.accumulator_factory().make(), self.keys, self.terminal
        )


class HiddenMarkovAccumulator(SequenceModelAccumulator):
    """Accumulator of a `HiddenMarkovEstimator`."""

    _counts = (("init_counts",), ("trans_counts",))

    def __init__(self, estimators: Sequence[Any], length: Any, keys: tuple[Any, Any, Any], terminal: Any) -> None:
        super().__init__(estimators, length, keys[2])
        self.own_keys, self.terminal = keys[:2], terminal
        self.init_counts, self.trans_counts = np.zeros(self.states), np.zeros((self.states, self.states))

    def seq_update_scored(self, x: Chains, weights: np.ndarray | None, estimate: Any) -> tuple[float, int]:
        """Add encoded sequences under the model `estimate`.

        Returns
        -------
        (float, int)
            Summed log-density of the sequences under `estimate`, and the number of those left out because they are
            impossible.
        """
        own = np.ones(x.rows) if weights is None else weights
        lengths = estimate.length_log_density(x)
        kept = np.where(np.isneginf(lengths), 0.0, own)
        passes = estimate.passes(x)
        density, totals = np.zeros(x.rows), Totals(self.states)
        if passes is None:
            density[:] = estimate.nothing
        else:
            given = _given(passes, kept, density, totals)
            self.emissions.add_given(passes.walk, x.elements, estimate.emissions, given)
        self.init_counts += totals.initial
        self.trans_counts += totals.transitions
        density += lengths
        possible = ~np.isneginf(density)
        self.length.seq_update(x.lengths, np.where(possible, own, 0.0), estimate.len_dist)
        left_out = int((~possible & (own > 0.0)).sum())
        return block_sum(np.where(possible, density, 0.0), weights), left_out

    def _seeded(self, x: Chains, weights: np.ndarray, rng: Any) -> Start:
        return seeded_here(self, x, weights, rng) or Start(self.states)

    def _begin(self, x: Chains, weights: np.ndarray, start: Start, rng: Any) -> None:
        initialize_lengths(self.length, x.lengths, weights, rng)
        if x.total == 0:
            return
        begun = start.assign(self.acc_to_encoder(), x, weights, rng)
        self.emissions.initialize_given(x.elements, x.total, begun.given, rng, start.parts)
        initial, transitions = begun.counts(x, weights)
        self.init_counts += initial
        self.trans_counts += transitions

    def combine(self, suff_stat: Any) -> HiddenMarkovAccumulator:
        """Add another statistic, of either layout."""
        stat = as_statistics(suff_stat, self.states)
        self._merge(stat, stat.state_counts, stat.emissions)
        return self

    def value(self) -> HiddenMarkovStatistics:
        """Return the statistic; nothing in it is shared with this accumulator."""
        counts, emissions = self._element_value()
        return HiddenMarkovStatistics(
            self.states, self.init_counts.copy(), counts, self.trans_counts.copy(), emissions, self.length.value()
        )

    def from_value(self, x: Any) -> HiddenMarkovAccumulator:
        """Replace the statistic by one of either layout."""
        stat = as_statistics(x, self.states)
        self._take(stat, stat.state_counts, stat.emissions)
        return self

    def acc_to_encoder(self) -> HiddenMarkovDataEncoder:
        """Return the encoder."""
        return HiddenMarkovDataEncoder(self.emissions.acc_to_encoder(), self.length.acc_to_encoder())


def _given(passes: Passes, weights: np.ndarray, density: np.ndarray, totals: Totals) -> Callable[[], Blocks]:
    """Return what walks the blocks of responsibilities; a second walk counts no transitions."""
    counted = [totals, None]

    def given() -> Blocks:
        return passes.blocks(weights, density, counted.pop(0))

    return given
