"""Conservation: over the components of a mixture, statistics add up to those of the data, whatever the model is.

A row's responsibilities add up to one, so that the weights of the components add up to the weight of the rows, and
their sums of sufficient statistics to the sums over the rows (the identity behind the E-step; A. P. Dempster,
N. M. Laird and D. B. Rubin, JRSS B 39, 1977). The right-hand sides are what a mixture of one component leaves; they do
not depend on the model and are computed once. A residual above the bound of rounding means that a number is wrong:
that shard is audited at once. A flip of a log-density before the responsibilities are normalised keeps the sums; the
identities that workers check on the way (`mixle.stats.identities`) see it on the blocks whose turn it is.

Which models have what: stacked mixtures (and hidden Markov models with stacked emissions and no terminal states) the
sums of weights, of linear and squared features, of labels and of missing rows; all hidden Markov models the counts of
their chain; components scored by a matrix product the identities of log-densities. Mixtures of unlike families, and
leaves on their own, have none of it: they are told by recomputation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.utils.parallel.folding.tasks import Accumulate

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result

__all__ = ["Invariants", "chain_residual", "limit", "residual"]

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


def chain_residual(statistic: Any) -> float:
    """Return how far the counts of a hidden chain are from each other, in units of 2^-53 of the terms added up.

    Every element but the first is moved to: counts of states less initial counts are the column sums of the counts of
    transitions.
    """
    with np.errstate(all="ignore"):
        state, first = np.asarray(statistic.state_counts), np.asarray(statistic.init_counts)
        moves = np.asarray(statistic.trans_counts)
        total = np.add.reduce(np.abs(state))
        found = [_ratio(state - first - np.add.reduce(moves, axis=0), total)]
        if hasattr(statistic.emissions, "counts"):
            found.append(_ratio(state - statistic.emissions.counts, total))
        return float(np.max(found))


def _tree(value: Any) -> Any:
    """Return the tree of a statistic that is stacked, or whose emissions are; None otherwise."""
    return getattr(_stacked(value), "tree", None)


def _stacked(value: Any) -> Any:
    return value.emissions if hasattr(value, "trans_counts") else value


def _terms(result: Result) -> int:
    """Return how many terms were added up: rows, or the elements of sequences."""
    counts = getattr(result.value, "state_counts", None)
    if counts is None:
        return result.rows
    total = float(np.add.reduce(counts))
    return max(result.rows, int(total)) if math.isfinite(total) else result.rows


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
        self.total: tuple[float, Any] | None = None
        self.whole = False

    def broken(self, task: Accumulate, results: Mapping[int, Result], compute: Compute) -> list[int]:
        """Return the shards whose statistic does not add up, or whose log-densities did not, ascending.

        Parameters
        ----------
        task : Accumulate
            The E-step.
        results : mapping of int to Result
            Its results, by shard. Sums of shards with rows that were left out are not told.
        compute : callable
            ``compute(task, shards)`` returns results by shard; asked once, for the right-hand sides.
        """
        known = {shard: tree for shard, result in results.items() if (tree := _tree(result.value)) is not None}
        if known:
            key = (next(iter(known.values())), task.estimator.__class__)
            if key != self.key:
                self.key, self.slack, self.total = key, {}, None
                self.data = _right_hand_sides(task, known, compute)
        self.whole = bool(self.data) and not any(r.receipt.get("left_out", 0) for r in results.values())
        self.last = {s: self._residual(s, r) / limit(_terms(r)) for s, r in results.items()}
        return sorted(s for s, found in self.last.items() if not found <= self.slack.get(s, 1.0))

    def _residual(self, shard: int, result: Result) -> float:
        """Return the largest residual in units of 2^-53 of the terms."""
        found = [float(result.receipt.get("identities", 0.0)) * limit(_terms(result))]
        try:
            if hasattr(result.value, "trans_counts"):
                found.append(chain_residual(result.value))
            if shard in self.data and not result.receipt.get("left_out", 0):
                weight, data = self.data[shard]
                found.append(residual(_stacked(result.value), data, weight))
        except (ValueError, IndexError, TypeError, AttributeError):  # shapes that do not fit: something is wrong
            return math.inf
        return max(found) if all(map(math.isfinite, found)) else math.inf

    def total_residual(self, estimator: Any, value: Any) -> float | None:
        """Return how far a folded statistic is from the data's own, in units of its bound.

        None if that is not known: no sums, rows that were left out of some shard, keys that tie statistics.
        """
        tree = _tree(value)
        if tree is None or not self.whole or set(self.data) != set(self.last) or tree != self.key[0]:
            return None
        if self.total is None:
            self.total = _merged(estimator, [self.data[shard] for shard in sorted(self.data)])
        weight, data = self.total
        try:
            return residual(_stacked(value), data, weight) / limit(BLOCK * len(self.data) + math.ceil(weight))
        except (ValueError, IndexError, TypeError, AttributeError):
            return math.inf

    def excuse(self, shards: Iterable[int]) -> None:
        """Note that shards were found to be right: what their rounding leaves is wider than the bound."""
        for shard in shards:
            found = self.last.get(shard, 0.0)
            if math.isfinite(found):
                self.slack[shard] = max(self.slack.get(shard, 1.0), 2.0 * found)
            else:
                self.data.pop(shard, None)
                self.total = None


def _merged(estimator: Any, parts: list[tuple[float, Any]]) -> tuple[float, Any]:
    from mixle.stats.stacking.statistic import merge_stacked
    from mixle.stats.stacking.tree import flatten, unify

    nodes = tuple(slot.node for slot in flatten(unify(list(estimator.estimators)[:1])))
    total = parts[0][1]
    for _, part in parts[1:]:
        total = merge_stacked(total, part, nodes)
    return math.fsum(weight for weight, _ in parts), total


def _right_hand_sides(task: Accumulate, stacked: Iterable[int], compute: Compute) -> dict[int, tuple[float, Any]]:
    """Return weight and statistic of all rows of each shard, from a mixture of one component that supports them."""
    children = list(getattr(task.estimator, "estimators", None) or ())
    components = list(getattr(task.model, "components", None) or getattr(task.model, "topics", None) or ())
    data: dict[int, tuple[float, Any]] = {}
    for child, component in list(zip(children, components, strict=False))[:TRIES]:
        missing = sorted(set(stacked) - set(data))
        if not missing:
            break
        single = _single(task, child, component)
        if single is None:
            break
        for shard, result in compute(single, missing).items():
            if result.error is None and not result.receipt.get("left_out", 0) and _tree(result.value) is not None:
                own = _stacked(result.value)
                data[shard] = (result.weight if own is result.value else float(own.counts[0]), own)
    return data


def _single(task: Accumulate, child: Any, component: Any) -> Accumulate | None:
    """Return the E-step of a mixture, or of a hidden Markov model, of one component."""
    from mixle import stats

    if type(task.estimator) is stats.MixtureEstimator:
        mixture = stats.MixtureDistribution([component], [1.0])
        return Accumulate(stats.MixtureEstimator([child]), mixture, scored=True)
    if type(task.estimator) is stats.HiddenMarkovEstimator and task.model.terminal_states is None:
        lengths = task.model.len_dist
        chain = stats.HiddenMarkovModelDistribution([component], [1.0], [[1.0]], len_dist=lengths)
        return Accumulate(stats.HiddenMarkovEstimator([child], task.estimator.len_estimator), chain, scored=True)
    return None
