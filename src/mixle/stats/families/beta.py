"""The beta law of a share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import Column
from mixle.stats.domains import positive, shape_parameter
from mixle.stats.families.dirichlet import LARGEST, SMALLEST, dirichlet_shapes
from mixle.stats.kinds import LinearLeaf
from mixle.stats.leaf import LeafDistribution, Rows, as_rows, repaired
from mixle.stats.linear import LinearEstimator, inside
from mixle.stats.number_sampler import NumberSampler
from mixle.stats.reading import read_numbers
from mixle.stats.special import beta_log, digamma

__all__ = ["BetaDistribution", "BetaEstimator", "BetaSampler"]


class _Beta(LinearLeaf):
    """Only the logarithms enter a fit; x and x² are part of the documented statistic."""

    name: ClassVar[str] = "Beta"
    width: ClassVar[int] = 4

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name)
        x, outside = inside(x, (x <= 0.0) | (x >= 1.0), 0.5)
        logs = np.log(x), np.log1p(-x)
        return Rows((*logs, x, x * x), -(logs[0] + logs[1]), outside)

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        """Return the shares as a column for a start."""
        return [Column(np.asarray(as_rows(payload).cut(start, stop).x[2]))]

    def support(self) -> str:
        return "the numbers between 0 and 1, without both"

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        return (dist.a, dist.b, 0.0, 0.0), -beta_log(dist.a, dist.b)


class BetaDistribution(LeafDistribution):
    """Beta distribution, ``x^(a−1) (1−x)^(b−1) / B(a, b)`` on the numbers between 0 and 1.

    Parameters
    ----------
    a, b : float
        Shapes, > 0; the mean is ``a / (a + b)``.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 2, chapter 25, 1995.

    Examples
    --------
    >>> round(BetaDistribution(2.0, 3.0).log_density(0.5), 12)
    0.405465108108
    """

    leaf = _Beta()
    _fields = ("a", "b")

    def __init__(self, a: float, b: float, name: str | None = None, keys: Any = None) -> None:
        self.a = shape_parameter(a, "a of a Beta")
        self.b = shape_parameter(b, "b of a Beta")
        self._finish(name, keys)

    def sampler(self, seed: int | None = None) -> BetaSampler:
        """Return a sampler."""
        return BetaSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> BetaEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's mean logarithms as a prior."""
        total = digamma(self.a + self.b)
        prior = None if pseudo_count is None else (digamma(self.a) - total, digamma(self.b) - total)
        return BetaEstimator(pseudo_count, prior, name=self.name, keys=self.keys)


class BetaSampler(NumberSampler):
    """Sampler of a `BetaDistribution`."""

    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,); draws that round to 0 or 1 become their neighbours."""
        drawn = self.rng.beta(self.dist.a, self.dist.b, size=size)
        return np.clip(drawn, np.finfo(float).tiny, np.nextafter(1.0, 0.0))


class BetaEstimator(LinearEstimator):
    """Maximum-likelihood estimator of a `BetaDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior in rows.
    suff_stat : (float, float), optional
        Prior means of log x and of log(1 − x); by default (−1, −1), those of the uniform law.
    delta : float
        Change of the shapes' logarithms at which Newton's method stops.
    name, keys
        Label and tying key.

    Notes
    -----
    A Dirichlet law of two shares, fitted as `DirichletEstimator` does. Without data both shapes are 1.

    Examples
    --------
    >>> model = BetaEstimator().estimate(None, (2.0, -2.0, -2.0, 1.0, 0.6))
    >>> round(model.a, 9), round(model.b, 9)
    (1.0, 1.0)
    """

    leaf = _Beta()
    features = 2
    _keyword_fields = ("pseudo_count", "suff_stat", "delta", "name", "keys")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: Sequence[float] | None = None,
        delta: float = 1e-8,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        super().__init__(pseudo_count, suff_stat, name, keys)
        if self.pseudo_count and self.suff_stat is None:
            self.suff_stat = (-1.0, -1.0)
        self.delta = positive(delta, "delta")

    def _fit(self, means: list[float]) -> BetaDistribution:
        a, b = dirichlet_shapes(np.array(means), self.delta).tolist()
        model = BetaDistribution(a, b, self.name, self.keys)
        held = min(a, b) <= SMALLEST or max(a, b) >= LARGEST
        return repaired(model, "Beta: a shape was held at its bound") if held else model

    def _without_data(self) -> BetaDistribution:
        return BetaDistribution(1.0, 1.0, self.name, self.keys)
