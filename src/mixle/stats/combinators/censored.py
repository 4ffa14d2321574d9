"""A law of values some of which are known only to lie between two bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mixle.errors import SupportError
from mixle.stats.combinators.censored_rows import CensoredEncoder, CensoredInterval
from mixle.stats.combinators.parts import supported
from mixle.stats.combinators.wrapping import (
    WrappedRows,
    WrappingAccumulator,
    WrappingEstimator,
    WrappingFactory,
    rows_at,
)
from mixle.stats.combinators.zeros import counts
from mixle.stats.contract import SequenceEncodableProbabilityDistribution
from mixle.stats.given import estimator_given, law_given
from mixle.stats.leaf import LeafAccumulator, as_rows
from mixle.stats.regions import close_points, log_mass, refuse_region, region_points
from mixle.stats.stacking.split import CensoredWeights, ClassSums, RowClasses
from mixle.stats.stacking.statistic import OptionalWeights
from mixle.stats.stacking.tree import Shell
from mixle.stats.sums import block_sum, signed_suff_stat

__all__ = [
    "CensoredAccumulator",
    "CensoredDistribution",
    "CensoredEncoder",
    "CensoredEstimator",
    "CensoredInterval",
    "CensoredStatistics",
]

#: Intervals whose points are worked on at a time.
INTERVALS = 64
#: The same of those of which few points tell all.
CLOSE = 256


class CensoredStatistics(NamedTuple):
    """Statistic of a `CensoredEstimator`.

    Attributes
    ----------
    schema_version : int
        1.
    child : object
        Statistic of the base: of the known values, and that expected of the others.
    exact_weight, censored_weight : float
        Weight of the rows of either kind.
    """

    schema_version: int
    child: Any
    exact_weight: float
    censored_weight: float

    def scaled(self, c: float) -> CensoredStatistics:
        """Return the statistic of weights times `c`."""
        child = signed_suff_stat(self.child, c)
        return CensoredStatistics(self.schema_version, child, self.exact_weight * c, self.censored_weight * c)


def _intervals(x: WrappedRows, keep: np.ndarray | None = None) -> RowClasses:
    """Return the distinct intervals (low, high) of rows, and which of them each censored row is."""
    low, high = x.extra
    censored = ~np.isnan(low) if keep is None else ~np.isnan(low) & keep
    rows = np.flatnonzero(censored)
    found, which = np.unique(np.column_stack([low[rows], high[rows]]), axis=0, return_inverse=True)
    return RowClasses((found[:, 0].copy(), found[:, 1].copy()), which.reshape(-1), rows)


def _some(x: WrappedRows) -> RowClasses | None:
    """Return the distinct intervals of rows, None without any."""
    return None if np.isnan(x.extra[0]).all() else _intervals(x)


def _seen(x: WrappedRows, inside: np.ndarray) -> tuple[Any, np.ndarray | None]:
    """Return the encoded rows of a stack that the base sees, and their positions; None for all."""
    return (x.rows.payload, None) if inside.all() else rows_at(x.rows.payload, inside)


def _node(base: Any) -> tuple[str, Any] | None:
    return ("split", Shell("Censored", None, base)) if hasattr(base, "leaf") else None


def add_expected(
    accumulator: Any, base: Any, ends: tuple[np.ndarray, ...], weight: np.ndarray, mass: np.ndarray
) -> None:
    """Add to an accumulator of a base the statistic that is expected of weighted intervals under it.

    Parameters
    ----------
    accumulator : accumulator
        Of the base.
    base : distribution
        Law of the numbers.
    ends : (ndarray, ndarray), shape (J,)
        Ends of the intervals.
    weight, mass : ndarray, shape (J,)
        Weights, and logarithms of their probabilities, none of which is −inf.
    """
    far = []
    for start in range(0, len(weight), CLOSE):
        part = slice(start, start + CLOSE)
        points, shares, good = close_points(base, ends[0][part], ends[1][part], mass[part])
        if len(points):
            _add_points(accumulator, base, points, shares * weight[part][good, None])
        far.append(start + np.flatnonzero(~good))
    others = np.concatenate([np.zeros(0, int), *far])
    for start in range(0, len(others), INTERVALS):
        own = others[start : start + INTERVALS]
        points, masses = region_points(base, ends[0][own], ends[1][own])
        _add_points(accumulator, base, points, np.exp(masses - mass[own, None]) * weight[own, None])


def _add_points(accumulator: Any, base: Any, points: np.ndarray, shares: np.ndarray) -> None:
    """Add points and their weights (J, m) to an accumulator of a base; it takes those that it has a density for."""
    payload, weights = base.dist_to_encoder().seq_encode(points.ravel()), shares.ravel()
    known = supported(accumulator, payload)
    accumulator.seq_update(payload, weights if known is None else np.where(known, weights, 0.0), base)


class CensoredAccumulator(WrappingAccumulator):
    """Accumulator of a `CensoredEstimator`; a start takes a number inside the interval for the value."""

    def weigh(self, x: WrappedRows, weights: np.ndarray, model: Any) -> np.ndarray:
        """Return the weights of the rows that the child takes at their value."""
        exact = np.isnan(x.extra[0])
        self.sums[0] += block_sum(np.where(exact, weights, 0.0))
        self.sums[1] += block_sum(np.where(exact, 0.0, weights))
        if model is not None:
            return np.where(exact, weights, 0.0)
        known = supported(self.accumulator, x.rows.payload)
        return weights if known is None else np.where(exact | known, weights, 0.0)

    def seq_update(self, x: WrappedRows, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded rows: known values, and points of each interval with their probabilities under the model.

        Raises
        ------
        SupportError
            If an interval of positive weight has no probability.
        """
        super().seq_update(x, weights, estimate)
        if estimate is None:
            return
        base, found = estimate.base, _intervals(x, weights > 0.0)
        if not len(found.rows):
            return
        masses = log_mass(base, *found.classes)
        lost = np.flatnonzero(masses[found.which] == -np.inf)
        if lost.size:
            row = int(found.rows[lost[0]])
            low, high = (float(end[found.which[lost[0]]]) for end in found.classes)
            reason = f"the interval from {low!r} to {high!r} has no probability; widen it, or leave the row out"
            raise SupportError(reason, "Censored", row)
        weight = np.bincount(found.which, weights[found.rows], len(masses))
        add_expected(self.accumulator, base, found.classes, weight, masses)

    def supported_rows(self, x: WrappedRows) -> np.ndarray | None:
        """Return which rows are intervals or supported by the child, shape (n,), or None for all."""
        known = supported(self.accumulator, x.rows.payload)
        return None if known is None else known | ~np.isnan(x.extra[0])

    def pack(self, child: Any) -> CensoredStatistics:
        """Return the statistic."""
        return CensoredStatistics(1, child, self.sums[0], self.sums[1])

    def unpack(self, value: Any) -> tuple[Any, tuple[float, ...]]:
        """Return the child's statistic and the weights."""
        _, child, exact, censored = value
        return child, (exact, censored)

    def acc_to_encoder(self) -> CensoredEncoder:
        """Return the encoder."""
        return CensoredEncoder(self.accumulator.acc_to_encoder(), counts(self.accumulator))


