"""Counts, or amounts, whose zeros have a law of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixle.errors import KeyValidationError
from mixle.stats.combinators.drawing import WrappingSampler
from mixle.stats.combinators.fields import plain_list
from mixle.stats.combinators.wrapping import WrappedRows, WrappingEncoder, WrappingFactory, kept_rows
from mixle.stats.combinators.zero_share import (
    ZeroShareAccumulator,
    ZeroShareDistribution,
    ZeroShareEstimator,
    share_of,
)
from mixle.stats.combinators.zero_split import log_shares
from mixle.stats.combinators.zeros import zero_densities, zero_density, zero_rows
from mixle.stats.domains import nonnegative
from mixle.stats.keys import has_keys
from mixle.stats.sums import block_sum
from mixle.stats.tails import log_one_minus_exp
from mixle.stats.unseen import Unseen, fit_seen

__all__ = ["HurdleAccumulator", "HurdleDistribution", "HurdleEncoder", "HurdleEstimator", "HurdleSampler"]


class HurdleEncoder(WrappingEncoder):
    """Encoder that sets zeros apart and hands the other rows to the child's encoder."""

    def seq_encode(self, rows: Sequence[Any]) -> WrappedRows:
        """Encode rows.

        Raises
        ------
        RowError
            As the child raises it for a row that is not zero, with its position among all rows.
        """
        return WrappedRows(kept_rows(rows, ~zero_rows(rows), self.encoder))


class HurdleAccumulator(ZeroShareAccumulator):
    """Statistic ``(child's value of the rows that are not zero, weight of zeros, weight)``."""

    def weigh(self, x: WrappedRows, weights: np.ndarray, model: Any) -> np.ndarray:
        """Return the weights of the rows that are not zero."""
        self.sums[1] += block_sum(weights)
        if x.rows.present is None:
            return weights
        zero = np.ones(x.rows.count, bool)
        zero[x.rows.present] = False
        self.sums[0] += block_sum(weights[zero])
        return np.asarray(weights[x.rows.present])

    def acc_to_encoder(self) -> HurdleEncoder:
        """Return the encoder."""
        return HurdleEncoder(self.accumulator.acc_to_encoder())


class HurdleDistribution(ZeroShareDistribution):
    """Law that is zero with probability π, and else the base without its zeros.

    ``p(0) = π``, ``p(x) = (1 − π) f(x) / (1 − f(0))`` elsewhere. With a base that has a density (amounts of money or
    rain) ``1 − f(0)`` is 1, and the log-density of a row that is not zero is a density.

    Parameters
    ----------
    base : distribution
        Law f of counts, or of numbers.
    pi : float
        Probability π of a zero.
    name, keys
        Label and tying key of the whole.

    References
    ----------
    J. Mullahy, "Specification and testing of some modified count data models", Journal of Econometrics 33, 1986.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> d = HurdleDistribution(PoissonDistribution(2.0), 0.25)
    >>> round(d.density(0), 6), round(d.density(1), 6)
    (0.25, 0.234776)
    """

    kind = "Hurdle"

    @property
    def log_positive(self) -> float:
        """Return log(1 − f(0))."""
        return float(log_one_minus_exp(zero_density(self.base)))

    @property
    def log_passed(self) -> float:
        """Return log((1 − π) / (1 − f(0)))."""
        cut = self.log_positive
        return math.log1p(-self.pi) - cut if self.pi < 1.0 and cut > -math.inf else -math.inf

    def split_terms(self, members: Sequence[Any]) -> np.ndarray:
        """Return what K laws add to their base's log-density of rows that are not zero, and that of zeros (K, 2)."""
        cut = log_one_minus_exp(zero_densities([member.base for member in members]))
        with np.errstate(divide="ignore", invalid="ignore"):
            passed = np.where(cut > -np.inf, np.log1p([-member.pi for member in members]) - cut, -np.inf)
        return np.stack([passed, log_shares(members)], axis=1)

    def own_shares(self, members: Sequence[Any]) -> np.ndarray:
        """Return the share of the zeros of K laws that is not their bases': all."""
        return np.ones(len(members))

    def dist_to_encoder(self) -> HurdleEncoder:
        """Return the encoder."""
        return HurdleEncoder(self.base.dist_to_encoder())

    def seq_log_density(self, x: WrappedRows) -> np.ndarray:
        """Return the log-densities, shape (n,)."""
        inside = np.asarray(self.base.seq_log_density(x.rows.payload)) + self.log_passed
        if x.rows.present is None:
            return inside
        result = np.full(x.rows.count, self.log_share)
        result[x.rows.present] = inside
        return result

    def sampler(self, seed: int | None = None) -> HurdleSampler:
        """Return a sampler."""
        return HurdleSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> HurdleEstimator:
        """Return the estimator; `pseudo_count` weighs the base as a prior, and zeros evenly."""
        return HurdleEstimator(self.base.estimator(pseudo_count), pseudo_count, self.name, self.keys)


