"""The outcomes of a discrete law, the most probable first."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

from mixle.errors import EnumerationError

__all__ = [
    "Enumerator",
    "Listed",
    "NucleusResult",
    "bags",
    "integers",
    "mixed",
    "moved",
    "products",
    "ranked",
    "refuse",
    "sequences",
    "staged",
    "united",
]

#: An outcome and the log of its probability.
Outcome = tuple[Any, float]


class NucleusResult(list[Outcome]):
    """The most probable outcomes that together reach a probability.

    Parameters
    ----------
    found : iterable of (outcome, log_probability)
        The outcomes.
    target, reached, exhausted
        What was asked for, what they have, and whether there are no more.

    Attributes
    ----------
    target_probability, cumulative_probability : float
        What was asked for, and what these outcomes have.
    reached_target, exhausted, capped : bool
        Whether that is enough, whether there are no more outcomes, whether `max_items` ended the search.

    Examples
    --------
    >>> from mixle.stats import GeometricDistribution
    >>> found = GeometricDistribution(0.5).enumerator().top_p(0.8)
    >>> [outcome for outcome, _ in found], found.cumulative_probability
    ([1, 2, 3], 0.875)
    """

    def __init__(self, found: Iterable[Outcome], target: float, reached: float, *, exhausted: bool) -> None:
        super().__init__(found)
        self.target_probability, self.cumulative_probability = target, reached
        self.reached_target, self.exhausted = reached >= target, exhausted
        self.capped = not self.reached_target and not exhausted


class Enumerator(Iterator[Outcome]):
    """Iterates over ``(outcome, log_probability)``, the probability never rising.

    Iterating uses the enumerator up; `top_k`, `top_p` and `from_index` begin anew.

    Parameters
    ----------
    dist : distribution
        A discrete law.

    Raises
    ------
    EnumerationError
        (a NotImplementedError) if the law is continuous or its outcomes have no order that can be walked.

    Examples
    --------
    >>> from mixle.stats import CategoricalDistribution, CompositeDistribution, PoissonDistribution
    >>> law = CompositeDistribution([CategoricalDistribution({"a": 0.75, "b": 0.25}), PoissonDistribution(1.5)])
    >>> [outcome for outcome, _ in law.enumerator().top_k(3)]
    [('a', 1), ('a', 2), ('a', 0)]
    >>> len(law.enumerator().top_p(0.9, max_items=100))
    7
    """

    def __init__(self, dist: Any) -> None:
        self.dist = dist
        self._outcomes: Iterator[Outcome] = dist.outcomes()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Outcome:
        return next(self._outcomes)

    def top_k(self, k: int) -> list[Outcome]:
        """Return the `k` most probable outcomes, fewer if there are no more.

        Raises
        ------
        ValueError
            If `k` is no whole number of at least 0.
        """
        return list(self.from_index(0, _whole(k, "k")))

    def top_p(self, p: float, max_items: int | None = None) -> NucleusResult:
        """Return the fewest outcomes whose probabilities add up to `p`, or what `max_items` allows of them.

        Raises
        ------
        ValueError
            If `p` is not between 0 and 1.
        """
        if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0.0 <= p <= 1.0:
            raise ValueError(f"p must be a probability between 0 and 1, not {p!r}")
        most = math.inf if max_items is None else _whole(max_items, "max_items")
        found: list[Outcome] = []
        total, outcomes = 0.0, self.dist.outcomes()
        while total < p and len(found) < most:
            outcome = next(outcomes, None)
            if outcome is None:
                return NucleusResult(found, p, total, exhausted=True)
            found.append(outcome)
            total += math.exp(outcome[1])
        return NucleusResult(found, p, total, exhausted=False)

    def from_index(self, start: int, stop: int | None = None) -> Iterator[Outcome]:
        """Yield the outcomes from position `start` on, up to `stop`.

        Raises
        ------
        ValueError
            If one of them is no whole number of at least 0.
        """
        from itertools import islice

        end = None if stop is None else _whole(stop, "stop")
        return islice(self.dist.outcomes(), _whole(start, "start"), end)


class Listed:
    """What every law has: an enumerator, or an error that says why not."""

    def enumerator(self) -> Enumerator:
        """Return an iterator over outcomes and their log-probabilities, the most probable first.

        Raises
        ------
        EnumerationError
            (a NotImplementedError) if the law is continuous, or its outcomes cannot be listed.

        Examples
        --------
        >>> from mixle.stats import CategoricalDistribution
        >>> [label for label, _ in CategoricalDistribution({"a": 0.2, "b": 0.7, "c": 0.1}).enumerator()]
        ['b', 'a', 'c']
        """
        return Enumerator(self)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return what `enumerator` iterates over; a discrete law says how here."""
        raise refuse(self, "its outcomes are not listed by their probability")


