"""The sum in shard order, and key tying, once.

Up to 256 statistics are added left to right; more are added in consecutive groups of 256, then the groups left to
right. The rule is the same on every transport, so a cluster may add up groups in place.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from mixle._trust import trusted
from mixle.utils.parallel.folding.finite import all_finite

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result

__all__ = [
    "GROUP",
    "EStep",
    "GroupSum",
    "checkpointed_fold",
    "finite_guarded_fold",
    "fold_groups",
    "fold_log_densities",
    "fold_numbers",
    "fold_results",
    "fold_values",
    "inject_bit_flip",
]

GROUP = 256


class EStep(NamedTuple):
    """What one pass over the rows under a model leaves.

    Attributes
    ----------
    nobs : float
        Total row weight.
    value : Any
        Folded statistic, keys tied.
    log_density : float
        Summed weighted log-density of the model; NaN if there was no model to score.
    left_out : int
        Rows that no component of the model supports; they are not in `value`.
    """

    nobs: float
    value: Any
    log_density: float
    left_out: int


def fold_numbers(numbers: Sequence[float]) -> float:
    """Return the sum of per-shard numbers by the fold's own grouping.

    Examples
    --------
    >>> fold_numbers([1, 2.5])
    3.5
    """
    groups = [_plain_sum(numbers[start : start + GROUP]) for start in range(0, len(numbers), GROUP)]
    return _plain_sum(groups)


def _plain_sum(numbers: Sequence[float]) -> float:
    """Add from left to right, rounding at every step; builtin `sum` compensates from Python 3.12 on."""
    total = 0.0
    for number in numbers:
        total += float(number)
    return total


def fold_log_densities(results: Sequence[Result]) -> float:
    """Return the summed log-density of a round, NaN where a shard has none."""
    scores = [result.log_density for result in results if result.log_density is not None]
    return fold_numbers(scores) if len(scores) == len(results) else math.nan


class GroupSum(NamedTuple):
    """The sum of one whole group of consecutive shards, folded where they live; keys are not tied yet.

    Attributes
    ----------
    nobs : float
        Weight of the group.
    value : Any
        Its statistic.
    """

    nobs: float
    value: Any


class _Guard:
    """Checks of one fold that name what was folded when a number stopped being finite."""

    def __init__(self, where: str) -> None:
        self.where = where

    def check(self, value: Any, place: str) -> None:
        if not all_finite(value):
            raise ValueError(f"{self.where} {place} contains a non-finite statistic (NaN or inf)")

    def combined(self, accumulator: Any, index: int) -> None:
        self.check(accumulator.value(), f"(payload index {index}, {index + 1} combine() calls so far)")


class _Running:
    """One running group: its accumulator and its weight; it survives a round trip through `value`."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.nobs = 0.0
        self.accumulator = make()

    def add(self, count: float, value: Any) -> None:
        self.nobs += float(count)
        with trusted():
            self.accumulator.combine(value)

    def restore(self) -> None:
        """Write the state down, drop the accumulator, and build it again from what was written."""
        text = pickle.dumps((self.nobs, self.accumulator.value()), protocol=pickle.HIGHEST_PROTOCOL)
        self.nobs, value = pickle.loads(text)
        fresh = self.make()
        self.accumulator = fresh.from_value(value) or fresh


def fold_values(
    estimator: Any, items: Iterable[tuple[float, Any]], checkpoint_after: int | None = None, where: str | None = None
) -> tuple[float, Any]:
    """Add up ``(count, value)`` pairs in the order given and tie keys once.

    Parameters
    ----------
    estimator : Any
        Its accumulators do the adding; they need `combine`, `value` and `from_value` only.
    items : iterable of (float, Any)
        Weight and statistic of each shard, in shard order.
    checkpoint_after : int, optional
        Index after which the running sum is written down and built again.
    where : str, optional
        Guard every step against NaN and infinity; the text names this place.

    Returns
    -------
    nobs : float
        Total weight.
    value : Any
        Total statistic, keys tied.
    """
    make = estimator.accumulator_factory().make
    guard = None if where is None else _Guard(where)
    running, done = _Running(make), []
    for index, (count, value) in enumerate(items):
        if index and index % GROUP == 0:
            done.append((running.nobs, running.accumulator.value()))
            running = _Running(make)
        if guard is not None:
            guard.check(count, f"(payload index {index} count)")
        running.add(count, value)
        if guard is not None:
            guard.check(running.nobs, "(running observation count)")
            guard.combined(running.accumulator, index)
        if index == checkpoint_after:
            done = pickle.loads(pickle.dumps(done, protocol=pickle.HIGHEST_PROTOCOL))
            running.restore()
    if done:
        done.append((running.nobs, running.accumulator.value()))
        running = _sum(make, done)
    return _total(running, guard)


