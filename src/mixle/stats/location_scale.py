"""What laws of two parameters share: location and scale, a prior pair and its weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from mixle.stats.contract import DistributionSampler
from mixle.stats.domains import finite, nonnegative, parts_of, positive
from mixle.stats.leaf import LeafDistribution, LeafEstimator, repaired

__all__ = ["LocationScaleDistribution", "LocationScaleEstimator", "PairDistribution", "PairEstimator"]


class PairDistribution(LeafDistribution):
    """A law of two parameters, which are the prior value of its estimator."""

    sampler_type: ClassVar[type[DistributionSampler]]

    @property
    def pair(self) -> tuple[float, float]:
        """Return both parameters."""
        first, second = (getattr(self, name) for name in self._fields)
        return first, second

    def sampler(self, seed: int | None = None) -> DistributionSampler:
        """Return a sampler."""
        return self.sampler_type(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> Any:
        """Return the estimator; `pseudo_count` weighs these parameters as a prior, in rows."""
        import mixle.stats

        prior = None if pseudo_count is None else self.pair
        estimator = getattr(mixle.stats, f"{self.leaf.name}Estimator")
        return estimator(pseudo_count, prior, name=self.name, keys=self.keys)


class LocationScaleDistribution(PairDistribution):
    """A law of ``z = (x − loc) / scale``.

    Parameters
    ----------
    loc : float
        Location.
    scale : float
        Scale, > 0.
    name, keys
        Label and tying key.
    """

    _keyword_fields: ClassVar[tuple[str, ...]] = ("loc", "scale", "name", "keys")

    def __init__(self, loc: float = 0.0, scale: float = 1.0, name: str | None = None, keys: Any = None) -> None:
        self.loc = finite(loc, f"loc of a {self.leaf.name}")
        self.scale = positive(scale, f"scale of a {self.leaf.name}")
        self._finish(name, keys)

    @property
    def pair(self) -> tuple[float, float]:
        """Return location and scale."""
        return self.loc, self.scale


class PairEstimator(LeafEstimator):
    """Estimator of a law of two parameters with optional smoothing towards a prior pair.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : (float, float), optional
        Prior values of both parameters.
    name, keys
        Label and tying key.
    """

    _keyword_fields: ClassVar[tuple[str, ...]] = ("pseudo_count", "suff_stat", "name", "keys")
    #: Domains of both parameters.
    domains: ClassVar[tuple[Callable[[Any, str], float], Callable[[Any, str], float]]] = (finite, positive)

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: tuple[float, float] | None = None,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat: tuple[float, float] | None = None
        if suff_stat is not None:
            first, second = parts_of(suff_stat, "suff_stat", 2)
            self.suff_stat = (self.domains[0](first, "suff_stat"), self.domains[1](second, "suff_stat"))
        self.name, self.keys = name, keys

    @property
    def weighted_pair(self) -> tuple[float, float, float] | None:
        """Return weight and values of the prior, or None without one."""
        return (self.pseudo_count, *self.suff_stat) if self.pseudo_count and self.suff_stat is not None else None


class LocationScaleEstimator(PairEstimator):
    """Estimator of a law with a location and a scale.

    Parameters
    ----------
    pseudo_count, suff_stat : float and (float, float), optional
        Weight of the prior in rows, and its location and scale.
    min_scale : float
        Floor of the scale.
    name, keys
        Label and tying key.
    """

    _keyword_fields: ClassVar[tuple[str, ...]] = ("pseudo_count", "suff_stat", "min_scale", "name", "keys")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: tuple[float, float] | None = None,
        min_scale: float = 1e-8,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        super().__init__(pseudo_count, suff_stat, name, keys)
        self.min_scale = positive(min_scale, "min_scale")

    def above_floor(self, scale: float, *others: float) -> Any:
        """Return the law of the `others` and this scale or its floor; the law's repairs tell the latter."""
        scale = max(scale, self.min_scale)
        model = self.law(*others, scale)
        note = f"{self.leaf.name}: the scale was raised to its floor"
        return repaired(model, note) if scale == self.min_scale else model
