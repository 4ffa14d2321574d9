"""The Weibull law: lifetimes with a hazard that rises or falls, wind speeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import Column
from mixle.stats.domains import positive, shape_parameter
from mixle.stats.extreme import ExtremeLeaf, fit_extreme
from mixle.stats.leaf import Rows, as_rows, repaired
from mixle.stats.linear import inside
from mixle.stats.local_sums import LocalSums
from mixle.stats.location_scale import PairDistribution, PairEstimator
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers

__all__ = ["WeibullDistribution", "WeibullEstimator", "WeibullSampler"]


class _Weibull(ExtremeLeaf):
    name: ClassVar[str] = "Weibull"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name)
        x, outside = inside(x, x <= 0.0, 1.0)
        t = np.log(x)
        return Rows(t, -t, outside)

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        return [Column(np.exp(as_rows(payload).cut(start, stop).x))]

    def support(self) -> str:
        return "the numbers > 0"

    def parameters(self, dist: Any) -> tuple[float, float]:
        return dist.shape, math.log(dist.scale)


class WeibullSampler(NumberSampler):
    """Sampler of a `WeibullDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""
        with np.errstate(over="ignore"):
            drawn = self.dist.scale * self.rng.weibull(self.dist.shape, size=size)
        return np.clip(drawn, np.finfo(float).tiny, np.finfo(float).max)


class WeibullDistribution(PairDistribution):
    """Weibull distribution, ``(k/λ) (x/λ)^(k−1) exp(−(x/λ)ᵏ)`` on the numbers > 0.

    Parameters
    ----------
    shape : float
        Shape k, > 0; 1 is the exponential law.
    scale : float
        Scale λ, > 0.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, chapter 21, 1994.

    Examples
    --------
    >>> round(WeibullDistribution(2.0, 3.0).log_density(1.0), 12)
    -1.615188507887
    """

    leaf = _Weibull()
    sampler_type = WeibullSampler
    _fields = ("shape", "scale")

    def __init__(self, shape: float, scale: float, name: str | None = None, keys: Any = None) -> None:
        self.shape = shape_parameter(shape, "shape of a Weibull")
        self.scale = positive(scale, "scale of a Weibull")
        self._finish(name, keys)


class WeibullEstimator(PairEstimator):
    """Estimator of a `WeibullDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : (float, float), optional
        Prior shape and scale.
    min_shape, max_shape : float
        Bounds of the shape.
    min_scale : float
        Floor of the scale.
    name, keys
        Label and tying key.

    Notes
    -----
    The likelihood of the shape at its best scale is concave, and each round of EM moves along it from the last model
    (J. F. Lawless, "Statistical Models and Methods for Lifetime Data", 2003). `optimize` thus converges to
    the maximum-likelihood fit; rows without a model give the fit by the moments of log x (M. V. Menon, "Estimation of
    the shape and scale parameters of the Weibull distribution", Technometrics 5, 1963). Without data both are 1.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> model = optimize([1.0, 2.0, 3.0, 4.0], WeibullEstimator(), max_its=100)
    >>> round(model.shape, 4), round(model.scale, 4)
    (2.4532, 2.8287)
    """

    leaf = _Weibull()
    domains = (positive, positive)
    _keyword_fields = ("pseudo_count", "suff_stat", "min_shape", "max_shape", "min_scale", "name", "keys")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: tuple[float, float] | None = None,
        min_shape: float = 1e-3,
        max_shape: float = 1e3,
        min_scale: float = 1e-12,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        super().__init__(pseudo_count, suff_stat, name, keys)
        self.min_shape, self.max_shape = positive(min_shape, "min_shape"), positive(max_shape, "max_shape")
        if self.max_shape < self.min_shape:
            raise ValueError(f"max_shape {max_shape!r} is below min_shape {min_shape!r}; pass the smaller as min_shape")
        self.min_scale = positive(min_scale, "min_scale")

    def _estimate(self, stat: LocalSums) -> WeibullDistribution:
        prior = None
        if self.weighted_pair is not None:
            weight, shape, scale = self.weighted_pair
            prior = (weight, shape, math.log(scale))
        found = fit_extreme(stat, prior, (self.min_shape, self.max_shape))
        if found is None:
            return WeibullDistribution(1.0, 1.0, self.name, self.keys)
        shape, scale = found[0], max(math.exp(min(found[1], 709.0)), self.min_scale)
        model = WeibullDistribution(shape, scale, self.name, self.keys)
        held = shape in {self.min_shape, self.max_shape} or scale == self.min_scale
        return repaired(model, "Weibull: a parameter was held at its bound") if held else model
