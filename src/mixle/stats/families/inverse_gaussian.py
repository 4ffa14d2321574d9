"""The inverse Gaussian law of positive numbers: times until a drifting walk reaches a level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.domains import positive
from mixle.stats.kinds import LOG_2PI, LinearLeaf
from mixle.stats.leaf import LeafDistribution, Rows, repaired
from mixle.stats.linear import LinearEstimator, inside
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers

__all__ = ["InverseGaussianDistribution", "InverseGaussianEstimator", "InverseGaussianSampler"]

#: Largest λ/μ of a fit: beyond, a score does not hold its own digits.
NARROWEST = 1e8


class _InverseGaussian(LinearLeaf):
    name: ClassVar[str] = "InverseGaussian"
    width: ClassVar[int] = 2

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name)
        x, outside = inside(x, x < 1e-300, 1.0)
        return Rows((x, 1.0 / x), -1.5 * np.log(x) - 0.5 * LOG_2PI, outside)

    def support(self) -> str:
        return "the numbers > 0 (those below 1e-300 count as 0)"

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        mu, lam = dist.mu, dist.lam
        return (-0.5 * lam / mu / mu, -0.5 * lam), lam / mu + 0.5 * math.log(lam)


class InverseGaussianDistribution(LeafDistribution):
    """Inverse Gaussian (Wald) distribution, ``√(λ / 2πx³) exp(−λ (x − μ)² / 2μ²x)`` on the numbers > 0.

    Parameters
    ----------
    mu : float
        Mean, > 0.
    lam : float
        Shape λ, > 0; the variance is ``mu³ / lam``.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, chapter 15, 1994.

    Examples
    --------
    >>> round(InverseGaussianDistribution(1.0, 2.0).log_density(1.0), 12)
    -0.572364942925
    >>> InverseGaussianDistribution(1.0, 2.0).log_density(0.0)
    -inf
    """

    leaf = _InverseGaussian()
    _fields = ("mu", "lam")

    def __init__(self, mu: float, lam: float, name: str | None = None, keys: Any = None) -> None:
        self.mu = positive(mu, "mu of an InverseGaussian")
        self.lam = positive(lam, "lam of an InverseGaussian")
        if not math.isfinite(self.lam / self.mu / self.mu):
            raise ValueError(f"mu of an InverseGaussian must not be this small beside lam={lam!r}: {mu!r}; pass more")
        self._finish(name, keys)

    def sampler(self, seed: int | None = None) -> InverseGaussianSampler:
        """Return a sampler."""
        return InverseGaussianSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> InverseGaussianEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's means of x and 1/x as a prior."""
        prior = None if pseudo_count is None else (self.mu, 1.0 / self.mu + 1.0 / self.lam)
        return InverseGaussianEstimator(pseudo_count, prior, name=self.name, keys=self.keys)


class InverseGaussianSampler(NumberSampler):
    """Sampler of an `InverseGaussianDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""
        return self.rng.wald(self.dist.mu, self.dist.lam, size=size)


class InverseGaussianEstimator(LinearEstimator):
    """Maximum-likelihood estimator of an `InverseGaussianDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : (float, float), optional
        Prior means of x and of 1/x.
    min_param, max_param : float
        Bounds of the shape, which is also at most 1e8 μ.
    name, keys
        Label and tying key.

    Notes
    -----
    μ is the mean, and 1/λ the mean of 1/x less 1/μ (Tweedie, 1957, "Statistical properties of inverse Gaussian
    distributions"). Without data the law has μ = λ = 1.

    Examples
    --------
    >>> InverseGaussianEstimator().estimate(None, (2.0, 4.0, 2.0))
    InverseGaussianDistribution(2.0, 2.0, name=None, keys=None)
    """

    leaf = _InverseGaussian()
    features = 2
    _keyword_fields = ("pseudo_count", "suff_stat", "min_param", "max_param", "name", "keys")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: tuple[float, float] | None = None,
        min_param: float = 1e-12,
        max_param: float = 1e12,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        super().__init__(pseudo_count, suff_stat, name, keys)
        self.min_param, self.max_param = positive(min_param, "min_param"), positive(max_param, "max_param")

    def _fit(self, means: list[float]) -> InverseGaussianDistribution:
        mu = means[0]
        gap = means[1] - 1.0 / mu
        most = min(self.max_param, NARROWEST * mu)
        lam = max(1.0 / gap if gap > 1.0 / most else most, self.min_param)
        model = InverseGaussianDistribution(mu, lam, self.name, self.keys)
        held = lam in {self.min_param, most}
        return repaired(model, "InverseGaussian: the shape was held at its bound") if held else model

    def _without_data(self) -> InverseGaussianDistribution:
        return InverseGaussianDistribution(1.0, 1.0, self.name, self.keys)
