"""Which values of a law are seen, how probable that is, and what is not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixle.stats.combinators.fields import plain_list
from mixle.stats.combinators.zeros import counts, is_continuous
from mixle.stats.reading import is_missing
from mixle.stats.regions import conditional_points, log_mass, log_sum, refuse_region, region_points
from mixle.stats.tails import has_tails, log_one_minus_exp
from mixle.stats.unseen import Unseen

__all__ = ["Kept"]

#: Below this probability of being seen, draws are not repeated until one is.
RARE = 1e-3


class Kept:
    """The values that are seen: those listed, all but those listed, or those between two bounds.

    Parameters
    ----------
    allowed, forbidden : sequence, optional
        The only values that are seen, or the only ones that are not.
    low, high : float, optional
        Bounds, themselves seen.
    """

    def __init__(self, allowed: Any, forbidden: Any, low: float | None, high: float | None) -> None:
        given = [allowed is not None, forbidden is not None, low is not None or high is not None]
        if sum(given) != 1:
            raise ValueError("a Truncated takes one kind of limit; pass allowed=, or forbidden=, or low= and high=")
        self.allowed = None if allowed is None else _distinct(allowed)
        self.forbidden = None if forbidden is None else _distinct(forbidden)
        self.low, self.high = _bound(low, "low"), _bound(high, "high")
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise ValueError(f"low of a Truncated must not be above high: {self.low!r} and {self.high!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return id(type(self))

    def __repr__(self) -> str:
        if self.allowed is not None:
            return f"only {self.allowed!r:.80} are seen"
        if self.forbidden is not None:
            return f"{self.forbidden!r:.80} are never seen"
        low, high = self._bounds()
        return f"only values from {low!r} to {high!r} are seen"

    def _bounds(self) -> tuple[float, float]:
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high

    def check(self, base: Any) -> None:
        """Raise `TypeError` if the probability of being seen is not known for this base."""
        if self.low is not None or self.high is not None:
            refuse_region(base, "cut off at a bound")
        elif self.allowed is not None and is_continuous(base):
            raise TypeError(f"single values of a {type(base).__name__} have no probability; pass low= and high=")
        elif self.allowed is not None and not counts(base):
            raise TypeError(f"what {type(base).__name__} gives beside the allowed values is not known; pass forbidden=")

    def inside(self, rows: Sequence[Any]) -> np.ndarray:
        """Return which rows, readable ones, are seen, shape (n,)."""
        if self.allowed is not None:
            return _members(rows, self.allowed)
        if self.forbidden is not None:
            return ~_members(rows, self.forbidden)
        low, high = self._bounds()
        values = np.asarray(rows, float) if len(rows) else np.zeros(0)
        return np.asarray((values >= low) & (values <= high))

    def log_seen(self, dist: Any) -> float:
        """Return the logarithm of the probability of being seen."""
        if self.allowed is not None:
            return min(log_sum(_masses(dist, self.allowed)), 0.0)
        if self.forbidden is not None:
            lost = -math.inf if is_continuous(dist) else log_sum(_masses(dist, self.forbidden))
            return float(log_one_minus_exp(lost))
        low, high = self._bounds()
        return float(log_mass(dist, [low], [high])[0])

    def unseen(self, dist: Any, encoder: Any) -> Unseen | None:
        """Return what is not seen under `dist`, encoded; None if everything is seen."""
        seen = self.log_seen(dist)
        if self.forbidden is not None:
            if is_continuous(dist):
                return None
            return Unseen(encoder.seq_encode(list(self.forbidden)), _masses(dist, self.forbidden), seen)
        if self.allowed is not None:
            points, masses = self._others(dist)
        else:
            low, high = self._bounds()
            below = -math.inf if self.low is None else _before(low, dist)
            above = math.inf if self.high is None else _after(high, dist)
            ends = [(-math.inf, below)] * (self.low is not None) + [(above, math.inf)] * (self.high is not None)
            found, logs = region_points(dist, [a for a, _ in ends], [b for _, b in ends])
            points, masses = found.ravel(), logs.ravel()
        there = masses > -math.inf
        if not there.any():
            return None
        return Unseen(encoder.seq_encode(points[there]), masses[there], seen)

    def _others(self, dist: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return all values that are not allowed, and the logarithms of their probabilities."""
        labels = getattr(dist, "pmap", None)
        if labels is not None:
            rest = [label for label in labels if label not in set(self.allowed or ())]
            values = np.empty(len(rest), object)
            values[:] = rest
            return values, _masses(dist, rest)
        found, logs = region_points(dist, [-math.inf], [math.inf])
        points, masses = found.ravel(), logs.ravel()
        return points, np.where(np.isin(points, np.array(self.allowed, float)), -np.inf, masses)

    def draw(self, dist: Any, log_seen: float, child: Any, rng: Any, count: int) -> list[Any]:
        """Return `count` values that are seen.

        Raises
        ------
        ValueError
            If hardly any value is seen, and the values that are cannot be listed.
        """
        if self.allowed is not None:
            return self._choose(list(self.allowed), _masses(dist, self.allowed), rng, count)
        low, high = self._bounds()
        if log_seen < math.log(RARE) and self.forbidden is None:
            if has_tails(dist):
                u = rng.random_sample(count)
                with np.errstate(divide="ignore"):
                    logs = np.log(u), np.log1p(-u)
                return plain_list(conditional_points(dist, np.full(count, low), np.full(count, high), *logs))
            points, masses = (part.ravel() for part in region_points(dist, [low], [high]))
            if counts(dist):
                return self._choose([int(x) for x in points.tolist()], masses, rng, count)
        if log_seen < math.log(1e-6):
            raise ValueError(
                f"a Truncated of {dist} cannot be drawn from: {self} has hardly any probability; use wider limits"
            )
        found: list[Any] = []
        while len(found) < count:
            drawn = plain_list(child.sample(count - len(found)))
            found += [value for value, seen in zip(drawn, self.inside(drawn), strict=True) if seen]
        return found

    @staticmethod
    def _choose(values: list[Any], masses: np.ndarray, rng: Any, count: int) -> list[Any]:
        shares = np.exp(masses - np.max(masses))
        ends = np.cumsum(shares)
        at = np.searchsorted(ends, rng.random_sample(count) * ends[-1], side="right")
        return [values[i] for i in np.minimum(at, len(values) - 1).tolist()]


