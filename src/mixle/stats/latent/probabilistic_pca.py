"""Probabilistic principal components: normal vectors whose covariance is a few directions and noise."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mixle._limits import one_blas_thread
from mixle.errors import EmptyDataError
from mixle.stats.cholesky import cholesky
from mixle.stats.domains import dimension, integer, nonnegative, numbers_of, positive, vector
from mixle.stats.families.multivariate_gaussian import MultivariateGaussianSampler
from mixle.stats.kinds import FullNormalLeaf
from mixle.stats.leaf import LeafDistribution, LeafEstimator, repaired
from mixle.stats.sums import Moments

__all__ = ["ProbabilisticPCADistribution", "ProbabilisticPCAEstimator", "ProbabilisticPCASampler"]


class _ProbabilisticPCA(FullNormalLeaf):
    name: ClassVar[str] = "ProbabilisticPCA"


#: Covariances are below this.
LARGEST = 1e300


class ProbabilisticPCADistribution(LeafDistribution):
    """Normal law of a vector ``x = w z + mu + noise``: z of q standard normal numbers, noise of variance sigma2.

    Parameters
    ----------
    w : array_like, shape (d, q)
        Directions; the covariance is ``w wᵀ + sigma2 I``.
    mu : array_like, shape (d,)
        Mean.
    sigma2 : float
        Variance of the noise, > 0.
    name : str, optional
        Label carried along.
    keys : hashable, optional
        Tying key.

    Raises
    ------
    ValueError
        If shapes do not fit, or there are as many directions as entries.

    References
    ----------
    M. E. Tipping, C. M. Bishop, "Probabilistic principal component analysis", Journal of the Royal Statistical Society
    B 61, 1999.

    Examples
    --------
    >>> d = ProbabilisticPCADistribution([[1.0], [1.0]], [0.0, 0.0], 0.5)
    >>> d.covar.tolist(), d.transform([2.5, 2.5]).round(6).tolist()
    ([[1.5, 1.0], [1.0, 1.5]], [2.0])
    """

    _fields = ("w", "mu", "sigma2")

    @one_blas_thread()
    def __init__(self, w: Any, mu: Any, sigma2: float, name: str | None = None, keys: Any = None) -> None:
        self.mu, self.sigma2 = vector(mu, "mu of a ProbabilisticPCA"), positive(sigma2, "sigma2 of a ProbabilisticPCA")
        self.w, self.dim = numbers_of(w, "w of a ProbabilisticPCA"), len(self.mu)
        if self.w.ndim != 2 or len(self.w) != self.dim or not 0 < self.w.shape[1] < self.dim:
            raise ValueError(
                f"w of a ProbabilisticPCA of {self.dim} entries must have shape ({self.dim}, q) with q from 1 to "
                f"{self.dim - 1}, has {self.w.shape}"
            )
        if not np.isfinite(self.w).all():
            raise ValueError("w of a ProbabilisticPCA must be finite")
        with np.errstate(over="ignore", invalid="ignore"):
            self.covar = self.w @ self.w.T + self.sigma2 * np.eye(self.dim)
        if not np.abs(self.covar).max() < LARGEST:
            raise ValueError(f"w and sigma2 of a ProbabilisticPCA must give a covariance below {LARGEST}")
        self.covar = 0.5 * (self.covar + self.covar.T)
        self.chol = cholesky(self.covar, "the covariance of a ProbabilisticPCA")
        for array in (self.w, self.covar, self.chol):
            array.setflags(write=False)
        self.leaf = _ProbabilisticPCA(self.dim)
        self._finish(name, keys)

    @property
    def latent_dim(self) -> int:
        """Return the number of directions q."""
        return int(self.w.shape[1])

    def transform(self, x: Any) -> np.ndarray:
        """Return the expected coordinates of rows (d,) or (n, d) along the directions, (q,) or (n, q)."""
        inner = self.w.T @ self.w + self.sigma2 * np.eye(self.latent_dim)
        return np.asarray(np.linalg.solve(inner, self.w.T @ (np.asarray(x, float) - self.mu).T).T)

    def sampler(self, seed: int | None = None) -> ProbabilisticPCASampler:
        """Return a sampler."""
        return ProbabilisticPCASampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> ProbabilisticPCAEstimator:
        """Return the estimator; `pseudo_count` weighs this law's mean and covariance as a prior."""
        prior = None if pseudo_count is None else (self.mu, self.covar)
        return ProbabilisticPCAEstimator(
            self.latent_dim, self.dim, name=self.name, keys=self.keys, pseudo_count=pseudo_count, suff_stat=prior
        )


