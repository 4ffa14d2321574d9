"""Cholesky factors that keep their digits, and the words for a covariance that has none.

LAPACK's factor of a matrix of condition κ scores rows with a relative error of about u·κ. Where that is too much the
factor is computed again in double-double arithmetic (T. J. Dekker, "A floating-point technique for extending the
available precision", Numerische Mathematik 18, 1971); what is left is u·√κ, from storing it.
"""

from __future__ import annotations

import numpy as np

from mixle._limits import one_blas_thread

__all__ = ["UNIT", "cholesky", "correlation", "smallest_eigenvalue"]

#: Unit roundoff of float64.
UNIT = 2.0**-53
#: A factor whose forward error bound in a score exceeds this is computed again.
LOSS = 1e-11
SPLIT = 134217729.0  # 2**27 + 1
_DROP = "drop columns that depend on others, or add to its diagonal"

Double = tuple[np.ndarray, np.ndarray]


def correlation(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(scale, matrix)``: powers of two near the standard deviations, and the matrix divided by them.

    The division is exact; diagonal entries of the result lie in [1, 4).
    """
    scale = np.exp2(np.floor(0.5 * np.log2(np.diagonal(covariance))))
    return scale, covariance / scale[:, None] / scale


def smallest_eigenvalue(matrix: np.ndarray) -> float:
    """Return the smallest eigenvalue of a symmetric matrix relative to its diagonal."""
    d = 1.0 / np.sqrt(np.diagonal(matrix))
    return float(np.linalg.eigvalsh(matrix * d[:, None] * d)[0])


@one_blas_thread()
def cholesky(covariance: np.ndarray, what: str = "covar") -> np.ndarray:
    """Return the lower factor L of a covariance, ``L Lᵀ = covariance``, shape (d, d).

    Parameters
    ----------
    covariance : ndarray, shape (d, d)
        Symmetric, positive on the diagonal.
    what : str
        Its name in messages.

    Raises
    ------
    ValueError
        If it is singular to working precision (the rank is named) or has a negative direction.

    Examples
    --------
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    d = len(covariance)
    scale, matrix = correlation(covariance)
    try:
        factor = np.linalg.cholesky(matrix)
        inverse = np.linalg.inv(factor)
    except np.linalg.LinAlgError:
        factor, inverse = None, None
    if factor is None or inverse is None or not 1.0 / np.square(inverse).sum() > 64.0 * d * UNIT:
        _refuse_singular(matrix, what)
    if inverse is not None and factor is not None:
        skeel = float((np.abs(inverse) @ np.abs(factor)).sum(axis=1).max())
        if UNIT * skeel * skeel <= LOSS:
            return np.asarray(scale[:, None] * factor)
    return np.asarray(scale[:, None] * _double_cholesky(matrix, what))


def _refuse_singular(matrix: np.ndarray, what: str) -> None:
    d = 1.0 / np.sqrt(np.diagonal(matrix))
    values = np.linalg.eigvalsh(matrix * d[:, None] * d)
    size = len(values)
    threshold = 4.0 * size * UNIT * values[-1]
    if values[0] < -threshold:
        raise ValueError(
            f"{what} is no covariance: its correlation matrix has the negative eigenvalue {values[0]:.3g}; "
            "pass a positive definite matrix, for example np.cov(rows.T)"
        )
    rank = int((values > threshold).sum())
    if rank < size:
        raise ValueError(f"{what} is singular: rank {rank} of {size}; {_DROP}")


def _two_sum(a: np.ndarray, b: np.ndarray) -> Double:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _quick(a: np.ndarray, b: np.ndarray) -> Double:
    s = a + b
    return s, b - (s - a)


def _two_product(a: np.ndarray, b: np.ndarray) -> Double:
    p = a * b
    c, e = SPLIT * a, SPLIT * b
    a1, b1 = c - (c - a), e - (e - b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _multiply(a: Double, b: Double) -> Double:
    p, e = _two_product(a[0], b[0])
    return _quick(p, e + (a[0] * b[1] + a[1] * b[0]))


def _subtract(a: Double, b: Double) -> Double:
    s, e = _two_sum(a[0], -b[0])
    return _quick(s, e + (a[1] - b[1]))


def _divide(a: Double, b: Double) -> Double:
    q = a[0] / b[0]
    rest = _subtract(a, _multiply(b, (q, np.zeros_like(q))))
    return _quick(q, (rest[0] + rest[1]) / b[0])


def _root(a: Double) -> Double:
    x = np.sqrt(a[0])
    p, e = _two_product(x, x)
    return _quick(x, ((a[0] - p) + (a[1] - e)) / (2.0 * x))


def _double_cholesky(matrix: np.ndarray, what: str) -> np.ndarray:
    """Return the factor of a matrix with diagonal near one, computed in double-double arithmetic."""
    d = len(matrix)
    high, low = matrix.copy(), np.zeros_like(matrix)
    factor = np.zeros_like(matrix)
    for j in range(d):
        if not high[j, j] > 0.0:
            raise ValueError(f"{what} is singular: column {j} is a combination of those before it; {_DROP}")
        pivot = _root((high[j, j], low[j, j]))
        column = _divide((high[j:, j], low[j:, j]), pivot)
        factor[j:, j] = column[0]
        below = (column[0][1:, None], column[1][1:, None])
        across = (column[0][None, 1:], column[1][None, 1:])
        rest = (high[j + 1 :, j + 1 :], low[j + 1 :, j + 1 :])
        high[j + 1 :, j + 1 :], low[j + 1 :, j + 1 :] = _subtract(rest, _multiply(below, across))
    return factor
