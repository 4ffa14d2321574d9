"""Chains of integers in which each value depends on a fixed number of values before it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from mixle.errors import NonGenerativeIntegerMarkovChainError
from mixle.stats.combinators.ignored import IgnoredEstimator
from mixle.stats.combinators.null import NullDistribution, NullEstimator
from mixle.stats.contract import DistributionSampler, ParameterEstimator, SequenceEncodableProbabilityDistribution
from mixle.stats.domains import nonnegative, probabilities, whole
from mixle.stats.given import estimator_given, law_given
from mixle.stats.sequences.integer_counts import (
    IntegerChains,
    IntegerMarkovChainEncoder,
    IntegerMarkovChainFactory,
    IntegerMarkovChainStatistics,
    contexts,
    dense_counts,
)
from mixle.stats.sequences.paths import check_length_nobs, draw_states, laws_of_counts

__all__ = [
    "IntegerMarkovChainDistribution",
    "IntegerMarkovChainEstimator",
    "IntegerMarkovChainSampler",
    "IntegerMarkovChainStatistics",
]

#: Entries of a table of transitions at most: 512 MB.
MOST = 1 << 26


def _shape(num_values: Any, lag: Any) -> tuple[int, int]:
    values, memory = whole(num_values, "num_values", 1), whole(lag, "lag", 1)
    if values > 1 and (memory + 1) * math.log2(values) > math.log2(MOST):
        raise ValueError(
            f"num_values={values}, lag={memory} need a table of more than {MOST} probabilities; pass fewer, or lag=1"
        )
    return values, memory


class IntegerMarkovChainDistribution(SequenceEncodableProbabilityDistribution):
    """Law of a sequence of integers 0, ..., num_values − 1 in which each depends on the `lag` values before it.

    ``p(x₁, ..., x_lag) Π_t p(x_t | x_t₋lag, ..., x_t₋₁)``, times the probability of the length.

    Parameters
    ----------
    num_values : int
        Number of values.
    cond_dist : array_like, shape (num_values ** lag, num_values)
        Row i holds the probabilities of the value after the values before it, which are the digits of i to the base
        `num_values`, the oldest first.
    lag : int
        How many values are remembered. A shorter sequence has probability 0.
    init_dist : distribution, optional
        Law of the list of the first `lag` values; without one they score 0.
    len_dist : distribution, optional
        Law of the length; without one it scores 0.
    keys : hashable, optional
        Tying key of the whole.
    name : str, optional
        Label carried along.

    References
    ----------
    T. W. Anderson, L. A. Goodman, "Statistical inference about Markov chains", Annals of Mathematical Statistics 28,
    1957.

    Examples
    --------
    >>> d = IntegerMarkovChainDistribution(2, [[0.75, 0.25], [0.5, 0.5]])
    >>> round(d.density([0, 0, 1, 1]), 9), d.density([0, 2])
    (0.09375, 0.0)
    """

    _fields: ClassVar[tuple[str, ...]] = ("num_values", "cond_dist")
    _keyword_fields: ClassVar[tuple[str, ...]] = ("lag", "init_dist", "len_dist", "name", "keys")

    def __init__(
        self,
        num_values: int,
        cond_dist: Any,
        lag: int = 1,
        init_dist: Any = None,
        len_dist: Any = None,
        keys: Any = None,
        name: str | None = None,
    ) -> None:
        self.num_values, self.lag = _shape(num_values, lag)
        given = np.array(cond_dist, float)
        wanted = (self.num_values**self.lag, self.num_values)
        if given.shape != wanted:
            raise ValueError(f"cond_dist must have shape {wanted}, has {given.shape}")
        self.cond_dist = np.array([probabilities(row, f"row {i} of cond_dist") for i, row in enumerate(given)])
        self.cond_dist.setflags(write=False)
        self.init_dist = NullDistribution() if init_dist is None else law_given(init_dist, "IntegerMarkovChain")
        self.len_dist = NullDistribution() if len_dist is None else law_given(len_dist, "IntegerMarkovChain")
        self.name, self.keys = name, keys

    def dist_to_encoder(self) -> IntegerMarkovChainEncoder:
        """Return the encoder."""
        initial, length = self.init_dist.dist_to_encoder(), self.len_dist.dist_to_encoder()
        return IntegerMarkovChainEncoder(self.num_values, self.lag, initial, length)

    def seq_log_density(self, x: IntegerChains) -> np.ndarray:
        """Return the log-densities of encoded sequences, shape (n,)."""
        owners, before, values = contexts(x, self.num_values, self.lag)
        with np.errstate(divide="ignore"):
            table = np.log(self.cond_dist)
        result = np.bincount(owners, table[before, values], x.rows.rows).astype(float)
        result = result + self.init_dist.seq_log_density(x.initial) + self.len_dist.seq_log_density(x.rows.lengths)
        result[x.outside] = -np.inf
        return np.asarray(result)

    def sampler(self, seed: int | None = None) -> IntegerMarkovChainSampler:
        """Return a sampler."""
        return IntegerMarkovChainSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> IntegerMarkovChainEstimator:
        """Return the estimator; `pseudo_count` weighs this chain's own probabilities as a prior."""
        prior = None if pseudo_count is None else self.cond_dist
        return IntegerMarkovChainEstimator(
            self.num_values, self.lag, self.init_dist.estimator(pseudo_count), self.len_dist.estimator(pseudo_count),
            None, None, pseudo_count, self.name, self.keys, prior,
        )  # fmt: skip

    def stack_node(self) -> tuple[str, Any] | None:
        """Return None: rows of varying length do not stack."""
        return None


