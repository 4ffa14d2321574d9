"""The law of one value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import Column, DistributionSampler
from mixle.stats.enumeration import ranked
from mixle.stats.leaf import Leaf, LeafDistribution, LeafEstimator, Rows, as_rows
from mixle.stats.reading import is_missing

__all__ = ["PointMassDistribution", "PointMassEstimator", "PointMassSampler"]


class _PointMass(Leaf):
    name: ClassVar[str] = "PointMass"

    def __init__(self, value: Any) -> None:
        self.value = value

    def encode(self, rows: Sequence[Any]) -> Rows:
        other = np.array([not _same(row, self.value) for row in rows], bool)
        return Rows(np.zeros(len(other)), None, other if other.any() else None)

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        return [Column(np.zeros(as_rows(payload).cut(start, stop).size, np.int8), (self.value,))]

    def support(self) -> str:
        return f"the one value {self.value!r}"

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        return np.zeros(rows.size)

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> None:
        return None

    def merge(self, a: None, b: None) -> None:
        return None

    def zero(self) -> None:
        return None


def _same(row: Any, value: Any) -> bool:
    if is_missing(row) or is_missing(value):
        return is_missing(row) and is_missing(value) and (row is None) == (value is None)
    return bool(type(row) is type(value) and row == value) or (not isinstance(row, np.ndarray) and bool(row == value))


class PointMassDistribution(LeafDistribution):
    """Distribution of one value: ``1`` there, 0 elsewhere.

    Parameters
    ----------
    value : hashable
        The value; NaN matches NaN.
    name, keys
        Label and tying key.

    References
    ----------
    W. Feller, "An Introduction to Probability Theory and Its Applications" 1, 1968.

    Examples
    --------
    >>> PointMassDistribution("a").log_density("a"), PointMassDistribution("a").log_density("b")
    (0.0, -inf)
    """

    _fields = ("value",)

    def __init__(self, value: Any, name: str | None = None, keys: Any = None) -> None:
        try:
            hash(value)
        except TypeError:
            raise ValueError(f"the value of a PointMass must be hashable, not {value!r}") from None
        self.value = value
        self.leaf = _PointMass(value)
        self._finish(name, keys)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the values, the most probable first."""
        return ranked([(self.value, 0.0)])

    def sampler(self, seed: int | None = None) -> PointMassSampler:
        """Return a sampler."""
        return PointMassSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> PointMassEstimator:
        """Return the estimator; there is nothing for `pseudo_count` to weigh."""
        return PointMassEstimator(self.value, name=self.name, keys=self.keys)


class PointMassSampler(DistributionSampler):
    """Sampler of a `PointMassDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return the value, or a list of it."""
        return self.dist.value if size is None else [self.dist.value] * size


class PointMassEstimator(LeafEstimator):
    """Estimator of a `PointMassDistribution`, which has nothing to estimate.

    Parameters
    ----------
    value : hashable
        The value.
    pseudo_count, suff_stat : optional
        Accepted as by all families; they change nothing.
    name, keys
        Label and tying key.

    Examples
    --------
    >>> PointMassEstimator(0).estimate(None, None)
    PointMassDistribution(0, name=None, keys=None)
    """

    _fields = ("value",)
    _keyword_fields = ("pseudo_count", "suff_stat", "name", "keys")

    def __init__(
        self,
        value: Any,
        pseudo_count: float | None = None,
        suff_stat: Any = None,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.leaf = PointMassDistribution(value).leaf
        self.value, self.pseudo_count, self.suff_stat = value, pseudo_count, suff_stat
        self.name, self.keys = name, keys

    def _estimate(self, stat: None) -> PointMassDistribution:
        return PointMassDistribution(self.value, self.name, self.keys)
