"""What the estimators of linear families share: prior means of the features, and their weight in rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.domains import finite, nonnegative
from mixle.stats.kinds import LinearSums
from mixle.stats.leaf import LeafEstimator

__all__ = ["LinearEstimator", "inside"]


class LinearEstimator(LeafEstimator):
    """Estimator of a law that is fitted from the means of its features.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior, in rows; it is used only with `suff_stat`.
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
        if not isinstance(value, (Sequence, np.ndarray)) or len(value) != self.features:
            raise ValueError(f"suff_stat must have {self.features} numbers, is {value!r}")
        return tuple(finite(entry, "suff_stat") for entry in value)

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


def inside(x: np.ndarray, outside: np.ndarray, harmless: float) -> tuple[np.ndarray, np.ndarray | None]:
    """Return `x` with a harmless value in each row outside the support, and the mask of those rows or None."""
    return (np.where(outside, harmless, x), outside) if outside.any() else (x, None)
