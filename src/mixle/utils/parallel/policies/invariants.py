"""Conservation: over the components of a mixture, statistics add up to those of the data, whatever the model is.

A row's responsibilities add up to one, so that the weights of the components add up to the weight of the rows, and
their sums of sufficient statistics to the sums over the rows (the identity behind the E-step; A. P. Dempster,
N. M. Laird and D. B. Rubin, JRSS B 39, 1977). The right-hand sides are what a mixture of one component leaves; they do
not depend on the model and are computed once. A residual above the bound of rounding means that a number is wrong:
that shard is audited at once. A flip of a log-density before the responsibilities are normalised keeps the sums; the
identities that workers check on the way (`mixle.stats.identities`) see it on the blocks whose turn it is.

Which models have what: stacked mixtures (and hidden Markov models with stacked emissions and no terminal states, and
LDA with stacked topics, whose expected counts add up to the words) the sums of weights, of linear and squared
features, of labels and of missing rows; all hidden Markov models the counts of their chain; components scored by a
matrix product the identities of log-densities. Mixtures of unlike families, and leaves on their own, have none of it:
they are told by recomputation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.utils.parallel.folding.tasks import Accumulate, Sizes

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result

__all__ = ["Invariants", "chain_residual", "limit", "residual"]

UNIT = 2.0**-53
SINGLE = 2.0**29  # units of float32 in those
BLOCK = 2048  # rows per block of the E-step
TRIES = 3  # components that are tried for the right-hand side

Compute = Callable[[Accumulate, list[int]], Mapping[int, "Result"]]


def limit(rows: int, precision: str = "float64") -> float:
    """Return the largest residual that rounding explains, in units of 2^-53: ``32 + 4 √blocks``, 2^29 times in float32.

    Examples
    --------
    >>> limit(8192)
    40.0
    """
    return (SINGLE if precision == "float32" else 1.0) * (32.0 + 4.0 * math.sqrt(math.ceil(rows / BLOCK)))


def residual(statistic: Any, data: Any, weight: float, sizes: Any = None) -> float:
    """Return how far a stacked statistic is from the data's own, in units of 2^-53 of the terms added up.

    Parameters
    ----------
    statistic, data : StackedStatistic
        Of K components, and of one component that owns all rows.
    weight : float
        Weight of the rows.
    sizes : StackedStatistic, optional
        Of one component, from features without their signs: what the sums of linear features are measured by. Sums
        that nearly cancel are wrong by more than a rounding of themselves.

    Returns
    -------
    float
        The largest residual of all sums; NaN if one of them is NaN.
    """
    return float(residuals([statistic], [data], np.array([weight]), [data if sizes is None else sizes])[0])


def residuals(statistics: Sequence[Any], data: Sequence[Any], weights: np.ndarray, sizes: Sequence[Any]) -> np.ndarray:
    """Return `residual` of several statistics (S,), whose arrays have equal shapes and whose tables equal labels."""
    with np.errstate(all="ignore"):  # corrupted numbers may be of any size
        counts = np.array([one.counts for one in statistics])
        found = [_ratio(np.add.reduce(counts, axis=1) - weights, weights)]
        for ours, theirs, terms in zip(
            *(zip(*(one.slots for one in many), strict=True) for many in (statistics, data, sizes)), strict=True
        ):
            kind = type(ours[0]).__name__
            if kind == "LinearSums":
                found += _linear(ours, theirs, terms)
            elif kind in _MEASURES:
                found += _MEASURES[kind](ours, theirs)
        return np.asarray(np.maximum.reduce(found))


def _ratio(error: Any, scale: Any) -> np.ndarray:
    """Return max |error| / (unit · scale) of each statistic (S,); an error where nothing was added up is infinite."""
    error, scale = np.abs(error), np.abs(scale)
    ratio = np.where(error == 0.0, 0.0, error / (UNIT * scale))
    return np.asarray(np.max(ratio.reshape(len(ratio), -1), axis=1, initial=0.0))


def _field(slots: Sequence[Any], name: str) -> np.ndarray:
    return np.array([getattr(slot, name) for slot in slots], float)


def _linear(ours: Sequence[Any], theirs: Sequence[Any], sizes: Sequence[Any]) -> list[np.ndarray]:
    weight, wanted = _field(theirs, "weight")[:, 0], _field(theirs, "sums")[:, 0]
    given, own = _field(ours, "sums"), np.abs(_field(sizes, "sums")[:, 0])
    terms = np.maximum(np.add.reduce(np.abs(given), axis=1), own) + own
    total = np.add.reduce(_field(ours, "weight"), axis=1)
    return [_ratio(total - weight, weight), _ratio(np.add.reduce(given, axis=1) - wanted, terms)]


def _gates(ours: Sequence[Any], theirs: Sequence[Any]) -> list[np.ndarray]:
    found = []
    for name in ours[0]._fields:
        wanted = _field(theirs, name)[:, 0]
        found.append(_ratio(np.add.reduce(_field(ours, name), axis=1) - wanted, wanted))
    return found


def _codes(ours: Sequence[Any], theirs: Sequence[Any]) -> list[np.ndarray]:
    sums, wanted = np.add.reduce(_field(ours, "counts"), axis=1), _field(theirs, "counts")[:, 0]
    names, others = ours[0].labels, theirs[0].labels
    if names != others:
        place = {label: i for i, label in enumerate(names)}
        if place.keys() != set(others):
            return [np.full(len(sums), math.inf)]
        sums = sums[:, [place[label] for label in others]]
    return [_ratio(sums - wanted, wanted)]


def _moments(ours: Sequence[Any], theirs: Sequence[Any]) -> list[np.ndarray]:
    """Compare weight, mean and scatter about the data's own mean, so that an offset costs no digits."""
    weight, total = _field(ours, "weight"), _field(theirs, "weight")[:, 0]
    found = [_ratio(np.add.reduce(weight, axis=1) - total, total)]
    if not total.all():  # of a shard without weight there are no means
        return found
    w, total = weight[:, :, None], total[:, None]
    shift, scatter, own = _field(ours, "shift"), _field(ours, "scatter"), _field(theirs, "shift")[:, 0]
    delta = (_field(ours, "centre") - _field(theirs, "centre")) + (shift - own[:, None])
    full = scatter.ndim == 4
    diagonal = np.diagonal(scatter, axis1=2, axis2=3) if full else scatter
    second = np.add.reduce(diagonal + w * (np.square(shift) + np.square(delta)), axis=1)
    second = second + total * np.square(own)
    spread = np.sqrt(total * second)
    steps = np.add.reduce(w * (np.abs(shift) + np.abs(delta)), axis=1) + np.abs(total * own)
    # full scatters are turned to the model's axes and back, a product on each side that costs digits
    changes = 8.0 * second.shape[1] if full else 1.0
    found.append(_ratio(np.add.reduce(w * delta, axis=1), changes * (spread + steps)))
    wanted = _field(theirs, "scatter")[:, 0]
    if full:
        between = np.swapaxes(w * delta, 1, 2) @ delta
        error = np.add.reduce(scatter, axis=1) + between - wanted
        return [*found, _ratio(error, changes * np.sqrt(second[:, :, None] * second[:, None, :]))]
    error = np.add.reduce(diagonal + w * np.square(delta), axis=1) - wanted
    return [*found, _ratio(error, second + wanted)]


