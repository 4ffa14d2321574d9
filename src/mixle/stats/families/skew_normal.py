"""The skew-normal law: a normal that leans to one side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.domains import finite, nonnegative, parts_of, positive
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows, repaired
from mixle.stats.local_sums import LocalLeaf, LocalSums
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers
from mixle.stats.skew import (
    EDGE,
    LARGEST_SHAPE,
    LOG_2PI,
    SkewLikelihood,
    by_moments,
    log_normal_cdf,
    skew_sums,
    third_moment,
)
from mixle.stats.sums import Moments

__all__ = ["SkewNormalDistribution", "SkewNormalEstimator", "SkewNormalSampler"]


class _SkewNormal(LocalLeaf):
    """`parameters` are scale, location and shape."""

    name: ClassVar[str] = "SkewNormal"

    def encode(self, rows: Sequence[Any]) -> np.ndarray:
        return read_numbers(rows, self.name, squared=True)

    def parameters(self, dist: Any) -> tuple[float, float, float]:
        return dist.scale, dist.loc, dist.shape

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        with np.errstate(over="ignore"):
            z = (rows.x - dist.loc) / dist.scale
            below = log_normal_cdf(dist.shape * z) if dist.shape else math.log(0.5)
            return np.asarray(math.log(2.0) - 0.5 * LOG_2PI - math.log(dist.scale) - 0.5 * z * z + below)

    def local_sums(self, x: np.ndarray, weights: np.ndarray, *at: float) -> np.ndarray:
        scale, loc, shape = at
        return skew_sums(x, weights, loc, scale, shape)


class SkewNormalSampler(NumberSampler):
    """Sampler of a `SkewNormalDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,): ``δ|u| + √(1 − δ²) v`` with normal u and v."""
        u, v = self.rng.normal(size=(2, 1 if size is None else size))
        root = math.hypot(1.0, self.dist.shape)
        drawn = self.dist.loc + self.dist.scale * (self.dist.shape / root * np.abs(u) + v / root)
        return drawn[0] if size is None else drawn


class SkewNormalDistribution(LeafDistribution):
    """Skew-normal distribution, ``2 φ(z) Φ(α z) / s`` with ``z = (x − loc) / s``.

    Parameters
    ----------
    loc : float
        Location; the mean is ``loc + s δ √(2/π)`` with ``δ = α / √(1 + α²)``.
    scale : float
        Scale s, > 0; the variance is ``s² (1 − 2δ²/π)``.
    shape : float
        Shape α: to the right of 0 the law leans right, at 0 it is normal.
    name, keys
        Label and tying key.

    References
    ----------
    A. Azzalini, "A class of distributions which includes the normal ones", Scand. J. Stat. 12, 1985.

    Examples
    --------
    >>> round(SkewNormalDistribution(1.0, 2.0, 3.0).log_density(4.0), 12)
    -2.043941930884
    """

    leaf = _SkewNormal()
    _fields = ("loc", "scale", "shape")

    def __init__(self, loc: float, scale: float, shape: float, name: str | None = None, keys: Any = None) -> None:
        self.loc = finite(loc, "loc of a SkewNormal")
        self.scale = positive(scale, "scale of a SkewNormal")
        self.shape = finite(shape, "shape of a SkewNormal")
        self._finish(name, keys)

    def _moments(self) -> tuple[float, float, float]:
        """Return mean, variance and third central moment."""
        delta = self.shape / math.hypot(1.0, self.shape)
        shift = delta * math.sqrt(2.0 / math.pi)
        third = (2.0 - 0.5 * math.pi) * shift**3
        return self.loc + self.scale * shift, self.scale**2 * (1.0 - shift * shift), self.scale**3 * third

    def sampler(self, seed: int | None = None) -> SkewNormalSampler:
        """Return a sampler."""
        return SkewNormalSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> SkewNormalEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's moments as a prior."""
        prior = None if pseudo_count is None else self._moments()
        return SkewNormalEstimator(pseudo_count, prior, name=self.name, keys=self.keys)


class SkewNormalEstimator(LeafEstimator):
    """Estimator of a `SkewNormalDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : (float, float, float), optional
        Mean, variance and third central moment of the prior's rows.
    min_scale : float
        Floor of the scale.
    name, keys
        Label and tying key.

    Notes
    -----
    `optimize` converges to the maximum-likelihood fit in a few rounds: each one sums the rows in bins around the last
    model and takes the model that those make likeliest. Rows without a model give a normal law, and the first round
    after it starts from the moments as well. Rows without any skewness keep the normal law, where the likelihood is
    stationary (A. Azzalini, A. Capitanio, "The Skew-Normal and Related Families", 2014).

    The likelihood of a small sample may rise with the shape for ever, and does where the rows lie on one side of the
    location (ibid.). The shape is then held at ±1000, whose density differs from that of the half-normal
    limit only within a few thousandths of a scale, and `numerical_repairs` tells. Without data the law has location
    0, scale 1 and shape 0.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> model = optimize([0.1, 0.4, 0.5, 0.9, 1.6, 3.0, -0.3, 0.2], SkewNormalEstimator(), max_its=100)
    >>> round(model.loc, 3), round(model.scale, 3), round(model.shape, 2)
    (-0.304, 1.48, 1000.0)
    """

    leaf = _SkewNormal()
    _keyword_fields = ("pseudo_count", "suff_stat", "min_scale", "name", "keys")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: tuple[float, float, float] | None = None,
        min_scale: float = 1e-12,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None
        if suff_stat is not None:
            mean, variance, third = parts_of(suff_stat, "suff_stat", 3)
            self.suff_stat = (finite(mean, "suff_stat"), positive(variance, "suff_stat"), finite(third, "suff_stat"))
        self.min_scale = positive(min_scale, "min_scale")
        self.name, self.keys = name, keys

    @one_blas_thread()
    def _estimate(self, stat: LocalSums) -> Any:
        law, weight = self._prior_law(), stat.moments.weight
        if weight == 0.0:
            return self.law(*(law or (0.0, 1.0, 0.0)))
        if stat.sums is None or stat.at is None:
            loc, scale, shape = self._first(stat.moments, law)
        else:
            loc, scale, shape = self._next(stat.moments, stat.sums, stat.at, law)
        if not scale > self.min_scale:
            return repaired(self.law(loc, self.min_scale, 0.0), "SkewNormal: the scale was raised to its floor")
        model = self.law(loc, scale, shape)
        held = abs(shape) >= LARGEST_SHAPE
        return repaired(model, "SkewNormal: the shape was held at its bound") if held else model

    def _prior_law(self) -> tuple[float, float, float] | None:
        if not self.pseudo_count or self.suff_stat is None:
            return None
        mean, variance, third = self.suff_stat
        return by_moments(mean, math.sqrt(variance), third / variance**1.5)

    def _first(self, moments: Moments, law: Any) -> tuple[float, float, float]:
        """Return a normal law, or the prior's law where the prior has more weight than the rows."""
        if law is not None and self.pseudo_count is not None and self.pseudo_count > moments.weight:
            return (law[0], law[1], law[2])
        return float(moments.mean), math.sqrt(max(float(moments.scatter), 0.0) / moments.weight), 0.0

    def _next(self, moments: Moments, sums: np.ndarray, at: tuple[float, ...], law: Any) -> tuple[float, float, float]:
        scale, loc, shape = at
        own = Moments(moments.weight, (moments.mean - loc) / scale, 0.0, moments.scatter / scale / scale)
        if not own.scatter > 0.0 and law is None:
            return float(moments.mean), 0.0, 0.0
        near = SkewLikelihood(own, sums, shape, None if law is None else self._prior_rows(law, loc, scale))
        starts = [np.array([0.0, 0.0, math.asinh(shape)])]
        if abs(shape) < 1.0 and own.scatter > 0.0:  # there y is z
            deviation = math.sqrt(own.scatter / own.weight)
            skewness = third_moment(sums, own.mean) / own.weight / max(deviation**3, 1e-300)
            mean, width, lean = by_moments(own.mean, deviation, skewness)
            if abs(skewness) > 1e-12:
                starts.append(np.array([mean, math.log(width), math.asinh(min(max(lean, -width), width))]))
        best, _ = max((near.climb(start) for start in starts), key=lambda found: found[1])
        shape = float(math.sinh(best[2]))
        if abs(best[2]) >= EDGE:
            shape = math.copysign(LARGEST_SHAPE, shape)
        if abs(shape) < 1e-6 and law is None:  # the likelihood is flat there
            return self._first(moments, law)
        return loc + scale * float(best[0]), scale * math.exp(best[1]), shape

    def _prior_rows(self, law: tuple[float, float, float], loc: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of the prior's law in units of the last model, and their weights."""
        z = np.linspace(-10.0, 10.0, 801)
        mass = np.exp(-0.5 * z * z + log_normal_cdf(law[2] * z))
        weights = (self.pseudo_count or 0.0) * mass / float(np.add.reduce(mass))
        return (law[0] + law[1] * z - loc) / scale, weights
