"""The M-step of sequences whose mixtures share topics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.combinators.ignored import KeepsLength
from mixle.stats.combinators.null import NullEstimator
from mixle.stats.combinators.parts import fit_parts, is_latent
from mixle.stats.contract import Column
from mixle.stats.domains import nonnegative, whole
from mixle.stats.given import estimator_given, estimators_given, law_given
from mixle.stats.keys import has_keys
from mixle.stats.latent.hierarchical_accumulator import (
    HierarchicalFactory,
    HierarchicalStart,
    HierarchicalStatistics,
    histograms,
)
from mixle.stats.latent.hierarchical_mixture import HierarchicalMixtureDistribution
from mixle.stats.latent.hmm_encoder import PICKS, picked
from mixle.stats.latent.hmm_start import Start
from mixle.stats.latent.sequence_estimator import SequenceModelEstimator
from mixle.stats.leaf import repaired
from mixle.stats.refusals import check_mass
from mixle.stats.sequences.paths import laws_of_counts
from mixle.stats.stacking.statistic import handed
from mixle.stats.starts import seed_centres

__all__ = ["HierarchicalMixtureEstimator"]


class HierarchicalMixtureEstimator(KeepsLength, SequenceModelEstimator):
    """Estimator of a `HierarchicalMixtureDistribution`.

    Parameters
    ----------
    estimators : sequence of estimators
        One per topic.
    num_mixtures : int
        Number of mixtures M.
    len_estimator : estimator, optional
        Estimator of the law of the length.
    len_dist : distribution, optional
        Law of the length, kept as it is; used where there is no `len_estimator`.
    suff_stat : (array_like (M,), array_like (M, K)), optional
        Prior weights of the mixtures and of the topics in each, used with `pseudo_count`.
    pseudo_count : float, optional
        Weight of the prior of the mixtures and of each mixture's topics; without `suff_stat` it is spread evenly.
    name : str, optional
        Label of the fitted model.
    keys : (hashable, hashable)
        Tying keys of the weights and of the topics.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> HierarchicalMixtureEstimator([PoissonEstimator()] * 3, 2).num_start_components()
    3
    """

    _laws: ClassVar[tuple[str, ...]] = ("topics", "len_dist")
    _fields: ClassVar[tuple[str, ...]] = ("estimators", "num_mixtures")
    _keyword_fields: ClassVar[tuple[str, ...]] = (
        "len_estimator", "len_dist", "suff_stat", "pseudo_count", "name", "keys",
    )  # fmt: skip

    def __init__(
        self,
        estimators: Sequence[Any],
        num_mixtures: int,
        len_estimator: Any = None,
        len_dist: Any = None,
        suff_stat: Any = None,
        pseudo_count: float | None = None,
        name: str | None = None,
        keys: tuple[Any, Any] | None = (None, None),
    ) -> None:
        self.estimators = list(estimators_given(estimators, "HierarchicalMixture"))
        self.num_mixtures = whole(num_mixtures, "num_mixtures", 1)
        if not self.estimators or self.num_mixtures < 1:
            raise ValueError("a hierarchical mixture needs at least one topic estimator and num_mixtures of at least 1")
        self.len_estimator = (
            NullEstimator() if len_estimator is None else estimator_given(len_estimator, "HierarchicalMixture")
        )
        self.len_dist = None if len_dist is None else law_given(len_dist, "HierarchicalMixture")
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.name = name
        self.keys: tuple[Any, Any] = (None, None) if keys is None else (keys[0], keys[1])
        self.suff_stat = None
        if suff_stat is not None:
            self.suff_stat = (np.array(suff_stat[0], float), np.array(suff_stat[1], float))
            wanted = ((self.num_mixtures,), (self.num_mixtures, len(self.estimators)))
            if tuple(part.shape for part in self.suff_stat) != wanted:
                raise ValueError(f"suff_stat must have the shapes {wanted}")

    def num_start_components(self) -> int:
        """Return how many centres a start seeds at most."""
        return max(len(self.estimators), self.num_mixtures)

    def seed_start(self, columns: list[Column], rng: Any) -> HierarchicalStart:
        """Return what `start` of the accumulators takes for centres, seeded on the columns of sampled sequences."""
        topics = Start.seeded(self.estimators, columns, rng)
        rows = len(columns[0].values)
        shown = histograms(topics, picked(columns), np.tile(np.arange(rows), PICKS), rows)
        return HierarchicalStart(topics, seed_centres(shown, self.num_mixtures, rng), self.num_mixtures)

    def accumulator_factory(self) -> HierarchicalFactory:
        """Return the factory of this model's accumulators."""
        length = self._length().accumulator_factory()
        return HierarchicalFactory(self.estimators, self.num_mixtures, length, self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> HierarchicalMixtureDistribution:
        """Return the fitted model.

        Parameters
        ----------
        nobs : float or None
            Weight of the data; the mixtures' weights may not exceed it. None skips the check.
        suff_stat : HierarchicalStatistics
            The statistic.
        """
        stat = HierarchicalStatistics(*suff_stat)
        mixtures, topics = np.asarray(stat.mixture_counts, float), np.asarray(stat.topic_counts, float)
        total = math.fsum(mixtures.tolist())
        check_mass(total, nobs, self.keys[0] is not None)
        counts = np.add.reduce(topics, axis=0)
        fitted = fit_parts(self.estimators, counts, handed(stat.topics, self.estimators), self.keys[1] is not None)
        if self.pseudo_count:
            even = (np.full(mixtures.shape, 1.0 / mixtures.size), np.full(topics.shape, 1.0 / topics.shape[1]))
            prior = even if self.suff_stat is None else self.suff_stat
            mixtures, topics = mixtures + self.pseudo_count * prior[0], topics + self.pseudo_count * prior[1]
        length = self._length_law(nobs, stat.length)
        w = laws_of_counts(mixtures[None, :])[0]
        return HierarchicalMixtureDistribution(fitted, w, laws_of_counts(topics), length, self.name, self.keys)

    def keep_empty(self, model: Any, previous: Any, suff_stat: Any) -> Any:
        """Return `model` with topics and mixtures that nothing belongs to as they were in `previous`."""
        old = getattr(previous, "topics", None)
        if old is None or np.shape(getattr(previous, "topic_weights", ())) != model.topic_weights.shape:
            return model
        stat = HierarchicalStatistics(*suff_stat)
        counts = np.add.reduce(np.asarray(stat.topic_counts, float), axis=0)
        free = self.keys[1] is None
        empty = [k for k, e in enumerate(self.estimators) if free and counts[k] == 0.0 and not has_keys(e)]
        topics = [old[k] if k in empty else topic for k, topic in enumerate(model.topics)]
        for k, e in enumerate(self.estimators):
            if free and k not in empty and is_latent(e):
                topics[k] = e.keep_empty(topics[k], old[k], stat.children[k])
        taus = np.array(model.topic_weights)
        lost = np.add.reduce(np.asarray(stat.topic_counts, float), axis=1) == 0.0
        if self.keys[0] is None and not self.pseudo_count:
            taus[lost] = previous.topic_weights[lost]
        kept = HierarchicalMixtureDistribution(
            topics, model.mixture_weights, taus, model.len_dist, model.name, model.keys
        )
        note = (f"empty topics kept as they were: {empty}",) if empty else ()
        return repaired(kept, *model.numerical_repairs(), *note)
