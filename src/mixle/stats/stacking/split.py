"""Splits: combinators that hand one law some of the rows and score the others by themselves.

The others are one value (all zeros), so that a gate says all of them, or fall into classes (intervals): each has a
log-density under each component, and leaves a statistic that is expected of its weight.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from mixle.stats.kinds import weights_by_code
from mixle.stats.leaf import Leaf, as_rows
from mixle.stats.sums import BLOCK, signed_suff_stat

__all__ = ["CensoredWeights", "ClassSums", "Classes", "RowClasses", "ZeroWeights"]


class ZeroWeights(NamedTuple):
    """Weights, each (K,), of the rows of a law with a share of zeros of its own.

    Attributes
    ----------
    weight : ndarray, shape (K,)
        Weight of all rows.
    zeros : ndarray, shape (K,)
        Weight of those that are zero, none of which is in the statistic of the law inside.
    passed : ndarray, shape (K,)
        Expected weight of the zeros that come from the law inside.
    own : ndarray, shape (K,)
        Expected weight of the rows that do not come from it.
    """

    weight: np.ndarray
    zeros: np.ndarray
    passed: np.ndarray
    own: np.ndarray

    def scaled(self, c: float) -> ZeroWeights:
        """Return the weights times `c`."""
        return ZeroWeights(*(part * c for part in self))

    def plus(self, other: ZeroWeights, _: Leaf | None) -> ZeroWeights:
        """Return the sum of both."""
        return ZeroWeights(*(a + b for a, b in zip(self, other, strict=True)))

    def copy(self) -> ZeroWeights:
        """Return weights that share no array with these."""
        return ZeroWeights(*(part.copy() for part in self))

    def expected(self, leaf: Leaf, k: int) -> Any:
        """Return what the rows that component `k` scores by itself add to the statistic of its law, or None."""
        passed = float(self.passed[k])
        return leaf.accumulate(as_rows(leaf.encode([0])), np.array([passed]), None) if passed > 0.0 else None

    def layout(self, child: Any, k: int) -> Any:
        """Return the documented statistic of component `k`, given its law's."""
        return child, float(self.own[k]), float(self.weight[k])


class CensoredWeights(NamedTuple):
    """Weight (K,) of the known and of the censored rows, and the K statistics that are expected of the latter."""

    exact: np.ndarray
    censored: np.ndarray
    hidden: tuple[Any, ...]

    def scaled(self, c: float) -> CensoredWeights:
        """Return the weights times `c`."""
        hidden = tuple(signed_suff_stat(part, c) for part in self.hidden)
        return CensoredWeights(self.exact * c, self.censored * c, hidden)

    def plus(self, other: CensoredWeights, leaf: Leaf | None) -> CensoredWeights:
        """Return the sum of both."""
        hidden = self.hidden or other.hidden
        if self.hidden and other.hidden and leaf is not None:
            hidden = tuple(map(leaf.merge, self.hidden, other.hidden))
        return CensoredWeights(self.exact + other.exact, self.censored + other.censored, hidden)

    def copy(self) -> CensoredWeights:
        """Return weights that share no array with these."""
        hidden = tuple(signed_suff_stat(part, 1.0) for part in self.hidden)
        return CensoredWeights(self.exact.copy(), self.censored.copy(), hidden)

    def expected(self, leaf: Leaf, k: int) -> Any:
        """Return what the rows that component `k` scores by itself add to the statistic of its law, or None."""
        return self.hidden[k] if self.hidden else None

    def layout(self, child: Any, k: int) -> Any:
        """Return the documented statistic of component `k`, given its law's."""
        from mixle.stats.combinators.censored import CensoredStatistics

        return CensoredStatistics(1, child, float(self.exact[k]), float(self.censored[k]))


class RowClasses(NamedTuple):
    """The distinct classes of the rows that a split scores by itself.

    Attributes
    ----------
    classes : tuple of ndarray, shape (J,)
        What tells them apart.
    which : ndarray of int, shape (m,)
        Class of each of these rows.
    rows : ndarray of int, shape (m,)
        Their positions, ascending.
    """

    classes: tuple[np.ndarray, ...]
    which: np.ndarray
    rows: np.ndarray

    def span(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return class and position, relative to `start`, of the rows in ``start:stop``."""
        a, b = np.searchsorted(self.rows, (start, stop))
        return self.which[a:b], self.rows[a:b] - start


class Classes:
    """The classes of one split over a chunk, and what K components say of them.

    Up to a block of classes are scored at once; more of them block by block, so that memory does not grow with rows.
    """

    def __init__(self, members: tuple[Any, ...], found: RowClasses) -> None:
        self.members, self.found = members, found
        self.few = len(found.classes[0]) <= BLOCK
        self._table: np.ndarray | None = None

    def score(self, start: int, stop: int, out: np.ndarray, least: float) -> None:
        """Add the log-densities of these rows among ``start:stop``, not below `least`, to `out` (K, n)."""
        which, where = self.found.span(start, stop)
        if not len(which):
            return
        if self.few:
            if self._table is None:
                self._table = self.members[0].class_terms(self.members, self.found.classes)
            table = self._table
        else:
            own, which = np.unique(which, return_inverse=True)
            table = self.members[0].class_terms(self.members, tuple(part[own] for part in self.found.classes))
        out[:, where] += np.maximum(table, least)[:, which]


class ClassSums:
    """Weights of the classes of one split, and what is expected of them.

    Parameters
    ----------
    classes : Classes
        The classes of a chunk.
    """

    def __init__(self, classes: Classes) -> None:
        self.classes, self.found = classes, classes.found
        self.expects = hasattr(classes.members[0], "class_statistics")
        count = len(classes.members)
        self.weight = np.zeros(count)
        self._sums = np.zeros((count, len(self.found.classes[0]))) if classes.few else None
        self._statistics: tuple[Any, ...] = ()

    def add(self, start: int, stop: int, r: np.ndarray) -> None:
        """Add a block of rows with weights `r` (K, n)."""
        which, where = self.found.span(start, stop)
        if not len(which):
            return
        given = np.ascontiguousarray(r[:, where], float)
        self.weight += np.add.reduce(given, axis=1)
        if not self.expects:
            return
        if self._sums is not None:
            self._sums += weights_by_code(which, np.arange(len(which) + 1), given, self._sums.shape[1])
            return
        own, at = np.unique(which, return_inverse=True)
        sums = weights_by_code(at, np.arange(len(at) + 1), given, len(own))
        self._expect(tuple(part[own] for part in self.found.classes), sums)

    def _expect(self, classes: tuple[np.ndarray, ...], sums: np.ndarray) -> None:
        first: Any = self.classes.members[0]
        self._statistics = first.class_statistics(self.classes.members, classes, sums, self._statistics)

    def statistics(self) -> tuple[Any, ...]:
        """Return the K statistics that are expected; none before there is a model."""
        if self.expects and self._sums is not None:
            self._expect(self.found.classes, self._sums)
            self._sums = None
        return self._statistics


def classes_of(attached: Iterable[Any]) -> dict[int, Classes]:
    """Return the classes of a chunk's splits that have some, by slot index."""
    result: dict[int, Classes] = {}
    for part in attached:
        tell = getattr(part.slot.node.members[0], "split_classes", None) if part.slot.node.kind == "split" else None
        found: RowClasses | None = None if tell is None else tell(part.payload)
        if found is not None:
            rows = found.rows if part.around is None else part.around[found.rows]
            result[part.slot.index] = Classes(part.slot.node.members, found._replace(rows=rows))
    return result


__all__ += ["classes_of"]
