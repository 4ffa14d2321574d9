"""The Rayleigh law: the length of a normal vector in the plane, wave heights, wind speeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.domains import scale_parameter
from mixle.stats.families.half_normal import root_mean_square
from mixle.stats.kinds import LinearLeaf
from mixle.stats.leaf import LeafDistribution, Rows, repaired
from mixle.stats.linear import LinearEstimator, inside
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers

__all__ = ["RayleighDistribution", "RayleighEstimator", "RayleighSampler"]


class _Rayleigh(LinearLeaf):
    name: ClassVar[str] = "Rayleigh"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name, squared=True)
        x, outside = inside(x, x <= 0.0, 1.0)
        return Rows((x * x,), np.log(x), outside)

    def support(self) -> str:
        return "the numbers > 0"

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        return (-0.5 / dist.sigma / dist.sigma,), -2.0 * math.log(dist.sigma)


class RayleighDistribution(LeafDistribution):
    """Rayleigh distribution, ``x / σ² exp(−x² / 2σ²)`` on the numbers > 0.

    Parameters
    ----------
    sigma : float
        Scale, > 0; the mean is ``sigma √(π/2)``.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, chapter 18, 1994.

    Examples
    --------
    >>> round(RayleighDistribution(2.0).log_density(1.0), 12)
    -1.51129436112
    """

    leaf = _Rayleigh()
    _fields = ("sigma",)

    def __init__(self, sigma: float, name: str | None = None, keys: Any = None) -> None:
        self.sigma = scale_parameter(sigma, "sigma of a Rayleigh")
        self._finish(name, keys)

    @property
    def sigma2(self) -> float:
        """Return the square of `sigma`."""
        return self.sigma * self.sigma

    def sampler(self, seed: int | None = None) -> RayleighSampler:
        """Return a sampler."""
        return RayleighSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> RayleighEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's scale as a prior."""
        prior = None if pseudo_count is None else self.sigma
        return RayleighEstimator(pseudo_count, prior, name=self.name, keys=self.keys)


class RayleighSampler(NumberSampler):
    """Sampler of a `RayleighDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""
        return np.maximum(self.rng.rayleigh(self.dist.sigma, size=size), np.finfo(float).tiny)


class RayleighEstimator(LinearEstimator):
    """Maximum-likelihood estimator of a `RayleighDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : float, optional
        Prior scale.
    min_sigma : float
        Floor of the scale.
    name, keys
        Label and tying key.

    Notes
    -----
    2σ² is the mean of x². Without data σ is 1.

    Examples
    --------
    >>> RayleighEstimator().estimate(None, (2.0, 16.0))
    RayleighDistribution(2.0, name=None, keys=None)
    """

    leaf = _Rayleigh()
    _keyword_fields = ("pseudo_count", "suff_stat", "min_sigma", "name", "keys")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: float | None = None,
        min_sigma: float = 1e-8,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        super().__init__(pseudo_count, suff_stat, name, keys)
        self.min_sigma = scale_parameter(min_sigma, "min_sigma")

    def _estimate(self, stat: Any) -> RayleighDistribution:
        count, square = float(stat.weight), float(stat.sums[0])
        if self.pseudo_count and self.suff_stat is not None:
            count, square = count + self.pseudo_count, square + self.pseudo_count * 2.0 * self.suff_stat**2
        return self._fit([square / count]) if count > 0.0 else self._without_data()

    def _fit(self, means: list[float]) -> RayleighDistribution:
        sigma = root_mean_square(0.5 * means[0], self.min_sigma)
        model = RayleighDistribution(sigma, self.name, self.keys)
        return repaired(model, "Rayleigh: the scale was raised to its floor") if sigma == self.min_sigma else model

    def _without_data(self) -> RayleighDistribution:
        return RayleighDistribution(1.0, self.name, self.keys)