class HurdleSampler(WrappingSampler):
    """Sampler of a `HurdleDistribution`: draws of the base that are zero are drawn again."""

    inside = "base"

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a value, or a list of `size` values.

        Raises
        ------
        ValueError
            If the base is hardly ever anything but zero.
        """
        count = 1 if size is None else size
        zero = self.rng.random_sample(count) < self.dist.pi
        values = iter(self._positive(int(count - np.count_nonzero(zero))))
        drawn = [0 if gone else next(values) for gone in zero.tolist()]
        return drawn[0] if size is None else drawn

    def _positive(self, count: int) -> list[Any]:
        if count and self.dist.log_positive < math.log(1e-6):
            raise ValueError(
                f"a Hurdle cannot draw what is not zero: {self.dist.base} is nearly always zero; "
                "give it a base that is not, or pi=1.0"
            )
        found: list[Any] = []
        while len(found) < count:
            drawn = plain_list(self.child.sample(count - len(found)))
            found += [value for value, zero in zip(drawn, zero_rows(drawn), strict=True) if not zero]
        return found


class HurdleEstimator(ZeroShareEstimator):
    """Maximum-likelihood estimator of a `HurdleDistribution`.

    The two parts are fitted apart: π is the share of zeros, the base is fitted to the other rows with its zeros taken
    for unseen (`mixle.stats.unseen.fit_seen`), not as if it had none.

    Parameters
    ----------
    base_estimator : estimator
        Estimator of the base.
    pseudo_count : float, optional
        Weight of a prior, half of it zeros.
    name : str, optional
        Label of the fitted distribution.
    keys : hashable, optional
        Tying key of the whole; the base must not have keys of its own.
    trunc_max_iter : int
        Largest number of rounds of the fit without zeros.
    trunc_threshold : float
        Relative length of a step at which they end.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> model = HurdleEstimator(PoissonEstimator()).estimate(None, ((3.0, 8.0), 2.0, 5.0))
    >>> round(model.pi, 6), round(model.base.lam, 6)
    (0.4, 2.432484)
    """

    kind = "Hurdle"
    _keyword_fields = ("pseudo_count", "name", "keys", "trunc_max_iter", "trunc_threshold")

    def __init__(
        self,
        base_estimator: Any,
        pseudo_count: float | None = None,
        name: str | None = None,
        keys: Any = None,
        trunc_max_iter: int = 100,
        trunc_threshold: float = 1e-10,
    ) -> None:
        super().__init__(base_estimator, pseudo_count, name, keys)
        self.trunc_max_iter = int(nonnegative(trunc_max_iter, "trunc_max_iter"))
        self.trunc_threshold = nonnegative(trunc_threshold, "trunc_threshold")

    def own_shares(self, members: Sequence[Any]) -> np.ndarray:
        """Return the share of the zeros of K laws that is not their bases': all."""
        return np.ones(len(members))

    def accumulator_factory(self) -> WrappingFactory:
        """Return the factory.

        Raises
        ------
        KeyValidationError
            If the base has a key of its own: rows pooled from elsewhere would be taken for rows without zeros.
        """
        refuse_tied_base(self.base_estimator, "Hurdle")
        return WrappingFactory(HurdleAccumulator, self.base_estimator.accumulator_factory(), self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> HurdleDistribution:
        """Return the fitted distribution."""
        child, zeros, total = suff_stat
        zero = self.base_estimator.accumulator_factory().make().acc_to_encoder().seq_encode([0])

        def unseen(dist: Any) -> Unseen | None:
            mass = zero_density(dist)
            return None if mass == -math.inf else Unseen(zero, np.array([mass]), float(log_one_minus_exp(mass)))

        seen = max(float(total) - float(zeros), 0.0)
        base = fit_seen(self.base_estimator, child, seen, unseen, self.trunc_max_iter, self.trunc_threshold)
        return HurdleDistribution(base, share_of(zeros, total, self.pseudo_count), self.name, self.keys)


def refuse_tied_base(estimator: Any, name: str) -> None:
    """Raise `KeyValidationError` if an estimator has keys."""
    if has_keys(estimator):
        raise KeyValidationError(
            f"the base of a {name} is fitted to rows without what it never sees; tie the whole, {name}Estimator(..., "
            "keys=...), not its base"
        )


__all__ += ["refuse_tied_base"]
