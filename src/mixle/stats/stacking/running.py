"""The running sum of stacked statistics: those of very many labels wait, and are looked up and added together."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import reduce
from itertools import count
from operator import is_not
from typing import Any, NamedTuple

import numpy as np

from mixle.stats.kinds import CodeCounts, CodeLeaf
from mixle.stats.stacking.statistic import StackedStatistic, merge_slot
from mixle.stats.stacking.tree import Node

__all__ = ["StackedSum", "union_of"]

#: A statistic of more labels than this waits.
MANY = 4096
#: As many numbers as this may wait, or as many as the sum has: memory stays within twice that of the sum.
WAITING = 1 << 23


class StackedSum:
    """Sum of statistics of one tree, with the bits of adding one after another.

    Parameters
    ----------
    nodes : tuple of Node
        Those of its slots.
    first : StackedStatistic
        What the sum begins with; it belongs to the sum from here on, and so do those that are added.
    """

    def __init__(self, nodes: tuple[Node, ...], first: StackedStatistic) -> None:
        self.nodes = nodes
        self._sum, self._more = first, list[StackedStatistic]()
        self._waiting = self._step = 0

    def add(self, stat: StackedStatistic) -> None:
        """Add a statistic."""
        self._more.append(stat)
        self._waiting += _size(stat)
        if _most(stat.slots) <= MANY or self._waiting > max(WAITING, _size(self._sum)):
            self.total()

    def total(self) -> StackedStatistic:
        """Return the sum; nothing waits any longer."""
        if self._more:
            parts = [self._sum, *self._more]
            counts = reduce(np.add, [part.counts for part in parts])
            columns = zip(*(part.slots for part in parts), strict=True)
            slots = tuple(
                _together(column, node, (index, self._step))
                for index, (column, node) in enumerate(zip(columns, self.nodes, strict=True))
            )
            self._sum, self._more, self._waiting = StackedStatistic(counts, slots, self._sum.tree), [], 0
            self._step += 1
        return self._sum


def _together(parts: tuple[Any, ...], node: Node, place: tuple[int, int]) -> Any:
    leaf = node.leaf
    if not isinstance(leaf, CodeLeaf) or type(leaf).merge is not CodeLeaf.merge or _most(parts) <= MANY:
        return reduce(lambda a, b: merge_slot(a, b, node), parts)
    parts = tuple(part for part in parts if part.labels)
    owner, lists = node.members[0], tuple(part.labels for part in parts)
    key = (id(owner), *place)
    known = _unions.get(key)
    if known is None or len(known.lists) != len(lists) or any(map(is_not, known.lists, lists)):
        alive = weakref.ref(owner, lambda _: _unions.pop(key, None))
        known = _unions[key] = _Union(alive, lists, *union_of(lists))
    counts = np.zeros((*np.shape(parts[0].counts)[:-1], len(known.labels)))
    for part, where in zip(parts, known.places, strict=True):
        counts[..., where] += part.counts
    return CodeCounts(known.labels, counts)


class _Union(NamedTuple):
    """What was found last for the sum of an estimator: from round to round the labels of each shard mostly stay."""

    owner: weakref.ref[Any]
    lists: tuple[tuple[Any, ...], ...]
    labels: tuple[Any, ...]
    places: tuple[Any, ...]


#: By the address of the estimator, as long as it lives, and by the slot and the step of the sum.
_unions: dict[tuple[int, int, int], _Union] = {}


def union_of(lists: Iterable[tuple[Any, ...]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the labels of all lists, in the order in which they first appear, and the places of each list in it.

    Examples
    --------
    >>> labels, places = union_of([("a", "b"), ("c", "a")])
    >>> labels, places[0], places[1].tolist()
    (('a', 'b', 'c'), slice(0, 2, None), [2, 0])
    """
    index: dict[Any, int] = {}
    places = tuple([_places(labels, index) for labels in lists])
    return tuple(index), places


def _places(labels: tuple[Any, ...], index: dict[Any, int]) -> Any:
    """Return the place of each label in `index`, which gets those that it does not have."""
    known = len(index)
    found = np.fromiter(map(index.setdefault, labels, count(known)), np.intp, len(labels))
    if len(index) == known + len(labels):
        return slice(known, len(index))
    new = found >= known
    if len(index) > known:  # leave no gaps
        found[new] = np.arange(known, len(index))
        index.update((labels[i], int(found[i])) for i in np.flatnonzero(new).tolist())
    return found


def _most(slots: Iterable[Any]) -> int:
    return max((len(slot.labels) for slot in slots if isinstance(slot, CodeCounts)), default=0)


def _size(stat: StackedStatistic) -> int:
    return sum(slot.counts.size for slot in stat.slots if isinstance(slot, CodeCounts))
