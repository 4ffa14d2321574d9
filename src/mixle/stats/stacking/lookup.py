"""Labels of a model and of a chunk brought together.

What does not depend on the chunk is shared by the chunks of a task (`Facts`), and a chunk that has few of a model's
many labels gets a table of those: what a million labels cost does not grow with the number of chunks.
"""

from __future__ import annotations

import weakref
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

__all__ = ["MANY", "Laid", "Lookup"]

#: Of more labels than this only those are touched that a chunk, or a block, has.
MANY = 16384
#: What `Lookup.lay` found last for a chunk, by the address of its codes, as long as those live.
_laid: dict[int, _Narrow] = {}


class _Narrow(NamedTuple):
    """A chunk's labels among a model's: from round to round they mostly stay."""

    codes: weakref.ref[np.ndarray]
    own: tuple[Any, ...]
    model: tuple[Any, ...]
    labels: tuple[Any, ...]
    columns: np.ndarray
    seen: np.ndarray


class Laid(NamedTuple):
    """Labels of one slot for one chunk.

    Attributes
    ----------
    labels : tuple
        Those that have a column of their own; one more column serves all others.
    columns : ndarray of int, shape (L,)
        The column of each of the chunk's own labels, ``len(labels)`` for one that the model does not list.
    table : ndarray, shape (K, len(labels)), or None
        Their log-probabilities, if they are known.
    narrow : bool
        Whether the model has more labels than these.
    """

    labels: tuple[Any, ...]
    columns: np.ndarray
    table: np.ndarray | None = None
    narrow: bool = False

    @classmethod
    def of(cls, own: tuple[Any, ...]) -> Laid:
        """Return a chunk's labels as they are."""
        return cls(own, np.arange(len(own), dtype=np.intp))


class Lookup:
    """Labels that any of K distributions of one family lists, in the order of the first that does.

    Parameters
    ----------
    leaf : CodeLeaf
        The family.
    members : sequence of distributions
        The K distributions.
    """

    def __init__(self, leaf: Any, members: tuple[Any, ...]) -> None:
        self.leaf, self.members = leaf, members
        first = tuple(leaf.model_labels(members[0]))
        others = [more for more in map(leaf.model_labels, members[1:]) if more is not first and more != first]
        self.labels: tuple[Any, ...] = tuple(dict.fromkeys(chain(first, *others))) if others else first

    @cached_property
    def _columns(self) -> dict[Any, int]:
        return dict(zip(self.labels, range(len(self.labels)), strict=True))

    @cached_property
    def _table(self) -> np.ndarray:
        return np.asarray(self.leaf.log_tables(self.members, self.labels))

    def lay(self, own: tuple[Any, ...], codes: np.ndarray | None = None) -> Laid:
        """Return the labels for a chunk that has the labels `own`.

        Given its `codes`, those are left out that the chunk does not have. The order stays the model's.
        """
        if own is self.labels or own == self.labels:
            return Laid.of(self.labels)._replace(table=self._table)
        if codes is None:
            return Laid(self.labels, self._places(own), self._table)
        key, known = id(codes), _laid.get(id(codes))
        if known is None or known.own is not own or not self._has(known.model):
            columns = self._places(own)
            seen = np.unique(columns[columns < len(self.labels)])
            labels, columns = tuple(self.labels[i] for i in seen.tolist()), np.searchsorted(seen, columns)
            alive = weakref.ref(codes, lambda _: _laid.pop(key, None))
            known = _laid[key] = _Narrow(alive, own, self.labels, labels, columns, seen)
        return Laid(known.labels, known.columns, self._table[:, known.seen], True)

    def _places(self, own: tuple[Any, ...]) -> np.ndarray:
        spare = len(self.labels)
        return np.array([self._columns.get(label, spare) for label in own], np.intp)

    def _has(self, labels: tuple[Any, ...]) -> bool:
        """Return whether `labels` are this model's, and make them the same object: it is asked for each chunk."""
        if self.labels is not labels and self.labels == labels:
            self.labels = labels
        return self.labels is labels