class IntegerMarkovChainSampler(DistributionSampler):
    """Sampler of an `IntegerMarkovChainDistribution`; a length below `lag` is drawn again."""

    def __init__(self, dist: IntegerMarkovChainDistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.lengths = dist.len_dist.sampler(self.new_seed())
        self.heads = dist.init_dist.sampler(self.new_seed())

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a list of integers, or a list of `size` such lists.

        Raises
        ------
        NonGenerativeIntegerMarkovChainError
            If there is no law of the first values or of the length, or it hardly ever gives `lag` of them.
        """
        dist = self.dist
        if isinstance(dist.init_dist, NullDistribution) or isinstance(dist.len_dist, NullDistribution):
            raise NonGenerativeIntegerMarkovChainError(
                "an IntegerMarkovChain is sampled with a law of its first values and of the length: "
                "pass init_dist= and len_dist="
            )
        count = 1 if size is None else size
        lengths = self._drawn(self.lengths, count, lambda n: int(n) >= dist.lag)
        heads = self._drawn(self.heads, count, lambda head: len(head) == dist.lag)
        longest = max((int(n) for n in lengths), default=0)
        paths = np.zeros((max(longest, dist.lag), count), np.int64)
        paths[: dist.lag] = np.array([list(head) for head in heads], np.int64).reshape(count, dist.lag).T
        laws = np.cumsum(dist.cond_dist, axis=1)
        for t in range(dist.lag, longest):
            before = np.zeros(count, np.int64)
            for back in range(dist.lag, 0, -1):
                before = before * dist.num_values + paths[t - back]
            paths[t] = draw_states(laws[before], self.rng.random_sample(count))
        rows = [paths[: int(n), i].tolist() for i, n in enumerate(lengths)]
        return rows[0] if size is None else rows

    @staticmethod
    def _drawn(sampler: Any, count: int, fits: Any) -> list[Any]:
        kept: list[Any] = []
        for _ in range(1000):
            if len(kept) >= count:
                return kept[:count]
            kept += [x for x in sampler.sample(max(count, 8)) if fits(x)]
        if len(kept) >= count:
            return kept[:count]
        raise NonGenerativeIntegerMarkovChainError("the laws of first values and length hardly ever give lag values")


class IntegerMarkovChainEstimator(ParameterEstimator):
    """Estimator of an `IntegerMarkovChainDistribution`.

    Parameters
    ----------
    num_values, lag : int
        As in the distribution.
    init_estimator, len_estimator : estimator, optional
        Estimators of the law of the list of the first `lag` values, and of the length.
    init_dist, len_dist : distribution, optional
        Laws that are kept as they are; used where there is no estimator.
    pseudo_count : float, optional
        Weight of the prior of each row of probabilities; without `suff_stat` of each of them.
    name : str, optional
        Label of the fitted chain.
    keys : hashable, optional
        Tying key of the whole.
    suff_stat : array_like, shape (num_values ** lag, num_values), optional
        Prior probabilities, used with `pseudo_count`.

    Notes
    -----
    Values before which were never seen get an even law of what follows them.

    Examples
    --------
    >>> estimator = IntegerMarkovChainEstimator(2)
    >>> counts = IntegerMarkovChainStatistics(1, 2, 1, (((0,), 0, 1.0), ((0,), 1, 3.0)), 2.0, None, 2.0, None)
    >>> estimator.estimate(2.0, counts).cond_dist.tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """

    _laws: ClassVar[tuple[str, ...]] = ("init_dist", "len_dist")
    _fields: ClassVar[tuple[str, ...]] = ("num_values", "lag")
    _keyword_fields: ClassVar[tuple[str, ...]] = (
        "init_estimator", "len_estimator", "init_dist", "len_dist", "pseudo_count", "name", "keys", "suff_stat",
    )  # fmt: skip

    def __init__(
        self,
        num_values: int,
        lag: int = 1,
        init_estimator: Any = None,
        len_estimator: Any = None,
        init_dist: Any = None,
        len_dist: Any = None,
        pseudo_count: float | None = None,
        name: str | None = None,
        keys: Any = None,
        suff_stat: Any = None,
    ) -> None:
        self.num_values, self.lag = _shape(num_values, lag)
        self.init_estimator, self.len_estimator = (
            NullEstimator() if estimator is None else estimator_given(estimator, "IntegerMarkovChain")
            for estimator in (init_estimator, len_estimator)
        )
        self.init_dist, self.len_dist = (
            None if law is None else law_given(law, "IntegerMarkovChain") for law in (init_dist, len_dist)
        )
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.name, self.keys = name, keys
        self.suff_stat = None if suff_stat is None else np.array(suff_stat, float)
        wanted = (self.num_values**self.lag, self.num_values)
        if self.suff_stat is not None and self.suff_stat.shape != wanted:
            raise ValueError(f"suff_stat must have shape {wanted}, has {self.suff_stat.shape}")

    def _children(self) -> tuple[Any, Any]:
        """Return the estimators of the first values and of the length; a law that is kept is ignored by the fit."""
        pairs = ((self.init_estimator, self.init_dist), (self.len_estimator, self.len_dist))
        initial, length = (
            IgnoredEstimator(dist) if isinstance(estimator, NullEstimator) and dist is not None else estimator
            for estimator, dist in pairs
        )
        return initial, length

    def accumulator_factory(self) -> IntegerMarkovChainFactory:
        """Return the factory."""
        initial, length = (child.accumulator_factory() for child in self._children())
        return IntegerMarkovChainFactory(self.num_values, self.lag, initial, length, self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> IntegerMarkovChainDistribution:
        """Return the fitted chain.

        Parameters
        ----------
        nobs : float or None
            Weight of the data, which is that of the sequences. None skips the check.
        suff_stat : IntegerMarkovChainStatistics
            The statistic.

        Raises
        ------
        ValueError
            If the weights differ.
        """
        stat = IntegerMarkovChainStatistics(*suff_stat)
        if self.keys is None:
            check_length_nobs("IntegerMarkovChain", nobs, stat.length_nobs)
        counts = dense_counts(stat)
        if self.pseudo_count:
            counts = counts + self.pseudo_count * (1.0 if self.suff_stat is None else self.suff_stat)
        known = None if self.keys is not None else stat.initial_nobs
        initial, length = self._children()
        first = self.init_dist if initial is not self.init_estimator else initial.estimate(known, stat.initial)
        lengths = self.len_dist if length is not self.len_estimator else length.estimate(known, stat.length)
        return IntegerMarkovChainDistribution(
            self.num_values, laws_of_counts(counts), self.lag, first, lengths, self.keys, self.name
        )

    def stack_node(self) -> tuple[str, Any] | None:
        """Return None: rows of varying length do not stack."""
        return None

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return (("first values", self.init_estimator), ("length", self.len_estimator))