def _whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 0:
        raise ValueError(f"{what} must be a whole number of at least 0, not {value!r}")
    return int(value)


def refuse(dist: Any, why: str) -> EnumerationError:
    """Return the error of a law whose outcomes cannot be listed."""
    kind = type(dist).__name__
    return EnumerationError(f"{kind} has no enumerator: {why}; draw from it instead: model.sampler(seed).sample(n)")


def ranked(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Yield finitely many outcomes; impossible ones are left out, and of equal ones the first comes first."""
    yield from sorted((item for item in outcomes if item[1] > -math.inf), key=lambda item: -item[1])


def integers(score: Callable[[int], float], mode: int, low: int, high: float = math.inf) -> Iterator[Outcome]:
    """Yield the integers from `low` to `high` by a log-probability that falls on both sides of about `mode`."""
    step = 1 if _at(score, mode + 1, low, high) > _at(score, mode, low, high) else -1
    while _at(score, mode + step, low, high) > _at(score, mode, low, high):
        mode += step
    left, right = mode - 1, mode
    below, above = _at(score, left, low, high), _at(score, right, low, high)
    while below > -math.inf or above > -math.inf:
        if above >= below:
            yield right, above
            right += 1
            above = _at(score, right, low, high)
        else:
            yield left, below
            left -= 1
            below = _at(score, left, low, high)


def _at(score: Callable[[int], float], value: int, low: int, high: float) -> float:
    return score(value) if low <= value <= high else -math.inf


class _Known:
    """A stream whose outcomes are kept, so that they can be asked for by position."""

    def __init__(self, outcomes: Iterator[Outcome]) -> None:
        self.outcomes, self.found = outcomes, list[Outcome]()

    def at(self, index: int) -> Outcome | None:
        while len(self.found) <= index:
            outcome = next(self.outcomes, None)
            if outcome is None:
                return None
            self.found.append(outcome)
        return self.found[index]


def products(streams: Sequence[Iterator[Outcome]]) -> Iterator[tuple[tuple[Any, ...], float]]:
    """Yield the combinations of independent outcomes, best first (Lawler, Management Science 18, 1972).

    Each combination has one parent, the one whose last raised position is one less, so that none is met twice.
    """
    return _walked([_Known(stream) for stream in streams], 0.0)


def _walked(known: Sequence[_Known], base: float) -> Iterator[tuple[tuple[Any, ...], float]]:
    heap: list[tuple[float, tuple[int, ...], int]] = []

    def push(place: tuple[int, ...], last: int) -> None:
        outcomes = [stream.at(i) for stream, i in zip(known, place, strict=True)]
        if None not in outcomes:
            heapq.heappush(heap, (-_sum(base, (item[1] for item in outcomes if item is not None)), place, last))

    push((0,) * len(known), 0)
    while heap:
        cost, place, last = heapq.heappop(heap)
        yield tuple(stream.found[i][0] for stream, i in zip(known, place, strict=True)), -cost
        for field in range(last, len(place)):
            push((*place[:field], place[field] + 1, *place[field + 1 :]), field)


def _sum(base: float, scores: Iterable[float]) -> float:
    """Add up from left to right: then the sum falls whenever a part of it does."""
    for score in scores:
        base += score
    return base


def moved(outcomes: Iterator[Outcome], shift: float, keep: Callable[[Any], bool]) -> Iterator[Outcome]:
    """Yield the outcomes that are kept, `shift` added to the logarithms of their probabilities.

    Examples
    --------
    >>> list(moved(iter([("a", -1.0), ("b", -2.0)]), 0.5, lambda value: value != "a"))
    [('b', -1.5)]
    """
    if shift > -math.inf:
        yield from ((value, score + shift) for value, score in outcomes if keep(value))


def united(streams: Sequence[Iterator[Outcome]]) -> Iterator[Outcome]:
    """Yield the outcomes of streams that have none in common."""
    return heapq.merge(*streams, key=lambda item: -item[1])


def staged(outer: Iterator[Outcome], inner: Callable[[Any, float], Iterator[Outcome]]) -> Iterator[Outcome]:
    """Yield what follows from each outcome of `outer`, none of it more probable than that outcome."""
    heap: list[tuple[float, int, Any, Iterator[Outcome]]] = []

    def push(order: int, stream: Iterator[Outcome]) -> None:
        found = next(stream, None)
        if found is not None:
            heapq.heappush(heap, (-found[1], order, found[0], stream))

    ahead, opened = next(outer, None), 0
    while heap or ahead is not None:
        while ahead is not None and (not heap or -heap[0][0] < ahead[1]):
            push(opened, inner(*ahead))
            ahead, opened = next(outer, None), opened + 1
        if heap:
            cost, order, value, stream = heapq.heappop(heap)
            yield value, -cost
            push(order, stream)


def sequences(element: Iterator[Outcome], lengths: Iterator[Outcome]) -> Iterator[tuple[list[Any], float]]:
    """Yield lists of independent elements of a random length."""
    known = _Known(element)

    def lists(length: Any, score: float) -> Iterator[Outcome]:
        return ((list(found), total) for found, total in _walked([known] * int(length), score))

    return staged(lengths, lists)


def bags(element: Iterator[Outcome], totals: Iterator[Outcome]) -> Iterator[tuple[list[tuple[Any, int]], float]]:
    """Yield bags, lists of pairs (value, count), of a random total."""
    known = _Known(element)
    return staged(totals, lambda total, score: _bags(known, int(total), score))


def _bags(known: _Known, total: int, base: float) -> Iterator[Outcome]:
    """Yield the bags of one total.

    The logarithm of their probability is M-concave in the counts (K. Murota, "Discrete Convex Analysis", 2003), so
    that bags above any level hang together by exchanges of one value for another, the mode among them.
    """

    def score(counts: tuple[int, ...]) -> float:
        parts = (n * known.found[i][1] - math.lgamma(n + 1.0) for i, n in enumerate(counts) if n)
        return base + math.fsum((math.lgamma(total + 1.0), *parts))

    mode = _mode(known, total)
    if mode is None:
        return
    heap, seen = [(-score(mode), mode)], {mode}
    while heap:
        cost, counts = heapq.heappop(heap)
        yield [(known.found[i][0], n) for i, n in enumerate(counts) if n], -cost
        width = len(counts) + (total > 0 and known.at(len(counts)) is not None)
        for source, n in enumerate(counts):
            for target in range(width if n else 0):
                near = [*counts, 0]
                near[source] -= 1
                near[target] += 1
                while near and not near[-1]:
                    near.pop()
                found = tuple(near)
                if found not in seen:
                    seen.add(found)
                    heapq.heappush(heap, (-score(found), found))


def _mode(known: _Known, total: int) -> tuple[int, ...] | None:
    """Return the counts of the most probable bag, a value at a time to where it gains most; None without values."""
    counts: list[int] = []
    gains: list[tuple[float, int]] = []
    for _ in range(total):
        if not counts or counts[-1]:  # values come by falling probability: the first without a count gains most
            found = known.at(len(counts))
            if found is not None:
                heapq.heappush(gains, (-found[1], len(counts)))
                counts.append(0)
        if not gains:
            return None
        _, best = gains[0]
        counts[best] += 1
        heapq.heapreplace(gains, (math.log(counts[best] + 1.0) - known.found[best][1], best))
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)


def mixed(
    streams: Sequence[Iterator[Outcome]], log_weights: Sequence[float], score: Callable[[Any], float]
) -> Iterator[Outcome]:
    """Yield the outcomes of a mixture (the threshold algorithm of Fagin, Lotem and Naor, JCSS 66, 2003).

    An outcome is certain when it scores no less than anything that no component has shown yet.
    """
    ahead = [next(stream, None) for stream in streams]
    seen: set[Any] = set()
    heap: list[tuple[float, int, Any]] = []
    while heap or any(item is not None for item in ahead):
        rest = [weight + item[1] for weight, item in zip(log_weights, ahead, strict=True) if item is not None]
        # rounding of the two sums must not let an outcome pass that a later one beats
        if heap and -heap[0][0] >= _log_sum(rest) * (1.0 - 1e-12) + 1e-12:
            cost, _, value = heapq.heappop(heap)
            yield value, -cost
            continue
        if not rest:
            cost, _, value = heapq.heappop(heap)
            yield value, -cost
            continue
        for k, item in enumerate(ahead):
            if item is None:
                continue
            ahead[k] = next(streams[k], None)
            name = _name(item[0])
            if name not in seen and log_weights[k] > -math.inf:
                seen.add(name)
                heapq.heappush(heap, (-score(item[0]), len(seen), item[0]))


def _log_sum(scores: Sequence[float]) -> float:
    top = max(scores, default=-math.inf)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(score - top) for score in scores))


def _name(value: Any) -> Any:
    """Return something hashable that equals that of equal outcomes only."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(_name, value))
    if isinstance(value, dict):
        return "dict", tuple((key, _name(item)) for key, item in value.items())
    return value
