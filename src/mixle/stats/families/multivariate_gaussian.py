"""The normal law of a vector with a full covariance."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.cholesky import cholesky
from mixle.stats.contract import DistributionSampler
from mixle.stats.covariance import dimensioned, symmetric, with_ridge, within_bounds
from mixle.stats.domains import floor_variance, smoothed, vector
from mixle.stats.given import needed
from mixle.stats.kinds import FullNormalLeaf
from mixle.stats.leaf import LeafDistribution, repaired
from mixle.stats.sums import Moments
from mixle.stats.vector_normal import VectorNormalEstimator

__all__ = ["MultivariateGaussianDistribution", "MultivariateGaussianEstimator", "MultivariateGaussianSampler"]


class _MultivariateGaussian(FullNormalLeaf):
    name: ClassVar[str] = "MultivariateGaussian"


class MultivariateGaussianDistribution(LeafDistribution):
    """Normal distribution of a vector, ``exp(−(x − μ)ᵀ Σ⁻¹ (x − μ) / 2) / √|2πΣ|``.

    Parameters
    ----------
    mu : array_like, shape (d,)
        Mean.
    covar : array_like, shape (d, d)
        Covariance, symmetric and positive definite.
    name, keys
        Label and tying key.
    covariance : array_like, optional
        Another name of `covar`.
    prior : conjugate law, optional
        Law of the parameters; the estimator of this distribution fits under it.

    Attributes
    ----------
    dim : int
        Number of entries d.
    chol : ndarray, shape (d, d)
        Lower Cholesky factor of `covar`.
    log_det : float
        Log of the determinant of `covar`.

    Raises
    ------
    ValueError
        If shapes do not fit, an entry is not finite, or `covar` is not symmetric or singular (its rank is named).

    References
    ----------
    Kotz, Balakrishnan and Johnson, "Continuous Multivariate Distributions" 1, chapter 45, 2000.

    Examples
    --------
    >>> d = MultivariateGaussianDistribution([0.0, 0.0], [[2.0, 1.0], [1.0, 2.0]])
    >>> round(d.log_density([0.0, 0.0]), 12)
    -2.387183210743
    >>> MultivariateGaussianDistribution([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]])
    Traceback (most recent call last):
        ...
    ValueError: covar of a MultivariateGaussian is singular: rank 1 of 2; drop columns that ...
    """

    _fields = ("mu", "covar")

    def __init__(
        self,
        mu: Any,
        covar: Any = None,
        name: str | None = None,
        keys: Any = None,
        covariance: Any = None,
        prior: Any = None,
    ) -> None:
        covar = needed("MultivariateGaussian", covar=covar, covariance=covariance)
        self.mu = vector(mu, "mu of a MultivariateGaussian")
        self.dim = len(self.mu)
        self.covar = symmetric(covar, self.dim, "covar of a MultivariateGaussian")
        self.chol = cholesky(self.covar, "covar of a MultivariateGaussian")
        self.chol.setflags(write=False)
        self.log_det = 2.0 * float(np.add.reduce(np.log(np.diagonal(self.chol))))
        self.leaf = _MultivariateGaussian(self.dim)
        self._finish(name, keys, prior)

    @property
    def inv_covar(self) -> np.ndarray:
        """Return the inverse of the covariance, (d, d)."""
        if "_cached_inv_covar" not in self.__dict__:
            inverse = np.linalg.inv(self.chol)
            self.__dict__["_cached_inv_covar"] = inverse.T @ inverse
        return np.asarray(self.__dict__["_cached_inv_covar"])

    def sampler(self, seed: int | None = None) -> MultivariateGaussianSampler:
        """Return a sampler."""
        return MultivariateGaussianSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> MultivariateGaussianEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's parameters as a prior, unless it has one."""
        pseudo_count = self._weight(pseudo_count)
        if pseudo_count is None:
            return self._under_prior(MultivariateGaussianEstimator(self.dim, name=self.name, keys=self.keys))
        pair = (pseudo_count, pseudo_count)
        return self._under_prior(
            MultivariateGaussianEstimator(self.dim, pair, (self.mu, self.covar), self.name, self.keys)
        )


class MultivariateGaussianSampler(DistributionSampler):
    """Sampler of a `MultivariateGaussianDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return an array of shape (d,), or of shape (size, d)."""
        drawn = self.rng.standard_normal((1 if size is None else size, self.dist.dim))
        drawn = self.dist.mu + drawn @ self.dist.chol.T
        return drawn[0] if size is None else drawn


class MultivariateGaussianEstimator(VectorNormalEstimator):
    """Estimator of a `MultivariateGaussianDistribution`.

    Parameters
    ----------
    dim : int, optional
        Number of entries d; by default that of the rows.
    pseudo_count : (float, float), optional
        Weights of the prior mean and the prior covariance; each is used only with its entry of `suff_stat`.
    suff_stat : (array_like, array_like), optional
        Prior mean (d,) and prior covariance (d, d).
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        `NormalWishartDistribution` of mean and precision, or `NormalInverseWishartDistribution`;
        the likeliest law is fitted, with the posterior as its prior.
    min_covar : float, optional
        Least eigenvalue of the covariance; smaller ones are raised to it.
    ridge : float, optional
        Share of each variance that is added to it, whether the covariance needs it or not.

    Notes
    -----
    Without `min_covar` each variance has the floor of `GaussianEstimator`, and where the correlation matrix has an
    eigenvalue below 2^-40 just the ridge that lifts it there is added, relative to each variance. Both are told by the
    model's `numerical_repairs`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    >>> MultivariateGaussianEstimator().estimate(None, (rows.sum(0), rows.T @ rows, 4.0)).covar
    array([[1., 0.],
           [0., 1.]])
    """

    leaf_type = _MultivariateGaussian

    def _prior_spread(self, value: Any) -> np.ndarray:
        return symmetric(value, len(value), "suff_stat")

    @one_blas_thread()
    def _estimate(self, stat: Moments) -> MultivariateGaussianDistribution:
        mean, scatter = dimensioned(self, stat.mean), np.asarray(stat.scatter, float)
        mean, covar = smoothed(self, float(stat.weight), mean, scatter, lambda y: np.multiply.outer(y, y))
        covar = within_bounds(np.array(np.broadcast_to(covar, (len(mean), len(mean)))))
        if self.ridge:
            covar[np.diag_indices(len(mean))] *= 1.0 + self.ridge
        covar, notes = self._floored(mean, covar)
        covar, more = with_ridge(covar, "MultivariateGaussian")
        return repaired(MultivariateGaussianDistribution(mean, covar, self.name, self.keys), *notes, *more)

    def _floored(self, mean: np.ndarray, covar: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
        if self.min_covar is not None:
            values, vectors = np.linalg.eigh(covar)
            if values[0] >= self.min_covar:
                return covar, ()
            lifted = (vectors * np.maximum(values, self.min_covar)) @ vectors.T
            return 0.5 * (lifted + lifted.T), ("MultivariateGaussian: an eigenvalue was raised to min_covar",)
        variances, floored = floor_variance(mean, np.diagonal(covar), None)
        if not floored:
            return covar, ()
        raised = variances > np.diagonal(covar)
        covar[raised, :] = covar[:, raised] = 0.0  # what is left of a constant column is rounding
        covar[np.diag_indices(len(mean))] = variances
        return covar, ("MultivariateGaussian: a variance was raised to its floor",)
