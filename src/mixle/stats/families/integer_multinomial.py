"""The law of a bag of whole numbers out of a range."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from mixle.stats.combinators.null import NullDistribution
from mixle.stats.combinators.sequence import SequenceFactory
from mixle.stats.families.integer_categorical import IntegerCategoricalDistribution, IntegerCategoricalEstimator
from mixle.stats.families.multinomial import (
    MultinomialAccumulator,
    MultinomialDistribution,
    MultinomialEstimator,
    MultinomialFactory,
)
from mixle.stats.sums import signed_suff_stat

__all__ = ["IntegerMultinomialDistribution", "IntegerMultinomialEstimator", "IntegerMultinomialStatistics"]


class IntegerMultinomialStatistics(NamedTuple):
    """Statistic of bags of integers.

    Attributes
    ----------
    min_val : int or None
        Smallest integer; None without rows.
    counts : ndarray, shape (k,), or None
        Weight of it and of those that follow.
    lengths : object
        Statistic of the totals.
    """

    min_val: int | None
    counts: Any
    lengths: Any

    def scaled(self, c: float) -> IntegerMultinomialStatistics:
        """Return the statistic with every weight times `c`."""
        counts = None if self.counts is None else self.counts * c
        return IntegerMultinomialStatistics(self.min_val, counts, signed_suff_stat(self.lengths, c))


class IntegerMultinomialAccumulator(MultinomialAccumulator):
    """Accumulator of an `IntegerMultinomialEstimator`."""

    def combine(self, suff_stat: Any) -> IntegerMultinomialAccumulator:
        """Add another statistic."""
        low, counts, lengths = suff_stat
        super().combine(((low, counts), lengths))
        return self

    def value(self) -> Any:
        """Return the statistic."""
        low, counts = self.element.value()
        return IntegerMultinomialStatistics(low, counts, self.length.value())

    def from_value(self, x: Any) -> IntegerMultinomialAccumulator:
        """Replace the statistic."""
        low, counts, lengths = x
        super().from_value(((low, counts), lengths))
        return self


class IntegerMultinomialFactory(MultinomialFactory):
    """Factory of `IntegerMultinomialAccumulator`."""

    def make(self) -> IntegerMultinomialAccumulator:
        """Return a fresh accumulator."""
        return IntegerMultinomialAccumulator(self.element.make(), self.length.make(), False, self.keys)


class IntegerMultinomialDistribution(MultinomialDistribution):
    """Law of a bag of N of the integers ``min_val, ..., min_val + k − 1``, ``N! / Π n! · Π p(x)ⁿ`` over its pairs.

    A row is a list of pairs (integer, count), or a mapping.

    Parameters
    ----------
    min_val : int
        Smallest integer.
    p_vec : array_like, shape (k,)
        Probabilities; the sum may be off one by 1e-6 and is scaled.
    len_dist : distribution, optional
        Law of the total; without one the total scores 0 and bags cannot be sampled.
    name, keys
        Label and tying key.
    prob_vec : array_like, optional
        Another name of `p_vec`.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Discrete Multivariate Distributions", chapter 35, 1997.

    Examples
    --------
    >>> d = IntegerMultinomialDistribution(1, [0.25, 0.75])
    >>> round(d.density([(1, 1), (2, 1)]), 12), d.density({3: 1})
    (0.375, 0.0)
    """

    _fields: ClassVar[Any] = ("min_val", "p_vec")
    _keyword_fields: ClassVar[Any] = ("len_dist", "name", "keys")

    def __init__(
        self,
        min_val: int = 0,
        p_vec: Any = None,
        len_dist: Any = None,
        name: str | None = None,
        keys: Any = None,
        prob_vec: Any = None,
    ) -> None:
        if (p_vec is None) == (prob_vec is None):
            raise ValueError("an IntegerMultinomial needs p_vec: the probabilities, given once")
        law = IntegerCategoricalDistribution(min_val, prob_vec if p_vec is None else p_vec)
        super().__init__(law, len_dist, False, name, keys)
        self.min_val, self.max_val, self.p_vec = law.min_val, law.max_val, law.p_vec

    def estimator(self, pseudo_count: float | None = None) -> IntegerMultinomialEstimator:
        """Return the estimator over the same range; `pseudo_count` weighs these probabilities as a prior."""
        prior = None if pseudo_count is None else (self.min_val, self.p_vec)
        total = None if isinstance(self.len_dist, NullDistribution) else self.len_dist.estimator(pseudo_count)
        return IntegerMultinomialEstimator(
            self.min_val, self.max_val, total, None, self.name, pseudo_count, prior, self.keys
        )


class IntegerMultinomialEstimator(MultinomialEstimator):
    """Estimator of an `IntegerMultinomialDistribution`.

    Parameters
    ----------
    min_val, max_val : int, optional
        Fixed ends of the range; an end that is not fixed grows with the rows.
    len_estimator : estimator, optional
        Estimator of the law of the total.
    len_dist : distribution, optional
        Law of the total, kept as it is; used where there is no `len_estimator`.
    name : str, optional
        Label of the fitted distribution.
    pseudo_count, suff_stat
        As for `IntegerCategoricalEstimator`, in values.
    keys : hashable, optional
        Tying key of the whole.

    Examples
    --------
    >>> IntegerMultinomialEstimator().estimate(None, (3, [1.0, 0.0, 3.0], None)).p_vec.tolist()
    [0.25, 0.0, 0.75]
    """

    _fields: ClassVar[Any] = ()
    _keyword_fields: ClassVar[Any] = (
        "min_val", "max_val", "len_estimator", "len_dist", "name", "pseudo_count", "suff_stat", "keys",
    )  # fmt: skip

    def __init__(
        self,
        min_val: int | None = None,
        max_val: int | None = None,
        len_estimator: Any = None,
        len_dist: Any = None,
        name: str | None = None,
        pseudo_count: float | None = None,
        suff_stat: Any = None,
        keys: Any = None,
    ) -> None:
        value = IntegerCategoricalEstimator(min_val, max_val, pseudo_count, suff_stat)
        super().__init__(value, len_estimator, len_dist, False, name, keys)
        self.min_val, self.max_val = value.min_val, value.max_val
        self.pseudo_count, self.suff_stat = value.pseudo_count, value.suff_stat

    def accumulator_factory(self) -> SequenceFactory:
        """Return the factory."""
        value, total = self.estimator.accumulator_factory(), self._length().accumulator_factory()
        return IntegerMultinomialFactory(value, total, False, self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> IntegerMultinomialDistribution:
        """Return the fitted distribution."""
        low, counts, lengths = suff_stat
        law = self.estimator.estimate(nobs, (low, counts))
        total = self._length_law(nobs, lengths)
        return IntegerMultinomialDistribution(law.min_val, law.p_vec, total, self.name, self.keys)
