"""The von Mises law of an angle: directions, hours of a day, days of a year."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.errors import VonMisesFitError
from mixle.stats.domains import finite, nonnegative, shape_parameter
from mixle.stats.kinds import LOG_2PI, LinearLeaf
from mixle.stats.leaf import LeafDistribution, Rows, repaired
from mixle.stats.linear import LinearEstimator
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers
from mixle.stats.special import bessel_ratio, log_bessel

__all__ = ["VonMisesDistribution", "VonMisesEstimator", "VonMisesSampler", "concentration"]

#: Largest concentration of a fit: beyond, a score does not hold its own digits.
LARGEST = 1e8


class _VonMises(LinearLeaf):
    name: ClassVar[str] = "VonMises"
    width: ClassVar[int] = 2

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name)
        return Rows((np.cos(x), np.sin(x)))

    def support(self) -> str:
        return "the angles in radians"

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        kappa = dist.kappa
        return (kappa * math.cos(dist.mu), kappa * math.sin(dist.mu)), -LOG_2PI - log_bessel(kappa) - kappa


class VonMisesDistribution(LeafDistribution):
    """Von Mises distribution of an angle in radians, ``exp(κ cos(x − μ)) / 2π I₀(κ)``.

    Parameters
    ----------
    mu : float
        Mean direction in radians; angles a full turn apart are the same.
    kappa : float
        Concentration, ≥ 0; 0 is the uniform law, and ``1 / kappa`` is about the variance where it is large.
    name, keys
        Label and tying key.

    References
    ----------
    K. V. Mardia, P. E. Jupp, "Directional Statistics", 2000.

    Examples
    --------
    >>> round(VonMisesDistribution(0.3, 2.0).log_density(0.0), 12)
    -0.751197629641
    """

    leaf = _VonMises()
    _fields = ("mu", "kappa")

    def __init__(self, mu: float, kappa: float, name: str | None = None, keys: Any = None) -> None:
        self.mu = finite(mu, "mu of a VonMises")
        self.kappa = (
            0.0 if nonnegative(kappa, "kappa of a VonMises") == 0.0 else shape_parameter(kappa, "kappa of a VonMises")
        )
        self._finish(name, keys)

    def sampler(self, seed: int | None = None) -> VonMisesSampler:
        """Return a sampler."""
        return VonMisesSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> VonMisesEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's mean cosine and sine as a prior."""
        if pseudo_count is None:
            return VonMisesEstimator(name=self.name, keys=self.keys)
        length = bessel_ratio(self.kappa)
        prior = (length * math.cos(self.mu), length * math.sin(self.mu))
        return VonMisesEstimator(pseudo_count, prior, self.name, self.keys)


class VonMisesSampler(NumberSampler):
    """Sampler of a `VonMisesDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return an angle in [−π, π], or an array of shape (size,)."""
        return self.rng.vonmises(math.remainder(self.dist.mu, math.tau), self.dist.kappa, size=size)


class VonMisesEstimator(LinearEstimator):
    """Maximum-likelihood estimator of a `VonMisesDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : (float, float), optional
        Prior means of cos x and of sin x.
    name, keys
        Label and tying key.

    Raises
    ------
    VonMisesFitError
        (a ValueError) on `estimate` without rows and prior.

    Notes
    -----
    μ is the direction of the mean of (cos x, sin x), and κ solves ``I₁(κ)/I₀(κ) =`` its length (K. V. Mardia,
    P. E. Jupp, "Directional Statistics", 2000). κ is at most 1e8.

    Examples
    --------
    >>> model = VonMisesEstimator().estimate(None, (2.0, 1.0, 0.0))
    >>> round(model.mu, 12), round(model.kappa, 9)
    (0.0, 1.159319921)
    """

    leaf = _VonMises()
    features = 2

    def _fit(self, means: list[float]) -> VonMisesDistribution:
        cosine, sine = means
        kappa = concentration(math.hypot(cosine, sine))
        model = VonMisesDistribution(math.atan2(sine, cosine), kappa, self.name, self.keys)
        return repaired(model, "VonMises: the concentration was held at its bound") if kappa == LARGEST else model

    def _without_data(self) -> VonMisesDistribution:
        raise VonMisesFitError("a von Mises law has no direction without rows; pass pseudo_count and suff_stat")


def concentration(length: float) -> float:
    """Return the κ with ``I₁(κ)/I₀(κ) = length``, at most 1e8.

    Parameters
    ----------
    length : float
        Length of the mean direction, 0 to 1.

    Examples
    --------
    >>> round(concentration(0.5), 9)
    1.159319921
    """
    if not length > 1e-12:
        return 0.0
    if not 1.0 - length > 0.5 / LARGEST:
        return LARGEST
    # Banerjee, Dhillon, Ghosh, Sra (2005), then Newton on the increasing, concave ratio
    kappa = length * (2.0 - length * length) / (1.0 - length * length)
    for _ in range(100):
        ratio = bessel_ratio(kappa)
        slope = 1.0 - ratio * ratio - ratio / kappa if kappa > 1e-6 else 0.5
        # far out the slope cancels; there it is 1 / 2κ²
        slope = slope if kappa < 1e4 else 0.5 / kappa / kappa
        last, kappa = kappa, min(max(kappa - (ratio - length) / slope, 0.2 * kappa), 5.0 * kappa)
        if abs(kappa - last) <= 1e-14 * last:
            break
    return min(kappa, LARGEST)
