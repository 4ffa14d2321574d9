"""Statistic of mixtures of pairs; each half is kept as a mixture keeps its components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.combinators.fields import FieldsEncoder
from mixle.stats.contract import Column, SequenceEncodableStatisticAccumulator, StatisticAccumulatorFactory
from mixle.stats.latent.joint_walk import side
from mixle.stats.latent.mixture_accumulator import MixtureAccumulator
from mixle.stats.refusals import check_shape, refuse_model
from mixle.stats.starts import Centres, near_hard, sample_size, seed_centres, seed_components, take_columns
from mixle.stats.sums import BLOCK, block_sum, signed_suff_stat

__all__ = [
    "JointMixtureAccumulator",
    "JointMixtureFactory",
    "JointMixtureStatistics",
    "children_of",
    "seed_halves",
]


class JointMixtureStatistics(NamedTuple):
    """Statistic of a mixture of pairs.

    Attributes
    ----------
    counts1, counts2 : ndarray, shape (K1,) and (K2,)
        Weight of each component of the halves.
    joint_counts : ndarray, shape (K1, K2)
        Weight of each pair of components.
    first, second : StackedStatistic or tuple
        Statistic of the components of the halves, as a mixture keeps it.
    """

    counts1: np.ndarray
    counts2: np.ndarray
    joint_counts: np.ndarray
    first: Any
    second: Any

    def scaled(self, c: float) -> JointMixtureStatistics:
        """Return the statistic with every weight times `c`."""
        first, second = signed_suff_stat(self.first, c), signed_suff_stat(self.second, c)
        return JointMixtureStatistics(self.counts1 * c, self.counts2 * c, self.joint_counts * c, first, second)

    @property
    def children(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the values of the components of both halves in their families' own layout."""
        return children_of(self.first), children_of(self.second)


def children_of(value: Any) -> tuple[Any, ...]:
    """Return the values of the components of one half in their families' own layout."""
    return tuple(value.children) if hasattr(value, "children") else tuple(value)


class JointMixtureFactory(StatisticAccumulatorFactory):
    """Factory of `JointMixtureAccumulator`."""

    def __init__(self, halves: tuple[Sequence[Any], Sequence[Any]], keys: tuple[Any, Any, Any]) -> None:
        self.halves, self.keys = (list(halves[0]), list(halves[1])), keys

    def make(self) -> JointMixtureAccumulator:
        """Return a fresh accumulator."""
        return JointMixtureAccumulator(self.halves, self.keys)


