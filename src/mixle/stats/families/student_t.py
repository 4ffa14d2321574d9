"""Student's t law: a normal with outliers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from mixle.stats.domains import finite, positive, shape_parameter, truth
from mixle.stats.leaf import LeafDistribution, Rows
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.scale_mixture import LocationLeaf, ReweightedEstimator, ReweightedSums
from mixle.stats.special import digamma, rising_log

__all__ = ["StudentTDistribution", "StudentTEstimator", "StudentTSampler", "degrees_of_freedom", "log_student"]

#: Estimated degrees of freedom stay within these; the law of the largest is a normal to most digits.
FEWEST, MOST = 0.05, 1e6


def log_student(square: np.ndarray, df: float, dim: int) -> np.ndarray:
    """Return the log-density of a t law of scale 1 at squared distance `square` (n,), in `dim` dimensions."""
    half = 0.5 * (df + dim)
    constant = float(rising_log(np.array(0.5 * dim), 0.5 * df))
    return np.asarray(constant - 0.5 * dim * math.log(math.pi * df) - half * np.log1p(square / df))


def degrees_of_freedom(mean_extra: float) -> float:
    """Return the degrees of freedom ν with ``log(ν/2) − ψ(ν/2) + 1 + mean_extra = 0``, within their bounds.

    Parameters
    ----------
    mean_extra : float
        Mean of ``E[log τ − τ]`` over the rows, τ the precision of a row given its value and the last model.
    """
    from scipy.optimize import brentq

    def gap(log_half: float) -> float:
        half = math.exp(log_half)
        digits = 1.0 / (2.0 * half) + 1.0 / (12.0 * half * half) if half > 1e4 else log_half - digamma(half)
        return digits + 1.0 + mean_extra

    low, high = math.log(0.5 * FEWEST), math.log(0.5 * MOST)
    if gap(low) <= 0.0:
        return FEWEST
    if gap(high) >= 0.0:
        return MOST
    return 2.0 * math.exp(brentq(gap, low, high, xtol=1e-12, rtol=1e-14))


class _StudentT(LocationLeaf):
    name: ClassVar[str] = "StudentT"

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        with np.errstate(over="ignore"):
            z = (rows.x - dist.loc) / dist.scale
            return log_student(z * z, dist.df, 1) - math.log(dist.scale)

    def reweight(self, dist: Any, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(over="ignore"):
            z = (rows.x - dist.loc) / dist.scale
            u = (dist.df + 1.0) / (dist.df + z * z)
        return u, expected_precision(u, dist.df, 1)


def expected_precision(u: np.ndarray, df: float, dim: int) -> np.ndarray:
    """Return E[log τ − τ] of rows whose expected precision is `u`: τ given a row is a gamma of shape (ν + d)/2."""
    half = 0.5 * (df + dim)
    return np.asarray(np.log(np.maximum(u, np.finfo(float).tiny)) - u + (digamma(half) - math.log(half)))


class StudentTDistribution(LeafDistribution):
    """Student's t distribution with location and scale.

    The density is ``Γ((ν+1)/2) / (Γ(ν/2) √(πν) s) · (1 + z²/ν)^(−(ν+1)/2)`` with ``z = (x − loc) / s``.

    Parameters
    ----------
    df : float
        Degrees of freedom ν, > 0; 1 is the Cauchy law.
    loc : float
        Location.
    scale : float
        Scale s, > 0; the variance is ``s² ν / (ν − 2)`` where ν > 2.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 2, chapter 28, 1995.

    Examples
    --------
    >>> round(StudentTDistribution(5.0, 1.0, 2.0).log_density(1.0), 12)
    -1.661766769615
    """

    leaf = _StudentT()
    _fields = ("df",)
    _keyword_fields = ("loc", "scale", "name", "keys")

    def __init__(
        self, df: float, loc: float = 0.0, scale: float = 1.0, name: str | None = None, keys: Any = None
    ) -> None:
        self.df = shape_parameter(df, "df of a StudentT")
        self.loc = finite(loc, "loc of a StudentT")
        self.scale = positive(scale, "scale of a StudentT")
        self._finish(name, keys)

    def sampler(self, seed: int | None = None) -> StudentTSampler:
        """Return a sampler."""
        return StudentTSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> StudentTEstimator:
        """Return the estimator, of these degrees of freedom; `pseudo_count` weighs this location and scale."""
        prior = None if pseudo_count is None else (self.loc, self.scale)
        return StudentTEstimator(self.df, pseudo_count, prior, name=self.name, keys=self.keys)


class StudentTSampler(NumberSampler):
    """Sampler of a `StudentTDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,); draws that overflow become the largest number."""
        with np.errstate(over="ignore"):
            drawn = self.dist.loc + self.dist.scale * self.rng.standard_t(self.dist.df, size=size)
        return np.clip(drawn, -np.finfo(float).max, np.finfo(float).max)


class StudentTEstimator(ReweightedEstimator):
    """Estimator of a `StudentTDistribution`.

    Parameters
    ----------
    df : float
        Degrees of freedom; fixed, unless `estimate_df`.
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : (float, float), optional
        Prior location and scale.
    min_scale : float
        Floor of the scale.
    name, keys
        Label and tying key.
    estimate_df : bool
        Fit the degrees of freedom, within 0.05 and 1e6.

    Notes
    -----
    Each round of EM weighs a row by ``(ν + 1) / (ν + z²)`` under the last model (K. L. Lange, R. J. A. Little,
    J. M. G. Taylor, "Robust statistical modeling using the t distribution", J. Am. Stat. Assoc. 84, 1989). `optimize`
    thus converges to the maximum-likelihood fit; rows without a model give the fit by moments. Without data the law has
    location 0 and scale 1.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> rows = [0.9, 1.0, 1.1, 1.2, 0.8, 1.0, 50.0]
    >>> model = optimize(rows, StudentTEstimator(3.0), max_its=200)
    >>> round(model.loc, 2)
    1.0
    """

    leaf = _StudentT()
    _fields = ("df",)
    _keyword_fields = ("pseudo_count", "suff_stat", "min_scale", "name", "keys", "estimate_df")

    def __init__(
        self,
        df: float = 5.0,
        pseudo_count: float | None = None,
        suff_stat: tuple[float, float] | None = None,
        min_scale: float = 1e-8,
        name: str | None = None,
        keys: Any = None,
        estimate_df: bool = False,
    ) -> None:
        super().__init__(pseudo_count, suff_stat, min_scale, name, keys)
        self.df = positive(df, "df")
        self.estimate_df = truth(estimate_df, "estimate_df")

    def _estimate(self, stat: ReweightedSums) -> Any:
        df = self.df
        if self.estimate_df and stat.count > stat.plain:
            df = degrees_of_freedom(stat.extra / (stat.count - stat.plain))
        variance = df / (df - 2.0) if df > 2.5 else 5.0
        found = self._location_scale(stat, variance, 1.0)
        loc, scale = found or (0.0, 1.0)
        return self.above_floor(scale, df, loc)