class CensoredDistribution(SequenceEncodableProbabilityDistribution):
    """Law of numbers some of which are known only to lie in an interval, which then scores its probability.

    A row is a number, or an interval: ``CensoredInterval(low, high)`` or a pair ``(low, high)``, None or an infinity
    for an open end. An interval whose ends are equal is that number.

    Parameters
    ----------
    base : distribution
        Law of the numbers; the probability of an interval must be known for it (`mixle.stats.regions`).
    name, keys
        Label and tying key of the whole.

    Raises
    ------
    TypeError
        For any other base; the message names those that are known.

    References
    ----------
    A. C. Cohen, "Truncated and Censored Samples: Theory and Applications", 1991; for EM, A. P. Dempster, N. M. Laird,
    D. B. Rubin, "Maximum likelihood from incomplete data via the EM algorithm", Journal of the Royal Statistical
    Society B 39, 1977.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> d = CensoredDistribution(GaussianDistribution(0.0, 1.0))
    >>> round(d.log_density(1.0), 9), round(d.log_density((1.0, None)), 9)
    (-1.418938533, -1.841021645)
    """

    _fields = ("base",)
    _keyword_fields = ("name", "keys")

    def __init__(self, base: Any, name: str | None = None, keys: Any = None) -> None:
        refuse_region(law_given(base, "Censored"), "censored")
        self.base, self.name, self.keys = base, name, keys

    def dist_to_encoder(self) -> CensoredEncoder:
        """Return the encoder."""
        return CensoredEncoder(self.base.dist_to_encoder(), counts(self.base))

    def seq_log_density(self, x: WrappedRows) -> np.ndarray:
        """Return the log-densities of numbers and the log-probabilities of intervals, shape (n,)."""
        result = np.array(self.base.seq_log_density(x.rows.payload))
        found = _intervals(x)
        if len(found.rows):
            result[found.rows] = log_mass(self.base, *found.classes)[found.which]
        return result

    def stack_node(self) -> tuple[str, Any] | None:
        """Return how this part stacks over a component axis."""
        return _node(self.base) if type(self) is CensoredDistribution else None

    def split_rows(self, x: WrappedRows) -> tuple[Any, np.ndarray | None]:
        """Return the encoded rows that are known, and their positions; None for all."""
        return _seen(x, np.isnan(x.extra[0]))

    def split_classes(self, x: WrappedRows) -> RowClasses | None:
        """Return the intervals among encoded rows, None without any."""
        return _some(x)

    def split_terms(self, members: Sequence[Any]) -> np.ndarray:
        """Return what K laws add to the log-density of rows, (K, 2): nothing."""
        return np.zeros((len(members), 2))

    def class_terms(self, members: Sequence[Any], ends: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return the log-probability of J intervals under each of K laws, shape (K, J)."""
        return np.array([log_mass(member.base, *ends) for member in members])

    def class_statistics(
        self, members: Sequence[Any], ends: tuple[np.ndarray, ...], weights: np.ndarray, before: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Return the statistics expected of J intervals with weights (K, J) under K laws, with those found before."""
        result: list[Any] = []
        for k, member in enumerate(members):
            made = LeafAccumulator(member.base.leaf)
            made.stat = before[k] if before else made.stat
            some = np.flatnonzero(weights[k] > 0.0)
            own = tuple(end[some] for end in ends)
            add_expected(made, member.base, own, weights[k][some], log_mass(member.base, *own))
            result.append(made.stat)
        return tuple(result)

    def split_statistics(
        self, members: Sequence[Any], sums: tuple[OptionalWeights, Any], found: ClassSums | None
    ) -> tuple[CensoredWeights, Any]:
        """Return the weights of K laws with what is expected of intervals, and the statistic of known values."""
        gates, child = sums
        return CensoredWeights(gates.present, gates.missing, () if found is None else found.statistics()), child

    def sampler(self, seed: int | None = None) -> Any:
        """Return the base's sampler: what is drawn is known."""
        return self.base.sampler(seed)

    def estimator(self, pseudo_count: float | None = None) -> CensoredEstimator:
        """Return the estimator; `pseudo_count` weighs the base's parameters as a prior."""
        return CensoredEstimator(self.base.estimator(pseudo_count), self.name, self.keys)


class CensoredEstimator(WrappingEstimator):
    """Estimator of a `CensoredDistribution` by EM: the values inside the intervals are what is hidden.

    The statistic that is expected of an interval is summed over points that stand for the last model inside it
    (A. P. Dempster, N. M. Laird, D. B. Rubin, "Maximum likelihood from incomplete data via the EM algorithm",
    J. R. Stat. Soc. B 39, 1977).

    Parameters
    ----------
    base_estimator : estimator
        Estimator of the base.
    name, keys
        Label and tying key of what is fitted.

    Examples
    --------
    Three units failed, two were still running at time 4; the mean life is all time over the failures:

    >>> from mixle.inference import optimize
    >>> from mixle.stats import ExponentialEstimator
    >>> rows = [1.0, 2.0, 3.0, (4.0, None), (4.0, None)]
    >>> model = optimize(rows, CensoredEstimator(ExponentialEstimator()), max_its=200, delta=1e-13, out=None)
    >>> round(model.base.beta, 4)
    4.6667
    """

    _fields = ("base_estimator",)
    _keyword_fields = ("name", "keys")

    def __init__(self, base_estimator: Any, name: str | None = None, keys: Any = None) -> None:
        refuse_region(estimator_given(base_estimator, "Censored"), "censored")
        self.base_estimator, self.name, self.keys = base_estimator, name, keys

    def child_value(self, suff_stat: Any) -> Any:
        """Return the child's part of a statistic."""
        return suff_stat[1]

    def accumulator_factory(self) -> WrappingFactory:
        """Return the factory."""
        return WrappingFactory(CensoredAccumulator, self.base_estimator.accumulator_factory(), self.keys)

    def stack_node(self) -> tuple[str, Any] | None:
        """Return how this part stacks over a component axis."""
        return _node(self.base_estimator) if type(self) is CensoredEstimator else None

    def split_rows(self, x: WrappedRows) -> tuple[Any, np.ndarray | None]:
        """Return the encoded rows whose value, or what stands for it in a start, the base takes."""
        inside = np.isnan(x.extra[0])
        outside = as_rows(x.rows.payload).outside
        return _seen(x, np.ones(len(inside), bool) if outside is None else inside | ~outside)

    def split_classes(self, x: WrappedRows) -> RowClasses | None:
        """Return the intervals among encoded rows, None without any."""
        return _some(x)

    def split_statistics(
        self, members: Sequence[Any], sums: tuple[OptionalWeights, Any], found: ClassSums | None
    ) -> tuple[CensoredWeights, Any]:
        """Return the weights of K laws before there is a model, and the statistic of their bases."""
        gates, child = sums
        total = gates.present + gates.missing
        censored = np.zeros(len(members)) if found is None else np.minimum(found.weight, total)
        return CensoredWeights(total - censored, censored, ()), child

    def estimate(self, nobs: float | None, suff_stat: Any) -> CensoredDistribution:
        """Return the fitted distribution."""
        _, child, exact, censored = suff_stat
        weight = None if self.keys is not None else float(exact) + float(censored)
        return CensoredDistribution(self.base_estimator.estimate(weight, child), self.name, self.keys)
