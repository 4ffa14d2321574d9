"""The statistic of a stacked mixture: arrays over the component axis, and the layouts of its children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mixle.stats.kinds import CodeCounts, CodeLeaf, LinearSums
from mixle.stats.stacking.split import CensoredWeights, ZeroWeights
from mixle.stats.stacking.tree import STACKABLE, Node, leaf_named
from mixle.stats.sums import Moments, signed_suff_stat

__all__ = ["OptionalWeights", "ShellWeights", "StackedStatistic", "handed", "member", "merge_slot"]
__all__ += ["merge_stacked"]


#: Module of each combinator that stands around one law.
_SHELLS = {"Transform": "transform", "Truncated": "truncated"}


class OptionalWeights(NamedTuple):
    """Weight of missing and of present rows, each (K,)."""

    missing: np.ndarray
    present: np.ndarray

    def scaled(self, c: float) -> OptionalWeights:
        """Return the weights times `c`."""
        return OptionalWeights(self.missing * c, self.present * c)


class ShellWeights(NamedTuple):
    """Weight (K,) of the rows of a combinator that stands around one law."""

    weight: np.ndarray

    def scaled(self, c: float) -> ShellWeights:
        """Return the weights times `c`."""
        return ShellWeights(self.weight * c)


class StackedStatistic(NamedTuple):
    """Statistic of a mixture of K components that share a tree.

    Attributes
    ----------
    counts : ndarray, shape (K,)
        Weight of each component.
    slots : tuple
        Statistic of each slot over all components: `Moments`, `LinearSums`, `CodeCounts`, `OptionalWeights`,
        `ShellWeights`, that of a split, or for a general slot the tuple of its K members' values.
    tree : tuple
        The common tree as nested tuples of strings.
    """

    counts: np.ndarray
    slots: tuple[Any, ...]
    tree: tuple[Any, ...]

    def scaled(self, c: float) -> StackedStatistic:
        """Return the statistic with every weight multiplied by `c` ≥ 0."""
        return StackedStatistic(self.counts * c, tuple(signed_suff_stat(slot, c) for slot in self.slots), self.tree)

    def copy(self) -> StackedStatistic:
        """Return a statistic that shares no array with this one."""
        return StackedStatistic(self.counts.copy(), tuple(map(_copied, self.slots)), self.tree)

    @property
    def finite(self) -> bool:
        """Return whether no sum has overflowed."""
        kinds = (Moments, LinearSums, *_WEIGHTS, ZeroWeights)
        slots = [part for slot in self.slots if isinstance(slot, kinds) for part in slot]
        return all(np.isfinite(part).all() for part in (self.counts, *slots))

    @property
    def children(self) -> tuple[Any, ...]:
        """Return the value of each component in its family's own layout."""
        return tuple(_child(self.tree, iter(self.slots), k) for k in range(len(self.counts)))

    def handed(self, estimators: Sequence[Any]) -> tuple[Any, ...]:
        """Return `children` for K estimators; of this library's own some read arrays where the layout is a dict."""
        if len(estimators) != len(self.counts):
            return self.children
        return tuple(_child(self.tree, iter(self.slots), k, estimator) for k, estimator in enumerate(estimators))


_WEIGHTS = (OptionalWeights, ShellWeights)
_SPLITS = (ZeroWeights, CensoredWeights)


def _copied(slot: Any) -> Any:
    if isinstance(slot, (Moments, *_SPLITS)):
        return slot.copy()
    if isinstance(slot, CodeCounts):
        return CodeCounts(slot.labels, slot.counts.copy())
    if isinstance(slot, (LinearSums, *_WEIGHTS)):
        return type(slot)(*(part.copy() for part in slot))
    return deepcopy(slot)