class JointMixtureAccumulator(SequenceEncodableStatisticAccumulator):
    """Accumulator of a `JointMixtureEstimator`: a mixture's accumulator for each half, and the weights of the pairs."""

    def __init__(self, halves: tuple[Sequence[Any], Sequence[Any]], keys: tuple[Any, Any, Any]) -> None:
        self.weight_key = keys[0]
        self.sides = tuple(MixtureAccumulator(h, (None, k)) for h, k in zip(halves, keys[1:], strict=True))
        self.joint = np.zeros((len(halves[0]), len(halves[1])))

    @one_blas_thread()
    def seq_update_scored(self, x: Any, weights: np.ndarray | None, estimate: Any) -> tuple[float, int]:
        """Add encoded pairs under the mixture `estimate`.

        Returns
        -------
        (float, int)
            Summed log-density of the pairs under `estimate`, and the number of those left out because they are
            impossible.
        """
        walk = estimate.walk(x)
        if walk.joint.shape != self.joint.shape:
            refuse_model(walk.joint.shape, self.joint.shape, "components")
        if not walk.rows:
            return 0.0, 0
        density = np.zeros(walk.rows)
        for block in walk.blocks():
            part = None if weights is None else weights[block.start : block.stop]
            self.joint = self.joint + block.halves(walk.joint, part)[2]
            density[block.start : block.stop] = block.log_density
        parts = (estimate.components1, estimate.components2)
        for i, (accumulator, components) in enumerate(zip(self.sides, parts, strict=True)):
            accumulator.add_given(walk.walks[i], x[i], components, side(walk, weights, i))
        possible = ~np.isneginf(density)
        left_out = ~possible if weights is None else ~possible & (weights > 0.0)
        return block_sum(np.where(possible, density, 0.0), weights), int(left_out.sum())

    def seq_update(self, x: Any, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded pairs under the mixture `estimate`."""
        self.seq_update_scored(x, weights, estimate)

    def start(self, enc: Any, draws: np.ndarray, centres: Any, p: float, weights: np.ndarray | None = None) -> None:
        """Add the pairs whose draw is below `p`, each half nearly all to its nearest centre."""
        kept = np.where(draws < p, 1.0 if weights is None else weights, 0.0)
        if not kept.any():
            return
        encoders = [accumulator.acc_to_encoder() for accumulator in self.sides]
        for start in range(0, len(kept), BLOCK):
            stop = min(start + BLOCK, len(kept))
            r = [near_hard(e.columns(h, start, stop), c) for e, h, c in zip(encoders, enc, centres, strict=True)]
            self.joint = self.joint + (r[0] * kept[start:stop]) @ r[1].T
        for accumulator, half, own in zip(self.sides, enc, centres, strict=True):
            accumulator.start(half, draws, own, p, weights)

    def seq_initialize(self, x: Any, weights: np.ndarray, rng: Any) -> None:
        """Add encoded pairs before there is a model: about centres seeded among them, else by chance."""
        encoder = self.acc_to_encoder()
        kept = np.flatnonzero(weights > 0.0)
        if not kept.size:
            return
        columns = encoder.columns(x, 0, len(weights)) if kept.size >= max(self.joint.shape) else None
        if columns and all(any(c.path[:1] == (i,) for c in columns) for i in (0, 1)):
            sample = take_columns(columns, rng.permutation(kept)[: sample_size(max(self.joint.shape))])
            halves = [accumulator.estimators for accumulator in self.sides]
            self.start(x, np.zeros(len(weights)), seed_halves(halves, list(sample), rng), 1.0, weights)
            return
        for accumulator, half in zip(self.sides, x, strict=True):
            accumulator.seq_initialize(half, weights, rng)
        self.joint = self.joint + rng.dirichlet(np.ones(self.joint.size)).reshape(self.joint.shape) * block_sum(weights)

    def combine(self, suff_stat: Any) -> JointMixtureAccumulator:
        """Add another statistic."""
        stat = JointMixtureStatistics(*suff_stat)
        self.joint = self.joint + np.asarray(stat.joint_counts, float)
        for accumulator, counts, value in self._split(stat):
            accumulator.combine(_mixed(counts, value))
        return self

    def _split(self, stat: JointMixtureStatistics) -> Any:
        check_shape(stat.joint_counts, self.joint.shape, "components")
        return zip(self.sides, (stat.counts1, stat.counts2), (stat.first, stat.second), strict=True)

    def value(self) -> JointMixtureStatistics:
        """Return the statistic; nothing in it is shared with this accumulator."""
        counts, parts = [], []
        for accumulator in self.sides:
            value = accumulator.value()
            stacked = hasattr(value, "children")
            counts.append(value.counts.copy() if stacked else value[0])
            parts.append(value if stacked else value[1])
        return JointMixtureStatistics(counts[0], counts[1], self.joint.copy(), parts[0], parts[1])

    def from_value(self, x: Any) -> JointMixtureAccumulator:
        """Replace the statistic."""
        stat = JointMixtureStatistics(*x)
        for accumulator, counts, value in self._split(stat):
            accumulator.from_value(_mixed(counts, value))
        self.joint = np.array(stat.joint_counts, float)
        return self

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Pool weights and components under their keys, then the children's own keys."""
        if self.weight_key is not None:
            pooled = stats_dict.setdefault(self.weight_key, np.zeros_like(self.joint))
            pooled += self.joint
        for accumulator in self.sides:
            accumulator.key_merge(stats_dict)

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take the pooled weights and components."""
        if self.weight_key is not None and self.weight_key in stats_dict:
            self.joint = stats_dict[self.weight_key].copy()
        for accumulator in self.sides:
            accumulator.key_replace(stats_dict)

    def acc_to_encoder(self) -> FieldsEncoder:
        """Return the encoder of pairs."""
        return FieldsEncoder([accumulator.acc_to_encoder() for accumulator in self.sides])


def _mixed(counts: Any, value: Any) -> Any:
    """Return the statistic of one half as a mixture has it."""
    return value if hasattr(value, "children") else (np.asarray(counts, float), tuple(value))


def seed_halves(halves: Sequence[Sequence[Any]], columns: list[Column], rng: Any) -> tuple[Centres, ...]:
    """Return centres of both halves, seeded on sampled pairs."""
    found = []
    for i, estimators in enumerate(halves):
        own = [c._replace(path=c.path[1:]) for c in columns if c.path[:1] == (i,)]
        found.append(seed_components(estimators, seed_centres(own, len(estimators), rng), own, rng))
    return tuple(found)
