"""Counts with more zeros than their law gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixle.stats.combinators.drawing import WrappingSampler
from mixle.stats.combinators.fields import plain_list
from mixle.stats.combinators.missing import OptionalRows
from mixle.stats.combinators.parts import supported
from mixle.stats.combinators.wrapping import WrappedRows, WrappingEncoder, WrappingFactory
from mixle.stats.combinators.zero_share import (
    ZeroShareAccumulator,
    ZeroShareDistribution,
    ZeroShareEstimator,
    share_of,
)
from mixle.stats.combinators.zero_split import log_shares
from mixle.stats.combinators.zeros import is_continuous, zero_densities, zero_rows
from mixle.stats.domains import fraction
from mixle.stats.leaf import as_rows
from mixle.stats.stacking.split import ZeroWeights
from mixle.stats.stacking.statistic import OptionalWeights
from mixle.stats.sums import block_sum, signed_suff_stat

__all__ = [
    "ZeroInflatedAccumulator",
    "ZeroInflatedDistribution",
    "ZeroInflatedEncoder",
    "ZeroInflatedEstimator",
    "ZeroInflatedSampler",
]


#: Share of the rows that are no zero which a start counts as structural ones too: a start that happens to keep no zero
#: would set the share of structural zeros to 0, which EM never leaves.
OPEN = 0.01
#: Bases that stack: their zeros are added to the statistic when all rows have been seen.
_STACKED = frozenset({"Geometric", "IntegerCategorical", "NegativeBinomial", "Poisson"})


class ZeroInflatedEncoder(WrappingEncoder):
    """The child's encoder, and which rows are zero."""

    def seq_encode(self, rows: Sequence[Any]) -> WrappedRows:
        """Encode rows as the child does."""
        payload = self.encoder.seq_encode(rows)
        return WrappedRows(OptionalRows(len(rows), None, payload), (zero_rows(rows),))


class ZeroInflatedAccumulator(ZeroShareAccumulator):
    """Statistic ``(child's value, expected structural zeros, weight)``."""

    def __init__(self, accumulator: Any, start: float = 0.5, keys: Any = None) -> None:
        super().__init__(accumulator, keys)
        self.start_share, self._begins = start, False

    def seq_initialize(self, x: Any, weights: np.ndarray, rng: Any) -> None:
        """Add encoded rows before there is a model."""
        self._begins = True
        try:
            super().seq_initialize(x, weights, rng)
        finally:
            self._begins = False

    def start(self, enc: Any, draws: np.ndarray, centres: Any, p: float, weights: Any = None) -> None:
        """Add the rows whose draw is below `p`, the child's mixtures starting from seeded centres."""
        self._begins = True
        try:
            super().start(enc, draws, centres, p, weights)
        finally:
            self._begins = False

    def weigh(self, x: WrappedRows, weights: np.ndarray, model: Any) -> np.ndarray:
        """Return what each row weighs for the child: the chance that it is no structural zero."""
        (zero,) = x.extra
        if model is None:
            share = np.where(zero, self.start_share, OPEN * self.start_share if self._begins else 0.0)
            known = supported(self.accumulator, x.rows.payload)
            if known is not None:
                share[zero & ~known] = 1.0
        else:
            share = model.structural(x)
        structural = share * weights
        self.sums[0] += block_sum(structural)
        self.sums[1] += block_sum(weights)
        return np.asarray((1.0 - share) * weights)

    def supported_rows(self, x: WrappedRows) -> np.ndarray | None:
        """Return which rows are zero or supported by the child, shape (n,), or None for all."""
        known = super().supported_rows(x)
        return None if known is None else known | x.extra[0]

    def acc_to_encoder(self) -> ZeroInflatedEncoder:
        """Return the encoder."""
        return ZeroInflatedEncoder(self.accumulator.acc_to_encoder())


