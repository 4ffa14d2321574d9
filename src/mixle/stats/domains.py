"""Domains of parameters, checked at construction with the parameter named."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mixle.stats.refusals import shown
from mixle.stats.sums import exact_sum

__all__ = [
    "LARGEST_FLOAT",
    "VARIANCE_FLOOR",
    "dimension",
    "finite",
    "floor_variance",
    "fraction",
    "integer",
    "labels_of",
    "mapping_of",
    "nonnegative",
    "numbers_of",
    "parts_of",
    "positive",
    "probabilities",
    "scale_parameter",
    "shape_parameter",
    "shape_parameters",
    "smoothed",
    "truth",
    "vector",
    "whole",
]

#: Smallest variance relative to the second moment about zero: below it, the digits of x do not hold a variance.
VARIANCE_FLOOR = 2.0**-80


#: Shapes and concentrations are within this range.
SHAPES = 1e-150, 1e150
#: Scales whose squares divide are at least this.
SMALLEST_SCALE = 1e-150
#: Stands for the coefficient of a scale that is too small to be divided by: an infinity times 0 would make NaN.
LARGEST_FLOAT = float(np.finfo(float).max)

_NO_NUMBERS = (bool, np.bool_, str, bytes)


def parts_of(value: Any, what: str, count: int) -> tuple[Any, ...]:
    """Return the `count` parts of a sequence or array; ValueError names `what`."""
    listed = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    if not (listed or (isinstance(value, np.ndarray) and value.ndim)) or len(value) != count:
        raise ValueError(f"{what} must be a tuple of {count} values, not {shown(value)}")
    return tuple(value)


def mapping_of(value: Any, what: str, holds: str = "numbers") -> dict[Any, Any]:
    """Return a mapping from labels as a dict; TypeError names `what`."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be a mapping of labels to {holds}, as {{'a': ...}}, not {shown(value)}")
    return dict(value)


def labels_of(value: Any, what: str) -> tuple[Any, ...]:
    """Return the labels in an iterable, each once; ValueError names `what`."""
    try:
        if isinstance(value, Iterable):
            return tuple(dict.fromkeys(value))
    except TypeError:  # without a hash, or an array of no dimension
        pass
    raise ValueError(f"{what} must be a list of labels, not {shown(value)}")


def truth(value: Any, what: str) -> bool:
    """Return `value` as a bool; ValueError names `what` where it has no truth."""
    try:
        return bool(value)
    except ValueError:
        raise ValueError(f"{what} must be True or False, not {shown(value)}") from None


def numbers_of(value: Any, what: str) -> np.ndarray:
    """Return a copy of `value` as float64; text and booleans are no numbers."""
    array = isinstance(value, np.ndarray)
    if not array or value.dtype.kind not in "iuf":
        entries = value.ravel().tolist() if array else np.asarray(value, object).ravel().tolist()
        wrong = [entry for entry in entries if isinstance(entry, _NO_NUMBERS)]
        if wrong:
            raise ValueError(f"{what} must hold numbers, not {shown(wrong[0])}")
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{what} must hold numbers, is {shown(value)}") from None


def finite(value: Any, what: str) -> float:
    """Return `value` as a finite float; ValueError names `what`."""
    try:
        number = math.nan if isinstance(value, _NO_NUMBERS) else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be a number, not {shown(value)}") from None
    except OverflowError:
        raise ValueError(f"{what} must be a number that float64 can hold, not {shown(value)}") from None
    if not math.isfinite(number):
        kind = "a number" if isinstance(value, _NO_NUMBERS) else "finite"
        raise ValueError(f"{what} must be {kind}, not {shown(value)}")
    return number


def positive(value: Any, what: str) -> float:
    """Return `value` as a finite float > 0."""
    number = finite(value, what)
    if number <= 0.0:
        raise ValueError(f"{what} must be positive, not {shown(value)}")
    return number


def shape_parameter(value: Any, what: str) -> float:
    """Return `value` as a float in `SHAPES`: one without a unit, whose log-gamma function has to be a number."""
    number = finite(value, what)
    if not SHAPES[0] <= number <= SHAPES[1]:
        raise ValueError(f"{what} must be positive, from {SHAPES[0]} to {SHAPES[1]}, not {shown(value)}")
    return number


def shape_parameters(value: Any, what: str) -> np.ndarray:
    """Return `value` as a vector of such numbers, shape (d,)."""
    array = vector(value, what)
    for number in array.tolist():
        shape_parameter(number, f"each entry of {what}")
    return array