def _distinct(values: Any) -> list[Any]:
    """Return listed values, each once.

    Raises
    ------
    ValueError
        If there are none, or one of them is missing or cannot be looked up.
    """
    try:
        found = list(dict.fromkeys(value.item() if isinstance(value, np.generic) else value for value in values))
    except TypeError as error:
        raise ValueError(f"values of a Truncated must be hashable: {error}") from None
    if not found or any(is_missing(value) for value in found):
        raise ValueError("a Truncated takes a list of at least one value, none missing; pass for example [0, 1]")
    return found


def _bound(value: Any, what: str) -> float | None:
    if value is None:
        return None
    number = float(value)
    if math.isnan(number):
        raise ValueError(f"{what} of a Truncated must be a number, not nan")
    return number


def _members(rows: Sequence[Any], values: list[Any]) -> np.ndarray:
    """Return which rows are among `values`, shape (n,); what cannot be looked up is not."""
    table = frozenset(values)

    def known(value: Any) -> bool:
        try:
            return value in table
        except TypeError:
            return False

    items = rows.tolist() if isinstance(rows, np.ndarray) else rows
    return np.fromiter(map(known, items), bool, len(rows))


def _masses(dist: Any, values: list[Any]) -> np.ndarray:
    return np.asarray(dist.seq_log_density(dist.dist_to_encoder().seq_encode(list(values))), float)


def _before(low: float, dist: Any) -> float:
    """Return the end of what lies below a bound: for counts the last whole number."""
    return math.ceil(low) - 1.0 if counts(dist) and math.isfinite(low) else low


def _after(high: float, dist: Any) -> float:
    return math.floor(high) + 1.0 if counts(dist) and math.isfinite(high) else high
