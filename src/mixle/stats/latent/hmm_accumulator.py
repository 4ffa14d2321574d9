"""Statistic of hidden Markov models; emissions are kept as a mixture keeps its components."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixle.stats.contract import SequenceEncodableStatisticAccumulator, StatisticAccumulatorFactory
from mixle.stats.latent.hmm_encoder import Chains, HiddenMarkovDataEncoder
from mixle.stats.latent.hmm_forward import Passes, Totals
from mixle.stats.latent.hmm_start import Start, seeded_here
from mixle.stats.latent.mixture_accumulator import MixtureAccumulator
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
        raise ValueError(f"the statistic has {stat.num_states} states, this model {states}")
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


class HiddenMarkovAccumulator(SequenceEncodableStatisticAccumulator):
    """Accumulator of a `HiddenMarkovEstimator`."""

    def __init__(self, estimators: Sequence[Any], length: Any, keys: tuple[Any, Any, Any], terminal: Any) -> None:
        self.init_key, self.trans_key, state_key = keys
        self.states, self.terminal = len(estimators), terminal
        self.emissions = MixtureAccumulator(estimators, (None, state_key))
        self.length = length
        self.initial, self.transitions = np.zeros(self.states), np.zeros((self.states, self.states))

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
        self.initial += totals.initial
        self.transitions += totals.transitions
        density += lengths
        possible = ~np.isneginf(density)
        self.length.seq_update(x.lengths, np.where(possible, own, 0.0), estimate.len_dist)
        left_out = int((~possible & (own > 0.0)).sum())
        return block_sum(np.where(possible, density, 0.0), weights), left_out

    def seq_update(self, x: Chains, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded sequences under the model `estimate`."""
        self.seq_update_scored(x, weights, estimate)

    def start(self, enc: Chains, draws: np.ndarray, centres: Start, p: float, weights: Any = None) -> None:
        """Add the sequences whose draw is below `p`, each element nearly all to the state of its nearest centre.

        Parameters
        ----------
        enc : Chains
            Encoded sequences.
        draws : ndarray, shape (n,)
            One uniform number per sequence.
        centres : Start
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

    def seq_initialize(self, x: Chains, weights: np.ndarray, rng: Any) -> None:
        """Add encoded sequences before there is a model, centres seeded among them, or by chance without columns."""
        if weights.any():
            self._begin(x, weights, seeded_here(self, x, weights, rng) or Start(self.states), rng)

    def _begin(self, x: Chains, weights: np.ndarray, start: Start, rng: Any) -> None:
        self.length.seq_initialize(x.lengths, weights, rng)
        if x.total == 0:
            return
        begun = start.assign(self.acc_to_encoder(), x, weights, rng)
        self.emissions.initialize_given(x.elements, x.total, begun.given, rng, start.parts)
        initial, transitions = begun.counts(x, weights)
        self.initial += initial
        self.transitions += transitions

    def combine(self, suff_stat: Any) -> HiddenMarkovAccumulator:
        """Add another statistic, of either layout."""
        stat = as_statistics(suff_stat, self.states)
        self.initial = self.initial + np.asarray(stat.init_counts, float)
        self.transitions = self.transitions + np.asarray(stat.trans_counts, float)
        self.emissions.combine(_mixed(stat))
        self.length.combine(stat.length)
        return self

    def value(self) -> HiddenMarkovStatistics:
        """Return the statistic; nothing in it is shared with this accumulator."""
        value = self.emissions.value()
        stacked = isinstance(value, StackedStatistic)
        counts, emissions = (value.counts.copy(), value) if stacked else value
        return HiddenMarkovStatistics(
            self.states, self.initial.copy(), counts, self.transitions.copy(), emissions, self.length.value()
        )

    def from_value(self, x: Any) -> HiddenMarkovAccumulator:
        """Replace the statistic by one of either layout."""
        stat = as_statistics(x, self.states)
        self.initial, self.transitions = np.array(stat.init_counts, float), np.array(stat.trans_counts, float)
        self.emissions.from_value(_mixed(stat))
        self.length.from_value(stat.length)
        return self

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Pool initial counts, transition counts and emissions under their keys, then the children's own keys."""
        for key, mine in ((self.init_key, self.initial), (self.trans_key, self.transitions)):
            if key is not None:
                pooled = stats_dict.setdefault(key, np.zeros_like(mine))
                pooled += mine
        self.emissions.key_merge(stats_dict)
        self.length.key_merge(stats_dict)

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take the pooled counts and emissions."""
        if self.init_key is not None and self.init_key in stats_dict:
            self.initial = stats_dict[self.init_key].copy()
        if self.trans_key is not None and self.trans_key in stats_dict:
            self.transitions = stats_dict[self.trans_key].copy()
        self.emissions.key_replace(stats_dict)
        self.length.key_replace(stats_dict)

    def acc_to_encoder(self) -> HiddenMarkovDataEncoder:
        """Return the encoder."""
        return HiddenMarkovDataEncoder(self.emissions.acc_to_encoder(), self.length.acc_to_encoder())


def _given(passes: Passes, weights: np.ndarray, density: np.ndarray, totals: Totals) -> Callable[[], Blocks]:
    """Return what walks the blocks of responsibilities; a second walk counts no transitions."""
    counted = [totals, None]

    def given() -> Blocks:
        return passes.blocks(weights, density, counted.pop(0))

    return given


def _mixed(stat: HiddenMarkovStatistics) -> Any:
    """Return the statistic of the emissions as a mixture has it."""
    if isinstance(stat.emissions, StackedStatistic):
        return stat.emissions
    return np.asarray(stat.state_counts, float), tuple(stat.emissions)