def scale_parameter(value: Any, what: str) -> float:
    """Return `value` as a finite float > 0 whose square is a number above 0 too."""
    number = positive(value, what)
    if number < SMALLEST_SCALE:
        raise ValueError(f"{what} must be at least {SMALLEST_SCALE}, so that its square is above 0, not {shown(value)}")
    return number


def nonnegative(value: Any, what: str) -> float:
    """Return `value` as a finite float ≥ 0."""
    number = finite(value, what)
    if number < 0.0:
        raise ValueError(f"{what} must not be negative, is {shown(value)}")
    return number


def fraction(value: Any, what: str) -> float:
    """Return `value` as a float in [0, 1]."""
    number = finite(value, what)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{what} must lie in [0, 1], is {shown(value)}")
    return number


def integer(value: Any, what: str) -> int:
    """Return `value` as an int; 2.0 is one, a truth value is none."""
    try:
        number = None if isinstance(value, _NO_NUMBERS) or value != int(value) else int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        raise ValueError(f"{what} must be an integer, not {shown(value)}")
    return number


def dimension(value: Any) -> int | None:
    """Return a number of entries, or None if it is not given."""
    return None if value is None else whole(value, "dim", 1)


def whole(value: Any, what: str, least: int) -> int:
    """Return `value` as an int of at least `least`; booleans and broken numbers are refused."""
    try:
        number = least - 1 if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{what} must be a whole number of at least {least}, not {shown(value)}")
    return number


def vector(value: Any, what: str) -> np.ndarray:
    """Return `value` as a finite float64 array of shape (d,), d ≥ 1, read-only."""
    array = numbers_of(value, what)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{what} must be a vector, has shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite, entry {int(np.argmin(np.isfinite(array)))} is not")
    array.setflags(write=False)
    return array


def probabilities(value: Any, what: str) -> np.ndarray:
    """Return `value` as probabilities of shape (k,): a sum off one by up to 1e-6 is scaled away.

    Raises
    ------
    ValueError
        If an entry is negative or not finite, or the sum is further off.
    """
    array = numbers_of(value, what)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{what} must be a vector of probabilities, has shape {array.shape}")
    if not np.isfinite(array).all() or (array < 0.0).any():
        bad = int(np.argmax(~np.isfinite(array) | (array < 0.0)))
        raise ValueError(f"{what} must be probabilities, entry {bad} is {shown(array[bad])}")
    total = exact_sum(array)
    if abs(total - 1.0) > 1e-6:
        raise ValueError(f"{what} must sum to one, the sum is {shown(total)}")
    if abs(total - 1.0) > 4 * array.size * np.finfo(float).eps:
        array /= total
    array.setflags(write=False)
    return array


def smoothed(
    estimator: Any, weight: float, mean: Any, scatter: Any, square: Callable[[Any], Any] = lambda y: y**2
) -> tuple[Any, Any]:
    """Return the mean and the variance, or covariance, of a normal law from moments and the prior of `estimator`.

    Parameters
    ----------
    estimator : estimator of a normal law
        Its `pseudo_count` and `suff_stat` are pairs: for the mean, and for the spread.
    weight, mean, scatter
        Moments about the mean.
    square : callable
        Square, or outer product, of a deviation.
    """
    (c_mean, c_var), (m0, v0) = estimator.pseudo_count, estimator.suff_stat
    if c_mean and m0 is not None:
        new = (weight * mean + c_mean * m0) / (weight + c_mean)
        mean, scatter = new, scatter + weight * square(mean - new)  # the scatter about the new mean
    if c_var and v0 is not None:
        shift = 0.0 if m0 is None else square(m0 - mean)
        return mean, (scatter + c_var * (v0 + shift)) / (weight + c_var)
    return mean, scatter / weight if weight > 0.0 else 0.0 * scatter


def floor_variance(mean: Any, variance: Any, min_covar: float | None) -> tuple[Any, bool]:
    """Return the variance with its floor, and whether the floor was used.

    `min_covar` is absolute. By default the floor is ``2^-80 (mean² + variance)``, and 1e-8 where that is zero: a
    maximum, so that EM stays monotone.
    """
    plain = min_covar is None and type(mean) is float and type(variance) is float
    if plain and 0.0 < VARIANCE_FLOOR * (mean * mean + variance) < variance:  # as below, without arrays
        return variance, False
    if min_covar is not None:
        floor: Any = np.full_like(np.asarray(variance, float), min_covar)
    else:
        floor = VARIANCE_FLOOR * (np.square(mean) + variance)
        floor = np.where(floor > 0.0, floor, 1e-8)
    raised = np.maximum(variance, floor)
    return (float(raised) if np.ndim(raised) == 0 else raised), bool(np.any(raised > variance))