def _sum(make: Callable[[], Any], items: Iterable[tuple[float, Any]]) -> _Running:
    running = _Running(make)
    for count, value in items:
        running.add(count, value)
    return running


def _total(running: _Running, guard: _Guard | None) -> tuple[float, Any]:
    """Tie keys and return the total."""
    _tie(running.accumulator)
    total = running.accumulator.value()
    if guard is not None:
        guard.check(running.nobs, "(running observation count)")
        guard.check(total, "(after key_merge/key_replace)")
    return running.nobs, total


def fold_groups(estimator: Any, results: Sequence[Result], shards: int) -> list[Result]:
    """Fold the whole groups among `results` in place: what a cluster does before anything travels.

    Parameters
    ----------
    estimator : Any
        Its accumulators do the adding.
    results : sequence of Result
        Results of the shards of one place, in shard order, none of them an error.
    shards : int
        Number of shards of the whole fold; up to `GROUP` of them are never grouped.

    Returns
    -------
    list of Result
        The value of the first shard of a whole group is its `GroupSum`, that of its other shards is None. What is no
        whole group is as it was. `fold_results` reads both.
    """
    if shards <= GROUP:
        return list(results)
    make = estimator.accumulator_factory().make
    groups: dict[int, list[Result]] = {}
    for result in results:
        groups.setdefault(result.shard // GROUP, []).append(result)
    folded = []
    for group, members in groups.items():
        if len(members) < min(GROUP, shards - group * GROUP):
            folded += members
            continue
        running = _sum(make, ((result.weight, result.value) for result in members))
        values = [GroupSum(running.nobs, running.accumulator.value()), *[None] * (len(members) - 1)]
        folded += [replace(result, value=value) for result, value in zip(members, values, strict=True)]
    return folded


def _fold_grouped(estimator: Any, ordered: Sequence[Result], guard: _Guard | None) -> tuple[float, Any]:
    """Add up results some of whose groups were folded already."""
    make = estimator.accumulator_factory().make
    sums: list[tuple[float, Any]] = []
    for start in range(0, len(ordered), GROUP):
        members = ordered[start : start + GROUP]
        first = members[0].value
        if not isinstance(first, GroupSum):
            running = _sum(make, ((result.weight, result.value) for result in members))
            first = GroupSum(running.nobs, running.accumulator.value())
        if guard is not None:
            guard.check(tuple(first), f"(shards {members[0].shard} to {members[-1].shard})")
        sums.append(first)
    return _total(_sum(make, sums), guard)


def _tie(accumulator: Any) -> None:
    if getattr(accumulator, "key_merge", None) is None or getattr(accumulator, "key_replace", None) is None:
        return
    from mixle.stats.keys import tie

    tie(accumulator)


def fold_results(
    estimator: Any, results: Iterable[Result], where: str | None = None, guard: bool = False
) -> tuple[float, Any]:
    """Add up the statistics of a round in shard order and tie keys once.

    Parameters
    ----------
    estimator : Any
        Its accumulators do the adding.
    results : iterable of Result
        One per shard, in any order.
    where : str, optional
        Words that name the fold in the guard's message.
    guard : bool
        Check that every step stays finite.

    Returns
    -------
    tuple of (float, Any)
        Total weight and statistic.
    """
    ordered = sorted(results, key=lambda result: result.shard)
    if any(isinstance(result.value, GroupSum) for result in ordered):
        return _fold_grouped(estimator, ordered, _Guard(where or "fold") if guard else None)
    items = ((result.weight, result.value) for result in ordered)
    return fold_values(estimator, items, where=(where or "fold") if guard else None)


def decode(data: bytes) -> tuple[float, Any]:
    """Return ``(count, value)`` from a frame of ours, told by its magic, or from a pickle of the caller's own."""
    from mixle.utils.parallel.folding import payload

    count, value = payload.decode(data, allow_pickle=True) if payload.is_frame(data) else pickle.loads(data)
    return count, value


def _decoded(payloads: Iterable[bytes]) -> Iterator[tuple[float, Any]]:
    return (decode(data) for data in payloads)


def checkpointed_fold(
    estimator: Any, payloads: Sequence[bytes], checkpoint_after: int | None = None
) -> tuple[float, Any]:
    """Fold serialized ``(count, accumulator.value())`` payloads into one sufficient statistic.

    With `checkpoint_after` the running sum is written down through ``value()`` right after that payload, dropped, and
    built again with ``from_value()``. The result has the same bits with or without it: a running sum is a checkpoint.

    Parameters
    ----------
    estimator : Any
        Needs only ``accumulator_factory().make()``; of the accumulator only `combine`, `value` and `from_value`. Key
        passes run if they are there.
    payloads : sequence of bytes
        Pickled ``(count, value)`` pairs, or frames of this library. Pickles are read in full: pass only your own.
    checkpoint_after : int, optional
        Payload index after which the checkpoint is taken.

    Returns
    -------
    nobs : float
        Sum of the counts; 0.0 without payloads.
    value : Any
        The folded statistic; the zero statistic without payloads.

    Examples
    --------
    >>> import pickle
    >>> from mixle.stats import PoissonEstimator
    >>> parts = [pickle.dumps((2.0, (2.0, 5.0))), pickle.dumps((1.0, (1.0, 4.0)))]
    >>> checkpointed_fold(PoissonEstimator(), parts, checkpoint_after=0)
    (3.0, (3.0, 9.0))
    """
    return fold_values(estimator, _decoded(payloads), checkpoint_after)


def finite_guarded_fold(
    estimator: Any, payloads: Sequence[bytes], where: str = "AuditedMPEncodedData.combine"
) -> tuple[float, Any]:
    """Fold as `checkpointed_fold` does, and stop at the first number that is not finite.

    The count, the running count and the running ``value()`` are checked after every ``combine()``, and the final value
    once more after key tying.

    Parameters
    ----------
    estimator : Any
        As for `checkpointed_fold`.
    payloads : sequence of bytes
        As for `checkpointed_fold`.
    where : str
        Words that open the message.

    Returns
    -------
    tuple of (float, Any)
        Total count and statistic.

    Raises
    ------
    ValueError
        ``<where> (payload index i, i+1 combine() calls so far) contains a non-finite statistic (NaN or inf)``.

    Examples
    --------
    >>> import pickle
    >>> from mixle.stats import PoissonEstimator
    >>> finite_guarded_fold(PoissonEstimator(), [pickle.dumps((2.0, (2.0, 5.0)))])
    (2.0, (2.0, 5.0))
    """
    return fold_values(estimator, _decoded(payloads), where=where)


def inject_bit_flip(payload: bytes, bit_offset: int | None = None) -> bytes:
    """Flip exactly one bit of `payload` and return the corrupted bytes.

    Parameters
    ----------
    payload : bytes
        What to corrupt; it is not changed.
    bit_offset : int, optional
        Which bit, taken modulo the number of bits; the middle one by default. Bit 0 is the lowest of byte 0.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        If `payload` is empty.

    Examples
    --------
    >>> inject_bit_flip(bytes(2), 9).hex()
    '0002'
    """
    bits = len(payload) * 8
    if not bits:
        raise ValueError("inject_bit_flip needs a payload of at least one byte, got an empty one")
    offset = (bits // 2 if bit_offset is None else bit_offset) % bits
    corrupted = bytearray(payload)
    corrupted[offset // 8] ^= 1 << (offset % 8)
    return bytes(corrupted)
