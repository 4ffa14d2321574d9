"""The M-step of latent Dirichlet allocation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.combinators.null import NullEstimator
from mixle.stats.combinators.parts import fit_parts, is_latent
from mixle.stats.domains import nonnegative, positive, vector
from mixle.stats.families.dirichlet import LARGEST, SMALLEST, dirichlet_shapes
from mixle.stats.given import estimator_given, estimators_given
from mixle.stats.keys import has_keys
from mixle.stats.latent.lda import LDADistribution
from mixle.stats.latent.lda_accumulator import LDAAccumulatorFactory, LDAStatistics
from mixle.stats.latent.sequence_estimator import SequenceModelEstimator
from mixle.stats.leaf import repaired
from mixle.stats.refusals import check_mass
from mixle.stats.stacking.statistic import handed

__all__ = ["LDAEstimator"]


class LDAEstimator(SequenceModelEstimator):
    """Estimator of an `LDADistribution`.

    Parameters
    ----------
    estimators : sequence of estimators
        One per topic.
    len_estimator : estimator, optional
        Estimator of the law of the number of words.
    suff_stat : array_like, shape (K,), optional
        Prior mean of the logarithms of the shares, used with `pseudo_count`.
    pseudo_count : float, optional
        Weight of that prior, in documents; it is used only with `suff_stat`.
    keys : (hashable, hashable)
        Tying keys of the shares and of the topics.
    fixed_alpha : array_like, shape (K,), optional
        Concentrations that are kept.
    gamma_threshold, max_gamma_iter
        As in the distribution.
    alpha_threshold : float
        Change of log α at which Newton's method stops.
    max_alpha_iter : int
        Steps of Newton's method at most.
    name : str, optional
        Label of the fitted model.

    Notes
    -----
    α is found by Newton's method for Dirichlet laws (Minka 2000, Estimating a Dirichlet distribution). The bound of a
    document may have several maxima in its variational parameters, and each E-step looks for one afresh, so that no
    document needs the memory of another step: now and then a step finds another maximum, and lowers the objective.
    `optimize` therefore goes on after such a step, and returns the best model.

    Examples
    --------
    >>> from mixle.stats import CategoricalEstimator
    >>> LDAEstimator([CategoricalEstimator()] * 3).num_start_components()
    3
    """

    #: Whether no step lowers the objective.
    ascends: ClassVar[bool] = False
    _laws: ClassVar[tuple[str, ...]] = ("topics", "len_dist")
    _fields: ClassVar[tuple[str, ...]] = ("estimators",)
    _keyword_fields: ClassVar[tuple[str, ...]] = (
        "len_estimator", "suff_stat", "pseudo_count", "keys", "fixed_alpha", "gamma_threshold", "alpha_threshold",
        "max_gamma_iter", "max_alpha_iter", "name",
    )  # fmt: skip

    def __init__(
        self,
        estimators: Sequence[Any],
        len_estimator: Any = None,
        suff_stat: Any = None,
        pseudo_count: float | None = None,
        keys: tuple[Any, Any] | None = (None, None),
        fixed_alpha: Any = None,
        gamma_threshold: float = 1e-8,
        alpha_threshold: float = 1e-8,
        max_gamma_iter: int = 100,
        max_alpha_iter: int = 1000,
        name: str | None = None,
    ) -> None:
        self.estimators = list(estimators_given(estimators, "LDA"))
        if not self.estimators:
            raise ValueError("an LDA needs at least one estimator of a topic")
        self.len_estimator = NullEstimator() if len_estimator is None else estimator_given(len_estimator, "LDA")
        self.suff_stat = None if suff_stat is None else vector(suff_stat, "suff_stat")
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.fixed_alpha = None if fixed_alpha is None else vector(fixed_alpha, "fixed_alpha")
        for what, values in (("suff_stat", self.suff_stat), ("fixed_alpha", self.fixed_alpha)):
            if values is not None and len(values) != len(self.estimators):
                raise ValueError(
                    f"{what} has {len(values)} entries for {len(self.estimators)} topics; pass one for each topic"
                )
        if self.fixed_alpha is not None and not (self.fixed_alpha > 0.0).all():
            raise ValueError(f"fixed_alpha must be above 0, is {fixed_alpha!r:.80}")
        self.gamma_threshold = positive(gamma_threshold, "gamma_threshold")
        self.alpha_threshold = positive(alpha_threshold, "alpha_threshold")
        self.max_gamma_iter = int(positive(max_gamma_iter, "max_gamma_iter"))
        self.max_alpha_iter = int(positive(max_alpha_iter, "max_alpha_iter"))
        self.name = name
        self.keys: tuple[Any, Any] = (None, None) if keys is None else (keys[0], keys[1])

    def accumulator_factory(self) -> LDAAccumulatorFactory:
        """Return the factory of this model's accumulators."""
        return LDAAccumulatorFactory(self.estimators, self.len_estimator, self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> LDADistribution:
        """Return the fitted model.

        Parameters
        ----------
        nobs : float or None
            Weight of the documents; the statistic may not have more. None skips the check.
        suff_stat : LDAStatistics
            The statistic.

        Raises
        ------
        ValueError
            If more weight was assigned than declared.
        """
        stat = LDAStatistics(*suff_stat)
        weight = float(stat.documents)
        check_mass(weight, nobs, self.keys[0] is not None)
        tied = self.keys[1] is not None
        topics = fit_parts(self.estimators, stat.topic_counts, handed(stat.topics, self.estimators), tied)
        alpha, held = self._alpha(weight, np.asarray(stat.log_shares, float))
        length = self.len_estimator.estimate(nobs, stat.length)
        model = self._model(topics, alpha, length)
        return repaired(model, "LDA: a concentration was held at its bound") if held else model

    def _alpha(self, weight: float, sums: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return the concentrations, and whether one was held at its bound."""
        count = len(self.estimators)
        if self.fixed_alpha is not None:
            return self.fixed_alpha, False
        if self.pseudo_count and self.suff_stat is not None:
            weight, sums = weight + self.pseudo_count, sums + self.pseudo_count * self.suff_stat
        if count == 1 or not weight > 0.0:
            return np.full(count, 1.0 / count), False
        alpha = dirichlet_shapes(sums / weight, self.alpha_threshold, self.max_alpha_iter)
        return alpha, bool(((alpha <= SMALLEST) | (alpha >= LARGEST)).any())

    def _model(self, topics: list[Any], alpha: np.ndarray, length: Any) -> LDADistribution:
        return LDADistribution(
            topics, alpha, length, self.gamma_threshold, self.max_gamma_iter, name=self.name, keys=self.keys
        )

    def keep_empty(self, model: Any, previous: Any, suff_stat: Any) -> Any:
        """Return `model` with topics that no word belongs to as they were in `previous`."""
        old = getattr(previous, "topics", None)
        if old is None or len(old) != len(self.estimators) or self.keys[1] is not None:
            return model
        stat = LDAStatistics(*suff_stat)
        counts = np.asarray(stat.topic_counts, float)
        empty = [k for k in np.flatnonzero(counts == 0.0).tolist() if not has_keys(self.estimators[k])]
        topics = [old[k] if k in empty else topic for k, topic in enumerate(model.topics)]
        for k, e in enumerate(self.estimators):
            if k not in empty and is_latent(e):
                topics[k] = e.keep_empty(topics[k], old[k], stat.children[k])
        weight = math.fsum(counts.tolist())
        alpha = previous.alpha if not weight and self.fixed_alpha is None else model.alpha
        note = (f"empty topics kept as they were: {empty}",) if empty else ()
        return repaired(self._model(topics, alpha, model.len_dist), *model.numerical_repairs(), *note)
