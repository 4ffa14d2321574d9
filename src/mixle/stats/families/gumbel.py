"""The Gumbel law: the largest of many, such as yearly floods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from mixle.stats.contract import Column
from mixle.stats.extreme import ExtremeLeaf, fit_extreme
from mixle.stats.leaf import Rows, as_rows
from mixle.stats.local_sums import LocalSums
from mixle.stats.location_scale import LocationScaleDistribution, LocationScaleEstimator
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers

__all__ = ["GumbelDistribution", "GumbelEstimator", "GumbelSampler"]


class _Gumbel(ExtremeLeaf):
    name: ClassVar[str] = "Gumbel"

    def encode(self, rows: Sequence[Any]) -> Rows:
        return Rows(-read_numbers(rows, self.name, squared=True))

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        return [Column(-as_rows(payload).cut(start, stop).x)]

    def parameters(self, dist: Any) -> tuple[float, float]:
        return 1.0 / max(dist.scale, 1e-300), -dist.loc


class GumbelSampler(NumberSampler):
    """Sampler of a `GumbelDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""
        return self.rng.gumbel(self.dist.loc, self.dist.scale, size=size)


class GumbelDistribution(LocationScaleDistribution):
    """Gumbel distribution of largest values, ``exp(−z − exp(−z)) / s`` with ``z = (x − loc) / s``.

    Parameters
    ----------
    loc : float
        Location, the mode; the mean is ``loc + 0.5772 scale``.
    scale : float
        Scale s, > 0; the variance is ``s² π² / 6``.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 2, chapter 22, 1995.

    Examples
    --------
    >>> round(GumbelDistribution(1.0, 2.0).log_density(1.0), 12)
    -1.69314718056
    """

    leaf = _Gumbel()
    sampler_type = GumbelSampler


class GumbelEstimator(LocationScaleEstimator):
    """Estimator of a `GumbelDistribution`.

    Parameters
    ----------
    pseudo_count, suff_stat, min_scale, name, keys
        As for `LaplaceEstimator`.

    Notes
    -----
    exp(−x) has a Weibull law of shape 1/scale, and is fitted as `WeibullEstimator` fits it: `optimize` converges to the
    maximum-likelihood fit; rows without a model give the fit by moments. Without data the law has location 0 and
    scale 1.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> model = optimize([1.0, 2.0, 3.0, 5.0], GumbelEstimator(), max_its=100)
    >>> round(model.loc, 4), round(model.scale, 4)
    (2.0491, 1.183)
    """

    leaf = _Gumbel()

    def _estimate(self, stat: LocalSums) -> Any:
        prior = None
        if self.weighted_pair is not None:
            weight, loc, scale = self.weighted_pair
            prior = (weight, 1.0 / scale, -loc)
        found = fit_extreme(stat, prior, (1e-300, 1.0 / self.min_scale))
        return self.law(0.0, 1.0) if found is None else self.above_floor(1.0 / found[0], -found[1])
