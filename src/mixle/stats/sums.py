"""Sums that keep their digits: blocks, anchored second moments, and statistics that know how to scale.

A second moment is kept about a centre as ``Moments(weight, centre, shift, scatter)``: the mean is ``centre + shift``
and `scatter` is the weighted sum of squares about the mean. Two of them merge exactly by the update of
Chan, Golub and LeVeque (1983, The American Statistician 37), with the difference of the centres taken first.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

__all__ = [
    "BLOCK",
    "Moments",
    "Numbers",
    "block_sum",
    "block_sums",
    "exact_sum",
    "exponentials",
    "merge_moments",
    "raw_moments",
    "scale_suff_stat",
    "signed_suff_stat",
    "weighted_moments",
]

#: Rows that are worked on at a time. It is part of the bits of every sum.
BLOCK = 2048


def block_sum(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the sum of a vector, over fixed blocks and then over the blocks.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        What to add.
    weights : ndarray of float64, shape (n,), optional
        Factor of each value; a value of weight zero does not count, even if it is infinite.

    Examples
    --------
    >>> block_sum(np.array([1.0, 2.0, -np.inf]), np.array([1.0, 2.0, 0.0]))
    5.0
    """
    total = 0.0
    for start in range(0, len(values), BLOCK):
        part = values[start : start + BLOCK]
        if weights is not None:
            factor = weights[start : start + BLOCK]
            part = np.where(factor > 0.0, part, 0.0) * factor
        total += float(np.add.reduce(part))
    return total


