"""A column of labels as codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

__all__ = ["LabelColumn"]

#: All labels of most columns appear in so many rows.
_HEAD = 4096


class LabelColumn(Sequence[Any]):
    """A column of labels as codes: what `pandas.factorize` returns, seen as a sequence of labels.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Position of each row's label, −1 for a row without one.
    labels : sequence
        The labels, each once.

    Examples
    --------
    >>> list(LabelColumn(np.array([1, 0, -1, 1]), ["tea", "coffee"])[1:])
    ['tea', None, 'coffee']
    """

    def __init__(self, codes: np.ndarray, labels: Sequence[Any]) -> None:
        self.codes, self.labels = np.asarray(codes), tuple(labels)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (slice, np.ndarray)):
            return LabelColumn(self.codes[index], self.labels)
        code = self.codes[index]
        return None if code < 0 else self.labels[code]

    def __iter__(self) -> Iterator[Any]:
        table = [*self.labels, None]  # −1 is the last
        return map(table.__getitem__, self.codes.tolist())

    @property
    def missing(self) -> np.ndarray:
        """Which rows have no label, shape (n,)."""
        return np.asarray(self.codes < 0)

    def counts(self) -> dict[Any, int]:
        """Return how many rows have each label, without labels of no row."""
        found = np.bincount(self.codes[self.codes >= 0], minlength=len(self.labels)).tolist()
        return {label: count for label, count in zip(self.labels, found, strict=True) if count}

    def first_seen(self) -> tuple[np.ndarray, tuple[Any, ...]]:
        """Return codes and labels in the order in which the labels first appear; every row must have one."""
        count = len(self.labels)
        first = _first_rows(self.codes[:_HEAD], count)
        if len(self.codes) > _HEAD and not (first < _HEAD).all():
            first = _first_rows(self.codes, count)
        order = np.argsort(first, kind="stable")[: int((first < len(self.codes)).sum())]
        if np.array_equal(order, np.arange(count)):
            return self.codes, self.labels
        place = np.zeros(count, np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        return place[self.codes], tuple(self.labels[i] for i in order.tolist())


def _first_rows(codes: np.ndarray, count: int) -> np.ndarray:
    """Return the first row of each of `count` codes, ``len(codes)`` for those of no row."""
    first = np.full(count, len(codes), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of equal codes the last written stays
    return first
