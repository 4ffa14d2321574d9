"""The fit of a skew-normal law: the likelihood near the last model, from sums over bins.

With ``t = λ (x − loc) / scale`` the log-density is a quadratic of x plus log Φ(t), and t of another model is affine in
t of the last one. A round sums powers of the rows in bins around the last model, fine where log Φ bends. Five terms of
a Taylor series in each bin give the likelihood of any model that is not much steeper; its slope at the last model is
summed exactly, so that the rounds end where the likelihood does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixle.stats.sums import Moments, block_sum

__all__ = ["LARGEST_SHAPE", "SkewLikelihood", "by_moments", "log_normal_cdf", "skew_sums", "third_moment"]

#: Fitted shapes stay within ± this; the likelihood of a small sample may rise with the shape for ever.
LARGEST_SHAPE = 1e3
EDGE = math.asinh(LARGEST_SHAPE)
#: Skewness that a fit by moments takes at most: that of a half-normal law is 0.9953.
LARGEST_SKEWNESS = 0.99
LOG_2PI = math.log(2.0 * math.pi)
_FINE = np.arange(-24, 25) * 0.25
_FAR = 6.0 * 1.5 ** np.arange(1, 31)
_EDGES = np.concatenate([-_FAR[::-1], _FINE, _FAR])
_CENTRES = np.concatenate([_EDGES[:1], 0.5 * (_EDGES[1:] + _EDGES[:-1]), _EDGES[-1:]])
_TERMS = 5


def log_normal_cdf(t: np.ndarray) -> np.ndarray:
    """Return log Φ(t)."""
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(t))


def _mills(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``h = φ(t) / Φ(t)`` and ``t + h``, by Laplace's continued fraction where both terms cancel."""
    x = np.maximum(-t, 4.0)
    tail = x.copy()
    for step in range(60, 1, -1):
        tail = x + step / tail
    with np.errstate(over="ignore", under="ignore"):
        near = np.maximum(t, -5.0)
        h = np.exp(-0.5 * near * near - 0.5 * LOG_2PI - log_normal_cdf(near))
    low = t < -4.0
    return np.where(low, x + 1.0 / tail, h), np.where(low, 1.0 / tail, t + h)


def _derivatives(t: np.ndarray) -> list[np.ndarray]:
    """Return log Φ and its first five derivatives."""
    h, g = _mills(t)
    two = -h * g
    three = -h * (1.0 + two) - two * g
    four = -2.0 * two - t * three - 2.0 * (two * two + h * three)
    five = -3.0 * three - t * four - 2.0 * (3.0 * two * three + h * four)
    return [log_normal_cdf(t), h, two, three, four, five]


def skew_sums(x: np.ndarray, weights: np.ndarray, loc: float, scale: float, shape: float) -> np.ndarray:
    """Return the sums of weighted rows (n,) under a model.

    Returns
    -------
    ndarray, shape (2 + 5 m,)
        Σwh and Σwhy, then the powers 0 to 4 of y about its centre in each of m bins; ``y = max(1, |shape|) z``.
    """
    unit = max(1.0, abs(shape))
    y = np.clip(unit * ((x - loc) / scale), _EDGES[0], _EDGES[-1])
    h = _mills(shape / unit * y)[0]
    bins = np.searchsorted(_EDGES, y)
    rest = y - _CENTRES[bins]
    parts = [np.array([block_sum(h, weights), block_sum(h * y, weights)])]
    term = weights.astype(float)
    for _ in range(_TERMS):
        parts.append(np.bincount(bins, term, len(_CENTRES)))
        term = term * rest
    return np.concatenate(parts)


def third_moment(sums: np.ndarray, mean: float) -> float:
    """Return the weighted sum of cubes of y about `mean`, from binned powers."""
    powers = sums[2:].reshape(_TERMS, -1)
    d = _CENTRES - mean
    return float(np.add.reduce(powers[0] * d**3 + 3.0 * powers[1] * d * d + 3.0 * powers[2] * d + powers[3]))


def by_moments(mean: float, deviation: float, skewness: float) -> tuple[float, float, float]:
    """Return location, scale and shape of the law with these moments.

    Examples
    --------
    >>> by_moments(1.0, 2.0, 0.0)
    (1.0, 2.0, 0.0)
    """
    size = min(abs(skewness), LARGEST_SKEWNESS) ** (2.0 / 3.0)
    square = 0.5 * math.pi * size / (size + (2.0 - 0.5 * math.pi) ** (2.0 / 3.0))
    delta = math.copysign(math.sqrt(square), skewness) if size > 0.0 else 0.0
    scale = deviation / math.sqrt(1.0 - 2.0 * square / math.pi)
    return mean - scale * delta * math.sqrt(2.0 / math.pi), scale, delta / math.sqrt(1.0 - square)