def chain_residual(statistic: Any) -> float:
    """Return how far the counts of a hidden chain are from each other, in units of 2^-53 of the terms added up.

    Every element but the first is moved to: counts of states less initial counts are the column sums of the counts of
    transitions.
    """
    with np.errstate(all="ignore"):
        state, first = np.asarray(statistic.state_counts), np.asarray(statistic.init_counts)
        moves = np.asarray(statistic.trans_counts)
        total = np.add.reduce(np.abs(state))
        found = [_ratio((state - first - np.add.reduce(moves, axis=0))[None], total)[0]]
        if hasattr(statistic.emissions, "counts"):
            found.append(_ratio((state - statistic.emissions.counts)[None], total)[0])
        return float(np.max(np.array(found)))


def _largest(one: float, other: float) -> float:
    return max(one, other) if math.isfinite(one) and math.isfinite(other) else math.inf


def _form(statistic: Any) -> tuple[Any, ...]:
    """Return what must be equal of statistics that are looked at together: shapes and tables."""
    form: list[Any] = [statistic.counts.shape]
    for slot in statistic.slots:
        kind = type(slot).__name__
        if kind == "CodeCounts":
            form += slot.labels, slot.counts.shape
        elif kind == "LinearSums" or kind in _MEASURES:
            form += map(np.shape, slot)
    return tuple(form)


