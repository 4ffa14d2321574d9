"""Accumulators of mixtures: stacked over the component axis where the components share a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mixle.stats.contract import SequenceEncodableStatisticAccumulator, StatisticAccumulatorFactory
from mixle.stats.keys import has_keys
from mixle.stats.latent.mixture_encoder import mixture_encoder
from mixle.stats.recall import recalled
from mixle.stats.refusals import check_shape, refuse_model, refuse_statistic
from mixle.stats.stacking.general import GeneralParts
from mixle.stats.stacking.plan import Attached
from mixle.stats.stacking.running import StackedSum
from mixle.stats.stacking.statistic import StackedStatistic
from mixle.stats.stacking.tree import Node, Slot, flatten, signature, unify
from mixle.stats.stacking.walk import Walk, accumulate_given
from mixle.stats.starts import Centres, in_codes_of, near_hard, sample_size, seed_centres, seed_components, take_columns
from mixle.stats.sums import BLOCK

__all__ = ["MixtureAccumulator", "MixtureFactory", "split_value"]


#: ``given(start, stop)``: weighted responsibilities (K, n) of a block, padded with zeros to a multiple of 8 columns.
Given = Callable[[int, int], np.ndarray]


def split_value(value: Any, components: int) -> tuple[Any, Sequence[Any]]:
    """Return (counts, children) of the statistic of a mixture of so many components, in either layout."""
    counts, children = (value.counts, value.children) if isinstance(value, StackedStatistic) else value
    if len(children) != components:
        refuse_statistic(len(children), components, "components")
    check_shape(counts, (components,), "weights of components")
    return counts, children


class MixtureFactory(StatisticAccumulatorFactory):
    """Factory of a mixture's accumulators."""

    def __init__(
        self, estimators: Sequence[Any], keys: tuple[Any, Any], name: str | None = None, init: str | None = None
    ) -> None:
        self.estimators, self.keys, self.name, self.init = list(estimators), keys, name, init

    def make(self) -> MixtureAccumulator:
        """Return a fresh accumulator."""
        return MixtureAccumulator(self.estimators, self.keys, self.name, self.init)


