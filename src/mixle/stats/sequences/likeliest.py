"""Paths of a Markov chain, the most probable first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

import numpy as np

__all__ = ["likeliest_paths"]


def likeliest_paths(
    first: np.ndarray, moves: np.ndarray, length: int, base: float
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield (path, `base` plus its log-probability) for the possible paths of a length, the most probable first.

    A search from the best start: what the rest of a path can reach at best is known exactly, from a backward pass, so
    that a path is complete as soon as it is the best one left.

    Examples
    --------
    >>> even = np.log([0.5, 0.5])
    >>> moves = np.log([[0.25, 0.75], [0.5, 0.5]])
    >>> [path for path, _ in likeliest_paths(even, moves, 2, 0.0)]
    [(0, 1), (1, 0), (1, 1), (0, 0)]
    """
    if length == 0:
        yield (), base
        return
    ahead = [np.zeros(len(first))]
    for _ in range(length - 1):
        ahead.append(np.max(moves + ahead[-1], axis=1))
    order = count()
    heap: list[tuple[float, int, tuple[int, ...], float]] = []

    def push(path: tuple[int, ...], scores: np.ndarray) -> None:
        bounds = scores + ahead[length - len(path) - 1]
        for state in np.flatnonzero(bounds > -np.inf).tolist():
            heapq.heappush(heap, (-float(bounds[state]), next(order), (*path, state), float(scores[state])))

    push((), base + first)
    while heap:
        _, _, path, score = heapq.heappop(heap)
        if len(path) == length:
            yield path, score
        else:
            push(path, score + moves[path[-1]])