def member(stat: Any, k: int) -> Any:
    """Return component `k` of a slot's statistic."""
    if isinstance(stat, Moments):
        weight = float(stat.weight[k])
        if weight == 0.0:
            return Moments(0.0, 0.0, 0.0, 0.0)
        return Moments(weight, stat.centre[k].copy(), stat.shift[k].copy(), stat.scatter[k].copy())
    if isinstance(stat, LinearSums):
        return LinearSums(float(stat.weight[k]), stat.sums[k].copy())
    if isinstance(stat, CodeCounts):
        return CodeCounts(stat.labels, stat.counts[k].copy())
    return stat[k]


def handed(value: Any, estimators: Sequence[Any]) -> Sequence[Any]:
    """Return the values of components that are kept in either way as their estimators read them."""
    return value.handed(estimators) if isinstance(value, StackedStatistic) else tuple(value)


def _child(tree: tuple[Any, ...], slots: Iterator[Any], k: int, estimator: Any = None) -> Any:
    """Return the value of component `k`: in its family's own layout, or as `estimator` reads it."""
    kind, reader = tree[0], estimator if _is_own(estimator) else None
    if kind == "composite":
        readers = (None,) * (len(tree) - 1) if reader is None else reader.stack_node()[1]
        return tuple(_child(part, slots, k, one) for part, one in zip(tree[1:], readers, strict=True))
    if kind == "null":
        return None
    if kind == "optional":
        weights = next(slots)
        child = _child(tree[1], slots, k, None if reader is None else reader.stack_node()[1])
        return ((float(weights.missing[k]), float(weights.present[k])), child)
    stat = next(slots)
    if kind == "split":
        return stat.layout(_split_child(stat, tree[2], slots, k), k)
    if kind == "shell":
        return shell_layout(tree[1])(1, _child(tree[2], slots, k), float(stat.weight[k]), 0.0)
    if kind == "general":
        return stat[k]
    leaf = leaf_named(tree[1])
    own = leaf.member(member(stat, k))
    return leaf.handed(own) if reader is not None and isinstance(leaf, CodeLeaf) else leaf.to_value(own)


def _is_own(estimator: Any) -> bool:
    """Return whether an estimator's M-step is this library's: any other reads the documented layouts."""
    if estimator is None or "estimate" in getattr(estimator, "__dict__", ()):
        return False
    return str(getattr(type(estimator).estimate, "__module__", "")).startswith("mixle.stats.")


def _split_child(split: Any, tree: tuple[Any, ...], slots: Iterator[Any], k: int) -> Any:
    """Return the value of the law inside of a split, with what is expected of the rows that it has not seen."""
    if tree[0] not in STACKABLE:
        return _child(tree, slots, k)
    leaf, stat = leaf_named(tree[1]), next(slots)
    own, more = leaf.member(member(stat, k)), split.expected(leaf, k)
    return leaf.to_value(own if more is None else leaf.merge(own, more))


@cache
def shell_layout(name: str) -> Any:
    """Return the statistic of a combinator that stands around one law."""
    from importlib import import_module

    return getattr(import_module(f"mixle.stats.combinators.{_SHELLS[name]}"), f"{name}Statistics")


def merge_stacked(a: StackedStatistic, b: StackedStatistic, nodes: tuple[Node, ...]) -> StackedStatistic:
    """Return the sum of two statistics of one tree; `nodes` are those of its slots."""
    slots = tuple(merge_slot(x, y, node) for x, y, node in zip(a.slots, b.slots, nodes, strict=True))
    return StackedStatistic(a.counts + b.counts, slots, a.tree)


def merge_slot(x: Any, y: Any, node: Node) -> Any:
    """Return the sum of two statistics of one slot."""
    if isinstance(x, _SPLITS):
        return x.plus(y, node.children[0].leaf)
    if isinstance(x, _WEIGHTS):
        return type(x)(*(a + b for a, b in zip(x, y, strict=True)))
    if node.leaf is not None:
        return node.leaf.merge(x, y)
    merged = []
    for left, right, estimator in zip(x, y, node.members, strict=True):
        accumulator = estimator.accumulator_factory().make()
        merged.append(accumulator.from_value(left).combine(right).value())
    return tuple(merged)
