"""A law of which only some values are ever seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import SupportError
from mixle.stats.combinators.drawing import WrappingSampler
from mixle.stats.combinators.hurdle import refuse_tied_base
from mixle.stats.combinators.missing import OptionalRows
from mixle.stats.combinators.truncation import Kept
from mixle.stats.combinators.wrapping import (
    ShellAccumulator,
    WrappedRows,
    WrappingEncoder,
    WrappingEstimator,
    WrappingFactory,
)
from mixle.stats.combinators.zeros import counts
from mixle.stats.contract import DataSequenceEncoder, SequenceEncodableProbabilityDistribution
from mixle.stats.domains import nonnegative
from mixle.stats.enumeration import moved, ranked, refuse
from mixle.stats.given import estimator_given, law_given
from mixle.stats.leaf import Rows
from mixle.stats.refusals import LEAVE_OUT
from mixle.stats.regions import region_points
from mixle.stats.stacking.tree import Shell
from mixle.stats.sums import block_sum, signed_suff_stat
from mixle.stats.unseen import fit_seen

__all__ = [
    "TruncatedAccumulator",
    "TruncatedDistribution",
    "TruncatedEncoder",
    "TruncatedEstimator",
    "TruncatedSampler",
    "TruncatedStatistics",
]

#: Relative length of a step at which a fit ends.
THRESHOLD = 1e-10


class TruncatedStatistics(NamedTuple):
    """Statistic of a `TruncatedEstimator`.

    Attributes
    ----------
    schema_version : int
        1.
    child : object
        Statistic of the base over the rows.
    accepted_weight : float
        Weight of the rows.
    rejected_weight : float
        0: a fit refuses rows that cannot be seen.
    """

    schema_version: int
    child: Any
    accepted_weight: float
    rejected_weight: float

    def scaled(self, c: float) -> TruncatedStatistics:
        """Return the statistic of weights times `c`."""
        child = signed_suff_stat(self.child, c)
        return TruncatedStatistics(self.schema_version, child, self.accepted_weight * c, self.rejected_weight * c)


class TruncatedEncoder(WrappingEncoder):
    """The child's encoder, and which rows can be seen."""

    def __init__(self, encoder: DataSequenceEncoder, kept: Kept) -> None:
        super().__init__(encoder)
        self.kept = kept

    def seq_encode(self, rows: Sequence[Any]) -> WrappedRows:
        """Encode rows as the child does."""
        payload = self.encoder.seq_encode(rows)
        return WrappedRows(OptionalRows(len(rows), None, payload), (self.kept.inside(rows),))


class TruncatedAccumulator(ShellAccumulator):
    """Accumulator of a `TruncatedEstimator`."""

    layout = TruncatedStatistics

    def __init__(self, accumulator: Any, kept: Kept, keys: Any = None) -> None:
        super().__init__(accumulator, keys)
        self.kept = kept

    def weigh(self, x: WrappedRows, weights: np.ndarray, model: Any) -> np.ndarray:
        """Return the weights.

        Raises
        ------
        SupportError
            If a row of positive weight cannot be seen.
        """
        self.sums[0] += block_sum(weights)
        (inside,) = x.extra
        lost = np.flatnonzero(~inside & (weights > 0.0))
        if lost.size:
            raise SupportError(f"the value is cut off: {self.kept}; {LEAVE_OUT}", "Truncated", int(lost[0]))
        return weights

    def supported_rows(self, x: WrappedRows) -> np.ndarray | None:
        """Return which rows can be seen and are supported by the child, shape (n,)."""
        mask = super().supported_rows(x)
        return x.extra[0] if mask is None else x.extra[0] & mask

    def acc_to_encoder(self) -> TruncatedEncoder:
        """Return the encoder."""
        return TruncatedEncoder(self.accumulator.acc_to_encoder(), self.kept)


