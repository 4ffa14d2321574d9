"""The law of a positive number whose logarithm is normal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.covariance import as_pair
from mixle.stats.domains import finite, positive
from mixle.stats.families.gaussian import fit_normal, prior_moments
from mixle.stats.kinds import SquareLeaf
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows, repaired
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers
from mixle.stats.sums import Moments

__all__ = ["LogGaussianDistribution", "LogGaussianEstimator", "LogGaussianSampler"]

#: Absolute floor of the variance of log x.
FLOOR = 1e-8


class _LogGaussian(SquareLeaf):
    name: ClassVar[str] = "LogGaussian"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name)
        outside = x <= 0.0
        if not outside.any():
            return Rows(np.log(x))
        return Rows(np.log(np.where(outside, 1.0, x)), None, outside)

    def base(self, rows: Rows) -> np.ndarray:
        return np.asarray(-rows.x)

    def support(self) -> str:
        return "the numbers > 0"

    def location(self, dist: Any) -> tuple[float, float]:
        return dist.mu, dist.sigma2


class LogGaussianDistribution(LeafDistribution):
    """Log-normal distribution, ``exp(−(log x − μ)² / 2σ²) / (x √(2πσ²))`` on the numbers > 0: log x is normal.

    Parameters
    ----------
    mu : float
        Mean of log x.
    sigma2 : float
        Variance of log x, > 0.
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        Law of the parameters; the estimator of this distribution fits under it.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, chapter 14, 1994.

    Examples
    --------
    >>> LogGaussianDistribution(0.0, 1.0).log_density(1.0)
    -0.9189385332046727
    >>> LogGaussianDistribution(0.0, 1.0).log_density(0.0)
    -inf
    """

    leaf = _LogGaussian()
    _fields = ("mu", "sigma2")

    def __init__(self, mu: float, sigma2: float, name: str | None = None, keys: Any = None, prior: Any = None) -> None:
        self.mu = finite(mu, "mu of a LogGaussian")
        self.sigma2 = positive(sigma2, "sigma2 of a LogGaussian")
        self._finish(name, keys, prior)

    def sampler(self, seed: int | None = None) -> LogGaussianSampler:
        """Return a sampler."""
        return LogGaussianSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> LogGaussianEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's parameters as a prior, unless it has one."""
        pseudo_count = self._weight(pseudo_count)
        if pseudo_count is None:
            return self._under_prior(LogGaussianEstimator(name=self.name, keys=self.keys))
        pair = (pseudo_count, pseudo_count)
        return self._under_prior(LogGaussianEstimator(pair, (self.mu, self.sigma2), name=self.name, keys=self.keys))


class LogGaussianSampler(NumberSampler):
    """Sampler of a `LogGaussianDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""
        return np.exp(self.rng.normal(self.dist.mu, math.sqrt(self.dist.sigma2), size=size))


class LogGaussianEstimator(LeafEstimator):
    """Estimator of a `LogGaussianDistribution`.

    Parameters
    ----------
    pseudo_count : float or (float, float), optional
        Weights of the prior mean and the prior variance of log x; each is used only with its entry of `suff_stat`.
    suff_stat : (float, float), optional
        Prior mean and prior variance of log x.
    min_covar : float, optional
        Absolute floor of the variance of log x, 1e-8 by default: a relative one would follow the unit of x.
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        `NormalGammaDistribution` of the mean and the precision of log x;
        the likeliest law is fitted, with the posterior as its prior.

    Examples
    --------
    >>> LogGaussianEstimator().estimate(None, (2.0, 4.0, 2.0, 2.0))
    LogGaussianDistribution(1.0, 1.0, name=None, keys=None)
    """

    leaf = _LogGaussian()
    _keyword_fields = ("pseudo_count", "suff_stat", "min_covar", "name", "keys", "prior")

    def __init__(
        self,
        pseudo_count: Any = (None, None),
        suff_stat: tuple[float | None, float | None] | None = (None, None),
        min_covar: float | None = None,
        name: str | None = None,
        keys: Any = None,
        prior: Any = None,
    ) -> None:
        self.pseudo_count = as_pair(pseudo_count)
        self.suff_stat = prior_moments(suff_stat)
        self.min_covar = None if min_covar is None else positive(min_covar, "min_covar")
        self.name, self.keys = name, keys
        self._take_prior(prior, any(self.pseudo_count))

    def _estimate(self, stat: Moments) -> LogGaussianDistribution:
        mean, variance, _ = fit_normal(self, stat)
        floor = FLOOR if self.min_covar is None else self.min_covar
        model = LogGaussianDistribution(mean, max(variance, floor), self.name, self.keys)
        return repaired(model, "LogGaussian: the variance was raised to its floor") if variance <= floor else model
