"""The von Mises–Fisher law of a direction in d dimensions: unit vectors, normalised embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.errors import RowError, VonMisesFisherFitError
from mixle.stats.contract import DistributionSampler
from mixle.stats.domains import nonnegative, shape_parameter, vector
from mixle.stats.kinds import LinearSums
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows, repaired
from mixle.stats.linear import VectorLeaf, prior_vector, with_prior
from mixle.stats.reading import read_matrix
from mixle.stats.special import bessel_ratio, log_bessel

__all__ = ["VonMisesFisherDistribution", "VonMisesFisherEstimator", "VonMisesFisherSampler"]

#: Largest concentration of a fit: beyond, a score does not hold its own digits.
LARGEST = 1e8
#: How far from one the length of a row may be.
SLACK = 1e-6


class _VonMisesFisher(VectorLeaf):
    name: ClassVar[str] = "VonMisesFisher"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_matrix(rows, self.name, self.dim, squared=True)
        if len(x) and x.shape[1] < 2:
            raise RowError("a direction needs two entries or more", self.name, 0)
        length = np.sqrt(np.add.reduce(x * x, axis=1))
        odd = np.abs(length - 1.0) > SLACK
        if odd.any():
            row = int(np.argmax(odd))
            raise RowError(f"the vector has length {float(length[row])!r}, not one; divide it by that", self.name, row)
        return Rows(tuple(np.ascontiguousarray(x[:, j]) for j in range(x.shape[1])))

    def support(self) -> str:
        return "the vectors of length one"

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        return tuple((dist.kappa * dist.mu).tolist()), dist.log_constant


class VonMisesFisherDistribution(LeafDistribution):
    """Von Mises–Fisher distribution of unit vectors, proportional to ``exp(κ μ·x)``.

    The constant is ``κ^(d/2−1) / ((2π)^(d/2) I_{d/2−1}(κ))``.

    Parameters
    ----------
    mu : array_like, shape (d,)
        Mean direction, of length one, d ≥ 2.
    kappa : float
        Concentration, ≥ 0; 0 is the uniform law.
    name, keys
        Label and tying key.

    References
    ----------
    K. V. Mardia, P. E. Jupp, "Directional Statistics", 2000.

    Examples
    --------
    >>> round(VonMisesFisherDistribution([1.0, 0.0, 0.0], 2.0).log_density([1.0, 0.0, 0.0]), 12)
    -1.126244439024
    """

    _fields = ("mu", "kappa")

    def __init__(self, mu: Any, kappa: float, name: str | None = None, keys: Any = None) -> None:
        self.mu = vector(mu, "mu of a VonMisesFisher")
        self.dim = len(self.mu)
        if self.dim < 2 or abs(math.hypot(*self.mu.tolist()) - 1.0) > SLACK:
            raise ValueError(f"mu of a VonMisesFisher must have two entries or more and length one, is {mu!r}")
        what = "kappa of a VonMisesFisher"
        self.kappa = 0.0 if nonnegative(kappa, what) == 0.0 else shape_parameter(kappa, what)
        self.log_constant = -_log_partition(self.kappa, self.dim)
        self.leaf = _VonMisesFisher(self.dim)
        self._finish(name, keys)

    def sampler(self, seed: int | None = None) -> VonMisesFisherSampler:
        """Return a sampler."""
        return VonMisesFisherSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> VonMisesFisherEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's mean vector as a prior."""
        prior = None if pseudo_count is None else self.mu * bessel_ratio(self.kappa, 0.5 * self.dim)
        return VonMisesFisherEstimator(self.dim, pseudo_count, self.name, self.keys, prior)


def _log_partition(kappa: float, dim: int) -> float:
    """Return the logarithm of the integral of exp(κ μ·x) over the sphere."""
    order = 0.5 * dim - 1.0
    half = 0.5 * dim * math.log(2.0 * math.pi)
    if kappa < 1e-8:  # I_v(κ) κ^-v → 2^-v / Γ(v + 1)
        return half - order * math.log(2.0) - math.lgamma(order + 1.0)
    return half + log_bessel(kappa, order) + kappa - order * math.log(kappa)