class _Cut:
    """What the law and its estimator share: which values are seen, and how they stack; a subclass does not."""

    _fields: ClassVar[tuple[str, ...]]

    def _keep(self, kept: Kept, base: Any) -> None:
        kept.check(base)
        self.kept = kept
        self.allowed, self.forbidden, self.low, self.high = kept.allowed, kept.forbidden, kept.low, kept.high

    def shell_rows(self, x: WrappedRows) -> Rows:
        """Return which encoded rows cannot be seen."""
        (inside,) = x.extra
        return Rows(inside, None, None if inside.all() else ~inside)

    def stack_node(self) -> tuple[str, Any] | None:
        """Return how this part stacks over a component axis."""
        own = type(self) in (TruncatedDistribution, TruncatedEstimator)
        return ("shell", Shell("Truncated", self.kept, getattr(self, self._fields[0]))) if own else None


class TruncatedDistribution(_Cut, SequenceEncodableProbabilityDistribution):
    """Law of the base, given that the value can be seen: ``p(x) = f(x) / P(seen)``.

    Give the values that are seen (`allowed`), those that are not (`forbidden`), or the bounds between which values
    are seen (`low`, `high`, both seen themselves).

    Parameters
    ----------
    base : distribution
        Law f of all values. Values can be listed for laws of counts or labels; bounds need a law whose probability
        of an interval is known (`mixle.stats.regions`).
    allowed, forbidden : sequence, optional
        The only values that are seen, or the only ones that are not.
    name, keys
        Label and tying key of the whole.
    low, high : float, optional
        Bounds.

    Raises
    ------
    ValueError
        Without or with more than one of the three, or if no value has probability.
    TypeError
        If the probability of being seen is not known for this base.

    References
    ----------
    A. C. Cohen, "Truncated and Censored Samples: Theory and Applications", 1991.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, PoissonDistribution
    >>> round(TruncatedDistribution(PoissonDistribution(3.0), allowed=[1, 2, 3]).log_density(1), 9)
    -1.386294361
    >>> d = TruncatedDistribution(GaussianDistribution(0.0, 1.0), low=1.0)
    >>> round(d.log_density(1.0), 9), d.log_density(0.5)
    (0.422083112, -inf)
    """

    _fields = ("base",)
    _keyword_fields = ("allowed", "forbidden", "name", "keys", "low", "high")

    def __init__(
        self,
        base: Any,
        allowed: Sequence[Any] | None = None,
        forbidden: Sequence[Any] | None = None,
        name: str | None = None,
        keys: Any = None,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        self.base, self.name, self.keys = law_given(base, "Truncated"), name, keys
        self._keep(Kept(allowed, forbidden, low, high), base)
        if self.log_seen == -math.inf:
            raise ValueError(f"a Truncated needs values of positive probability: {base} has none of {self.kept}")

    @property
    def log_seen(self) -> float:
        """Return the logarithm of the probability of being seen under the base."""
        known: float | None = self.__dict__.get("_cached_seen")
        if known is None:
            known = self.__dict__["_cached_seen"] = self.kept.log_seen(self.base)
        return known

    def dist_to_encoder(self) -> TruncatedEncoder:
        """Return the encoder."""
        return TruncatedEncoder(self.base.dist_to_encoder(), self.kept)

    def seq_log_density(self, x: WrappedRows) -> np.ndarray:
        """Return the log-densities, shape (n,)."""
        found = np.asarray(self.base.seq_log_density(x.rows.payload)) - self.log_seen
        return np.where(x.extra[0], found, -np.inf)

    @property
    def log_constant(self) -> float:
        """Return what is added to the base's log-density of a value that is seen."""
        return -self.log_seen

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the outcomes of the base that are seen, the most probable first."""
        if self.allowed is not None:
            return ranked((value, self.log_density(value)) for value in self.allowed)
        if self.high is None:
            return moved(self.base.outcomes(), -self.log_seen, lambda value: bool(self.kept.inside([value])[0]))
        if not counts(self.base):
            raise refuse(self, "its outcomes are not listed by their probability")
        points = region_points(self.base, [-np.inf if self.low is None else self.low], [self.high])[0]
        return ranked((value, self.log_density(value)) for value in np.unique(points).astype(int).tolist())

    def sampler(self, seed: int | None = None) -> TruncatedSampler:
        """Return a sampler."""
        return TruncatedSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> TruncatedEstimator:
        """Return the estimator; `pseudo_count` weighs the base's parameters as a prior."""
        return TruncatedEstimator(
            self.base.estimator(pseudo_count), self.allowed, self.forbidden, self.name, self.keys,
            low=self.low, high=self.high,
        )  # fmt: skip


class TruncatedSampler(WrappingSampler):
    """Sampler of a `TruncatedDistribution`: what cannot be seen is drawn again, or its law inverted where rare."""

    inside = "base"

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a value, or a list of `size` values."""
        count = 1 if size is None else size
        drawn = self.dist.kept.draw(self.dist.base, self.dist.log_seen, self.child, self.rng, count)
        return drawn[0] if size is None else drawn


class TruncatedEstimator(_Cut, WrappingEstimator):
    """Maximum-likelihood estimator of a `TruncatedDistribution`.

    The base is fitted as the law of all values, those never seen included in their expected numbers
    (`mixle.stats.unseen.fit_seen`), not as if the seen ones were all.

    Parameters
    ----------
    base_estimator : estimator
        Estimator of the law of all values.
    allowed, forbidden : sequence, optional
        The only values that are seen, or the only ones that are not.
    name : str, optional
        Label of the fitted distribution.
    keys : hashable, optional
        Tying key of the whole; the base must not have keys of its own.
    low, high : float, optional
        Bounds between which values are seen.
    max_iter : int
        Largest number of rounds of the fit.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> estimator = TruncatedEstimator(PoissonEstimator(), forbidden=[0])
    >>> round(estimator.estimate(None, TruncatedStatistics(1, (3.0, 8.0), 3.0, 0.0)).base.lam, 6)
    2.432484
    """

    _fields = ("base_estimator",)
    _keyword_fields = ("allowed", "forbidden", "name", "keys", "low", "high", "max_iter")

    def __init__(
        self,
        base_estimator: Any,
        allowed: Sequence[Any] | None = None,
        forbidden: Sequence[Any] | None = None,
        name: str | None = None,
        keys: Any = None,
        low: float | None = None,
        high: float | None = None,
        max_iter: int = 200,
    ) -> None:
        self.base_estimator, self.name, self.keys = estimator_given(base_estimator, "Truncated"), name, keys
        self._keep(Kept(allowed, forbidden, low, high), base_estimator)
        self.max_iter = int(nonnegative(max_iter, "max_iter"))

    def child_value(self, suff_stat: Any) -> Any:
        """Return the child's part of a statistic."""
        return suff_stat[1]

    def accumulator_factory(self) -> WrappingFactory:
        """Return the factory.

        Raises
        ------
        KeyValidationError
            If the base has a key of its own: rows pooled from elsewhere would be taken for truncated ones.
        """
        refuse_tied_base(self.base_estimator, "Truncated")
        return WrappingFactory(
            TruncatedAccumulator, self.base_estimator.accumulator_factory(), self.kept, self.keys
        )  # fmt: skip

    def estimate(self, nobs: float | None, suff_stat: Any) -> TruncatedDistribution:
        """Return the fitted distribution."""
        _, child, accepted, _ = suff_stat
        encoder = self.base_estimator.accumulator_factory().make().acc_to_encoder()
        base = fit_seen(
            self.base_estimator, child, float(accepted), lambda dist: self.kept.unseen(dist, encoder),
            self.max_iter, THRESHOLD,
        )  # fmt: skip
        return TruncatedDistribution(
            base, self.allowed, self.forbidden, self.name, self.keys, low=self.low, high=self.high
        )  # fmt: skip
