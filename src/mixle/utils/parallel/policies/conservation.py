"""How far the statistics of components are from what they have to add up to, in units of rounding."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Wanted", "chain_residual", "form", "limit", "residual"]

UNIT = 2.0**-53
SINGLE = 2.0**29  # units of float32 in those
BLOCK = 2048  # rows per block of the E-step

Terms: TypeAlias = tuple[np.ndarray, np.ndarray]  # errors, and the sizes of the terms that they are measured by
Check: TypeAlias = Callable[[Sequence[Any]], Iterator[Terms]]


@functools.lru_cache(maxsize=1024)
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
    return float(Wanted([data], [weight], [data if sizes is None else sizes]).residuals([statistic])[0])


class Wanted:
    """What the statistics of some shards have to add up to, laid out once for all rounds.

    Parameters
    ----------
    data : sequence of StackedStatistic
        The data's own, one per shard, of equal `form`.
    weights : sequence of float
        Weight of the rows of each shard.
    sizes : sequence of StackedStatistic
        The same from features without their signs; see `residual`.
    """

    def __init__(self, data: Sequence[Any], weights: Sequence[float], sizes: Sequence[Any]) -> None:
        self.weights = np.array(weights, float)[:, None]
        self.checks: list[Check | None] = []
        slots = (zip(*(one.slots for one in many), strict=True) for many in (data, sizes))
        for theirs, terms in zip(*slots, strict=True):
            make = _CHECKS.get(type(theirs[0]).__name__)
            self.checks.append(None if make is None else make(theirs, terms))

    def residuals(self, statistics: Sequence[Any]) -> np.ndarray:
        """Return the largest residual (S,) of each shard's statistic, in units of 2^-53 of the terms added up.

        Raises
        ------
        ValueError, IndexError, TypeError, AttributeError
            If their shapes, or their tables, are not alike, or not those of the data.
        """
        count = len(statistics)
        with np.errstate(all="ignore"):  # corrupted numbers may be of any size
            totals = np.add.reduce(_field(statistics, "counts"), axis=1, keepdims=True)
            errors, scales = [totals - self.weights], [self.weights]
            slots = zip(*(one.slots for one in statistics), strict=True)
            for check, ours in zip(self.checks, slots, strict=True):
                for error, scale in () if check is None else check(ours):
                    errors.append(error.reshape(count, -1))
                    scales.append(scale.reshape(count, -1))
            return _ratios(np.concatenate(errors, axis=1), np.concatenate(scales, axis=1))


def _ratios(error: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return max |error| / (unit · scale) of each row; an error where nothing was added up is infinite."""
    ratio = np.abs(error) / (UNIT * np.abs(scale))
    ratio[error == 0.0] = 0.0
    return np.asarray(np.maximum.reduce(ratio, axis=1, initial=0.0))


def _field(slots: Sequence[Any], name: str) -> np.ndarray:
    """Return one array of each slot as an array with one axis more, of floats."""
    parts = [getattr(slot, name) for slot in slots]
    if len({part.shape for part in parts}) != 1:
        raise ValueError(f"the {name} of these statistics are not of one shape")
    return np.concatenate(parts).reshape(len(parts), *parts[0].shape).astype(float, copy=False)


def _linear(theirs: Sequence[Any], sizes: Sequence[Any]) -> Check:
    weight, wanted = _field(theirs, "weight"), _field(theirs, "sums")[:, 0]
    own = np.abs(_field(sizes, "sums")[:, 0])

    def check(ours: Sequence[Any]) -> Iterator[Terms]:
        given = _field(ours, "sums")
        yield np.add.reduce(_field(ours, "weight"), axis=1, keepdims=True) - weight, weight
        terms = np.maximum(np.add.reduce(np.abs(given), axis=1), own) + own
        yield np.add.reduce(given, axis=1) - wanted, terms

    return check


def _gates(theirs: Sequence[Any], _: Sequence[Any], names: tuple[str, ...] | None = None) -> Check:
    wanted = {name: _field(theirs, name)[:, 0] for name in names or theirs[0]._fields}

    def check(ours: Sequence[Any]) -> Iterator[Terms]:
        for name, total in wanted.items():
            yield np.add.reduce(_field(ours, name), axis=1) - total, total

    return check