class SkewLikelihood:
    """The log-likelihood of models near the last one, in units of its location and scale.

    Parameters
    ----------
    moments : Moments
        Moments of z.
    sums : ndarray
        What `skew_sums` returned.
    shape : float
        Shape of the last model.
    prior : tuple of ndarray, or None
        Values z and weights of rows that stand for a prior.
    """

    def __init__(self, moments: Moments, sums: np.ndarray, shape: float, prior: Any = None) -> None:
        self.weight, self.mean, self.scatter = moments.weight, moments.mean, moments.scatter
        self.unit = max(1.0, abs(shape))
        self.powers, self.prior = sums[2:].reshape(_TERMS, -1), prior
        self.correction = (0.0, 0.0)
        _, by_step, by_start = self._binned(shape / self.unit, 0.0)
        self.correction = (float(sums[1]) - by_step, float(sums[0]) - by_start)

    def _binned(self, step: float, start: float) -> tuple[float, float, float]:
        """Return Σw log Φ(step · y + start) and its derivatives by both, but for the correction of the slope."""
        d = _derivatives(step * _CENTRES + start)
        total = by_step = by_start = 0.0
        factor = 1.0
        for k in range(_TERMS):
            m = self.powers[k]
            total += factor * float(np.add.reduce(d[k] * m))
            slope = factor * d[k + 1] * m
            by_start += float(np.add.reduce(slope))
            by_step += float(np.add.reduce(slope * _CENTRES))
            if k + 1 < _TERMS:
                by_step += factor * float(np.add.reduce(d[k + 1] * self.powers[k + 1]))
            factor *= step / (k + 1.0)
        return total, by_step, by_start

    def value(self, at: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log-likelihood at (location, log scale, asinh shape), and its gradient."""
        loc, scale, shape = float(at[0]), math.exp(float(at[1])), math.sinh(float(at[2]))
        step, start = shape / (scale * self.unit), -shape * loc / scale
        total, by_step, by_start = self._binned(step, start)
        total += self.correction[0] * step + self.correction[1] * start
        by_step, by_start = by_step + self.correction[0], by_start + self.correction[1]
        off = self.mean - loc
        square = (self.scatter + self.weight * off * off) / (scale * scale)
        total -= self.weight * math.log(scale) + 0.5 * square
        slope = np.array(
            [
                self.weight * off / (scale * scale) - by_start * shape / scale,
                square - self.weight - by_step * step - by_start * start,
                math.cosh(float(at[2])) / scale * (by_step / self.unit - by_start * loc),
            ]
        )
        if self.prior is not None:
            z, weights = self.prior
            more, gradient = _rows(z, weights, loc, scale, shape)
            gradient[2] *= math.cosh(float(at[2]))
            total, slope = total + more, slope + gradient
        return total, slope

    def steep(self, at: np.ndarray) -> bool:
        """Return whether a model is too steep for the bins, or out of bounds."""
        return not abs(math.sinh(float(at[2]))) <= 2.0 * self.unit * math.exp(float(at[1]))

    def climb(self, at: np.ndarray) -> tuple[np.ndarray, float]:
        """Return where the likelihood is highest, climbing from `at`, and how high; the shape stays within bounds."""
        with np.errstate(all="ignore"):  # a law so narrow that its numbers overflow is not likelier
            return self._climb(np.array(at, float))

    def _climb(self, at: np.ndarray) -> tuple[np.ndarray, float]:
        value, slope = self.value(at)
        for _ in range(60):
            move = self._move(at, slope)
            if np.max(np.abs(move)) < 1e-5:  # a value does not tell points so close apart, a slope does
                for _ in range(3):
                    at = self._within(at + self._move(at, self.value(at)[1]))
                return at, self.value(at)[0]
            found = self._higher(at, move, value)
            if found is None:
                break
            at, value, slope = found
        return at, value

    def _higher(self, at: np.ndarray, move: np.ndarray, value: float) -> tuple[np.ndarray, float, np.ndarray] | None:
        """Return the first point on the way back from ``at + move`` that is likelier, its value and slope."""
        for halving in range(40):
            new = self._within(at + 0.5**halving * move)
            if np.max(np.abs(new - at)) <= 3.0 and not self.steep(new):
                reached, slope = self.value(new)
                if reached > value:
                    return new, reached, slope
        return None

    @staticmethod
    def _within(at: np.ndarray) -> np.ndarray:
        return np.asarray([at[0], at[1], min(max(at[2], -EDGE), EDGE)], float)

    def _move(self, at: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return the step of Newton's method; a shape at its bound that would leave it stays."""
        free = np.array([True, True, not (abs(at[2]) >= EDGE and slope[2] * at[2] > 0.0)])
        move = np.zeros(3)
        move[free] = _newton(self._curvature(at)[np.ix_(free, free)], slope[free])
        return move

    def _curvature(self, at: np.ndarray) -> np.ndarray:
        """Return the second derivatives at `at`, by central differences of the gradient."""
        rows = []
        for j in range(3):
            off = np.zeros(3)
            off[j] = 1e-5
            rows.append((self.value(at + off)[1] - self.value(at - off)[1]) / 2e-5)
        found = np.array(rows)
        return np.asarray(0.5 * (found + found.T))


def _newton(curvature: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return the step of Newton's method, uphill along every axis of the curvature."""
    if not (np.isfinite(curvature).all() and np.isfinite(slope).all()):
        return np.zeros(len(slope))
    values, axes = np.linalg.eigh(curvature)
    size = np.maximum(np.abs(values), 1e-9 * np.max(np.abs(values), initial=1e-300))
    found: np.ndarray = axes @ ((axes.T @ slope) / size)
    return found


def _rows(z: np.ndarray, weights: np.ndarray, loc: float, scale: float, shape: float) -> tuple[float, np.ndarray]:
    """Return the log-likelihood of rows and its derivatives by location, log scale and shape."""
    u = (z - loc) / scale
    h = _mills(shape * u)[0]
    total = float(np.add.reduce(weights * (-0.5 * u * u - math.log(scale) + log_normal_cdf(shape * u))))
    pull = u - shape * h
    slopes = (pull / scale, u * pull - 1.0, u * h)
    return total, np.array([float(np.add.reduce(weights * part)) for part in slopes])
