"""Mixtures whose components are of unlike families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.latent.mixture import MixtureDistribution, MixtureEstimator

__all__ = ["HeterogeneousMixtureDistribution", "HeterogeneousMixtureEstimator"]


class HeterogeneousMixtureDistribution(MixtureDistribution):
    """Mixture ``Σ_k w_k p_k(x)`` of components of any families, as a `MixtureDistribution` also takes them.

    Parameters
    ----------
    components : sequence of distributions
        The K components; a row that one of them does not support has density 0 there.
    w : array_like, shape (K,)
        Weights; even by default.
    name, weights, keys, prior
        As for `MixtureDistribution`.

    References
    ----------
    D. M. Titterington, A. F. M. Smith, U. E. Makov, "Statistical Analysis of Finite Mixture Distributions", 1985.

    Examples
    --------
    >>> from mixle.stats import ExponentialDistribution, GaussianDistribution
    >>> m = HeterogeneousMixtureDistribution([GaussianDistribution(0.0, 1.0), ExponentialDistribution(2.0)])
    >>> m.posterior(-1.0).tolist()
    [1.0, 0.0]
    """

    _engine_axis: ClassVar[int | None] = None

    def estimator(self, pseudo_count: float | None = None) -> HeterogeneousMixtureEstimator:
        """Return the estimator; `pseudo_count` weighs this mixture's parameters as a prior."""
        children = [component.estimator(pseudo_count) for component in self.components]
        prior = None if pseudo_count is None else self.w
        return HeterogeneousMixtureEstimator(children, None, prior, pseudo_count, self.name, self.keys)


class HeterogeneousMixtureEstimator(MixtureEstimator):
    """Estimator of a `HeterogeneousMixtureDistribution`.

    Parameters
    ----------
    estimators : sequence of estimators
        One per component.
    fixed_weights, suff_stat, pseudo_count, name, keys
        As for `MixtureEstimator`.

    Examples
    --------
    >>> from mixle.stats import ExponentialEstimator, GaussianEstimator
    >>> HeterogeneousMixtureEstimator([GaussianEstimator(), ExponentialEstimator()]).num_components
    2
    """

    _keyword_fields: ClassVar[tuple[str, ...]] = ("fixed_weights", "suff_stat", "pseudo_count", "name", "keys")

    def __init__(
        self,
        estimators: Sequence[Any],
        fixed_weights: Any = None,
        suff_stat: Any = None,
        pseudo_count: float | None = None,
        name: str | None = None,
        keys: tuple[Any, Any] | None = (None, None),
    ) -> None:
        super().__init__(estimators, fixed_weights, suff_stat, pseudo_count, name, keys)

    def _mixture(self, components: list[Any], w: np.ndarray) -> HeterogeneousMixtureDistribution:
        return HeterogeneousMixtureDistribution(components, w, self.name, keys=self.keys)
