"""Sequences in the forms that users of hmmlearn bring them."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from mixle.sklearn.base import is_frame

__all__ = ["Sequences", "lengths_meant", "sizes_of", "together"]


class Sequences(NamedTuple):
    """Sequences as a model reads them: `rows`, their `sizes`, and whether results are to be joined."""

    rows: list[Any]
    sizes: np.ndarray
    joined: bool

    def result(self, parts: list[np.ndarray]) -> Any:
        """Return one array per sequence, or all joined where the sequences came so."""
        return np.concatenate(parts) if self.joined else parts


def lengths_meant(X: Any, y: Any, lengths: Any) -> Any:
    """Return the lengths, also where they were given in the place of `y`."""
    if lengths is not None or y is None or isinstance(X, list) or not hasattr(X, "__len__"):
        return lengths
    told = np.asarray(y)
    whole = told.ndim == 1 and told.dtype.kind in "iu" and len(told) != len(X)
    return told if whole and int(told.sum()) == len(X) else None


def together(X: Any, lengths: Any) -> tuple[Any, Any, bool]:
    """Return arrays of a list joined, with their lengths; anything else as it is; and whether results are joined."""
    if not isinstance(X, (list, tuple)) or lengths is not None:
        return X, lengths, True
    if not len(X):
        raise ValueError("X holds no sequences; pass at least one")
    if all(is_frame(row) for row in X):
        concat = getattr(sys.modules[type(X[0]).__module__.partition(".")[0]], "concat", None)
        if concat is not None:  # that of pandas or polars
            return concat(X), [len(row) for row in X], False
    for i, row in enumerate(X):
        if isinstance(row, (str, bytes)) or not hasattr(row, "__len__") or is_frame(row):
            shown = type(row).__name__ if is_frame(row) else f"{type(row).__name__} {row!r:.60}"
            raise ValueError(
                f"item {i} of X is {shown}, not a sequence; pass a list of sequences, or an "
                "array or data frame of shape (n, d) with lengths="
            )
    if all(isinstance(row, np.ndarray) and row.ndim == 2 for row in X):
        return np.concatenate(list(X)), [len(row) for row in X], False
    return list(X), None, False


def sizes_of(lengths: Any, total: int) -> np.ndarray:
    """Return the lengths of the sequences in so many rows: one sequence if there are none given."""
    if lengths is None:
        return np.array([total])
    sizes = np.asarray(lengths)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any() or int(sizes.sum()) != total:
        whole = sizes.ndim == 1 and sizes.dtype.kind in "iu" and (sizes >= 0).all()
        found = f"they sum to {sizes.sum()}" if whole else f"not {lengths!r:.80}"
        raise ValueError(
            f"lengths must be whole numbers that sum to the {total} rows of X, one for each sequence; {found}"
        )
    return sizes
