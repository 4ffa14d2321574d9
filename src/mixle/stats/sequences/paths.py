"""What chains of labels and chains of integers share: laws from counts, and paths drawn from laws."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["check_length_nobs", "draw_paths", "draw_states", "laws_of_counts"]


def check_length_nobs(family: str, nobs: float | None, length_nobs: float) -> None:
    """Refuse a statistic of another weight than the data.

    Raises
    ------
    ValueError
        Naming both weights.
    """
    if nobs is not None and abs(nobs - length_nobs) > 1e-9 * max(1.0, abs(nobs)):
        raise ValueError(
            f"{family}: the statistic is of sequences of weight {length_nobs!r}, declared are {nobs!r}; "
            "pass nobs=None, or that weight"
        )


def laws_of_counts(counts: np.ndarray) -> np.ndarray:
    """Return each row of `counts` (m, S) divided by its sum; a row of zeros becomes even.

    Examples
    --------
    >>> laws_of_counts(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    total = np.add.reduce(counts, axis=1, keepdims=True)
    some = total > 0.0
    return np.asarray(np.where(some, counts / np.where(some, total, 1.0), 1.0 / counts.shape[1]))


def draw_states(laws: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return one state per row of cumulative probabilities (n, S); one of probability zero is never drawn."""
    states = (numbers[:, None] * laws[:, -1:] >= laws).sum(axis=1)
    last = (laws < laws[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(states, last))


def draw_paths(lengths: np.ndarray, first: np.ndarray, moves: np.ndarray, rng: Any) -> list[np.ndarray]:
    """Return a path of states of each length, all drawn step by step together.

    Parameters
    ----------
    lengths : ndarray of int, shape (n,)
        Lengths.
    first, moves : ndarray, shape (S,) and (S, S)
        Cumulative probabilities.
    rng : numpy.random.RandomState
        Source of the draws.
    """
    size = len(lengths)
    longest = int(lengths.max()) if size else 0
    paths = np.zeros((longest, size), np.int64)
    for t in range(longest):
        law = moves[paths[t - 1]] if t else np.broadcast_to(first, (size, len(first)))
        paths[t] = draw_states(law, rng.random_sample(size))
    return [paths[:n, i] for i, n in enumerate(lengths.tolist())]
