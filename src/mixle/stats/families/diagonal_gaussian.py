"""The normal law of a vector with independent entries."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import DistributionSampler
from mixle.stats.covariance import dimensioned
from mixle.stats.domains import floor_variance, smoothed, vector
from mixle.stats.given import needed
from mixle.stats.kinds import MatrixRows, SquareLeaf
from mixle.stats.leaf import LeafDistribution, repaired
from mixle.stats.sums import Moments
from mixle.stats.vector_normal import VectorNormalEstimator

__all__ = ["DiagonalGaussianDistribution", "DiagonalGaussianEstimator", "DiagonalGaussianSampler"]


class _DiagonalGaussian(MatrixRows, SquareLeaf):
    name: ClassVar[str] = "DiagonalGaussian"
    vector: ClassVar[bool] = True

    def location(self, dist: Any) -> tuple[np.ndarray, np.ndarray]:
        return dist.mu, dist.covar


class DiagonalGaussianDistribution(LeafDistribution):
    """Normal distribution of a vector with independent entries, ``Π exp(−(xⱼ − μⱼ)² / 2σⱼ²) / √(2πσⱼ²)``.

    Parameters
    ----------
    mu : array_like, shape (d,)
        Means.
    covar : array_like, shape (d,)
        Variances, > 0.
    name, keys
        Label and tying key.
    covariance : array_like, optional
        Another name of `covar`.
    prior : conjugate law, optional
        Law of the parameters; the estimator of this distribution fits under it.

    Raises
    ------
    ValueError
        If the shapes differ, an entry is not finite, or a variance is not positive.

    References
    ----------
    C. M. Bishop, "Pattern Recognition and Machine Learning", section 2.3, 2006.

    Examples
    --------
    >>> DiagonalGaussianDistribution([0.0, 1.0], [1.0, 2.0]).log_density([0.0, 1.0])
    -2.184450656689318
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
        self.mu = vector(mu, "mu of a DiagonalGaussian")
        self.covar = vector(
            needed("DiagonalGaussian", covar=covar, covariance=covariance), "covar of a DiagonalGaussian"
        )
        if len(self.mu) != len(self.covar):
            raise ValueError(
                f"mu has {len(self.mu)} entries and covar {len(self.covar)}; a DiagonalGaussian needs as many"
            )
        if not (self.covar > 0.0).all():
            raise ValueError(f"covar of a DiagonalGaussian must be positive, entry {int(np.argmin(self.covar))} is not")
        self.dim = len(self.mu)
        self.leaf = _DiagonalGaussian(self.dim)
        self._finish(name, keys, prior)

    def sampler(self, seed: int | None = None) -> DiagonalGaussianSampler:
        """Return a sampler."""
        return DiagonalGaussianSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> DiagonalGaussianEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's parameters as a prior, unless it has one."""
        pseudo_count = self._weight(pseudo_count)
        count, prior = (None, None), (None, None)
        if pseudo_count is not None:
            return self._under_prior(
                DiagonalGaussianEstimator(
                    self.dim, (pseudo_count, pseudo_count), (self.mu, self.covar), self.name, self.keys
                )
            )
        return self._under_prior(DiagonalGaussianEstimator(self.dim, count, prior, self.name, self.keys))


class DiagonalGaussianSampler(DistributionSampler):
    """Sampler of a `DiagonalGaussianDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return an array of shape (d,), or a list of `size` such arrays."""
        shape = (1 if size is None else size, self.dist.dim)
        drawn = self.dist.mu + np.sqrt(self.dist.covar) * self.rng.standard_normal(shape)
        return drawn[0] if size is None else list(drawn)


class DiagonalGaussianEstimator(VectorNormalEstimator):
    """Estimator of a `DiagonalGaussianDistribution`, column by column as `GaussianEstimator`.

    Parameters
    ----------
    dim : int, optional
        Number of entries d; by default that of the rows.
    pseudo_count : (float, float), optional
        Weights of the prior means and the prior variances; each is used only with its entry of `suff_stat`.
    suff_stat : (array_like, array_like), optional
        Prior means and prior variances, shape (d,).
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        `NormalGammaDistribution` of means and precisions, its parameters numbers or vectors (d,);
        the likeliest law is fitted, with the posterior as its prior.
    min_covar : float, optional
        Absolute floor of the variances; by default 2^-80 of the second moment about zero.
    ridge : float, optional
        Accepted: a floor relative to the variance itself, which is never below it.

    Examples
    --------
    >>> import numpy as np
    >>> moments = (np.array([2.0, 4.0]), np.array([4.0, 10.0]), 2.0)
    >>> DiagonalGaussianEstimator().estimate(None, moments).covar
    array([1., 1.])
    """

    leaf_type = _DiagonalGaussian

    def _prior_spread(self, value: Any) -> np.ndarray:
        return vector(value, "suff_stat")

    def _estimate(self, stat: Moments) -> DiagonalGaussianDistribution:
        mean, scatter = dimensioned(self, stat.mean), np.asarray(stat.scatter, float)
        mean, variance = smoothed(self, float(stat.weight), mean, scatter)
        variance, floored = floor_variance(mean, np.broadcast_to(variance, mean.shape), self.min_covar)
        model = DiagonalGaussianDistribution(mean, variance, self.name, self.keys)
        return repaired(model, "DiagonalGaussian: a variance was raised to its floor") if floored else model
