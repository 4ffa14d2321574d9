"""What estimators of normal laws of a vector share: a prior mean, a prior spread, and a floor."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from mixle.stats.covariance import as_pair
from mixle.stats.domains import dimension, nonnegative, parts_of, positive, vector
from mixle.stats.leaf import LeafEstimator

__all__ = ["VectorNormalEstimator"]


class VectorNormalEstimator(LeafEstimator):
    """Estimator of a normal law of a vector.

    Parameters
    ----------
    dim : int, optional
        Number of entries d; by default that of the rows.
    pseudo_count : (float, float), optional
        Weights of the prior mean and the prior spread; each is used only with its entry of `suff_stat`.
    suff_stat : (array_like, array_like), optional
        Prior mean (d,), and prior variances (d,) or covariance (d, d).
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        Law of the parameters.
    min_covar : float, optional
        Floor of the variances.
    ridge : float, optional
        Share of each variance that is added to it, off the diagonal nothing.
    """

    leaf_type: ClassVar[Any]
    _fields = ("dim",)
    _keyword_fields = ("pseudo_count", "suff_stat", "name", "keys", "prior", "min_covar", "ridge")

    def __init__(
        self,
        dim: int | None = None,
        pseudo_count: Any = (None, None),
        suff_stat: Any = (None, None),
        name: str | None = None,
        keys: Any = None,
        prior: Any = None,
        min_covar: float | None = None,
        ridge: float | None = None,
    ) -> None:
        self.dim = dimension(dim)
        self.pseudo_count = as_pair(pseudo_count)
        m0, v0 = (None, None) if suff_stat is None else parts_of(suff_stat, "suff_stat", 2)
        self.suff_stat = (
            None if m0 is None else vector(m0, "suff_stat"),
            None if v0 is None else self._prior_spread(v0),
        )
        self.name, self.keys = name, keys
        self.min_covar = None if min_covar is None else positive(min_covar, "min_covar")
        self.ridge = None if ridge is None else nonnegative(ridge, "ridge")
        self.leaf = self.leaf_type(self.dim)
        self._take_prior(prior, any(self.pseudo_count))

    @abstractmethod
    def _prior_spread(self, value: Any) -> np.ndarray:
        """Return the prior variances or covariance."""
