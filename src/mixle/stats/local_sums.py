"""Statistics that hold for models near the last one: moments, and sums that were taken under it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from mixle.stats.leaf import Leaf, Rows
from mixle.stats.scale_mixture import first_kept
from mixle.stats.sums import Moments, merge_moments, weighted_moments

__all__ = ["LocalLeaf", "LocalSums"]


class LocalSums(NamedTuple):
    """Statistic of a family whose likelihood no statistic of fixed size holds everywhere.

    Attributes
    ----------
    moments : Moments
        Moments of the rows' numbers.
    at : tuple of float, or None
        Parameters of the model under which `sums` were taken; None without a model.
    sums : ndarray, shape (m,), or None
        What the family adds up under that model.
    """

    moments: Moments
    at: tuple[float, ...] | None
    sums: np.ndarray | None

    def scaled(self, c: float) -> LocalSums:
        """Return the statistic of weights times `c`."""
        moments = self.moments.scaled(c)
        if c == 0.0 or self.sums is None:
            return LocalSums(moments, None, None)
        return LocalSums(moments, self.at, self.sums * c)


class LocalLeaf(Leaf):
    """A law of one number with a local statistic."""

    @abstractmethod
    def parameters(self, dist: Any) -> tuple[float, ...]:
        """Return the parameters of `dist` under which sums are taken, the location second."""

    @abstractmethod
    def local_sums(self, x: np.ndarray, weights: np.ndarray, *at: float) -> np.ndarray:
        """Return the sums of weighted numbers (n,) under the model of parameters `at`, shape (m,)."""

    def centre(self, dist: Any) -> float:
        """Return where the moments are told from."""
        return self.parameters(dist)[1]

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> LocalSums:
        """Return the statistic of weighted rows."""
        x = rows.x
        if dist is None:
            return LocalSums(weighted_moments(x, weights, first_kept(x, weights)), None, None)
        moments = weighted_moments(x, weights, self.centre(dist))
        if moments.weight == 0.0:
            return LocalSums(moments, None, None)
        at = self.parameters(dist)
        return LocalSums(moments, at, self.local_sums(x, weights, *at))

    def merge(self, a: LocalSums, b: LocalSums) -> LocalSums:
        """Return the sum of both; sums under different models are dropped, and the moments stay."""
        moments = merge_moments(a.moments, b.moments)
        for one, other in ((a, b), (b, a)):
            if one.moments.weight == 0.0:
                return LocalSums(moments, other.at, _copy(other.sums))
        if a.sums is None or b.sums is None or a.at != b.at:
            return LocalSums(moments, None, None)
        return LocalSums(moments, a.at, a.sums + b.sums)

    def zero(self) -> LocalSums:
        """Return the statistic of no rows."""
        return LocalSums(Moments(0.0, 0.0, 0.0, 0.0), None, None)

    def to_value(self, stat: LocalSums) -> LocalSums:
        """Return a copy of the statistic."""
        return stat._replace(moments=stat.moments.copy(), sums=_copy(stat.sums))


def _copy(sums: np.ndarray | None) -> np.ndarray | None:
    return None if sums is None else sums.copy()