class ProbabilisticPCASampler(MultivariateGaussianSampler):
    """Sampler of a `ProbabilisticPCADistribution`."""


class ProbabilisticPCAEstimator(LeafEstimator):
    """Maximum-likelihood estimator of a `ProbabilisticPCADistribution`.

    Parameters
    ----------
    latent_dim : int
        Number of directions q, below the number of entries.
    dim : int, optional
        Number of entries d; by default that of the rows.
    min_sigma2 : float
        Least variance of the noise.
    name : str, optional
        Label of the fitted distribution.
    keys : hashable, optional
        Tying key.
    pseudo_count : float, optional
        Weight of the prior, used with `suff_stat`.
    suff_stat : (array_like (d,), array_like (d, d)), optional
        Prior mean and covariance.

    Notes
    -----
    The directions are the leading eigenvectors of the covariance, scaled by ``sqrt(λ − sigma2)``, the largest entry of
    each positive; sigma2 is the mean of the other eigenvalues (Tipping and Bishop 1999, J. R. Stat. Soc. B 61).

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.0, 0.0], [2.0, 1.0], [-2.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    >>> d = ProbabilisticPCAEstimator(1).estimate(None, (rows.sum(0), rows.T @ rows, 5.0))
    >>> d.w.round(4).tolist(), round(d.sigma2, 4)
    ([[1.1494], [0.348]], 0.6789)
    """

    _fields = ("latent_dim",)
    _keyword_fields = ("dim", "min_sigma2", "name", "keys", "pseudo_count", "suff_stat")

    def __init__(
        self,
        latent_dim: int,
        dim: int | None = None,
        min_sigma2: float = 1e-12,
        name: str | None = None,
        keys: Any = None,
        pseudo_count: float | None = None,
        suff_stat: Any = None,
    ) -> None:
        self.latent_dim, self.dim = integer(latent_dim, "latent_dim"), dimension(dim)
        if self.latent_dim < 1 or (self.dim is not None and self.latent_dim >= self.dim):
            raise ValueError(f"latent_dim must be at least 1 and below the number of entries, is {latent_dim!r}")
        self.min_sigma2 = positive(min_sigma2, "min_sigma2")
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None
        if suff_stat is not None:
            self.suff_stat = (vector(suff_stat[0], "suff_stat"), numbers_of(suff_stat[1], "suff_stat"))
        self.name, self.keys = name, keys
        self.leaf = _ProbabilisticPCA(self.dim)

    @one_blas_thread()
    def _estimate(self, stat: Moments) -> ProbabilisticPCADistribution:
        weight, scatter = float(stat.weight), np.asarray(stat.scatter, float)
        mean = np.asarray(stat.mean, float)
        if mean.ndim == 0:
            known = self.dim if self.suff_stat is None else len(self.suff_stat[0])
            if known is None:
                raise EmptyDataError("ProbabilisticPCA: without rows the dimension is unknown; pass dim=")
            mean, scatter = np.zeros(known), np.zeros((known, known))
        if self.latent_dim >= len(mean):
            raise ValueError(f"latent_dim={self.latent_dim} must be below the {len(mean)} entries of a row")
        if self.pseudo_count and self.suff_stat is not None:
            m0, v0 = self.suff_stat
            total, away = weight + self.pseudo_count, m0 - mean
            between = weight * self.pseudo_count / total
            scatter = scatter + self.pseudo_count * v0 + between * np.multiply.outer(away, away)
            mean, weight = mean + away * (self.pseudo_count / total), total
        return self._decomposed(mean, scatter / weight if weight > 0.0 else scatter)

    def _decomposed(self, mean: np.ndarray, covar: np.ndarray) -> ProbabilisticPCADistribution:
        values, vectors = np.linalg.eigh(0.5 * (covar + covar.T))
        rest, found = values[: -self.latent_dim], values[-self.latent_dim :][::-1]
        size = float(np.mean(np.maximum(values, 0.0)))
        least = max(self.min_sigma2, 2.0**-40 * size)
        noise = float(np.mean(rest))
        sigma2 = max(noise, least)
        w = vectors[:, -self.latent_dim :][:, ::-1] * np.sqrt(np.maximum(found - sigma2, 0.0))
        sign = np.sign(w[np.argmax(np.abs(w), axis=0), np.arange(self.latent_dim)])
        model = ProbabilisticPCADistribution(w * np.where(sign < 0.0, -1.0, 1.0), mean, sigma2, self.name, self.keys)
        return repaired(model, "ProbabilisticPCA: sigma2 was raised to its floor") if noise < least else model