def _data_form(data: Any) -> tuple[Any, ...]:
    """Return `_form` of the data's own sums, and which of them there is any weight behind."""
    weighed = [bool(np.any(slot[0])) for slot in data.slots if type(slot).__name__ == "Moments"]
    return *_form(data), *weighed


def _tree(value: Any) -> Any:
    """Return the tree of a statistic that is stacked, or whose emissions are; None otherwise."""
    return getattr(_stacked(value), "tree", None)


def _stacked(value: Any) -> Any:
    if hasattr(value, "trans_counts"):
        return value.emissions
    return value.topics if hasattr(value, "log_shares") else value


def _terms(result: Result) -> int:
    """Return how many terms were added up: rows, or the elements of sequences."""
    counts = getattr(result.value, "state_counts", getattr(result.value, "topic_counts", None))
    if counts is None:
        return result.rows
    total = float(np.add.reduce(counts))
    return max(result.rows, int(total)) if math.isfinite(total) else result.rows


_MEASURES: dict[str, Callable[[Sequence[Any], Sequence[Any]], list[np.ndarray]]] = {
    "OptionalWeights": _gates,
    "CodeCounts": _codes,
    "Moments": _moments,
}


class Invariants:
    """The data's own sums of each shard, and the check of a round against them."""

    def __init__(self) -> None:
        self.key: Any = None
        self.data: dict[int, tuple[float, Any]] = {}
        self.sizes: dict[int, Any] = {}
        self.forms: dict[int, tuple[Any, ...]] = {}
        self.slack: dict[int, float] = {}
        self.last: dict[int, float] = {}
        self.total: tuple[float, Any, Any] | None = None
        self.whole = False
        self.precision = "float64"

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
        self.precision = getattr(task, "precision", "float64")
        known = {shard: tree for shard, result in results.items() if (tree := _tree(result.value)) is not None}
        if known:
            key = (next(iter(known.values())), task.estimator.__class__)
            if key != self.key:
                self.key, self.slack, self.forms, self.total = key, {}, {}, None
                self.data, self.sizes = _right_hand_sides(task, known, compute)
        self.whole = bool(self.data) and not any(r.receipt.get("left_out", 0) for r in results.values())
        sums = self._sums(results).items()
        self.last = {shard: found / self._limit(_terms(results[shard]), results[shard].value) for shard, found in sums}
        for shard, result in results.items():
            self.last[shard] = _largest(self.last.get(shard, 0.0), self._own(result))
        return sorted(s for s, found in self.last.items() if not found <= self.slack.get(s, 1.0))

    def _limit(self, terms: int, value: Any) -> float:
        """Return the bound of so many terms; only mixtures on their own compute in float32."""
        return limit(terms, self.precision if _stacked(value) is value else "float64")

    def _sums(self, results: Mapping[int, Result]) -> dict[int, float]:
        """Return the residual of each shard whose sums are known, in units of 2^-53 of the terms."""
        groups: dict[Any, list[int]] = {}
        found: dict[int, float] = {}
        for shard, result in results.items():
            if shard in self.data and not result.receipt.get("left_out", 0):
                try:
                    form = self.forms.get(shard)
                    if form is None:
                        form = self.forms[shard] = _data_form(self.data[shard][1])
                    groups.setdefault((_form(_stacked(result.value)), form), []).append(shard)
                except (TypeError, AttributeError):
                    found[shard] = math.inf
        for shards in groups.values():
            ours = [_stacked(results[shard].value) for shard in shards]
            weights = np.array([self.data[shard][0] for shard in shards])
            try:
                data, sizes = [self.data[shard][1] for shard in shards], [self.sizes[shard] for shard in shards]
                many = residuals(ours, data, weights, sizes).tolist()
            except (ValueError, IndexError, TypeError, AttributeError):  # shapes that do not fit
                many = [math.inf] * len(shards)
            found.update(zip(shards, many, strict=True))
        return found

    def _own(self, result: Result) -> float:
        """Return what a result says of itself, in units of the bound."""
        found = float(result.receipt.get("identities", 0.0))
        if not hasattr(result.value, "trans_counts"):
            return found
        try:
            return _largest(found, chain_residual(result.value) / limit(_terms(result)))
        except (ValueError, IndexError, TypeError, AttributeError):
            return math.inf

    def total_residual(self, estimator: Any, value: Any) -> float | None:
        """Return how far a folded statistic is from the data's own, in units of its bound.

        None if that is not known: no sums, rows that were left out of some shard, keys that tie statistics.
        """
        tree = _tree(value)
        if tree is None or not self.whole or set(self.data) != set(self.last) or tree != self.key[0]:
            return None
        if self.total is None:
            shards = sorted(self.data)
            data, sizes = (
                _merged(estimator, parts)
                for parts in ([self.data[s][1] for s in shards], [self.sizes[s] for s in shards])
            )
            self.total = math.fsum(self.data[shard][0] for shard in shards), data, sizes
        weight, data, sizes = self.total
        try:
            terms = BLOCK * len(self.data) + math.ceil(weight)
            return residual(_stacked(value), data, weight, sizes) / self._limit(terms, value)
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