class ZeroInflatedDistribution(ZeroShareDistribution):
    """Law of counts, a share of which are zero whatever the base says.

    ``p(0) = π + (1 − π) f(0)``, ``p(x) = (1 − π) f(x)`` elsewhere.

    Parameters
    ----------
    base : distribution
        Law f of counts (or of labels that are numbers).
    pi : float
        Probability π of a structural zero.
    name, keys
        Label and tying key of the whole.

    Raises
    ------
    TypeError
        If the base has a density: each of its zeros would be structural, which is a `HurdleDistribution`.

    References
    ----------
    D. Lambert, "Zero-inflated Poisson regression, with an application to defects in manufacturing", Technometrics 34,
    1992.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> d = ZeroInflatedDistribution(PoissonDistribution(2.0), 0.25)
    >>> round(d.density(0), 6), round(d.density(1), 6)
    (0.351501, 0.203003)
    """

    kind = "ZeroInflated"

    def __init__(self, base: Any, pi: float, name: str | None = None, keys: Any = None) -> None:
        if is_continuous(base):
            raise TypeError(
                f"a ZeroInflated needs a law of counts, {type(base).__name__} has a density; "
                "for zeros beside a density use HurdleDistribution(base, pi)"
            )
        super().__init__(base, pi, name, keys)

    def dist_to_encoder(self) -> ZeroInflatedEncoder:
        """Return the encoder."""
        return ZeroInflatedEncoder(self.base.dist_to_encoder())

    @property
    def log_passed(self) -> float:
        """Return log(1 − π)."""
        return math.log1p(-self.pi) if self.pi < 1.0 else -math.inf

    def split_terms(self, members: Sequence[Any]) -> np.ndarray:
        """Return what K laws add to their base's log-density of rows that are not zero, and that of zeros (K, 2)."""
        passed = np.array([member.log_passed for member in members])
        zero = np.logaddexp(zero_densities([member.base for member in members]) + passed, log_shares(members))
        return np.stack([passed, zero], axis=1)

    def own_shares(self, members: Sequence[Any]) -> np.ndarray:
        """Return the share of the zeros of K laws that is structural, shape (K,)."""
        shares = log_shares(members)
        with np.errstate(invalid="ignore"):
            structural = np.minimum(np.exp(shares - self.split_terms(members)[:, 1]), 1.0)
        return np.where(shares > -np.inf, structural, 0.0)

    def stack_node(self) -> tuple[str, Any] | None:
        """Return how this part stacks over a component axis."""
        return super().stack_node() if _stacks(self.base) else None

    def seq_log_density(self, x: WrappedRows) -> np.ndarray:
        """Return the log-densities, shape (n,)."""
        result = np.asarray(self.base.seq_log_density(x.rows.payload)) + self.log_passed
        (zero,) = x.extra
        result[zero] = np.logaddexp(result[zero], self.log_share)
        return result

    def structural(self, x: WrappedRows) -> np.ndarray:
        """Return the chance that each encoded row is a structural zero, shape (n,)."""
        (zero,) = x.extra
        share = np.zeros(len(zero))
        if self.log_share > -math.inf:
            share[zero] = np.minimum(np.exp(self.log_share - self.seq_log_density(x)[zero]), 1.0)
        return share

    def sampler(self, seed: int | None = None) -> ZeroInflatedSampler:
        """Return a sampler."""
        return ZeroInflatedSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> ZeroInflatedEstimator:
        """Return the estimator; `pseudo_count` weighs the base as a prior, and structural zeros evenly."""
        return ZeroInflatedEstimator(self.base.estimator(pseudo_count), pseudo_count, self.name, self.keys)


def _stacks(base: Any) -> bool:
    return getattr(getattr(base, "leaf", None), "name", None) in _STACKED


class ZeroInflatedSampler(WrappingSampler):
    """Sampler of a `ZeroInflatedDistribution`."""

    inside = "base"

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a count, or a list of `size` counts."""
        zero = self.rng.random_sample(1 if size is None else size) < self.dist.pi
        values = [self.child.sample()] if size is None else plain_list(self.child.sample(size))
        drawn = [0 if gone else value for gone, value in zip(zero.tolist(), values, strict=True)]
        return drawn[0] if size is None else drawn


class ZeroInflatedEstimator(ZeroShareEstimator):
    """Estimator of a `ZeroInflatedDistribution` by EM: whether a zero is structural is what is hidden.

    Parameters
    ----------
    base_estimator : estimator
        Estimator of the law of counts.
    pseudo_count : float, optional
        Weight of a prior, half of it structural zeros.
    name, keys
        Label and tying key of what is fitted.
    initial_inflation_probability : float
        Share of the zeros that a start takes for structural.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> from mixle.stats import PoissonEstimator
    >>> rows = [0] * 60 + [1] * 10 + [2] * 14 + [3] * 9 + [5] * 7
    >>> model = optimize(rows, ZeroInflatedEstimator(PoissonEstimator()), max_its=200, delta=1e-12, out=None)
    >>> round(model.pi, 4), round(model.base.lam, 4)
    (0.5519, 2.2316)
    """

    kind = "ZeroInflated"
    _keyword_fields = ("pseudo_count", "name", "keys", "initial_inflation_probability")

    def __init__(
        self,
        base_estimator: Any,
        pseudo_count: float | None = None,
        name: str | None = None,
        keys: Any = None,
        initial_inflation_probability: float = 0.5,
    ) -> None:
        super().__init__(base_estimator, pseudo_count, name, keys)
        self.initial_inflation_probability = fraction(initial_inflation_probability, "initial_inflation_probability")

    def accumulator_factory(self) -> WrappingFactory:
        """Return the factory."""
        factory = self.base_estimator.accumulator_factory()
        return WrappingFactory(ZeroInflatedAccumulator, factory, self.initial_inflation_probability, self.keys)

    def split_statistics(
        self, members: Sequence[Any], sums: tuple[OptionalWeights, Any], _: Any
    ) -> tuple[ZeroWeights, Any]:
        """Return the weights of K laws before there is a model, and the statistic of their bases."""
        opened = OPEN * self.initial_inflation_probability
        found, child = super().split_statistics(members, sums, _)
        return found._replace(own=found.own + sums[0].present * opened), signed_suff_stat(child, 1.0 - opened)

    def own_shares(self, members: Sequence[Any]) -> np.ndarray:
        """Return the share of the zeros that K estimators take for structural in a start, shape (K,)."""
        outside = as_rows(self.base_estimator.accumulator_factory().make().acc_to_encoder().seq_encode([0])).outside
        unknown = outside is not None and bool(outside[0])
        return np.full(len(members), 1.0 if unknown else self.initial_inflation_probability)

    def stack_node(self) -> tuple[str, Any] | None:
        """Return how this part stacks over a component axis."""
        if not _stacks(self.base_estimator):
            return None
        found = super().stack_node()
        return found and (found[0], found[1]._replace(tag=self.initial_inflation_probability))

    def estimate(self, nobs: float | None, suff_stat: Any) -> ZeroInflatedDistribution:
        """Return the fitted distribution; the child is told the weight that is not structural."""
        child, structural, total = suff_stat
        base = self.base_estimator.estimate(None if self.keys is not None else total - structural, child)
        return ZeroInflatedDistribution(base, share_of(structural, total, self.pseudo_count), self.name, self.keys)
