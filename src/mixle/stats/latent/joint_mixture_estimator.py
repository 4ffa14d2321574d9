"""The M-step of mixtures of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.combinators.parts import is_latent
from mixle.stats.contract import Column, ParameterEstimator
from mixle.stats.domains import nonnegative
from mixle.stats.given import estimators_given
from mixle.stats.keys import has_keys
from mixle.stats.latent.joint_mixture import JointMixtureDistribution
from mixle.stats.latent.joint_mixture_accumulator import (
    JointMixtureFactory,
    JointMixtureStatistics,
    children_of,
    seed_halves,
)
from mixle.stats.leaf import repaired
from mixle.stats.refusals import check_mass
from mixle.stats.stacking.statistic import handed
from mixle.stats.starts import Centres

__all__ = ["JointMixtureEstimator"]


class JointMixtureEstimator(ParameterEstimator):
    """Estimator of a `JointMixtureDistribution`.

    Parameters
    ----------
    estimators1, estimators2 : sequence of estimators
        One per component of each half.
    suff_stat : array_like, shape (K1, K2), optional
        Prior weights of the pairs of components, used with `pseudo_count`.
    pseudo_count : float, optional
        Weight of the prior of the pairs; without `suff_stat` it is spread evenly. Of a tuple of three, as the
        published package takes it, the last is that of the pairs.
    keys : (hashable, hashable, hashable)
        Tying keys of the weights, of the first and of the second components.
    name : str, optional
        Label of the fitted mixture.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator, PoissonEstimator
    >>> JointMixtureEstimator([GaussianEstimator()] * 2, [PoissonEstimator()] * 3).num_start_components()
    3
    """

    _laws: ClassVar[tuple[str, ...]] = ("components1", "components2")
    _fields: ClassVar[tuple[str, ...]] = ("estimators1", "estimators2")
    _keyword_fields: ClassVar[tuple[str, ...]] = ("suff_stat", "pseudo_count", "keys", "name")

    def __init__(
        self,
        estimators1: Sequence[Any],
        estimators2: Sequence[Any],
        suff_stat: Any = None,
        pseudo_count: Any = None,
        keys: tuple[Any, Any, Any] | None = (None, None, None),
        name: str | None = None,
    ) -> None:
        self.estimators1 = list(estimators_given(estimators1, "JointMixture"))
        self.estimators2 = list(estimators_given(estimators2, "JointMixture"))
        shape = (len(self.estimators1), len(self.estimators2))
        if not all(shape):
            raise ValueError("a joint mixture needs at least one estimator for each half")
        self.suff_stat = None if suff_stat is None else np.array(suff_stat, float)
        if self.suff_stat is not None and self.suff_stat.shape != shape:
            raise ValueError(f"suff_stat must have shape {shape}, has {self.suff_stat.shape}")
        last = pseudo_count[-1] if isinstance(pseudo_count, (tuple, list)) else pseudo_count
        self.pseudo_count = None if last is None else nonnegative(last, "pseudo_count")
        self.keys: tuple[Any, Any, Any] = (None, None, None) if keys is None else (keys[0], keys[1], keys[2])
        self.name = name

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        first = tuple((f"first component {k}", estimator) for k, estimator in enumerate(self.estimators1))
        return (*first, *((f"second component {k}", estimator) for k, estimator in enumerate(self.estimators2)))

    @property
    def num_components(self) -> int:
        """Return the number of pairs of components."""
        return len(self.estimators1) * len(self.estimators2)

    @property
    def least_start_rows(self) -> int:
        """Return how many rows a start needs: one for each component of the larger half."""
        return max(len(self.estimators1), len(self.estimators2))

    def num_start_components(self) -> int:
        """Return how many centres a start seeds for the larger half."""
        return self.least_start_rows

    def seed_start(self, columns: list[Column], rng: Any) -> tuple[Centres, ...] | None:
        """Return centres of both halves, seeded on sampled pairs; None if a half has no columns."""
        if not all(any(c.path[:1] == (i,) for c in columns) for i in (0, 1)):
            return None
        return seed_halves((self.estimators1, self.estimators2), columns, rng)

    def accumulator_factory(self) -> JointMixtureFactory:
        """Return the factory of this mixture's accumulators."""
        return JointMixtureFactory((self.estimators1, self.estimators2), self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> JointMixtureDistribution:
        """Return the fitted mixture.

        Parameters
        ----------
        nobs : float or None
            Weight of the data; the weights of the pairs may not exceed it. None skips the check.
        suff_stat : JointMixtureStatistics
            The statistic.
        """
        stat = JointMixtureStatistics(*suff_stat)
        counts = np.asarray(stat.joint_counts, float)
        total = math.fsum(counts.ravel().tolist())
        check_mass(total, nobs, self.keys[0] is not None)
        first = _fitted(self.estimators1, stat.counts1, stat.first, self.keys[1])
        second = _fitted(self.estimators2, stat.counts2, stat.second, self.keys[2])
        weights = self._weights(counts)
        return JointMixtureDistribution(first, second, keys=self.keys, name=self.name, joint_weights=weights)

    def _weights(self, counts: np.ndarray) -> np.ndarray:
        if self.pseudo_count:
            even = np.full(counts.shape, 1.0 / counts.size)
            counts = counts + self.pseudo_count * (even if self.suff_stat is None else self.suff_stat)
        total = float(np.add.reduce(counts, axis=None))
        return counts / total if total > 0.0 else np.full(counts.shape, 1.0 / counts.size)

    def keep_empty(self, model: Any, previous: Any, suff_stat: Any) -> Any:
        """Return `model` with the components that no row belongs to as they were in `previous`."""
        old = getattr(previous, "components1", None)
        if old is None or np.shape(previous.joint_weights) != np.shape(model.joint_weights):
            return model
        stat, notes, halves = JointMixtureStatistics(*suff_stat), [], []
        sides = (
            (self.estimators1, model.components1, old, stat.counts1, stat.first, self.keys[1]),
            (self.estimators2, model.components2, previous.components2, stat.counts2, stat.second, self.keys[2]),
        )
        for i, (estimators, new, before, counts, value, key) in enumerate(sides):
            parts = list(new)
            free = [k for k, e in enumerate(estimators) if key is None and not has_keys(e)]
            empty = [k for k in free if counts[k] == 0.0]
            for k in empty:
                parts[k] = before[k]
            for k, e in enumerate(estimators):
                if k not in empty and key is None and is_latent(e):
                    parts[k] = e.keep_empty(parts[k], before[k], children_of(value)[k])
            if empty:
                notes.append(f"empty components of half {i} kept as they were: {empty}")
            halves.append(parts)
        kept = JointMixtureDistribution(
            halves[0], halves[1], keys=model.keys, name=model.name, joint_weights=model.joint_weights
        )
        return repaired(kept, *model.numerical_repairs(), *notes)


def _fitted(estimators: Sequence[Any], counts: np.ndarray, value: Any, key: Any) -> list[Any]:
    """Return the fitted components of one half; of tied ones the weight behind the statistic is not known."""
    parts = zip(estimators, counts, handed(value, estimators), strict=True)
    return [estimator.estimate(None if key is not None else float(c), child) for estimator, c, child in parts]
