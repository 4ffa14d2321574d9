"""Statistic of sequences whose mixtures share topics; the topics are kept as a mixture keeps its components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.combinators.ragged import initialize_lengths
from mixle.stats.contract import Column, StatisticAccumulatorFactory
from mixle.stats.latent.hierarchical_walk import HierarchicalWalk
from mixle.stats.latent.hmm_encoder import Chains, HiddenMarkovDataEncoder
from mixle.stats.latent.hmm_start import Start, seeded_here
from mixle.stats.latent.sequence_accumulator import SequenceModelAccumulator
from mixle.stats.refusals import check_shape, refuse_model
from mixle.stats.stacking.statistic import StackedStatistic
from mixle.stats.starts import Centres, near_hard
from mixle.stats.sums import BLOCK, block_sum, signed_suff_stat

__all__ = [
    "HierarchicalFactory",
    "HierarchicalMixtureEstimatorAccumulator",
    "HierarchicalStart",
    "HierarchicalStatistics",
]


class HierarchicalStatistics(NamedTuple):
    """Statistic of M mixtures over K topics.

    Attributes
    ----------
    topic_counts : ndarray, shape (M, K)
        Weight of each topic in each mixture.
    mixture_counts : ndarray, shape (M,)
        Weight of each mixture.
    topics : StackedStatistic or tuple
        Statistic of the topics, as a mixture keeps it.
    length : object
        Statistic of the lengths.
    """

    topic_counts: np.ndarray
    mixture_counts: np.ndarray
    topics: Any
    length: Any

    def scaled(self, c: float) -> HierarchicalStatistics:
        """Return the statistic with every weight times `c`."""
        topics, length = signed_suff_stat(self.topics, c), signed_suff_stat(self.length, c)
        return HierarchicalStatistics(self.topic_counts * c, self.mixture_counts * c, topics, length)

    @property
    def counts(self) -> np.ndarray:
        """Return the weight of each topic, shape (K,)."""
        return np.asarray(np.add.reduce(np.asarray(self.topic_counts, float), axis=0))

    @property
    def children(self) -> tuple[Any, ...]:
        """Return the value of each topic in its family's own layout."""
        return self.topics.children if isinstance(self.topics, StackedStatistic) else tuple(self.topics)


class HierarchicalStart(NamedTuple):
    """How elements and sequences are assigned before there is a model.

    Attributes
    ----------
    topics : Start
        Assigns elements to topics.
    mixtures : Centres or None
        Centres of the mixtures among the shares of topics that sequences show; None assigns by chance.
    number : int
        Number of mixtures.
    """

    topics: Start
    mixtures: Centres | None
    number: int


def histograms(start: Start, elements: Sequence[Column], owners: np.ndarray, rows: int) -> list[Column]:
    """Return the share of each topic among the elements of each row, as columns; a row without any is missing."""
    labels = start.labels(elements)
    known = labels >= 0
    codes = owners[known] * start.states + labels[known]
    counts = np.bincount(codes, minlength=rows * start.states).reshape(rows, start.states).astype(float)
    total = np.add.reduce(counts, axis=1)
    gone = total == 0.0
    shares = counts / np.where(gone, 1.0, total)[:, None]
    return [Column(np.ascontiguousarray(shares[:, k]), None, gone if gone.any() else None) for k in range(start.states)]


class HierarchicalFactory(StatisticAccumulatorFactory):
    """Factory of `HierarchicalMixtureEstimatorAccumulator`."""

    def __init__(self, estimators: Sequence[Any], mixtures: int, length: Any, keys: tuple[Any, Any]) -> None:
        self.estimators, self.mixtures, self.length, self.keys = list(estimators), mixtures, length, keys

    def make(self) -> HierarchicalMixtureEstimatorAccumulator:
        """Return a fresh accumulator."""
        return HierarchicalMixtureEstimatorAccumulator(self.estimators, self.mixtures, self.length.make(), self.keys)


