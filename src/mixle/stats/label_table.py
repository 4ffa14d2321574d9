"""Numbers by label as two arrays: what a law of very many labels is kept in until somebody asks for a mapping."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["LabelTable", "held", "places_of"]


class _Places:
    """The place of each of some labels; tables of the same labels share it."""

    def __init__(self, labels: tuple[Any, ...]) -> None:
        self.labels, self.of = labels, dict(zip(labels, range(len(labels)), strict=True))


#: By the address of the labels, as long as something uses them.
_known: weakref.WeakValueDictionary[int, _Places] = weakref.WeakValueDictionary()


def places_of(labels: tuple[Any, ...]) -> _Places:
    """Return the place of each label; who keeps it shares it with all who ask for the same tuple."""
    found = _known.get(id(labels))
    if found is None:  # what is found holds its labels, so nothing else has their address
        found = _known[id(labels)] = _Places(labels)
    return found


class LabelTable:
    """A number for each label. Nobody alters one.

    Parameters
    ----------
    labels : tuple
        Labels, each once.
    numbers : ndarray of float64, shape (L,)
        The number of each.

    Examples
    --------
    >>> table = LabelTable(("a", "b"), np.array([0.25, 0.75]))
    >>> table.at(("b", "x"), 0.0).tolist(), table.mapping()
    ([0.75, 0.0], {'a': 0.25, 'b': 0.75})
    """

    def __init__(self, labels: tuple[Any, ...], numbers: np.ndarray) -> None:
        self.labels, self.numbers = labels, numbers
        self._cached: _Places | None = None

    @classmethod
    def of(cls, known: LabelTable | Mapping[Any, float]) -> LabelTable:
        """Return a mapping as a table, a table as it is."""
        if isinstance(known, LabelTable):
            return known
        return cls(tuple(known), np.array([*known.values()], float))

    def __len__(self) -> int:
        return len(self.labels)

    def __getstate__(self) -> dict[str, Any]:
        return {"labels": self.labels, "numbers": self.numbers, "_cached": None}

    def at(self, labels: tuple[Any, ...], default: float) -> np.ndarray:
        """Return the numbers of some labels, `default` for one that has none, shape (len(labels),)."""
        if labels is self.labels or labels == self.labels:
            return self.numbers
        if not labels:
            return np.zeros(0)
        if self._cached is None:
            self._cached = places_of(self.labels)
        known, spare = self._cached.of, len(self.labels)
        places = np.array([known.get(label, spare) for label in labels], np.intp)
        return np.append(self.numbers, default).take(places)

    def mapping(self) -> dict[Any, float]:
        """Return a mapping of each label to its number."""
        return dict(zip(self.labels, self.numbers.tolist(), strict=True))


def held(law: Any) -> dict[Any, float] | LabelTable:
    """Return the probabilities of a law of labels as it keeps them."""
    kept: dict[Any, float] | LabelTable = law.__dict__["pmap"]
    return kept
