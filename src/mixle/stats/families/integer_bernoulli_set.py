"""The law of a set of whole numbers below a bound, each of which is in it or not on its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import IntegerBernoulliSetFitError, RowError
from mixle.stats.contract import DistributionSampler
from mixle.stats.domains import fraction, nonnegative, numbers_of, whole
from mixle.stats.given import either
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows
from mixle.stats.reading import read_integers
from mixle.stats.refusals import check_shape
from mixle.stats.set_rows import SetLeaf, SetTables, in_its_row, listed_sets, set_codes, split_sets
from mixle.stats.sums import block_sum

__all__ = [
    "IntegerBernoulliSetDistribution",
    "IntegerBernoulliSetEstimator",
    "IntegerBernoulliSetSampler",
    "IntegerSetCounts",
]


class IntegerSetCounts(NamedTuple):
    """Weight of the sets that hold each integer, shape (num_vals,), and of all sets."""

    counts: np.ndarray
    total: float

    def scaled(self, c: float) -> IntegerSetCounts:
        """Return the counts times `c`."""
        return IntegerSetCounts(self.counts * c, self.total * c)


class _IntegerBernoulliSet(SetLeaf):
    name: ClassVar[str] = "IntegerBernoulliSet"

    def __init__(self, num_vals: int) -> None:
        self.num_vals = num_vals

    def encode(self, rows: Sequence[Any]) -> Rows:
        offsets, elements = split_sets(rows, self.name)
        try:
            x, broken = read_integers(elements, self.name)
        except RowError as error:
            raise in_its_row(error, offsets, rows) from None
        bad = (x < 0.0) | (x >= self.num_vals)
        if broken is not None:
            bad |= broken
        if not bad.any():
            return Rows(set_codes(offsets, x.astype(np.int64), None, self.name))
        owners = np.repeat(np.arange(len(rows)), np.diff(offsets))
        outside = np.bincount(owners, bad, len(rows)) > 0.0
        keep = ~outside[owners]  # a set outside the support is read as the empty one
        sizes = np.bincount(owners[keep], minlength=len(rows))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        return Rows(set_codes(offsets, x[keep].astype(np.int64), None, self.name), None, outside)

    def support(self) -> str:
        return f"the sets of the integers 0 to {self.num_vals - 1}"

    def places(self, dist: Any, labels: tuple[Any, ...] | None) -> None:
        return None

    def _places(self, dist: Any, rows: Rows) -> None:
        return None

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> IntegerSetCounts:
        counts = np.bincount(rows.x.codes, weights[rows.x.owners()], self.num_vals)
        return IntegerSetCounts(counts, block_sum(weights))

    def accumulate_all(self, rows: Rows, weights: np.ndarray, dists: Sequence[Any]) -> list[IntegerSetCounts] | None:
        if self.num_vals > len(rows.x.codes):
            return None
        counts = rows.x.counts(weights, self.num_vals)
        return [IntegerSetCounts(own.copy(), block_sum(given)) for own, given in zip(counts, weights, strict=True)]

    def merge(self, a: IntegerSetCounts, b: IntegerSetCounts) -> IntegerSetCounts:
        return IntegerSetCounts(a.counts + b.counts, a.total + b.total)

    def zero(self) -> IntegerSetCounts:
        return IntegerSetCounts(np.zeros(self.num_vals), 0.0)

    def to_value(self, stat: IntegerSetCounts) -> IntegerSetCounts:
        return stat._replace(counts=stat.counts.copy())

    def from_value(self, value: Any) -> IntegerSetCounts:
        counts, total = value
        check_shape(counts, (self.num_vals,), "integers")
        return IntegerSetCounts(np.array(counts, float), float(total))


class IntegerBernoulliSetDistribution(LeafDistribution):
    """Distribution of a set S of the integers 0 to N − 1, ``Π_{i in S} pᵢ Π_{i not in S} (1 − pᵢ)``.

    A row is a set, or a list or array without repetitions, of integers.

    Parameters
    ----------
    log_pvec : array_like, shape (N,)
        Log-probability of each integer to be in the set.
    log_nvec : array_like, shape (N,), optional
        Log-probability not to be: it holds the digits that those of probabilities near one lack.
    name, keys
        Label and tying key.

    References
    ----------
    A. K. Jain, R. C. Dubes, "Algorithms for Clustering Data", 1988: mixtures of it cluster binary data.

    Examples
    --------
    >>> d = IntegerBernoulliSetDistribution(np.log([0.5, 0.25]))
    >>> round(d.density({0}), 12), round(d.density([0, 1]), 12), d.density([2])
    (0.375, 0.125, 0.0)
    """

    _fields = ("log_pvec",)
    _keyword_fields = ("log_nvec", "name", "keys")

    def __init__(self, log_pvec: Any, log_nvec: Any = None, name: str | None = None, keys: Any = None) -> None:
        self.log_pvec = _logs(log_pvec, "log_pvec")
        if log_nvec is None:
            with np.errstate(divide="ignore"):
                near = self.log_pvec > math.log(0.5)
                log_nvec = np.where(near, np.log(-np.expm1(self.log_pvec)), np.log1p(-np.exp(self.log_pvec)))
        self.log_nvec = _logs(log_nvec, "log_nvec")
        total = (
            np.exp(self.log_pvec) + np.exp(self.log_nvec) if len(self.log_nvec) == len(self.log_pvec) else np.zeros(1)
        )
        if not (np.abs(total - 1.0) < 1e-9).all():
            raise ValueError("log_pvec and log_nvec of an IntegerBernoulliSet must be complementary, entry by entry")
        self.num_vals = len(self.log_pvec)
        self.leaf = _IntegerBernoulliSet(self.num_vals)
        self.tables = SetTables.of(self.log_pvec, self.log_nvec)
        self._finish(name, keys)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the sets as lists, the most probable first."""
        return listed_sets(range(self.num_vals), self.log_pvec, self.log_nvec)

    def sampler(self, seed: int | None = None) -> IntegerBernoulliSetSampler:
        """Return a sampler."""
        return IntegerBernoulliSetSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> IntegerBernoulliSetEstimator:
        """Return the estimator; `pseudo_count` weighs these probabilities as a prior."""
        prior = None if pseudo_count is None else np.exp(self.log_pvec)
        return IntegerBernoulliSetEstimator(
            self.num_vals, pseudo_count=pseudo_count, suff_stat=prior, name=self.name, keys=self.keys
        )