def _merged(estimator: Any, parts: list[Any]) -> Any:
    from mixle.stats.stacking.statistic import merge_stacked
    from mixle.stats.stacking.tree import flatten, unify

    nodes = tuple(slot.node for slot in flatten(unify(list(estimator.estimators)[:1])))
    total = parts[0]
    for part in parts[1:]:
        total = merge_stacked(total, part, nodes)
    return total


def _right_hand_sides(
    task: Accumulate, stacked: Iterable[int], compute: Compute
) -> tuple[dict[int, tuple[float, Any]], dict[int, Any]]:
    """Return weight and statistic of all rows of each shard, from a mixture of one component that supports them.

    Then the same with linear features of a sign by their sizes; where that is not known, the statistic stands for it.
    """
    children = list(getattr(task.estimator, "estimators", None) or ())
    components = list(getattr(task.model, "components", None) or getattr(task.model, "topics", None) or ())
    data: dict[int, tuple[float, Any]] = {}
    sizes: dict[int, Any] = {}
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
                sizes[shard] = own
        linear = [shard for shard in missing if shard in data and _has_linear(data[shard][1])]
        sized = compute(Sizes(single.estimator, single.model), linear) if linear else {}
        for shard, result in sized.items():
            if shard in linear and result.error is None and _tree(result.value) is not None:
                sizes[shard] = _stacked(result.value)
    return data, sizes


def _has_linear(statistic: Any) -> bool:
    return any(type(slot).__name__ == "LinearSums" for slot in statistic.slots)


def _single(task: Accumulate, child: Any, component: Any) -> Accumulate | None:
    """Return the E-step of a mixture, a hidden Markov model or an LDA of one component."""
    from mixle import stats

    if type(task.estimator) is stats.MixtureEstimator:
        mixture = stats.MixtureDistribution([component], [1.0])
        return Accumulate(stats.MixtureEstimator([child]), mixture, scored=True)
    if type(task.estimator) is stats.HiddenMarkovEstimator and task.model.terminal_states is None:
        lengths = task.model.len_dist
        chain = stats.HiddenMarkovModelDistribution([component], [1.0], [[1.0]], len_dist=lengths)
        return Accumulate(stats.HiddenMarkovEstimator([child], task.estimator.len_estimator), chain, scored=True)
    if type(task.estimator) is stats.LDAEstimator:
        topic = stats.LDADistribution([component], [1.0], task.model.len_dist)
        return Accumulate(stats.LDAEstimator([child], task.estimator.len_estimator), topic, scored=True)
    return None
