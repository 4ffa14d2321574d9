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
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.utils.parallel.folding.tasks import Accumulate, Sizes
from mixle.utils.parallel.policies.conservation import BLOCK, Wanted, chain_residual, form, limit, residual

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result

__all__ = ["Invariants", "chain_residual", "limit", "residual"]

REMEMBERED = 64  # sets of shards whose sums are kept laid out
TRIES = 3  # components that are tried for the right-hand side

MISFIT = (ValueError, IndexError, TypeError, AttributeError)  # what numbers of other shapes than the data's lead to

Compute = Callable[[Accumulate, list[int]], Mapping[int, "Result"]]


def _largest(one: float, other: float) -> float:
    return max(one, other) if math.isfinite(one) and math.isfinite(other) else math.inf


def _data_form(data: Any) -> tuple[Any, ...]:
    """Return `form` of the data's own sums, and which of them there is any weight behind."""
    weighed = [bool(np.any(slot[0])) for slot in data.slots if type(slot).__name__ == "Moments"]
    return *form(data), *weighed


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
    total = float(np.add.reduce(counts, axis=None))
    return max(result.rows, int(total)) if math.isfinite(total) else result.rows


class Invariants:
    """The data's own sums of each shard, and the check of a round against them."""

    def __init__(self) -> None:
        self.key: Any = None
        self.data: dict[int, tuple[float, Any]] = {}
        self.sizes: dict[int, Any] = {}
        self.slack: dict[int, float] = {}
        self.last: dict[int, float] = {}
        self.total: tuple[int, Wanted] | None = None
        self.alike: dict[tuple[int, ...], list[list[int]]] = {}
        self.wanted: dict[tuple[int, ...], Wanted] = {}
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
        tree = next((tree for result in results.values() if (tree := _tree(result.value)) is not None), None)
        if tree is not None and (tree, task.estimator.__class__) != self.key:
            self._learn(task, tree, [s for s, result in results.items() if _tree(result.value) is not None], compute)
        self.whole = bool(self.data) and not any(r.receipt.get("left_out", 0) for r in results.values())
        self.last = dict.fromkeys(results, 0.0)
        for shard, found in self._sums(results).items():
            self.last[shard] = found / self._limit(_terms(results[shard]), results[shard].value)
        for shard, result in results.items():
            if own := self._own(result):
                self.last[shard] = _largest(self.last[shard], own)
        return sorted(s for s, found in self.last.items() if not found <= self.slack.get(s, 1.0))

    def _learn(self, task: Accumulate, tree: Any, stacked: list[int], compute: Compute) -> None:
        """Take the data's own sums of shards."""
        self.key, self.slack, self.total = (tree, task.estimator.__class__), {}, None
        self.alike, self.wanted = {}, {}
        self.data, self.sizes = _right_hand_sides(task, stacked, compute)

    def _limit(self, terms: int, value: Any) -> float:
        """Return the bound of so many terms; only mixtures on their own compute in float32."""
        return limit(terms, self.precision if _stacked(value) is value else "float64")

    def _sums(self, results: Mapping[int, Result]) -> dict[int, float]:
        """Return the residual of each shard whose sums are known, in units of 2^-53 of the terms."""
        told = (s for s, result in results.items() if s in self.data and not result.receipt.get("left_out", 0))
        found: dict[int, float] = {}
        for shards in self._groups(tuple(sorted(told))):
            found.update(self._of_group(shards, [_stacked(results[shard].value) for shard in shards]))
        return found

    def _groups(self, shards: tuple[int, ...]) -> list[list[int]]:
        """Return the shards in groups whose own sums are of one form."""
        groups = self.alike.get(shards)
        if groups is None:
            by_form: dict[Any, list[int]] = {}
            for shard in shards:
                by_form.setdefault(_data_form(self.data[shard][1]), []).append(shard)
            if len(self.alike) >= REMEMBERED:
                self.alike.clear()
            groups = self.alike[shards] = list(by_form.values())
        return groups

    def _of_group(self, shards: list[int], ours: list[Any]) -> dict[int, float]:
        """Return the residual of each shard of a group; where shapes or tables are unlike, of each form by itself."""
        try:
            return dict(zip(shards, self._wanted(shards).residuals(ours).tolist(), strict=True))
        except MISFIT:
            found = dict.fromkeys(shards, math.inf)
        by_form: dict[Any, list[tuple[int, Any]]] = {}
        for shard, one in zip(shards, ours, strict=True):
            with suppress(*MISFIT):
                by_form.setdefault(form(one), []).append((shard, one))
        for alike in by_form.values():
            some = [shard for shard, _ in alike]
            with suppress(*MISFIT):
                found.update(zip(some, self._wanted(some).residuals([one for _, one in alike]).tolist(), strict=True))
        return found

    def _wanted(self, shards: list[int]) -> Wanted:
        """Return what the statistics of some shards have to add up to."""
        wanted = self.wanted.get(key := tuple(shards))
        if wanted is None:
            if len(self.wanted) >= REMEMBERED:
                self.wanted.clear()
            weights = [self.data[shard][0] for shard in shards]
            data, sizes = [self.data[shard][1] for shard in shards], [self.sizes[shard] for shard in shards]
            wanted = self.wanted[key] = Wanted(data, weights, sizes)
        return wanted

    def _own(self, result: Result) -> float:
        """Return what a result says of itself, in units of the bound."""
        found: float = result.receipt.get("identities", 0.0)
        if not hasattr(result.value, "trans_counts"):
            return found
        try:
            return _largest(found, chain_residual(result.value) / limit(_terms(result)))
        except MISFIT:
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
            weight = math.fsum(self.data[shard][0] for shard in shards)
            self.total = BLOCK * len(self.data) + math.ceil(weight), Wanted([data], [weight], [sizes])
        terms, wanted = self.total
        try:
            return float(wanted.residuals([_stacked(value)])[0]) / self._limit(terms, value)
        except MISFIT:
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
                self.alike, self.wanted = {}, {}


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