def _logs(value: Any, what: str) -> np.ndarray:
    logs = numbers_of(value, what)
    if logs.ndim != 1 or not logs.size or not (logs <= 0.0).all():
        raise ValueError(f"{what} of an IntegerBernoulliSet must be a vector of logarithms of probabilities")
    logs.setflags(write=False)
    return logs


class IntegerBernoulliSetSampler(DistributionSampler):
    """Sampler of an `IntegerBernoulliSetDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a list of integers, or a list of `size` such lists."""
        p = np.exp(self.dist.log_pvec)
        rows = [np.flatnonzero(self.rng.random_sample(len(p)) < p).tolist() for _ in range(1 if size is None else size)]
        return rows[0] if size is None else rows


class IntegerBernoulliSetEstimator(LeafEstimator):
    """Estimator of an `IntegerBernoulliSetDistribution`.

    Parameters
    ----------
    num_vals : int
        Number N of integers; a set holds some of 0, …, N − 1.
    min_prob : float
        Fitted probabilities are at least this, and at most one less it.
    pseudo_count : float, optional
        Weight of the prior, in rows.
    suff_stat : array_like, shape (N,), optional
        Prior probabilities, by default one half; used only with `pseudo_count`.
    name, keys
        Label and tying key.
    num_values : int, optional
        Another name of `num_vals`.

    Raises
    ------
    IntegerBernoulliSetFitError
        (a ValueError) on `estimate` without rows and prior.

    Notes
    -----
    The probability of an integer is the share of the sets that hold it.

    Examples
    --------
    >>> model = IntegerBernoulliSetEstimator(2).estimate(None, ([1.0, 3.0], 4.0))
    >>> np.exp(model.log_pvec).round(12).tolist()
    [0.25, 0.75]
    """

    _fields = ("num_vals",)
    _keyword_fields = ("min_prob", "pseudo_count", "suff_stat", "name", "keys")

    def __init__(
        self,
        num_vals: int | None = None,
        min_prob: float = 1e-128,
        pseudo_count: float | None = None,
        suff_stat: Any = None,
        name: str | None = None,
        keys: Any = None,
        num_values: int | None = None,
    ) -> None:
        given = either("IntegerBernoulliSet", num_vals=num_vals, num_values=num_values)
        self.num_vals = whole(given, "num_vals", 1)
        self.min_prob = fraction(min_prob, "min_prob")
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None
        if suff_stat is not None:
            self.suff_stat = np.array([fraction(p, "suff_stat") for p in suff_stat])
            if len(self.suff_stat) != self.num_vals:
                raise ValueError(f"suff_stat must be {self.num_vals} probabilities, has {len(self.suff_stat)}")
        self.leaf = _IntegerBernoulliSet(self.num_vals)
        self.name, self.keys = name, keys

    def _estimate(self, stat: IntegerSetCounts) -> IntegerBernoulliSetDistribution:
        counts, total = stat
        if self.pseudo_count:
            prior: Any = 0.5 if self.suff_stat is None else self.suff_stat
            counts, total = counts + self.pseudo_count * prior, total + self.pseudo_count
        if not total > 0.0:
            raise IntegerBernoulliSetFitError(
                "without rows sets have no probabilities; pass pseudo_count and suff_stat"
            )
        with np.errstate(divide="ignore"):
            p, rest = (np.log(np.clip(part / total, self.min_prob, 1.0)) for part in (counts, total - counts))
        return IntegerBernoulliSetDistribution(p, rest, self.name, self.keys)