class MixtureAccumulator(SequenceEncodableStatisticAccumulator):
    """Statistic of a mixture.

    The state is a `StackedStatistic` while the components share a tree and nothing forces them apart; key passes and
    statistics of the unstacked layout turn it into counts and one accumulator per component.
    """

    def __init__(
        self, estimators: Sequence[Any], keys: tuple[Any, Any], name: str | None = None, init: str | None = None
    ) -> None:
        self.estimators, self.name, self.init = list(estimators), name, init
        self.weight_key, self.component_key = keys
        self.node, self.tree = recalled("tree of estimators", self.estimators, self._tree)
        self._sum: StackedSum | None = None
        self.counts = np.zeros(len(self.estimators))
        self._children: list[Any] | None = None if self.node.kind != "general" else self._fresh()

    def _tree(self) -> tuple[Node, Any]:
        node = unify(self.estimators)
        return node, signature(node)

    @property
    def stat(self) -> StackedStatistic | None:
        """Return the statistic over the component axis, None before the first row and where it is kept apart."""
        return None if self._sum is None else self._sum.total()

    def _fresh(self) -> list[Any]:
        return [estimator.accumulator_factory().make() for estimator in self.estimators]

    @property
    def children(self) -> list[Any]:
        """Return one accumulator per component; from here on the statistic is kept in them."""
        if self._children is None:
            self._children = self._fresh()
            stat, self._sum = self.stat, None
            if stat is not None:
                self.counts = stat.counts.copy()
                for child, value in zip(self._children, stat.children, strict=True):
                    child.from_value(value)
        return self._children

    @cached_property
    def tied(self) -> bool:
        """Return whether any site of this mixture is keyed."""
        keys = (self.weight_key, self.component_key)
        return any(key is not None for key in keys) or any(has_keys(e) for e in self.estimators)

    @property
    def stacked(self) -> bool:
        """Return whether the statistic is kept over the component axis."""
        return self._children is None

    def _add(self, stat: StackedStatistic) -> None:
        """Add a statistic, which belongs to this accumulator from here on."""
        if self._sum is None:
            self._sum = StackedSum(tuple(slot.node for slot in flatten(self.node)), stat)
        else:
            self._sum.add(stat)

    def seq_update_scored(self, x: Any, weights: np.ndarray | None, estimate: Any) -> tuple[float, int]:
        """Add encoded rows under the mixture `estimate`.

        Returns
        -------
        (float, int)
            Summed log-density of the rows under `estimate`, and the number of rows left out because no component
            supports them.
        """
        self._check(estimate)
        walk = estimate.walk(x)
        if walk.rows == 0:
            return 0.0, 0
        if self.stacked and signature(walk.node) == self.tree:
            stat, density, left_out = walk.accumulate(weights, self.node, None)
            if stat is not None:
                self._add(stat)
            return density, left_out
        parts, sink = self._apart(walk.payload, estimate.components, walk.rows)
        _, density, left_out = walk.accumulate(weights, None, sink)
        parts.values()
        return density, left_out

    def _apart(
        self, x: Any, components: Sequence[Any], rows: int
    ) -> tuple[GeneralParts, Callable[[int, int, np.ndarray], None]]:
        """Return the components' own accumulators over a chunk, and what adds a block of responsibilities to them."""
        slot = Slot(0, Node("general", None, (), tuple(components)), -1, ())
        parts = GeneralParts((Attached(slot, None, x, None),), len(self.children), rows)
        parts.accumulators[0] = self.children
        parts.encoders = {(0, k): child.acc_to_encoder() for k, child in enumerate(self.children)}

        def sink(start: int, stop: int, r: np.ndarray) -> None:
            self.counts += np.add.reduce(r, axis=1)
            parts.update(start, stop, r)

        return parts, sink

    def add_given(
        self, walk: Walk, x: Any, components: Sequence[Any], given: Callable[[], Iterator[tuple[int, int, np.ndarray]]]
    ) -> None:
        """Add encoded rows with responsibilities that come from elsewhere, as `Walk.gather` takes them."""
        if self.stacked and signature(walk.node) == self.tree:
            self._add(walk.gather(self.node, given))
            return
        parts, sink = self._apart(x, components, walk.rows)
        for start, stop, r in given():
            sink(start, stop, r[:, : stop - start])
        parts.values()

    def _check(self, estimate: Any) -> None:
        """Refuse a model that gives no responsibilities for these components."""
        count = len(self.estimators)
        if not hasattr(estimate, "walk"):
            kind = type(estimate).__name__
            raise TypeError(
                f"a mixture of {count} components is fitted from a MixtureDistribution, not from a {kind}; "
                "pass prev_estimate=MixtureDistribution(components, w)"
            )
        if len(estimate.components) != count:
            refuse_model(len(estimate.components), count, "components")

    def seq_update(self, x: Any, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded rows under the mixture `estimate`."""
        self.seq_update_scored(x, weights, estimate)

    def start(self, enc: Any, draws: np.ndarray, centres: Centres, p: float, weights: np.ndarray | None = None) -> None:
        """Add the rows whose draw is below `p`, each nearly all to its nearest centre.

        Parameters
        ----------
        enc : payload
            Encoded rows.
        draws : ndarray, shape (n,)
            One uniform number per row.
        centres : Centres
            Seeded centres, one per component.
        p : float
            Share of rows to keep.
        weights : ndarray, shape (n,), optional
            Row weights.
        """
        kept = np.where(draws < p, 1.0 if weights is None else weights, 0.0)
        if not kept.any():
            return
        self.initialize_given(enc, len(draws), self._nearest(enc, centres, kept), _rng(float(draws[0])), centres.parts)

    def _nearest(self, enc: Any, centres: Centres, weights: np.ndarray) -> Given:
        """Return near-hard responsibilities of weighted rows about centres, block by block."""
        encoder = self.value_encoder()
        known = in_codes_of(encoder.columns(enc, 0, 0), centres)

        def given(start: int, stop: int) -> np.ndarray:
            columns = encoder.columns(enc, start, stop)
            return _padded(near_hard(columns, known) * weights[start:stop])

        return given

    def initialize_given(self, enc: Any, rows: int, given: Given, rng: Any, seeds: tuple[Any, ...] = ()) -> None:
        """Add encoded rows before there is a model.

        Parameters
        ----------
        enc, rows
            Encoded rows and their number.
        given : callable
            Weighted responsibilities, as `accumulate_given` takes them.
        rng : RandomState
            For components that start by chance.
        seeds : tuple
            Seeds of mixtures inside the components, one entry per component, or empty.
        """
        if self.stacked:
            self._add(accumulate_given(self.node, enc, rows, given, rng, seeds))
            return
        parts, sink = self._apart(enc, self.estimators, rows)
        parts.begin(rng, seeds)
        for start in range(0, rows, BLOCK):
            stop = min(start + BLOCK, rows)
            sink(start, stop, given(start, stop)[:, : stop - start])
        parts.values()

    def initialize(self, x: Any, weight: float, rng: Any) -> None:
        """Add one row before there is a model, its responsibilities drawn from Dirichlet(1/K²)."""
        payload = self.acc_to_encoder().seq_encode([x])
        self.initialize_given(payload, 1, self._by_chance(np.array([weight], float), rng), rng)

    def seq_initialize(self, x: Any, weights: np.ndarray, rng: Any) -> None:
        """Add encoded rows before there is a model: near-hard about centres seeded among them, else by chance.

        Rows without fixed columns (sequences), fewer rows than components, and ``init='dirichlet'`` get
        Dirichlet(1/K²) responsibilities.
        """
        encoder = self.acc_to_encoder()
        rows = int(encoder.row_count(x))
        kept = np.flatnonzero(weights > 0.0)
        if not kept.size:
            return
        count = len(self.estimators)
        columns = encoder.columns(x, 0, rows) if self.init != "dirichlet" and kept.size >= count else None
        if not columns:
            self.initialize_given(x, rows, self._by_chance(weights, rng), rng)
            return
        sample = list(take_columns(columns, rng.permutation(kept)[: sample_size(count)]))
        centres = seed_components(self.estimators, seed_centres(sample, count, rng), sample, rng)
        self.initialize_given(x, rows, self._nearest(x, centres, weights), rng, centres.parts)

    def _by_chance(self, weights: np.ndarray, rng: Any) -> Given:
        from numpy.random import RandomState

        count, seed = len(self.estimators), int(rng.randint(2**31))

        def given(start: int, stop: int) -> np.ndarray:
            drawn = RandomState([seed, start // BLOCK]).dirichlet(np.full(count, 1.0 / count**2), size=stop - start)
            return _padded(drawn.T * weights[start:stop])

        return given

    def combine(self, suff_stat: Any) -> MixtureAccumulator:
        """Add another statistic, of either layout."""
        if isinstance(suff_stat, StackedStatistic) and self.stacked and suff_stat.tree == self.tree:
            self._add(suff_stat.copy())
            return self
        counts, values = split_value(suff_stat, len(self.estimators))
        if self.stacked and not np.any(counts):
            return self  # the zero statistic of a shard without rows must not force the components apart
        children = self.children
        self.counts = self.counts + np.asarray(counts, float)
        for child, value in zip(children, values, strict=True):
            child.combine(value)
        return self

    def value(self) -> Any:
        """Return the statistic: a `StackedStatistic`, or ``(counts, tuple of children's values)``."""
        stat = self.stat
        if self.stacked and stat is not None:
            return stat.copy()
        if self.stacked:
            return (self.counts.copy(), tuple(child.value() for child in self._fresh()))
        return (self.counts.copy(), tuple(child.value() for child in self.children))

    def from_value(self, x: Any) -> MixtureAccumulator:
        """Replace the statistic by one of either layout."""
        if isinstance(x, StackedStatistic) and x.tree == self.tree:
            check_shape(x.counts, self.counts.shape, "weights of components")
            self._children, self._sum, self.counts = None, None, np.zeros(len(self.estimators))
            self._add(x.copy())
            return self
        counts, values = split_value(x, len(self.estimators))
        self._sum, self.counts = None, np.array(counts, float)
        self._children = None if self.node.kind != "general" and not self.counts.any() else self._fresh()
        if self._children is None:
            return self  # the zero statistic leaves the components stacked
        for child, value in zip(self._children, values, strict=True):
            child.from_value(value)
        return self

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Pool weights and components under their keys, then the children's own keys."""
        if not self.tied:
            return  # components stay stacked
        children = self.children
        if self.weight_key is not None:
            pooled = stats_dict.setdefault(self.weight_key, np.zeros(len(self.counts)))
            pooled += self.counts
        if self.component_key is not None:
            if self.component_key in stats_dict:
                for mine, first in zip(children, stats_dict[self.component_key], strict=True):
                    first.combine(mine.value())
            else:
                stats_dict[self.component_key] = children
        for child in children:
            child.key_merge(stats_dict)

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take the pooled weights and components."""
        if not self.tied:
            return
        children = self.children
        if self.weight_key is not None and self.weight_key in stats_dict:
            self.counts = stats_dict[self.weight_key].copy()
        if self.component_key is not None and self.component_key in stats_dict:
            for mine, pooled in zip(children, stats_dict[self.component_key], strict=True):
                if mine is not pooled:
                    mine.from_value(pooled.value())
        for child in children:
            child.key_replace(stats_dict)

    def acc_to_encoder(self) -> Any:
        """Return the encoder of a row."""
        return self.value_encoder()

    def value_encoder(self) -> Any:
        """Return the components' encoder."""
        return mixture_encoder([e.accumulator_factory().make().acc_to_encoder() for e in self.estimators])


def _padded(r: np.ndarray) -> np.ndarray:
    """Return responsibilities with zero columns up to a multiple of 8."""
    return np.pad(r, ((0, 0), (0, -r.shape[1] % 8)))


def _rng(draw: float) -> Any:
    from numpy.random import RandomState

    return RandomState(int(draw * (2**32 - 1)))
