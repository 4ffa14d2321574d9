"""Mixtures of normal laws of vectors, by their means and covariances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.families.diagonal_gaussian import DiagonalGaussianDistribution, DiagonalGaussianEstimator
from mixle.stats.families.multivariate_gaussian import MultivariateGaussianDistribution, MultivariateGaussianEstimator
from mixle.stats.latent.mixture import MixtureDistribution, MixtureEstimator

__all__ = ["GaussianMixtureDistribution", "GaussianMixtureEstimator"]


class GaussianMixtureDistribution(MixtureDistribution):
    """Mixture ``Σ_k w_k N(x; μ_k, Σ_k)`` of K normal laws of vectors of d numbers.

    Parameters
    ----------
    mu : array_like, shape (K, d)
        Means.
    sig2 : array_like, shape (K, d, d) or (K, d)
        Covariances; of shape (K, d), variances of independent columns.
    w : array_like, shape (K,)
        Weights; even by default.
    name, weights, keys
        As for `MixtureDistribution`.

    Raises
    ------
    ValueError
        If shapes do not agree, or a covariance is none.

    References
    ----------
    G. McLachlan, D. Peel, "Finite Mixture Models", 2000.

    Examples
    --------
    >>> m = GaussianMixtureDistribution([[0.0, 0.0], [4.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]], [0.5, 0.5])
    >>> m.posterior([2.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    _fields: ClassVar[tuple[str, ...]] = ("mu", "sig2", "w")

    def __init__(
        self,
        mu: Any,
        sig2: Any,
        w: Any = None,
        name: str | None = None,
        weights: Any = None,
        keys: tuple[Any, Any] | None = (None, None),
    ) -> None:
        means, spread = np.array(mu, float), np.array(sig2, float)
        if means.ndim != 2:
            raise ValueError(
                f"mu must have shape (K, d), a mean vector per component, has {means.shape}; "
                "of numbers write [[m1], [m2], ...]"
            )
        count, dim = means.shape
        if spread.shape not in {(count, dim), (count, dim, dim)}:
            raise ValueError(f"sig2 must have shape {(count, dim, dim)} or {(count, dim)}, has {spread.shape}")
        family: Any = DiagonalGaussianDistribution if spread.ndim == 2 else MultivariateGaussianDistribution
        super().__init__([family(m, s) for m, s in zip(means, spread, strict=True)], w, name, weights, keys=keys)

    @property
    def mu(self) -> np.ndarray:
        """Return the means, shape (K, d)."""
        return np.array([component.mu for component in self.components])

    @property
    def sig2(self) -> np.ndarray:
        """Return the covariances (K, d, d), or the variances (K, d) of independent columns."""
        return np.array([component.covar for component in self.components])

    @property
    def dim(self) -> int:
        """Return the number of entries of a row."""
        return int(self.components[0].dim)

    def estimator(self, pseudo_count: float | None = None) -> GaussianMixtureEstimator:
        """Return the estimator; `pseudo_count` weighs this mixture's parameters as a prior."""
        children = [component.estimator(pseudo_count) for component in self.components]
        prior = None if pseudo_count is None else self.w
        return GaussianMixtureEstimator(children, self.name, suff_stat=prior, pseudo_count=pseudo_count, keys=self.keys)


class GaussianMixtureEstimator(MixtureEstimator):
    """Estimator of a `GaussianMixtureDistribution`.

    Parameters
    ----------
    estimators : sequence of estimators
        One per component: all `MultivariateGaussianEstimator` or all `DiagonalGaussianEstimator`.
    name : str, optional
        Label of the fitted mixture.
    conj_prior_params : None
        Not built in.
    suff_stat : array_like, shape (K,), optional
        Prior weights, used with `pseudo_count`.
    pseudo_count : float, optional
        Weight of the prior of the weights; without `suff_stat` it is spread evenly.
    keys : (hashable, hashable)
        Tying keys of the weights and of the components.
    robust : bool
        Keep each weight above ``1e-4 / K``.
    init : {'kmeans++', 'dirichlet'}, optional
        How a start assigns rows; k-means++ by default.

    Examples
    --------
    >>> from mixle.stats import DiagonalGaussianEstimator
    >>> GaussianMixtureEstimator([DiagonalGaussianEstimator()] * 3).num_components
    3
    """

    _keyword_fields: ClassVar[tuple[str, ...]] = ("name", "suff_stat", "pseudo_count", "keys", "robust", "init")

    def __init__(
        self,
        estimators: Sequence[Any],
        name: str | None = None,
        conj_prior_params: None = None,
        suff_stat: Any = None,
        pseudo_count: float | None = None,
        keys: tuple[Any, Any] | None = (None, None),
        robust: bool = False,
        init: str | None = None,
    ) -> None:
        if conj_prior_params is not None:
            raise ValueError("conj_prior_params is not built in; pass prior= to the component estimators")
        super().__init__(estimators, None, suff_stat, pseudo_count, name, keys, None, 0.0, robust, init)
        kinds = {type(estimator) for estimator in self.estimators}
        if kinds not in ({MultivariateGaussianEstimator}, {DiagonalGaussianEstimator}):
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise TypeError(
                "a GaussianMixture is fitted by MultivariateGaussianEstimator or DiagonalGaussianEstimator, "
                f"all of one kind, not by {names}; a MixtureEstimator takes any"
            )

    def _mixture(self, components: list[Any], w: np.ndarray) -> GaussianMixtureDistribution:
        mu, sig2 = [c.mu for c in components], [c.covar for c in components]
        return GaussianMixtureDistribution(mu, sig2, w, self.name, keys=self.keys)
