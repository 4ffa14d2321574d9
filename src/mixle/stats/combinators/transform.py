"""A law of numbers seen through a fixed invertible function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import SupportError, TransformCompatibilityError
from mixle.stats.combinators.drawing import WrappingSampler
from mixle.stats.combinators.missing import OptionalRows
from mixle.stats.combinators.transforms import transform_named
from mixle.stats.combinators.wrapping import (
    ShellAccumulator,
    WrappedRows,
    WrappingEncoder,
    WrappingEstimator,
    WrappingFactory,
    kept_rows,
    outside_rows,
)
from mixle.stats.combinators.zeros import counts
from mixle.stats.contract import DataSequenceEncoder, SequenceEncodableProbabilityDistribution
from mixle.stats.enumeration import refuse
from mixle.stats.given import estimator_given, law_given
from mixle.stats.leaf import Rows
from mixle.stats.reading import read_numbers
from mixle.stats.refusals import LEAVE_OUT
from mixle.stats.stacking.tree import Shell
from mixle.stats.sums import block_sum, signed_suff_stat

__all__ = [
    "TransformAccumulator",
    "TransformDistribution",
    "TransformEncoder",
    "TransformEstimator",
    "TransformSampler",
    "TransformStatistics",
]

#: Laws of all numbers: a transform of numbers above 0 would lose some of their mass.
_EVERYWHERE = frozenset({"Gaussian", "Gumbel", "Laplace", "Logistic", "SkewNormal", "StudentT"})


class TransformStatistics(NamedTuple):
    """Statistic of a `TransformEstimator`.

    Attributes
    ----------
    schema_version : int
        1.
    child : object
        Statistic of the child.
    accepted_weight : float
        Weight of the rows.
    rejected_weight : float
        0: a fit refuses rows outside the domain of the transform.
    """

    schema_version: int
    child: Any
    accepted_weight: float
    rejected_weight: float

    def scaled(self, c: float) -> TransformStatistics:
        """Return the statistic of weights times `c`."""
        child = signed_suff_stat(self.child, c)
        return TransformStatistics(self.schema_version, child, self.accepted_weight * c, self.rejected_weight * c)


class TransformEncoder(WrappingEncoder):
    """Encoder that hands the inverse of each row to the child's encoder and keeps the logarithm of its slope."""

    def __init__(self, encoder: DataSequenceEncoder, transform: Any, slope: bool, whole: bool) -> None:
        super().__init__(encoder)
        self.transform, self.slope, self.whole = transform, slope, whole

    def seq_encode(self, rows: Sequence[Any]) -> WrappedRows:
        """Encode rows.

        Raises
        ------
        RowError
            Naming the first row that is no finite number, or whose inverse the child cannot read.
        """
        y = read_numbers(rows, "Transform")
        x = np.asarray(self.transform.inverse(y), float)
        inside = np.isfinite(x)
        if self.whole:
            x, inside = self._whole(x, y, inside)
        slopes = np.zeros(len(y))
        if self.slope:
            slopes[inside] = self.transform.log_abs_det_inverse_jacobian(y[inside])
        kept: OptionalRows = kept_rows(x, inside, self.encoder)
        return WrappedRows(kept, (slopes,))

    def _whole(self, x: np.ndarray, y: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x as whole numbers, and which of them give y back to rounding."""
        nearest = np.rint(np.where(inside, x, 0.0))
        back = np.zeros(len(y))
        back[inside] = self.transform.forward(nearest[inside])
        return nearest, inside & (np.abs(back - y) <= 1e-9 * np.maximum(np.abs(y), np.abs(back)))


class TransformAccumulator(ShellAccumulator):
    """Accumulator of a `TransformEstimator`."""

    layout = TransformStatistics
    part: ClassVar[str] = "dist"

    def __init__(self, accumulator: Any, transform: Any, slope: bool, whole: bool, keys: Any = None) -> None:
        super().__init__(accumulator, keys)
        self.transform, self.slope, self.whole = transform, slope, whole

    def weigh(self, x: WrappedRows, weights: np.ndarray, model: Any) -> np.ndarray:
        """Return the weights of the rows in the domain.

        Raises
        ------
        SupportError
            If a row of positive weight lies outside.
        """
        self.sums[0] += block_sum(weights)
        outside = outside_rows(x.rows)
        if outside is None:
            return weights
        lost = np.flatnonzero(outside & (weights > 0.0))
        if lost.size:
            raise SupportError(
                f"no number gives the value by {self.transform!r}; {LEAVE_OUT}", "Transform", int(lost[0])
            )
        return np.asarray(weights[x.rows.present])

    def supported_rows(self, x: WrappedRows) -> np.ndarray | None:
        """Return which rows are in the domain and supported by the child, shape (n,), or None for all."""
        mask = super().supported_rows(x)
        if x.rows.present is None:
            return mask
        inside = np.zeros(x.rows.count, bool)
        inside[x.rows.present] = True
        return inside if mask is None else inside & mask

    def acc_to_encoder(self) -> TransformEncoder:
        """Return the encoder."""
        return TransformEncoder(self.accumulator.acc_to_encoder(), self.transform, self.slope, self.whole)


class TransformDistribution(SequenceEncodableProbabilityDistribution):
    """Law of ``y = f(x)``, x having the law of the child: ``p(y) = p_x(f⁻¹(y)) |dx / dy|``.

    Parameters
    ----------
    dist : distribution
        Law of x, a number.
    transform : Transform or str, optional
        f: an object with `forward`, `inverse` and `log_abs_det_inverse_jacobian`, or one of the names "exp",
        "identity", "log", "logit", "sqrt" and "square"; the identity by default.
    density_correction : bool, optional
        Whether the slope of the inverse is part of the density; by default it is, unless the child counts.
    name, keys
        Label and tying key of the whole.

    Raises
    ------
    TransformCompatibilityError
        If `transform` is none, or is defined for numbers above 0 while the child is a law of all numbers.

    References
    ----------
    G. Casella, R. L. Berger, "Statistical Inference", 2002 (laws of functions of a random variable).

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> d = TransformDistribution(GaussianDistribution(0.0, 1.0), "exp")
    >>> round(d.log_density(0.5), 9), d.log_density(-1.0)
    (-0.46601786, -inf)
    """

    _fields = ("dist",)
    _keyword_fields = ("transform", "density_correction", "name", "keys")

    def __init__(
        self,
        dist: Any,
        transform: Any = None,
        density_correction: bool | None = None,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.dist, self.transform = law_given(dist, "Transform"), transform_named(transform)
        check_domain(dist, self.transform)
        self.density_correction = not counts(dist) if density_correction is None else bool(density_correction)
        self.name, self.keys = name, keys

    def dist_to_encoder(self) -> TransformEncoder:
        """Return the encoder."""
        return TransformEncoder(
            self.dist.dist_to_encoder(), self.transform, self.density_correction, counts(self.dist)
        )  # fmt: skip

    def seq_log_density(self, x: WrappedRows) -> np.ndarray:
        """Return the log-densities, shape (n,)."""
        inside = np.asarray(self.dist.seq_log_density(x.rows.payload))
        if x.rows.present is None:
            return np.asarray(inside + x.extra[0])
        result = np.full(x.rows.count, -np.inf)
        result[x.rows.present] = inside + x.extra[0][x.rows.present]
        return result

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the transforms of the child's outcomes, the most probable first."""
        if not counts(self.dist) or self.density_correction:
            raise refuse(self, "its outcomes are not listed by their probability")
        return (
            (float(self.transform.forward(np.array([value], float))[0]), score) for value, score in self.dist.outcomes()
        )

    @property
    def log_constant(self) -> float:
        """Return 0: what this adds to the child's log-density is the rows'."""
        return 0.0

    def shell_rows(self, x: WrappedRows) -> Rows:
        """Return what each encoded row adds to the log-density, and which rows lie outside the domain."""
        return _shell_rows(x)

    def stack_node(self) -> tuple[str, Any] | None:
        """Return how this part stacks over a component axis."""
        tag = (self.transform, self.density_correction, counts(self.dist))
        return ("shell", Shell("Transform", tag, self.dist)) if type(self) is TransformDistribution else None

    def sampler(self, seed: int | None = None) -> TransformSampler:
        """Return a sampler."""
        return TransformSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> TransformEstimator:
        """Return the estimator; `pseudo_count` weighs the child's parameters as a prior."""
        return TransformEstimator(
            self.dist.estimator(pseudo_count), self.transform, self.density_correction, self.name, self.keys
        )


def _shell_rows(x: WrappedRows) -> Rows:
    (slopes,) = x.extra
    return Rows(slopes, slopes if slopes.any() else None, outside_rows(x.rows))


def check_domain(part: Any, transform: Any) -> None:
    """Raise `TransformCompatibilityError` if a law of all numbers meets a transform of numbers above 0."""
    family = str(getattr(getattr(part, "leaf", None), "name", ""))
    if getattr(transform, "positive", False) and family in _EVERYWHERE:
        raise TransformCompatibilityError(
            f"{transform!r} takes numbers above 0, a {family} law has others too; use a law of positive numbers"
        )


class TransformSampler(WrappingSampler):
    """Sampler of a `TransformDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a float, or an array of shape (size,)."""
        drawn = np.asarray(self.child.sample(1 if size is None else size), float)
        values = np.asarray(self.dist.transform.forward(drawn), float)
        return float(values[0]) if size is None else values


class TransformEstimator(WrappingEstimator):
    """Estimator of a `TransformDistribution`: the child is fitted to the inverses of the rows; f stays as it is.

    Parameters
    ----------
    estimator : estimator
        Estimator of the law of x.
    transform : Transform or str, optional
        f, as for the distribution.
    density_correction : bool, optional
        Whether the slope of the inverse is part of the density; by default it is, unless the child counts.
    name, keys
        Label and tying key of what is fitted.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> from mixle.stats import GaussianEstimator
    >>> model = optimize([1.0, 4.0], TransformEstimator(GaussianEstimator(), "exp"), out=None)
    >>> round(model.dist.mu, 9)
    0.693147181
    """

    _fields = ("estimator",)
    _keyword_fields = ("transform", "density_correction", "name", "keys")
    _laws: ClassVar[tuple[str, ...]] = ("dist",)
    part: ClassVar[str] = "estimator"

    def __init__(
        self,
        estimator: Any,
        transform: Any = None,
        density_correction: bool | None = None,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.estimator, self.transform = estimator_given(estimator, "Transform"), transform_named(transform)
        check_domain(estimator, self.transform)
        self.density_correction = density_correction if density_correction is None else bool(density_correction)
        self.name, self.keys = name, keys

    def child_value(self, suff_stat: Any) -> Any:
        """Return the child's part of a statistic."""
        return suff_stat[1]

    def accumulator_factory(self) -> WrappingFactory:
        """Return the factory."""
        return WrappingFactory(TransformAccumulator, self.estimator.accumulator_factory(), *self._reading(), self.keys)

    def _reading(self) -> tuple[Any, bool, bool]:
        """Return the transform, whether its slope counts, and whether the child counts."""
        whole = counts(self.estimator)
        return self.transform, not whole if self.density_correction is None else self.density_correction, whole

    def shell_rows(self, x: WrappedRows) -> Rows:
        """Return what each encoded row adds to the log-density, and which rows lie outside the domain."""
        return _shell_rows(x)

    def stack_node(self) -> tuple[str, Any] | None:
        """Return how this part stacks over a component axis."""
        shell = Shell("Transform", self._reading(), self.estimator)
        return ("shell", shell) if type(self) is TransformEstimator else None

    def estimate(self, nobs: float | None, suff_stat: Any) -> TransformDistribution:
        """Return the fitted distribution; the child is told the weight of the rows."""
        _, child, accepted, _ = suff_stat
        dist = self.estimator.estimate(None if self.keys is not None else float(accepted), child)
        return TransformDistribution(dist, self.transform, self.density_correction, self.name, self.keys)