def block_sums(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return ``block_sum(values, w)`` for each row w of `weights` (K, n), shape (K,) and with its bits."""
    total = np.zeros(len(weights))
    for start in range(0, len(values), BLOCK):
        factor = np.ascontiguousarray(weights[:, start : start + BLOCK])
        total += np.add.reduce(np.where(factor > 0.0, values[start : start + BLOCK], 0.0) * factor, axis=1)
    return total


#: Up to so many numbers are added by `math.fsum` itself; past so many, or above that size, a bucket might overflow.
FEW, MOST, _LARGE = 4096, 1 << 26, 1e290
#: The exponents of `numpy.frexp` are larger than this.
_LOWEST = -1080


def exact_sum(values: np.ndarray) -> float:
    """Return ``math.fsum(values)``, the exact sum rounded once, in array operations.

    Mantissas are cut into halves of 27 and 26 bits, and those of equal exponents are added: each of these sums is
    exact, and `math.fsum` adds what they come to.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        What to add.

    Examples
    --------
    >>> exact_sum(np.array([1.0, 1e100, 1.0, -1e100]))
    2.0
    """
    if not FEW < len(values) <= MOST or not np.abs(values).max() < _LARGE:
        return math.fsum(values.tolist())
    mantissas, exponents = np.frexp(values)
    mantissas *= 2.0**27
    high = np.trunc(mantissas)
    mantissas -= high
    mantissas *= 2.0**26
    exponents -= _LOWEST
    parts: list[float] = []
    for half, shift in ((high, 27), (mantissas, 53)):
        sums = np.bincount(exponents, half)
        seen = np.flatnonzero(sums)
        parts += map(math.ldexp, sums[seen].tolist(), (seen + (_LOWEST - shift)).tolist())
    return math.fsum(parts)


#: Exponentials below that of this are taken as 0: what is left of them after a division would be subnormal, and
#: subnormal numbers make exponentials and products several times as slow.
UNDERFLOW = -690.0


def exponentials(x: np.ndarray) -> None:
    """Replace `x` by its exponentials; in float64 those below 1e-299 become 0.

    Examples
    --------
    >>> x = np.array([0.0, -600.0, -700.0, -np.inf])
    >>> exponentials(x)
    >>> x.tolist() == [1.0, np.exp(-600.0), 0.0, 0.0]
    True
    """
    if x.dtype != np.float64:  # where nothing is gained
        np.exp(x, out=x)
        return
    flat = x.reshape(-1)  # a copy, if `x` is not in one piece
    low = flat < UNDERFLOW
    count = np.count_nonzero(low)
    if 3 * count > x.size:
        kept = np.flatnonzero(np.logical_not(low, out=low))
        values = np.exp(flat.take(kept))
        flat.fill(0.0)
        flat[kept] = values
    elif count:
        gone = np.flatnonzero(low)
        flat[gone] = 0.0
        np.exp(flat, out=flat)
        flat[gone] = 0.0
    else:
        np.exp(flat, out=flat)
    if not np.may_share_memory(flat, x):
        np.copyto(x, flat.reshape(x.shape))


#: A number, or an array of them; so a statistic declares its layout.
Numbers: TypeAlias = Any


class Moments(NamedTuple):
    """Weighted first and second moments about a centre.

    Attributes
    ----------
    weight : float or ndarray, shape (K,)
        Sum of weights.
    centre, shift : float or ndarray, shape (d,) or (K, d)
        The mean is ``centre + shift``.
    scatter : float or ndarray, shape (d,), (K, d) or (K, d, d)
        Weighted sum of squares (or outer products) about the mean.
    """

    weight: Numbers
    centre: Numbers
    shift: Numbers
    scatter: Numbers

    def scaled(self, c: float) -> Moments:
        """Return the moments with every weight multiplied by `c` ≥ 0; weight 0 is the zero statistic."""
        if c == 0.0:
            return Moments(_zero(self.weight), _zero(self.centre), _zero(self.shift), _zero(self.scatter))
        return Moments(_copy(self.weight) * c, _copy(self.centre), _copy(self.shift), _copy(self.scatter) * c)

    def copy(self) -> Moments:
        """Return moments that share no array with this one."""
        return Moments(*map(_copy, self))

    @property
    def mean(self) -> Any:
        """Return ``centre + shift``."""
        return self.centre + self.shift


def _copy(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def _zero(x: Any) -> Any:
    return np.zeros_like(x) if isinstance(x, np.ndarray) else 0.0


def _lift(weight: Any, like: Any) -> Any:
    """Return `weight` with axes added so that it broadcasts over `like`."""
    if not isinstance(weight, np.ndarray) or not weight.ndim:
        return weight
    extra = np.ndim(like) - weight.ndim
    return weight.reshape(weight.shape + (1,) * extra) if extra > 0 else weight


def merge_moments(a: Moments, b: Moments) -> Moments:
    """Return the moments of both samples; a zero weight is an exact neutral element on either side.

    Parameters
    ----------
    a, b : Moments
        Scalars, vectors, or stacks of either over a leading component axis. A weight of exactly the float 0.0
        fits any shape.
    """
    if np.ndim(b.weight) == 0 and b.weight == 0.0:
        return a.copy()
    if np.ndim(a.weight) == 0 and a.weight == 0.0:
        return b.copy()
    if np.shape(a.centre) != np.shape(b.centre) and 0 in (np.size(a.centre), np.size(b.centre)):
        return (b if np.size(b.centre) else a).copy()  # a chunk without a row does not know how wide rows are
    weight = a.weight + b.weight
    delta = (b.centre - a.centre) + (b.shift - a.shift)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(np.equal(b.weight, 0.0), 0.0, b.weight / weight)
    shift = a.shift + delta * _lift(share, delta)
    between = a.weight * share
    full = np.ndim(a.scatter) > np.ndim(a.shift)
    spread = delta[..., :, None] * delta[..., None, :] if full else delta * delta
    scatter = a.scatter + b.scatter + spread * _lift(between, spread)
    if np.ndim(weight) == 0:
        return Moments(float(weight), _copy(a.centre), _plain(shift), _plain(scatter))
    if np.all(a.weight) and np.all(b.weight):
        return Moments(weight, _copy(a.centre), shift, scatter)
    # where one side is empty the other is kept as it is, centre included
    only_b, only_a = np.equal(a.weight, 0.0), np.equal(b.weight, 0.0)

    def pick(mixed: Any, of_a: Any, of_b: Any) -> np.ndarray:
        return np.asarray(np.where(_lift(only_b, mixed), of_b, np.where(_lift(only_a, mixed), of_a, mixed)))

    return Moments(
        weight,
        pick(a.centre, a.centre, b.centre),
        pick(shift, a.shift, b.shift),
        pick(scatter, a.scatter, b.scatter),
    )


def _plain(x: Any) -> Any:
    return float(x) if np.ndim(x) == 0 else np.asarray(x)


def weighted_moments(x: np.ndarray, weights: np.ndarray, centre: Any, full: bool = False) -> Moments:
    """Return the moments of rows `x`, in two passes over blocks.

    Parameters
    ----------
    x : ndarray of float64, shape (n,) or (n, d)
        Rows.
    weights : ndarray of float64, shape (n,)
        Weights ≥ 0.
    centre : float or ndarray, shape (d,)
        What the mean is told from.
    full : bool
        Keep the full (d, d) scatter instead of its diagonal.
    """
    lift = weights if x.ndim == 1 else weights[:, None]
    blocks = [slice(s, s + BLOCK) for s in range(0, len(x), BLOCK)]
    # the order of a sum follows the layout of its array: rows of any layout are brought to one
    buffer, other = np.empty((2, min(BLOCK, len(x)), *x.shape[1:]))
    total, first = 0.0, np.zeros(x.shape[1:])
    for block in blocks:
        y = np.subtract(x[block], centre, out=buffer[: len(x[block])])
        y *= lift[block]
        total += float(np.add.reduce(weights[block]))
        first = first + np.add.reduce(y, axis=0)
    if total == 0.0:
        return Moments(0.0, 0.0, 0.0, 0.0)
    shift = first / total
    # rows are compared with the rounded mean; what rounding left over is taken out of the scatter again
    rest, scatter = np.zeros(x.shape[1:]), np.zeros(x.shape[1:] * 2 if full else x.shape[1:])
    for block in blocks:
        y = np.subtract(x[block], centre, out=buffer[: len(x[block])])
        y -= shift
        weighted = np.multiply(y, lift[block], out=other[: len(y)])
        rest = rest + np.add.reduce(weighted, axis=0)
        scatter = scatter + (weighted.T @ y if full else np.add.reduce(np.multiply(weighted, y, out=weighted), axis=0))
    rest = rest / total
    scatter = scatter - total * (np.multiply.outer(rest, rest) if full else rest * rest)
    return Moments(total, _copy(centre), _plain(shift + rest), _plain(scatter))


def raw_moments(first: Any, second: Any, count: float, full: bool = False) -> Moments:
    """Return the moments behind raw sums ``(Σwx, Σwx², Σw)``.

    Raises
    ------
    ValueError
        If the sums imply a negative variance by more than rounding.
    """
    if count == 0.0 or first is None:
        return Moments(0.0, 0.0, 0.0, 0.0)
    first, second = np.asarray(first, float), np.asarray(second, float)
    mean = first / count
    scatter = second - (np.multiply.outer(first, mean) if full else first * mean)
    diagonal = np.diagonal(scatter) if full else scatter
    size = np.diagonal(second) if full else second
    if np.any(diagonal < -64 * np.finfo(float).eps * np.abs(size)):
        raise ValueError(
            "the second moment is smaller than the square of the first, a negative variance; pass sums of the same rows"
        )
    if not full:
        scatter = np.maximum(scatter, 0.0)
    return Moments(float(count), _plain(mean), _plain(np.zeros_like(mean)), _plain(scatter))


def scale_suff_stat(x: Any, c: float) -> Any:
    """Return the statistic `x` with every additive part multiplied by `c`.

    Statistics that know their parts (`Moments`, a stacked mixture's, a uniform's) scale themselves; in others
    every number and array is multiplied, labels and None stay.

    Parameters
    ----------
    x : object
        What an accumulator's `value` returned.
    c : float
        Factor ≥ 0.

    Raises
    ------
    ValueError
        If `c` is negative or not finite.

    Examples
    --------
    >>> scale_suff_stat((2.0, {"a": 4.0}, None), 0.5)
    (1.0, {'a': 2.0}, None)
    """
    if not (math.isfinite(c) and c >= 0):
        raise ValueError(f"a statistic is scaled by a finite number ≥ 0, not {c!r}")
    return _scaled(x, float(c))


def signed_suff_stat(x: Any, c: float) -> Any:
    """Return the statistic `x` times any finite number `c`; below 0 it is no rows' statistic, only a term of a sum."""
    return _scaled(x, float(c))


def _scaled(x: Any, c: float) -> Any:
    own = getattr(x, "scaled", None)
    if own is not None:
        return own(c)
    if x is None or isinstance(x, (str, bytes, bool)):
        return x
    if isinstance(x, dict):
        return {key: _scaled(item, c) for key, item in x.items()}
    if isinstance(x, tuple):
        items = [_scaled(item, c) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    if isinstance(x, list):
        return [_scaled(item, c) for item in x]
    return x * c