class HierarchicalMixtureEstimatorAccumulator(SequenceModelAccumulator):
    """Accumulator of a `HierarchicalMixtureEstimator`."""

    _counts = (("topic_counts", "mixture_counts"),)

    def __init__(self, estimators: Sequence[Any], mixtures: int, length: Any, keys: tuple[Any, Any]) -> None:
        super().__init__(estimators, length, keys[1])
        self.own_keys = keys[:1]
        self.topic_counts, self.mixture_counts = np.zeros((mixtures, self.states)), np.zeros(mixtures)

    @one_blas_thread()
    def seq_update_scored(self, x: Chains, weights: np.ndarray | None, estimate: Any) -> tuple[float, int]:
        """Add sequences; return their log-density under `estimate` and the number of impossible ones, left out."""
        if np.shape(estimate.topic_weights) != self.topic_counts.shape:
            ours, theirs = self.topic_counts.shape, np.shape(estimate.topic_weights)
            refuse_model(theirs, ours, "(mixtures, topics)")
        own = np.ones(x.rows) if weights is None else weights
        walk: HierarchicalWalk = estimate.walk(x)
        scores = walk.rows()
        density = scores.log_density + np.asarray(estimate.len_dist.seq_log_density(x.lengths), float)
        possible = ~np.isneginf(density)
        kept = np.where(possible, own, 0.0)
        shares = scores.posterior * kept
        self.mixture_counts = self.mixture_counts + np.add.reduce(shares, axis=1)
        if x.total:
            counts = np.zeros_like(self.topic_counts)
            self.emissions.add_given(walk.elements, x.elements, estimate.topics, walk.given(shares, counts))
            self.topic_counts = self.topic_counts + counts
        self.length.seq_update(x.lengths, kept, estimate.len_dist)
        return block_sum(np.where(possible, density, 0.0), weights), int((~possible & (own > 0.0)).sum())

    def _seeded(self, x: Chains, weights: np.ndarray, rng: Any) -> HierarchicalStart:
        topics = seeded_here(self, x, weights, rng) or Start(self.states)
        return HierarchicalStart(topics, None, len(self.mixture_counts))  # mixtures are dealt by chance

    def _begin(self, x: Chains, weights: np.ndarray, start: HierarchicalStart, rng: Any) -> None:
        initialize_lengths(self.length, x.lengths, weights, rng)
        encoder = self.acc_to_encoder()
        begun = start.topics.assign(encoder, x, weights, rng) if x.total else None
        if begun is not None:
            self.emissions.initialize_given(x.elements, x.total, begun.given, rng, start.topics.parts)
        owners = x.owners()
        count = len(self.mixture_counts)
        if start.mixtures is None or not x.total:
            shares = rng.dirichlet(np.full(count, 1.0 / count), size=x.rows).T
        else:
            columns = encoder.encoder.columns(x.elements, 0, x.total) or []
            shares = near_hard(histograms(start.topics, columns, owners, x.rows), start.mixtures)
        shares = shares * weights
        self.mixture_counts = self.mixture_counts + np.add.reduce(shares, axis=1)
        if begun is None:
            return
        total = np.where(weights > 0.0, weights, 1.0)[owners]
        for begin in range(0, x.total, BLOCK):
            stop = min(begin + BLOCK, x.total)
            part = slice(begin, stop)
            r = begun.given(begin, stop)[:, : stop - begin] / total[part]
            self.topic_counts = self.topic_counts + shares[:, owners[part]] @ r.T

    def combine(self, suff_stat: Any) -> HierarchicalMixtureEstimatorAccumulator:
        """Add another statistic."""
        stat = self._checked(suff_stat)
        self._merge(stat, stat.counts, stat.topics)
        return self

    def _checked(self, value: Any) -> HierarchicalStatistics:
        stat = HierarchicalStatistics(*value)
        check_shape(stat.topic_counts, self.topic_counts.shape, "(mixtures, topics)")
        check_shape(stat.mixture_counts, self.mixture_counts.shape, "weights of mixtures")
        return stat

    def value(self) -> HierarchicalStatistics:
        """Return the statistic; nothing in it is shared with this accumulator."""
        topics = self._element_value()[1]
        return HierarchicalStatistics(self.topic_counts.copy(), self.mixture_counts.copy(), topics, self.length.value())

    def from_value(self, x: Any) -> HierarchicalMixtureEstimatorAccumulator:
        """Replace the statistic."""
        stat = self._checked(x)
        self._take(stat, stat.counts, stat.topics)
        return self

    def acc_to_encoder(self) -> HiddenMarkovDataEncoder:
        """Return the encoder."""
        return HiddenMarkovDataEncoder(self.emissions.acc_to_encoder(), self.length.acc_to_encoder())
