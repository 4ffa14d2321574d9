"""Special functions of whole arrays; scipy is loaded at the first use that needs it."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["beta_log", "digamma", "digammas", "gammaln", "log_bessel", "log_factorial", "trigamma", "trigammas"]
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
    """Return the logarithm of the beta function at a, b > 0.

    Where both are large it is Stirling's series in the form that overflows last (A. R. DiDonato, A. H. Morris,
    "Algorithm 708", ACM Transactions on Mathematical Software 18, 1992).

    Examples
    --------
    >>> beta_log(2.0, 3.0) == -math.log(12.0), beta_log(1e100, 1e80)
    (True, -4.705170185988091e+81)
    """
    from scipy.special import betaln

    less, more = min(a, b), max(a, b)
    if less < 1e3 or more < 1e10:
        return float(betaln(a, b))
    ratio = less / more
    rest = (1.0 / less - 1.0 / (30.0 * less * less * less) + 1.0 / more - 1.0 / (less + more)) / 12.0
    apart = (less - 0.5) * (math.log1p(ratio) - math.log(ratio)) + more * math.log1p(ratio)
    return 0.5 * (math.log(2.0 * math.pi) - math.log(more)) + rest - apart


def log_bessel(x: float, order: float = 0.0) -> float:
    """Return log I_v(x) − x at x > 0, v ≥ 0: the scaled function does not overflow.

    Where the scaled function itself underflows, the uniform expansion for large orders is used (F. W. J. Olver, NIST
    Handbook of Mathematical Functions, 2010, 10.41.3).
    """
    from scipy.special import ive

    value = float(ive(order, x))
    if value > 1e-290:
        return math.log(value)
    if x > 1e8 * (1.0 + order * order):  # where the scaled function is not computed, two terms of its expansion do
        return -0.5 * math.log(2.0 * math.pi * x) + math.log1p(-(order - 0.5) * (order + 0.5) / (2.0 * x))
    z = x / order
    root = math.hypot(1.0, z)
    t = 1.0 / root
    series = 1.0 + (3.0 * t - 5.0 * t**3) / (24.0 * order)
    series += (81.0 * t**2 - 462.0 * t**4 + 385.0 * t**6) / (1152.0 * order**2)
    eta = root + math.log(z / (1.0 + root))
    return order * eta - 0.5 * math.log(2.0 * math.pi * order * root) + math.log(series) - x


def bessel_ratio(x: float, order: float = 1.0) -> float:
    """Return I_v(x) / I_{v−1}(x) at x ≥ 0, v > 0, by Gauss's continued fraction where the functions underflow."""
    from scipy.special import ive

    if x == 0.0:
        return 0.0
    below = float(ive(order - 1.0, x))
    if below > 1e-290:
        return float(ive(order, x)) / below
    ratio = 0.0
    for step in range(200, -1, -1):
        ratio = 1.0 / (2.0 * (order + step) / x + ratio)
    return ratio


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
