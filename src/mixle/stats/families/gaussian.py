"""The normal law of one real number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import DistributionSampler
from mixle.stats.domains import finite, floor_variance, nonnegative, parts_of, positive, smoothed
from mixle.stats.kinds import SquareLeaf
from mixle.stats.leaf import LeafDistribution, LeafEstimator, repaired
from mixle.stats.reading import read_numbers
from mixle.stats.sums import Moments

__all__ = ["GaussianDistribution", "GaussianEstimator", "GaussianSampler"]


class _Gaussian(SquareLeaf):
    name: ClassVar[str] = "Gaussian"

    def encode(self, rows: Sequence[Any]) -> np.ndarray:
        return read_numbers(rows, self.name, squared=True)

    def location(self, dist: Any) -> tuple[float, float]:
        return dist.mu, dist.sigma2


class GaussianDistribution(LeafDistribution):
    """Normal distribution, ``exp(−(x − μ)² / 2σ²) / √(2πσ²)``.

    Parameters
    ----------
    mu : float
        Mean.
    sigma2 : float
        Variance, > 0.
    name : str, optional
        Label carried along.
    keys : hashable, optional
        Tying key.
    prior : conjugate law, optional
        Law of the parameters; the estimator of this distribution fits under it.

    Raises
    ------
    ValueError
        If a parameter is not finite or the variance not positive, at construction and on assignment.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, chapter 13, 1994.

    Examples
    --------
    >>> GaussianDistribution(0.0, 1.0).log_density(0.0)
    -0.9189385332046727
    """

    leaf = _Gaussian()
    _fields = ("mu", "sigma2")
    mu: float
    sigma2: float

    def __init__(self, mu: float, sigma2: float, name: str | None = None, keys: Any = None, prior: Any = None) -> None:
        self.mu = mu
        self.sigma2 = sigma2
        self._finish(name, keys, prior)

    def __setattr__(self, attribute: str, value: Any) -> None:
        if attribute == "mu":
            value = finite(value, "mu of a Gaussian")
        elif attribute == "sigma2":
            value = positive(value, "sigma2 of a Gaussian")
        elif attribute in ("const", "log_const"):
            raise AttributeError(f"{attribute} follows from sigma2 and cannot be set")
        super().__setattr__(attribute, value)

    @property
    def log_const(self) -> float:
        """Return the log of the normalising constant."""
        return -0.5 * math.log(2.0 * math.pi * self.sigma2)

    @property
    def const(self) -> float:
        """Return the normalising constant."""
        return math.exp(self.log_const)

    def sampler(self, seed: int | None = None) -> GaussianSampler:
        """Return a sampler."""
        return GaussianSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> GaussianEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's parameters as a prior, unless it has one."""
        pseudo_count = self._weight(pseudo_count)
        if pseudo_count is None:
            return self._under_prior(GaussianEstimator(name=self.name, keys=self.keys))
        return self._under_prior(
            GaussianEstimator(
                pseudo_count=(pseudo_count, pseudo_count),
                suff_stat=(self.mu, self.sigma2),
                name=self.name,
                keys=self.keys,
            )
        )


class GaussianSampler(DistributionSampler):
    """Sampler of a `GaussianDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a float, or an array of shape (size,)."""
        scale = math.sqrt(self.dist.sigma2)
        draw = self.rng.normal(self.dist.mu, scale, size=size)
        return float(draw) if size is None else draw


class GaussianEstimator(LeafEstimator):
    """Maximum-likelihood estimator of a `GaussianDistribution`, with optional smoothing.

    Parameters
    ----------
    pseudo_count : float or (float, float), optional
        Weights of the prior mean and the prior variance; each is used only with its entry of `suff_stat`.
    suff_stat : (float, float), optional
        Prior mean and prior variance.
    name : str, optional
        Label of the fitted distribution.
    keys : hashable, optional
        Tying key.
    prior : conjugate law, optional
        `NormalGammaDistribution` of the mean and the precision;
        the likeliest law is fitted, with the posterior as its prior.
    min_covar : float, optional
        Absolute floor of the variance; by default 2^-80 of the second moment about zero.
    compensated : bool
        Accepted; the moments are kept about a centre and merged exactly with either value.

    Examples
    --------
    >>> GaussianEstimator().estimate(None, (6.0, 14.0, 3.0, 3.0))
    GaussianDistribution(2.0, 0.6666666666666666, name=None, keys=None)
    """

    leaf = _Gaussian()
    _keyword_fields = ("pseudo_count", "suff_stat", "name", "keys", "prior", "min_covar")

    def __init__(
        self,
        pseudo_count: float | tuple[float | None, float | None] | None = (None, None),
        suff_stat: tuple[float | None, float | None] | None = (None, None),
        name: str | None = None,
        keys: Any = None,
        prior: Any = None,
        min_covar: float | None = None,
        compensated: bool = False,
    ) -> None:
        pair = pseudo_count if isinstance(pseudo_count, (tuple, list)) else (pseudo_count, pseudo_count)
        self.pseudo_count = tuple(None if c is None else nonnegative(c, "pseudo_count") for c in pair)
        self.suff_stat = prior_moments(suff_stat)
        self.name, self.keys = name, keys
        self.min_covar = None if min_covar is None else positive(min_covar, "min_covar")
        self._take_prior(prior, any(self.pseudo_count))

    def _estimate(self, stat: Moments) -> GaussianDistribution:
        mean, variance, floored = fit_normal(self, stat)
        model = GaussianDistribution(mean, variance, self.name, self.keys)
        return repaired(model, "Gaussian: the variance was raised to its floor") if floored else model


def prior_moments(given: Any) -> tuple[float | None, float | None]:
    """Return a prior mean and a prior variance, each of which may be None."""
    mean, variance = (None, None) if given is None else parts_of(given, "suff_stat", 2)
    return (
        None if mean is None else finite(mean, "suff_stat"),
        None if variance is None else nonnegative(variance, "suff_stat"),
    )


def fit_normal(estimator: Any, stat: Moments) -> tuple[float, float, bool]:
    """Return (mean, variance, whether it was floored) from moments, the prior of `estimator` and its floor."""
    mean, variance = smoothed(estimator, float(stat.weight), float(stat.mean), float(stat.scatter))
    return mean, *floor_variance(mean, variance, estimator.min_covar)
