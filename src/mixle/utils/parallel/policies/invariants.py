"""Conservation: over the components of a mixture, statistics add up to those of the data, whatever the model is.

A row's responsibilities add up to one, so that the weights of the components add up to the weight of the rows, and
their sums of sufficient statistics to the sums over the rows (the identity behind the E-step; A. P. Dempster,
N. M. Laird and D. B. Rubin, JRSS B 39, 1977). The right-hand sides are what a mixture of one component leaves; they do
not depend on the model and are computed once. A residual above the bound of rounding means that a number is wrong:
that shard is audited at once. A flip of a log-density before the responsibilities are normalised keeps the sums; only a
recomputation sees it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.utils.parallel.folding.tasks import Accumulate

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result

__all__ = ["Invariants", "limit", "residual"]

UNIT = 2.0**-53
BLOCK = 2048  # rows per block of the E-step
TRIES = 3  # components that are tried for the right-hand side

Compute = Callable[[Accumulate, list[int]], Mapping[int, "Result"]]


def limit(rows: int) -> float:
    """Return the largest residual that rounding explains, in units of 2^-53: ``32 + 4 √blocks``.

    Examples
    --------
    >>> limit(8192)
    40.0
    """
    return 32.0 + 4.0 * math.sqrt(math.ceil(rows / BLOCK))


def residual(statistic: Any, data: Any, weight: float) -> float:
    """Return how far a stacked statistic is from the data's own, in units of 2^-53 of the terms added up.

    Parameters
    ----------
    statistic, data : StackedStatistic
        Of K components, and of one component that owns all rows.
    weight : float
        Weight of the rows.

    Returns
    -------
    float
        The largest residual of all sums; NaN if one of them is NaN.
    """
    with np.errstate(all="ignore"):  # corrupted numbers may be of any size
        found = [_ratio(np.add.reduce(statistic.counts) - weight, weight)]
        for ours, theirs in zip(statistic.slots, data.slots, strict=True):
            measure = _MEASURES.get(type(ours).__name__)
            if measure is not None:
                found += measure(ours, theirs)
        return float(np.max(found))


def _ratio(error: Any, scale: Any) -> float:
    """Return max |error| / (unit · scale); an error where nothing was added up is infinite."""
    error, scale = np.abs(error), np.abs(scale)
    ratio = np.where(error == 0.0, 0.0, error / (UNIT * scale))
    return float(np.max(ratio, initial=0.0))


def _linear(ours: Any, theirs: Any) -> list[float]:
    weight, sums = theirs.weight[0], np.add.reduce(ours.sums, axis=0)
    terms = np.add.reduce(np.abs(ours.sums), axis=0) + np.abs(theirs.sums[0])
    return [_ratio(np.add.reduce(ours.weight) - weight, weight), _ratio(sums - theirs.sums[0], terms)]


def _gates(ours: Any, theirs: Any) -> list[float]:
    return [_ratio(np.add.reduce(a) - b[0], b[0]) for a, b in zip(ours, theirs, strict=True)]


def _codes(ours: Any, theirs: Any) -> list[float]:
    sums, wanted = np.add.reduce(ours.counts, axis=0), theirs.counts[0]
    if ours.labels != theirs.labels:
        place = {label: i for i, label in enumerate(ours.labels)}
        if place.keys() != set(theirs.labels):
            return [math.inf]
        sums = sums[[place[label] for label in theirs.labels]]
    return [_ratio(sums - wanted, wanted)]


def _moments(ours: Any, theirs: Any) -> list[float]:
    """Compare weight, mean and scatter about the data's own mean, so that an offset costs no digits."""
    weight = np.asarray(ours.weight, float)
    total = float(np.asarray(theirs.weight)[0])
    found = [_ratio(np.add.reduce(weight) - total, total)]
    if total == 0.0:
        return found
    w = weight[:, None]
    delta = (ours.centre - theirs.centre[0]) + (ours.shift - theirs.shift[0])
    full = ours.scatter.ndim == 3
    scatter = np.diagonal(ours.scatter, axis1=1, axis2=2) if full else ours.scatter
    second = np.add.reduce(scatter + w * (np.square(ours.shift) + np.square(delta)), axis=0)
    second = second + total * np.square(theirs.shift[0])
    spread = np.sqrt(total * second)
    steps = np.add.reduce(w * (np.abs(ours.shift) + np.abs(delta)), axis=0) + np.abs(total * theirs.shift[0])
    # full scatters are turned to the model's axes and back, a product on each side that costs digits
    changes = 8.0 * len(second) if full else 1.0
    found.append(_ratio(np.add.reduce(w * delta, axis=0), changes * (spread + steps)))
    if full:
        between = (w * delta).T @ delta
        error = np.add.reduce(ours.scatter, axis=0) + between - theirs.scatter[0]
        return [*found, _ratio(error, changes * np.sqrt(np.outer(second, second)))]
    error = np.add.reduce(scatter + w * np.square(delta), axis=0) - theirs.scatter[0]
    return [*found, _ratio(error, second + theirs.scatter[0])]


