"""Statistic of latent Dirichlet allocation; the topics are kept as a mixture keeps its components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.combinators.ragged import initialize_lengths
from mixle.stats.contract import StatisticAccumulatorFactory
from mixle.stats.latent.hmm_start import Start, seeded_here
from mixle.stats.latent.lda_documents import Documents, LDADataEncoder
from mixle.stats.latent.sequence_accumulator import SequenceModelAccumulator
from mixle.stats.refusals import check_shape, refuse_model
from mixle.stats.special import digammas
from mixle.stats.stacking.statistic import StackedStatistic
from mixle.stats.sums import block_sum, signed_suff_stat

__all__ = ["LDAAccumulator", "LDAAccumulatorFactory", "LDAStatistics"]


class LDAStatistics(NamedTuple):
    """Statistic of a latent Dirichlet allocation of K topics.

    Attributes
    ----------
    previous_alpha : None
        Not needed; it keeps the place that it has elsewhere.
    log_shares : ndarray, shape (K,)
        Weighted sum of the expected logarithms of the documents' shares.
    documents : float
        Weight of the documents.
    topic_counts : ndarray, shape (K,)
        Expected number of words of each topic; they add up to the weighted number of words.
    topics : StackedStatistic or tuple
        Statistic of the topics, as a mixture keeps it.
    length : object
        Statistic of the numbers of words.
    """

    previous_alpha: None
    log_shares: np.ndarray
    documents: float
    topic_counts: np.ndarray
    topics: Any
    length: Any

    def scaled(self, c: float) -> LDAStatistics:
        """Return the statistic with every weight times `c`."""
        topics, length = signed_suff_stat(self.topics, c), signed_suff_stat(self.length, c)
        return LDAStatistics(None, self.log_shares * c, self.documents * c, self.topic_counts * c, topics, length)

    @property
    def children(self) -> tuple[Any, ...]:
        """Return the value of each topic in its family's own layout."""
        return self.topics.children if isinstance(self.topics, StackedStatistic) else tuple(self.topics)


class LDAAccumulatorFactory(StatisticAccumulatorFactory):
    """Factory of `LDAAccumulator`."""

    def __init__(self, estimators: Sequence[Any], length: Any, keys: tuple[Any, Any]) -> None:
        self.estimators, self.length, self.keys = list(estimators), length, keys

    def make(self) -> LDAAccumulator:
        """Return a fresh accumulator."""
        return LDAAccumulator(self.estimators, self.length.accumulator_factory().make(), self.keys)


class LDAAccumulator(SequenceModelAccumulator):
    """Accumulator of an `LDAEstimator`."""

    _counts = (("log_shares", "documents"),)

    def __init__(self, estimators: Sequence[Any], length: Any, keys: tuple[Any, Any]) -> None:
        super().__init__(estimators, length, keys[1])
        self.own_keys = keys[:1]
        self.log_shares, self.documents = np.zeros(self.states), np.zeros(())

    @one_blas_thread()
    def seq_update_scored(self, x: Documents, weights: np.ndarray | None, estimate: Any) -> tuple[float, int]:
        """Add encoded documents under the model `estimate`.

        Returns
        -------
        (float, int)
            Summed evidence lower bound of the documents under `estimate`, and the number of those left out because a
            word or the length is impossible.
        """
        if len(estimate.topics) != self.states:
            refuse_model(len(estimate.topics), self.states, "topics")
        own = np.ones(x.rows) if weights is None else weights
        walk = estimate.walk(x)
        found = walk.infer()
        density = found.bound + np.asarray(estimate.len_dist.seq_log_density(x.lengths), float)
        possible = ~np.isneginf(density)
        kept = np.where(possible, own, 0.0)
        self._add(np.where(kept > 0.0, found.mean_logs(), 0.0) * kept, kept)
        if x.total:
            self.emissions.add_given(walk.words, x.elements, estimate.topics, walk.given(found, kept))
        self.length.seq_update(x.lengths, kept, estimate.len_dist)
        return block_sum(np.where(possible, density, 0.0), weights), int((~possible & (own > 0.0)).sum())

    def _add(self, log_shares: np.ndarray, weights: np.ndarray) -> None:
        self.log_shares = self.log_shares + np.add.reduce(log_shares, axis=1)
        self.documents = self.documents + block_sum(weights)

    def _seeded(self, x: Documents, weights: np.ndarray, rng: Any) -> Start:
        return seeded_here(self, x, weights, rng) or Start(self.states)

    def _begin(self, x: Documents, weights: np.ndarray, start: Start, rng: Any) -> None:
        initialize_lengths(self.length, x.lengths, weights, rng)
        even = np.full(self.states, 1.0 / self.states)  # shares as if drawn from a Dirichlet law of concentrations 1/K
        logs = digammas(even) - digammas(np.ones(1))
        self._add(logs[:, None] * weights, weights)
        if x.total:
            begun = start.assign(self.acc_to_encoder(), x, weights, rng)
            self.emissions.initialize_given(x.elements, x.total, begun.given, rng, start.parts)

    def combine(self, suff_stat: Any) -> LDAAccumulator:
        """Add another statistic."""
        stat = self._checked(suff_stat)
        self._merge(stat, stat.topic_counts, stat.topics)
        return self

    def _checked(self, value: Any) -> LDAStatistics:
        stat = LDAStatistics(*value)
        check_shape(stat.log_shares, (self.states,), "topics")
        check_shape(stat.topic_counts, (self.states,), "weights of topics")
        return stat

    def value(self) -> LDAStatistics:
        """Return the statistic; nothing in it is shared with this accumulator."""
        counts, topics = self._element_value()
        topics = topics if isinstance(topics, StackedStatistic) else tuple(topics)
        return LDAStatistics(None, self.log_shares.copy(), float(self.documents), counts, topics, self.length.value())

    def from_value(self, x: Any) -> LDAAccumulator:
        """Replace the statistic."""
        stat = self._checked(x)
        self._take(stat, stat.topic_counts, stat.topics)
        return self

    def acc_to_encoder(self) -> LDADataEncoder:
        """Return the encoder."""
        return LDADataEncoder(self.emissions.acc_to_encoder(), self.length.acc_to_encoder())
