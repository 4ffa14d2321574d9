"""Rows that are zero, and which laws count."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from mixle.stats.together import all_densities

__all__ = ["counts", "is_continuous", "zero_densities", "zero_density", "zero_rows"]

#: Leaves whose density is a probability.
_COUNTING = frozenset({"Bernoulli", "Binomial", "Categorical", "Geometric", "IntegerCategorical", "NegativeBinomial"})
_COUNTING |= {"PointMass", "Poisson", "DirichletMultinomial", "Multinomial", "IntegerMultinomial"}
_COUNTING |= {"BernoulliSet", "IntegerBernoulliSet"}


def zero_rows(rows: Sequence[Any]) -> np.ndarray:
    """Return which rows are the number zero, shape (n,).

    Examples
    --------
    >>> zero_rows([0, 1.0, -0.0, "0"]).tolist()
    [True, False, True, False]
    """
    if isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "biuf":
        return np.asarray(rows == 0)
    found = (isinstance(value, (Number, np.generic)) and bool(value == 0) for value in rows)
    return np.fromiter(found, bool, len(rows))


def _leaves(dist: Any) -> list[Any]:
    """Return the leaves that the value of one row comes from; None stands for a law that is no leaf."""
    leaf = getattr(dist, "leaf", None)
    if leaf is not None:
        return [leaf]
    parts = getattr(dist, "components", None) or getattr(dist, "estimators", None)
    return [None] if parts is None else [leaf for part in parts for leaf in _leaves(part)]


def counts(dist: Any) -> bool:
    """Return whether a law (or an estimator's) is known to be one of single values, each with a probability."""
    return all(leaf is not None and leaf.name in _COUNTING for leaf in _leaves(dist))


def is_continuous(dist: Any) -> bool:
    """Return whether `dist` is known to have a density over numbers."""
    return any(leaf is not None and leaf.name not in _COUNTING for leaf in _leaves(dist))


def zero_densities(dists: Sequence[Any]) -> np.ndarray:
    """Return `zero_density` of each of K laws of one kind, shape (K,).

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, PoissonDistribution
    >>> zero_densities([PoissonDistribution(2.0), PoissonDistribution(3.0)]).tolist()
    [-2.0, -3.0]
    >>> zero_densities([GaussianDistribution(0.0, 1.0)]).tolist()
    [-inf]
    """
    if is_continuous(dists[0]):
        return np.full(len(dists), -np.inf)
    return all_densities(dists, dists[0].dist_to_encoder().seq_encode([0]))[:, 0]


def zero_density(dist: Any) -> float:
    """Return the logarithm of the probability of zero under `dist`: -inf where it has a density over numbers."""
    return -np.inf if is_continuous(dist) else float(dist.log_density(0))
