"""What laws with a share of zeros of their own have in common: a base, the share, and its statistic."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from mixle.stats.combinators.wrapping import WrappingAccumulator, WrappingEstimator
from mixle.stats.combinators.zero_split import ZeroSplit
from mixle.stats.contract import SequenceEncodableProbabilityDistribution
from mixle.stats.domains import fraction, nonnegative
from mixle.stats.enumeration import moved, ranked, united
from mixle.stats.given import estimator_given, law_given

__all__ = ["ZeroShareAccumulator", "ZeroShareDistribution", "ZeroShareEstimator", "share_of"]


class ZeroShareAccumulator(WrappingAccumulator):
    """Statistic ``(child's value, weight of zeros, weight)``."""

    def pack(self, child: Any) -> tuple[Any, float, float]:
        """Return the statistic."""
        return child, self.sums[0], self.sums[1]

    def unpack(self, value: Any) -> tuple[Any, tuple[float, ...]]:
        """Return the child's statistic and the sums."""
        child, zeros, total = value
        return child, (zeros, total)


class ZeroShareDistribution(ZeroSplit, SequenceEncodableProbabilityDistribution):
    """Law of a base and a probability of zeros that are not the base's.

    Parameters
    ----------
    base : distribution
        Law of counts, or of numbers.
    pi : float
        Probability of a zero of its own.
    name, keys
        Label and tying key of the whole.
    """

    inside: ClassVar[str] = "base"
    _fields = ("base", "pi")
    _keyword_fields = ("name", "keys")

    def __init__(self, base: Any, pi: float, name: str | None = None, keys: Any = None) -> None:
        self.base, self.pi = law_given(base, self.kind), fraction(pi, f"pi of a {self.kind}")
        self.name, self.keys = name, keys

    @property
    def log_share(self) -> float:
        """Return log π."""
        return math.log(self.pi) if self.pi > 0.0 else -math.inf

    @property
    @abstractmethod
    def log_passed(self) -> float:
        """Return what is added to the base's log-density of a value that is not zero."""

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return zero among the other outcomes of the base, the most probable first."""
        zero = ranked([(0, self.log_density(0))])
        return united([zero, moved(self.base.outcomes(), self.log_passed, lambda value: bool(value != 0))])


class ZeroShareEstimator(ZeroSplit, WrappingEstimator):
    """Estimator of a base and of the share of zeros that are not the base's.

    Parameters
    ----------
    base_estimator : estimator
        Estimator of the base.
    pseudo_count : float, optional
        Weight of a prior, half of it zeros.
    name, keys
        Label and tying key of what is fitted.
    """

    inside: ClassVar[str] = "base_estimator"
    _fields = ("base_estimator",)

    def __init__(self, base_estimator: Any, pseudo_count: float | None, name: str | None, keys: Any) -> None:
        self.base_estimator = estimator_given(base_estimator, self.kind)
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.name, self.keys = name, keys


def share_of(part: float, total: float, pseudo_count: float | None) -> float:
    """Return the share of `part` in `total`, half of `pseudo_count` being added to it; 0 without any weight."""
    extra = pseudo_count or 0.0
    whole = float(total) + extra
    return min(max((float(part) + 0.5 * extra) / whole, 0.0), 1.0) if whole > 0.0 else 0.0
