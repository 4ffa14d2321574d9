"""Special functions of whole arrays; scipy is loaded at the first use that needs it."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["beta_log", "digamma", "digammas", "gammaln", "log_bessel_i0", "log_factorial", "trigamma", "trigammas"]
__all__ += ["bessel_ratio", "rising_log"]

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


def digammas(x: np.ndarray) -> np.ndarray:
    """Return `digamma` of each entry."""
    from scipy.special import digamma as scipy_digamma

    return np.asarray(scipy_digamma(x))


def trigammas(x: np.ndarray) -> np.ndarray:
    """Return `trigamma` of each entry."""
    from scipy.special import polygamma

    return np.asarray(polygamma(1, x))


def beta_log(a: float, b: float) -> float:
    """Return the logarithm of the beta function at a, b > 0."""
    from scipy.special import betaln

    return float(betaln(a, b))


def log_bessel_i0(x: float) -> float:
    """Return log I₀(x) at x ≥ 0, less x: the scaled function does not overflow."""
    from scipy.special import i0e

    return math.log(i0e(x))


def bessel_ratio(x: float) -> float:
    """Return I₁(x) / I₀(x) at x ≥ 0."""
    from scipy.special import i0e, i1e

    return float(i1e(x) / i0e(x))


def rising_log(x: np.ndarray, r: float) -> np.ndarray:
    """Return ``log Γ(x + r) − log Γ(r)`` at x ≥ 0, r > 0, with the digits of the difference.

    Where r is large the two terms cancel: from 50 on the difference of Stirling's series is used.

    Examples
    --------
    >>> rising_log(np.array([0.0, 2.0]), 1e9).round(9).tolist()
    [0.0, 41.446531675]
    """
    if r < 50.0:
        return np.asarray(gammaln(x + r) - math.lgamma(r))
    high = x + r
    series = (1.0 / high - 1.0 / r) / 12.0 - (high**-3.0 - r**-3.0) / 360.0 + (high**-5.0 - r**-5.0) / 1260.0
    return np.asarray((high - 0.5) * np.log1p(x / r) + x * (math.log(r) - 1.0) + series)
