"""What linear families share: prior means of the features and their weight in rows, and vectors of features."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import Column
from mixle.stats.domains import dimension, finite, nonnegative, parts_of, vector
from mixle.stats.kinds import LinearLeaf, LinearSums
from mixle.stats.leaf import LeafEstimator, as_rows

__all__ = ["LinearEstimator", "VectorLeaf", "inside", "prior_vector", "with_prior"]


class LinearEstimator(LeafEstimator):
    """Estimator of a law that is fitted from the means of its features.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : float or tuple of float, optional
        Prior means of the features.
    name, keys
        Label and tying key.
    """

    _keyword_fields: ClassVar[tuple[str, ...]] = ("pseudo_count", "suff_stat", "name", "keys")
    features: ClassVar[int] = 1

    def __init__(
        self, pseudo_count: float | None = None, suff_stat: Any = None, name: str | None = None, keys: Any = None
    ) -> None:
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None if suff_stat is None else self._prior(suff_stat)
        self.name, self.keys = name, keys

    def _prior(self, value: Any) -> Any:
        if self.features == 1:
            return finite(value, "suff_stat")
        return tuple(finite(entry, "suff_stat") for entry in parts_of(value, "suff_stat", self.features))

    def _estimate(self, stat: LinearSums) -> Any:
        count, sums = float(stat.weight), np.asarray(stat.sums, float)[: self.features]
        if self.pseudo_count and self.suff_stat is not None:
            count, sums = count + self.pseudo_count, sums + self.pseudo_count * np.atleast_1d(self.suff_stat)
        if not count > 0.0:
            return self._without_data()
        return self._fit([float(total) / count for total in sums])

    @abstractmethod
    def _fit(self, means: list[float]) -> Any:
        """Return the law whose features have these means."""

    @abstractmethod
    def _without_data(self) -> Any:
        """Return the law where there is neither a row nor a prior."""


class VectorLeaf(LinearLeaf):
    """Laws of a vector that are linear in a feature for each entry; the statistic is ``(Σw, Σw t(x))``."""

    vector: ClassVar[bool] = True

    def __init__(self, dim: int | None = None) -> None:
        self.dim = dim

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        """Return the features as columns for a start."""
        features = as_rows(payload).cut(start, stop).x
        return [Column(np.asarray(x)) for x in features] or [Column(np.zeros(0), wide=True)]

    def zero(self) -> LinearSums:
        """Return the zero statistic; without `dim` it has no entries yet."""
        return LinearSums(0.0, np.zeros(self.dim or 0))

    def merge(self, a: LinearSums, b: LinearSums) -> LinearSums:
        """Return the sum of both."""
        if not a.sums.size or not b.sums.size:
            return LinearSums(a.weight + b.weight, np.array(b.sums if b.sums.size else a.sums, float))
        return super().merge(a, b)

    def to_value(self, stat: LinearSums) -> tuple[float, np.ndarray]:
        """Return (weight, sums (d,))."""
        return float(stat.weight), np.array(stat.sums, float)

    def from_value(self, value: Any) -> LinearSums:
        """Return the sums of (weight, sums (d,))."""
        return value if isinstance(value, LinearSums) else LinearSums(float(value[0]), np.array(value[1], float))


def prior_vector(dim: Any, suff_stat: Any) -> tuple[int | None, np.ndarray | None]:
    """Return the dimension of a law of vectors, at least 2, and the prior means of its features."""
    prior = None if suff_stat is None else vector(suff_stat, "suff_stat")
    number = len(prior) if dim is None and prior is not None else dimension(dim)
    if number is not None and (number < 2 or (prior is not None and len(prior) != number)):
        raise ValueError(f"dim must be at least 2 and the length of suff_stat, is {number!r}")
    return number, prior


def with_prior(stat: LinearSums, pseudo_count: float | None, suff_stat: np.ndarray | None) -> tuple[float, np.ndarray]:
    """Return weight and sums (d,) of a statistic and of a prior of `pseudo_count` rows with means `suff_stat`."""
    count, sums = float(stat.weight), np.asarray(stat.sums, float)
    if not pseudo_count or suff_stat is None:
        return count, sums
    prior = pseudo_count * suff_stat
    return count + pseudo_count, sums + prior if len(sums) else prior


def inside(x: np.ndarray, outside: np.ndarray, harmless: float) -> tuple[np.ndarray, np.ndarray | None]:
    """Return `x` with a harmless value in each row outside the support, and the mask of those rows or None."""
    return (np.where(outside, harmless, x), outside) if outside.any() else (x, None)