class VonMisesFisherSampler(DistributionSampler):
    """Sampler of a `VonMisesFisherDistribution` (A. T. A. Wood, 1994, Commun. Stat. Simul. Comput. 23)."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return an array of shape (d,), or of shape (size, d)."""
        drawn = np.array([self._one() for _ in range(1 if size is None else size)])
        return drawn[0] if size is None else drawn.reshape(size, self.dist.dim)

    def _one(self) -> np.ndarray:
        d, kappa, mu = self.dist.dim, self.dist.kappa, self.dist.mu
        b = (d - 1.0) / (2.0 * kappa + math.hypot(2.0 * kappa, d - 1.0))
        x0 = (1.0 - b) / (1.0 + b)
        c = kappa * x0 + (d - 1.0) * math.log1p(-x0 * x0)
        while True:
            z = self.rng.beta(0.5 * (d - 1.0), 0.5 * (d - 1.0))
            w = (1.0 - (1.0 + b) * z) / (1.0 - (1.0 - b) * z)
            if kappa * w + (d - 1.0) * math.log1p(-x0 * w) - c >= math.log(self.rng.random_sample() + 1e-300):
                break
        tangent = self.rng.standard_normal(d)
        tangent -= mu * float(mu @ tangent)
        tangent /= math.sqrt(float(tangent @ tangent))
        drawn = w * mu + math.sqrt(max(1.0 - w * w, 0.0)) * tangent
        return np.asarray(drawn / math.sqrt(float(drawn @ drawn)))


class VonMisesFisherEstimator(LeafEstimator):
    """Maximum-likelihood estimator of a `VonMisesFisherDistribution`.

    Parameters
    ----------
    dim : int, optional
        Number of entries d; by default that of the rows.
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    name, keys
        Label and tying key.
    suff_stat : array_like, shape (d,), optional
        Prior mean of the vectors.

    Raises
    ------
    VonMisesFisherFitError
        (a ValueError) on `estimate` without rows and prior.

    Notes
    -----
    μ is the direction of the mean vector, and κ solves ``I_{d/2}(κ) / I_{d/2−1}(κ) =`` its length, from the start of
    A. Banerjee, I. S. Dhillon, J. Ghosh, S. Sra ("Clustering on the unit hypersphere using von Mises–Fisher
    distributions", J. Mach. Learn. Res. 6, 2005) by Newton's method. κ is at most 1e8.

    Examples
    --------
    >>> model = VonMisesFisherEstimator().estimate(None, (2.0, [1.0, 0.0, 0.0]))
    >>> model.mu.tolist(), round(model.kappa, 9)
    ([1.0, 0.0, 0.0], 1.796755985)
    """

    _fields = ("dim",)
    _keyword_fields = ("pseudo_count", "name", "keys", "suff_stat")

    def __init__(
        self,
        dim: int | None = None,
        pseudo_count: float | None = None,
        name: str | None = None,
        keys: Any = None,
        suff_stat: Any = None,
    ) -> None:
        self.dim, self.suff_stat = prior_vector(dim, suff_stat)
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.leaf = _VonMisesFisher(self.dim)
        self.name, self.keys = name, keys

    def _estimate(self, stat: LinearSums) -> VonMisesFisherDistribution:
        count, sums = with_prior(stat, self.pseudo_count, self.suff_stat)
        if not count > 0.0:
            raise VonMisesFisherFitError(
                "a von Mises–Fisher law has no direction without rows; pass pseudo_count and suff_stat"
            )
        mean = sums / count
        length = math.sqrt(math.fsum((mean * mean).tolist()))
        mu = mean / length if length > 1e-300 else np.eye(len(mean))[0]
        kappa = _concentration(length, len(mean))
        model = VonMisesFisherDistribution(mu, kappa, self.name, self.keys)
        held = kappa == LARGEST
        return repaired(model, "VonMisesFisher: the concentration was held at its bound") if held else model


def _concentration(length: float, dim: int) -> float:
    """Return the κ whose mean vector has this length, at most 1e8."""
    if not length > 1e-12:
        return 0.0
    if not 1.0 - length > 0.5 * (dim - 1.0) / LARGEST:
        return LARGEST
    kappa = length * (dim - length * length) / (1.0 - length * length)
    for _ in range(100):
        ratio = bessel_ratio(kappa, 0.5 * dim)
        slope = 1.0 - ratio * ratio - (dim - 1.0) * ratio / kappa if kappa > 1e-6 else 1.0 / dim
        # far out the slope cancels; there it is (d − 1) / 2κ²
        slope = slope if kappa < 1e4 * dim else 0.5 * (dim - 1.0) / kappa / kappa
        last, kappa = kappa, min(max(kappa - (ratio - length) / slope, 0.2 * kappa), 5.0 * kappa)
        if abs(kappa - last) <= 1e-14 * last:
            break
    return min(kappa, LARGEST)
