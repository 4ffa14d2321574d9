"""Special functions of whole arrays; scipy is loaded at the first use that needs it."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["digamma", "gammaln", "log_factorial", "trigamma"]

_TABLE_SIZE = 4096
_table: list[np.ndarray] = []


def log_factorial(x: np.ndarray) -> np.ndarray:
    """Return log x! of nonnegative integers held as floats; a table serves the small ones.

    Examples
    --------
    >>> log_factorial(np.array([0.0, 3.0])).round(12).tolist()
    [0.0, 1.791759469228]
    """
    if not len(x):
        return np.zeros(0)
    if x.max() >= _TABLE_SIZE:
        small = x < _TABLE_SIZE
        return np.where(small, log_factorial(np.where(small, x, 0.0)), gammaln(x + 1.0))
    if not _table:
        _table.append(np.array([math.lgamma(j + 1.0) for j in range(_TABLE_SIZE)]))
    return _table[0].take(x.astype(np.intp))


def gammaln(x: np.ndarray) -> np.ndarray:
    """Return the logarithm of the gamma function."""
    from scipy.special import gammaln as scipy_gammaln

    return np.asarray(scipy_gammaln(x))


def digamma(x: float) -> float:
    """Return the derivative of the logarithm of the gamma function at x > 0."""
    from scipy.special import digamma as scipy_digamma

    return float(scipy_digamma(x))


def trigamma(x: float) -> float:
    """Return the second derivative of the logarithm of the gamma function at x > 0."""
    from scipy.special import polygamma

    return float(polygamma(1, x))
