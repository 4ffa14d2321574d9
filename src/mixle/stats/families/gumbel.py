"""The Gumbel law: the largest of many, such as yearly floods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from mixle.stats.contract import Column, DistributionSampler
from mixle.stats.domains import finite, nonnegative, positive
from mixle.stats.extreme import ExtremeLeaf, fit_extreme
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows, as_rows, repaired
from mixle.stats.local_sums import LocalSums
from mixle.stats.reading import read_numbers

__all__ = ["GumbelDistribution", "GumbelEstimator", "GumbelSampler"]


class _Gumbel(ExtremeLeaf):
    name: ClassVar[str] = "Gumbel"

    def encode(self, rows: Sequence[Any]) -> Rows:
        return Rows(-read_numbers(rows, self.name, squared=True))

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        return [Column(-as_rows(payload).cut(start, stop).x)]

    def parameters(self, dist: Any) -> tuple[float, float]:
        return 1.0 / dist.scale, -dist.loc


class GumbelDistribution(LeafDistribution):
    """Gumbel distribution of largest values, ``exp(−z − exp(−z)) / s`` with ``z = (x − loc) / s``.

    Parameters
    ----------
    loc : float
        Location, the mode; the mean is ``loc + 0.5772 scale``.
    scale : float
        Scale s, > 0; the variance is ``s² π² / 6``.
    name, keys
        Label and tying key.

    Examples
    --------
    >>> round(GumbelDistribution(1.0, 2.0).log_density(1.0), 12)
    -1.69314718056
    """

    leaf = _Gumbel()
    _keyword_fields = ("loc", "scale", "name", "keys")

    def __init__(self, loc: float = 0.0, scale: float = 1.0, name: str | None = None, keys: Any = None) -> None:
        self.loc = finite(loc, "loc of a Gumbel")
        self.scale = positive(scale, "scale of a Gumbel")
        self._finish(name, keys)

    def sampler(self, seed: int | None = None) -> GumbelSampler:
        """Return a sampler."""
        return GumbelSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> GumbelEstimator:
        """Return the estimator; `pseudo_count` weighs this location and scale as a prior."""
        prior = None if pseudo_count is None else (self.loc, self.scale)
        return GumbelEstimator(pseudo_count, prior, name=self.name, keys=self.keys)


class GumbelSampler(DistributionSampler):
    """Sampler of a `GumbelDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a float, or an array of shape (size,)."""
        drawn = self.rng.gumbel(self.dist.loc, self.dist.scale, size=size)
        return float(drawn) if size is None else drawn


class GumbelEstimator(LeafEstimator):
    """Estimator of a `GumbelDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior, in rows; it is used only with `suff_stat`.
    suff_stat : (float, float), optional
        Prior location and scale.
    min_scale : float
        Floor of the scale.
    name, keys
        Label and tying key.

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
    _keyword_fields = ("pseudo_count", "suff_stat", "min_scale", "name", "keys")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: tuple[float, float] | None = None,
        min_scale: float = 1e-8,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None
        if suff_stat is not None:
            loc, scale = suff_stat
            self.suff_stat = (finite(loc, "suff_stat"), positive(scale, "suff_stat"))
        self.min_scale = positive(min_scale, "min_scale")
        self.name, self.keys = name, keys

    def _estimate(self, stat: LocalSums) -> GumbelDistribution:
        prior = None
        if self.pseudo_count and self.suff_stat is not None:
            prior = (self.pseudo_count, 1.0 / self.suff_stat[1], -self.suff_stat[0])
        found = fit_extreme(stat, prior, (1e-300, 1.0 / self.min_scale))
        if found is None:
            return GumbelDistribution(0.0, 1.0, self.name, self.keys)
        scale = max(1.0 / found[0], self.min_scale)
        model = GumbelDistribution(-found[1], scale, self.name, self.keys)
        return repaired(model, "Gumbel: the scale was raised to its floor") if scale == self.min_scale else model
