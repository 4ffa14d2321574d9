"""Cutting a row of units into consecutive parts, one per worker, such that the slowest is as fast as can be."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

__all__ = ["partition", "share"]


def share(speeds: Sequence[float], total: int, least: int = 0, most: Sequence[int] | None = None) -> list[int]:
    """Split `total` equal units over workers such that the largest ``count / speed`` is as small as it can be.

    Each worker gets the whole units of its proportional share. The remaining ones go, one each, to those furthest below
    theirs, if that is optimal too, else one by one to whoever would be done first (the optimum).

    Parameters
    ----------
    speeds : sequence of float
        Positive speeds.
    total : int
        Number of units.
    least : int
        Units that each worker gets at least.
    most : sequence of int, optional
        Units that each worker can take at most; it is left aside if all together cannot take `total`.

    Returns
    -------
    list of int
        Units of each worker.

    Raises
    ------
    ValueError
        Without a worker, or if `least` units for each are more than `total`.

    Examples
    --------
    >>> share([1.0, 3.0], 5)
    [1, 4]
    >>> share([1.0, 1.0, 2.0], 8, most=[8, 8, 3])
    [3, 2, 3]
    """
    if not speeds or least * len(speeds) > total:
        raise ValueError(f"{total} units cannot give {len(speeds)} workers at least {least} each")
    caps = [total] * len(speeds) if most is None or sum(most) < total else [max(least, cap) for cap in most]
    whole = math.fsum(speeds)
    shares = [speed / whole * total for speed in speeds]
    floors = [min(cap, max(least, math.floor(part))) for part, cap in zip(shares, caps, strict=True)]
    _give_back(floors, speeds, total, least)
    best = _greedy(floors, speeds, total, caps)
    rest = total - sum(floors)
    if rest < len(speeds):
        behind = sorted(range(len(speeds)), key=lambda i: (floors[i] - shares[i], i))[:rest]
        near = _plus(floors, behind)
        if all(n <= cap for n, cap in zip(near, caps, strict=True)) and _peak(near, speeds) <= _peak(best, speeds):
            return near
    return best


def _plus(floors: list[int], behind: list[int]) -> list[int]:
    counts = list(floors)
    for i in behind:
        counts[i] += 1
    return counts


def _give_back(counts: list[int], speeds: Sequence[float], total: int, least: int) -> None:
    """Take units from the slowest to finish until `counts` sum to at most `total`."""
    over = sum(counts) - total
    if over <= 0:
        return
    heap = [(-count / speeds[i], i) for i, count in enumerate(counts) if count > least]
    heapq.heapify(heap)
    for _ in range(over):
        _, i = heapq.heappop(heap)
        counts[i] -= 1
        if counts[i] > least:
            heapq.heappush(heap, (-counts[i] / speeds[i], i))


def _greedy(floors: list[int], speeds: Sequence[float], total: int, caps: list[int]) -> list[int]:
    """Hand out what is left, one unit at a time, to whoever is done first with it."""
    counts = list(floors)
    while True:
        rest = total - sum(counts)
        open_ = [i for i, count in enumerate(counts) if count < caps[i]]
        if rest <= 2 * len(speeds) or not open_:
            break
        whole = math.fsum(speeds[i] for i in open_)  # caps left much over: whole shares of it at once
        for i in open_:
            counts[i] += min(caps[i] - counts[i], math.floor(speeds[i] / whole * (rest - len(open_))))
    heap = [((counts[i] + 1) / speeds[i], i) for i in open_]
    heapq.heapify(heap)
    for _ in range(total - sum(counts)):
        _, i = heap[0]
        counts[i] += 1
        if counts[i] < caps[i]:
            heapq.heapreplace(heap, ((counts[i] + 1) / speeds[i], i))
        else:
            heapq.heappop(heap)
    return counts


def _peak(counts: Sequence[int], speeds: Sequence[float]) -> float:
    return max(count / speed for count, speed in zip(counts, speeds, strict=True))


def partition(works: Sequence[float], speeds: Sequence[float]) -> list[int]:
    """Cut consecutive units into one part per worker such that the slowest part is as fast as it can be.

    Exact for workers in the given order: a bisection over the bottleneck that moves its bounds to values which some
    partition takes, so that it ends at the optimum itself. Source: A. Pınar and C. Aykanat, "Fast optimal load
    balancing algorithms for 1D partitioning", J. Parallel Distrib. Comput. 64 (2004); with speeds: A. Pınar,
    E. K. Tabak and C. Aykanat, "One-dimensional partitioning for heterogeneous systems", ibid. 68 (2008).
    Among optimal cuts those nearest to the proportional ones are returned.

    Parameters
    ----------
    works : sequence of float
        Work of each unit, at least 0.
    speeds : sequence of float
        Speed of each worker, above 0.

    Returns
    -------
    list of int
        ``len(speeds) + 1`` ascending edges: worker `i` has the units ``edges[i]:edges[i + 1]``, possibly none.

    Raises
    ------
    ValueError
        Without a worker, for a negative or infinite work, or a speed that is not positive and finite.

    Examples
    --------
    >>> partition([3.0, 1.0, 1.0, 1.0, 4.0], [1.0, 1.0, 1.0])
    [0, 1, 4, 5]
    """
    if not len(speeds) or not all(math.isfinite(s) and s > 0.0 for s in speeds):
        raise ValueError(f"partition needs workers of positive, finite speed, not {list(speeds)!r}")
    if not all(math.isfinite(w) and w >= 0.0 for w in works):
        raise ValueError("works of units must be finite and at least 0")
    line = _Line([0.0, *accumulate(float(w) for w in works)], [float(s) for s in speeds])
    return line.edges(line.bottleneck())


class _Line:
    """Prefix sums of the works, and the speeds."""

    def __init__(self, prefix: list[float], speeds: list[float]) -> None:
        self.prefix, self.speeds, self.count = prefix, speeds, len(prefix) - 1

    def time(self, start: int, stop: int, speed: float) -> float:
        return (self.prefix[stop] - self.prefix[start]) / speed

    def reach(self, start: int, speed: float, bound: float) -> int:
        """Return the furthest stop that a worker reaches from `start` within `bound`."""
        stop = bisect_right(self.prefix, self.prefix[start] + bound * speed, start) - 1
        while stop < self.count and self.time(start, stop + 1, speed) <= bound:
            stop += 1
        while stop > start and self.time(start, stop, speed) > bound:
            stop -= 1
        return max(start, stop)

    def probe(self, bound: float) -> tuple[bool, float]:
        """Return (True, largest time taken), or (False, smallest bound that would change the greedy's path)."""
        start, taken, need = 0, 0.0, math.inf
        for speed in self.speeds:
            stop = self.reach(start, speed, bound)
            taken = max(taken, self.time(start, stop, speed))
            if stop < self.count:
                need = min(need, self.time(start, stop + 1, speed))
            start = stop
        return (True, taken) if start == self.count else (False, need)

    def bottleneck(self) -> float:
        """Return the optimal bottleneck."""
        total = self.prefix[-1]
        low = total / math.fsum(self.speeds)
        high = self.time(0, self.count, self.speeds[0])  # the first worker alone
        fits, value = self.probe(low)
        if fits:
            return value
        low = value
        while low < high:
            fits, value = self.probe(0.5 * (low + high) if 0.5 * (low + high) < high else low)
            if fits:
                high = value
            else:
                low = value
        return high

    def edges(self, bound: float) -> list[int]:
        """Return the edges within `bound` that are nearest to the proportional ones."""
        lowest, stop = [self.count], self.count
        for speed in reversed(self.speeds[1:]):
            stop = self._back(stop, speed, bound)
            lowest.append(stop)
        lowest.reverse()
        whole, done, edges = math.fsum(self.speeds), 0.0, [0]
        for speed, least in zip(self.speeds, lowest, strict=True):
            done += speed
            goal = self.prefix[-1] * (done / whole)
            most = self.reach(edges[-1], speed, bound)
            after = min(self.count, max(0, bisect_right(self.prefix, goal) - 1))
            if after < self.count and self.prefix[after + 1] - goal < goal - self.prefix[after]:
                after += 1
            edges.append(min(most, max(least, edges[-1], after)))
        edges[-1] = self.count
        return edges

    def _back(self, stop: int, speed: float, bound: float) -> int:
        """Return the first start from which a worker reaches `stop` within `bound`."""
        start = bisect_right(self.prefix, self.prefix[stop] - bound * speed, 0, stop + 1)
        while start > 0 and self.time(start - 1, stop, speed) <= bound:
            start -= 1
        while start < stop and self.time(start, stop, speed) > bound:
            start += 1
        return min(start, stop)