def _codes(theirs: Sequence[Any], _: Sequence[Any]) -> Check:
    wanted, others = _field(theirs, "counts")[:, 0], theirs[0].labels

    def check(ours: Sequence[Any]) -> Iterator[Terms]:
        names = ours[0].labels
        if not all(one.labels is names or one.labels == names for one in ours):
            raise ValueError("these statistics have unlike labels")
        sums = np.add.reduce(_field(ours, "counts"), axis=1)
        if names != others:
            place = {label: i for i, label in enumerate(names)}
            if place.keys() != set(others):
                yield np.full(wanted.shape, math.inf), np.ones(wanted.shape)
                return
            sums = sums[:, [place[label] for label in others]]
        yield sums - wanted, wanted

    return check


def _moments(theirs: Sequence[Any], _: Sequence[Any]) -> Check:
    """Compare weight, mean and scatter about the data's own mean, so that an offset costs no digits."""
    total = _field(theirs, "weight")
    weighed = bool(total.all())  # of a shard without weight there are no means
    own, centre, wanted = _field(theirs, "shift")[:, 0], _field(theirs, "centre"), _field(theirs, "scatter")[:, 0]
    own_second, own_step = total * np.square(own), np.abs(total * own)
    own_shift = own[:, None]

    def check(ours: Sequence[Any]) -> Iterator[Terms]:
        weight = _field(ours, "weight")
        yield np.add.reduce(weight, axis=1, keepdims=True) - total, total
        if not weighed:
            return
        w, shift, scatter = weight[:, :, None], _field(ours, "shift"), _field(ours, "scatter")
        delta = (_field(ours, "centre") - centre) + (shift - own_shift)
        full = scatter.ndim == 4
        diagonal = np.diagonal(scatter, axis1=2, axis2=3) if full else scatter
        squares = w * np.square(delta)
        second = np.add.reduce(diagonal + w * np.square(shift) + squares, axis=1) + own_second
        steps = np.add.reduce(w * (np.abs(shift) + np.abs(delta)), axis=1) + own_step
        # full scatters are turned to the model's axes and back, a product on each side that costs digits
        changes = 8.0 * second.shape[1] if full else 1.0
        yield np.add.reduce(w * delta, axis=1), changes * (np.sqrt(total * second) + steps)
        if full:
            between = np.swapaxes(w * delta, 1, 2) @ delta
            error = np.add.reduce(scatter, axis=1) + between - wanted
            yield error, changes * np.sqrt(second[:, :, None] * second[:, None, :])
        else:
            yield np.add.reduce(diagonal + squares, axis=1) - wanted, second + wanted

    return check


_CHECKS: dict[str, Callable[[Sequence[Any], Sequence[Any]], Check]] = {
    "LinearSums": _linear,
    "OptionalWeights": _gates,
    "ShellWeights": _gates,
    "CensoredWeights": functools.partial(_gates, names=("exact", "censored")),
    "ZeroWeights": functools.partial(_gates, names=("weight", "zeros")),  # what is expected depends on the model
    "CodeCounts": _codes,
    "Moments": _moments,
}


def form(statistic: Any) -> tuple[Any, ...]:
    """Return what must be equal of statistics that are looked at together: shapes and tables."""
    found: list[Any] = [statistic.counts.shape]
    for slot in statistic.slots:
        kind = type(slot).__name__
        if kind == "CodeCounts":
            found += slot.labels, slot.counts.shape
        elif kind in _CHECKS:
            found += (np.shape(part) for part in slot if isinstance(part, np.ndarray))
    return tuple(found)


def chain_residual(statistic: Any) -> float:
    """Return how far the counts of a hidden chain are from each other, in units of 2^-53 of the terms added up.

    Every element but the first is moved to: counts of states less initial counts are the column sums of the counts of
    transitions.
    """
    with np.errstate(all="ignore"):
        state, first = np.asarray(statistic.state_counts), np.asarray(statistic.init_counts)
        moves = np.asarray(statistic.trans_counts)
        total = np.add.reduce(np.abs(state))
        errors = [state - first - np.add.reduce(moves, axis=0)]
        if hasattr(statistic.emissions, "counts"):
            errors.append(state - statistic.emissions.counts)
        error = np.concatenate(errors)[None]
        return float(_ratios(error, np.full(error.shape, total))[0])