_MEASURES: dict[str, Callable[[Any, Any], list[float]]] = {
    "LinearSums": _linear,
    "OptionalWeights": _gates,
    "CodeCounts": _codes,
    "Moments": _moments,
}


class Invariants:
    """The data's own sums of each shard, and the check of a round against them."""

    def __init__(self) -> None:
        self.key: Any = None
        self.data: dict[int, tuple[float, Any]] = {}
        self.slack: dict[int, float] = {}
        self.last: dict[int, float] = {}

    def broken(self, task: Accumulate, results: Mapping[int, Result], compute: Compute) -> list[int]:
        """Return the shards whose statistic does not add up, ascending.

        Parameters
        ----------
        task : Accumulate
            The E-step.
        results : mapping of int to Result
            Its results, by shard. Shards with rows that were left out are not told.
        compute : callable
            ``compute(task, shards)`` returns results by shard; asked once, for the right-hand sides.
        """
        stacked = {s: r for s, r in results.items() if hasattr(r.value, "slots") and hasattr(r.value, "counts")}
        if not stacked:
            return []
        key = (next(iter(stacked.values())).value.tree, task.estimator.__class__)
        if key != self.key:
            self.key, self.slack = key, {}
            self.data = _right_hand_sides(task, stacked, compute)
        self.last = {s: self._residual(s, r) for s, r in stacked.items() if s in self.data}
        return sorted(
            s for s, found in self.last.items() if not found <= self.slack.get(s, 1.0) * limit(results[s].rows)
        )

    def _residual(self, shard: int, result: Result) -> float:
        if result.receipt.get("left_out", 0):
            return 0.0
        weight, data = self.data[shard]
        try:
            return residual(result.value, data, weight)
        except (ValueError, IndexError, TypeError):  # shapes that do not fit: something is wrong with it
            return math.inf

    def excuse(self, shards: Iterable[int]) -> None:
        """Note that shards were found to be right: what their rounding leaves is wider than the bound."""
        for shard in shards:
            found = self.last.get(shard, 0.0)
            if math.isfinite(found):
                self.slack[shard] = max(self.slack.get(shard, 1.0), 2.0 * found / limit(1))
            else:
                self.data.pop(shard, None)


def _right_hand_sides(
    task: Accumulate, stacked: Mapping[int, Result], compute: Compute
) -> dict[int, tuple[float, Any]]:
    """Return weight and statistic of all rows of each shard, from a mixture of one component that supports them."""
    children = list(getattr(task.estimator, "estimators", None) or ())
    components = list(getattr(task.model, "components", None) or ())
    data: dict[int, tuple[float, Any]] = {}
    for child, component in list(zip(children, components, strict=False))[:TRIES]:
        missing = sorted(set(stacked) - set(data))
        if not missing:
            break
        single = _single(task, child, component)
        if single is None:
            break
        for shard, result in compute(single, missing).items():
            if result.error is None and not result.receipt.get("left_out", 0) and hasattr(result.value, "slots"):
                data[shard] = (result.weight, result.value)
    return data


def _single(task: Accumulate, child: Any, component: Any) -> Accumulate | None:
    """Return the E-step of a mixture of one component."""
    from mixle.stats import MixtureDistribution, MixtureEstimator

    if type(task.estimator) is not MixtureEstimator:
        return None
    return Accumulate(MixtureEstimator([child]), MixtureDistribution([component], [1.0]), scored=True)
