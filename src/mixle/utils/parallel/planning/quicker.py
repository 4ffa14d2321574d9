"""Which of two ways of doing the same is quicker, found while it is done again and again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

__all__ = ["Quicker"]

T = TypeVar("T")
#: Times after which the slower way is tried once more, in case things have changed; then after twice as many each time.
AGAIN = 8
#: How many of the last times of a way count.
KEPT = 3


class Quicker:
    """Chooses between two ways by the seconds that they took.

    The first way is taken twice, since the first time of all warms up, then the second one. After that the quicker one
    is taken, and the other one again the 8th, 16th, 32nd, ... time.

    Examples
    --------
    >>> quicker = Quicker()
    >>> for seconds in (3.0, 2.0, 1.0):
    ...     quicker.took(quicker.choose(), seconds)
    >>> quicker.choose(), quicker.ratio()
    (False, 2.0)
    """

    def __init__(self) -> None:
        self._seconds: dict[bool, list[float]] = {True: [], False: []}
        self._times, self._next = 0, AGAIN

    def choose(self) -> bool:
        """Return whether the first way is to be taken now."""
        first, second = self._seconds[True], self._seconds[False]
        if len(first) < 2 or not second:
            return len(first) < 2
        quicker = min(first) <= min(second)
        if self._times >= self._next:
            self._next *= 2
            return not quicker
        return quicker

    def took(self, first: bool, seconds: float) -> None:
        """Note what a way took."""
        self._times += 1
        seen = self._seconds[first]
        seen.append(seconds)
        del seen[:-KEPT]

    def ratio(self) -> float:
        """Return the seconds of the first way over those of the second; 1 if either was not taken yet."""
        first, second = self._seconds[True], self._seconds[False]
        return min(first) / max(min(second), 1e-9) if first and second else 1.0

    def timed(self, first: bool, steps: Iterator[T]) -> Iterator[T]:
        """Yield the steps of a way, and note what it took if it comes to its end."""
        start = time.perf_counter()
        yield from steps
        self.took(first, time.perf_counter() - start)
