"""What families of vectors share: priors in pairs, symmetric matrices, and ridges where they are nearly singular."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixle.errors import EmptyDataError
from mixle.stats.cholesky import UNIT, correlation, smallest_eigenvalue
from mixle.stats.domains import nonnegative, numbers_of, parts_of

__all__ = ["as_pair", "dimensioned", "symmetric", "with_ridge", "within_bounds"]

#: Least eigenvalue of a fitted correlation matrix; below it a ridge is added, relative to each diagonal entry.
RIDGE = 2.0**-40


def as_pair(pseudo_count: Any) -> tuple[float | None, float | None]:
    """Return `pseudo_count` as a pair of weights ≥ 0 or None; a single number stands for both."""
    single = not isinstance(pseudo_count, (tuple, list))
    first, second = (pseudo_count, pseudo_count) if single else parts_of(pseudo_count, "pseudo_count", 2)
    return tuple(None if c is None else nonnegative(c, "pseudo_count") for c in (first, second))  # type: ignore[return-value]


def dimensioned(estimator: Any, mean: Any) -> np.ndarray:
    """Return the mean as a vector; without data it is zero, of the dimension that the estimator was given.

    Raises
    ------
    ValueError
        If neither rows nor the estimator tell the dimension.
    """
    if np.ndim(mean):
        return np.asarray(mean, float)
    m0 = estimator.suff_stat[0]
    dim = estimator.dim if estimator.dim is not None else None if m0 is None else len(m0)
    if dim is None:
        name = estimator.leaf.name
        raise EmptyDataError(f"{name}: without rows the dimension is unknown; pass {name}Estimator(dim=...)")
    return np.zeros(dim)


def symmetric(covar: Any, dim: int, what: str) -> np.ndarray:
    """Return a covariance (d, d) made exactly symmetric, read-only; ValueError names `what`."""
    matrix = numbers_of(covar, what)
    if matrix.shape != (dim, dim):
        raise ValueError(f"{what} must have shape ({dim}, {dim}), has {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{what} must be finite")
    variances = np.diagonal(matrix)
    if not (variances > 0.0).all():
        at = int(np.argmin(variances))
        raise ValueError(f"{what} must have positive variances, entry {at} is {float(variances[at])!r}")
    size = np.sqrt(variances)
    if (np.abs(matrix - matrix.T) > 1e-8 * size[:, None] * size).any():
        raise ValueError(f"{what} must be symmetric")
    matrix = np.where(matrix == matrix.T, matrix, 0.5 * matrix + 0.5 * matrix.T)
    matrix.setflags(write=False)
    return matrix


def within_bounds(covar: np.ndarray) -> np.ndarray:
    """Return the covariance made symmetric, no entry larger than its two variances allow."""
    size = np.sqrt(np.maximum(np.diagonal(covar), 0.0))
    bound = size[:, None] * size
    bounded = np.clip(0.5 * covar + 0.5 * covar.T, -bound, bound)
    bounded[np.diag_indices(len(covar))] = np.diagonal(covar)
    return bounded


def with_ridge(covar: np.ndarray, family: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the covariance, with a ridge relative to each variance where it is too near a singular one."""
    matrix = correlation(covar)[1]
    least = max(RIDGE, 64.0 * UNIT * len(covar) ** 2)  # well above where a covariance counts as singular
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(matrix))
        if 1.0 / np.square(inverse).sum() > 4.0 * least:
            return covar, ()
    except np.linalg.LinAlgError:
        pass
    smallest = smallest_eigenvalue(matrix)
    if smallest >= least:
        return covar, ()
    ridge = least - smallest
    covar[np.diag_indices(len(covar))] *= 1.0 + ridge
    return covar, (f"{family}: a ridge of {ridge:.3g} of each variance was added",)
