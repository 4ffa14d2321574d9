"""The law of a bag: how often each value came up, as in words of a document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats import together
from mixle.stats.combinators.drawing import counted
from mixle.stats.combinators.ragged import SequenceEncoder, row_sums
from mixle.stats.combinators.sequence import (
    SequenceAccumulator,
    SequenceDistribution,
    SequenceEstimator,
    SequenceFactory,
    SequenceSampler,
)
from mixle.stats.contract import Column
from mixle.stats.decomposition import Decomposition
from mixle.stats.enumeration import bags
from mixle.stats.reading import read_integers
from mixle.stats.refusals import shown
from mixle.stats.special import log_factorial
from mixle.stats.sums import signed_suff_stat

__all__ = [
    "BagRows",
    "MultinomialAccumulator",
    "MultinomialDistribution",
    "MultinomialEncoder",
    "MultinomialEstimator",
    "MultinomialFactory",
    "MultinomialSampler",
    "MultinomialStatistics",
]


class BagRows(NamedTuple):
    """Encoded bags.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n + 1,)
        Row i holds the pairs ``offsets[i]:offsets[i + 1]``; the first offset is 0.
    counts : ndarray of float64
        Count of each pair.
    elements : object
        The encoder's payload of the values of all pairs.
    lengths : object
        The length encoder's payload of the totals.
    orders : ndarray, shape (n,)
        Logarithm of the number of orders of each bag, ``N! / Π n!``.
    """

    offsets: np.ndarray
    counts: np.ndarray
    elements: Any
    lengths: Any
    orders: np.ndarray

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.offsets) - 1

    def owners(self) -> np.ndarray:
        """Return the row of each pair."""
        return np.repeat(np.arange(self.rows), np.diff(self.offsets))

    def sizes(self) -> np.ndarray:
        """Return the total of each row, shape (n,)."""
        return np.bincount(self.owners(), self.counts, self.rows)


class MultinomialStatistics(NamedTuple):
    """Statistics of the values and of the totals."""

    elements: Any
    lengths: Any

    def scaled(self, c: float) -> MultinomialStatistics:
        """Return the statistic with every weight times `c`."""
        return MultinomialStatistics(signed_suff_stat(self.elements, c), signed_suff_stat(self.lengths, c))


class MultinomialEncoder(SequenceEncoder):
    """Encoder of bags."""

    def seq_encode(self, rows: Sequence[Any]) -> BagRows:  # type: ignore[override]  # own rows
        """Encode rows: lists of pairs (value, count), or mappings of values to counts.

        Raises
        ------
        RowError
            For a row that is no bag, or with the value or count that cannot be read as the innermost field.
        """
        bags = [_pairs(row, i) for i, row in enumerate(rows)]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.fromiter(map(len, bags), np.int64, len(bags)))])
        values = [value for value, _ in chain.from_iterable(bags)]
        try:
            counts, broken = read_integers([count for _, count in chain.from_iterable(bags)], "Multinomial")
        except RowError as error:
            raise _of_its_pair(error, 1, offsets) from None
        bad = counts < 0.0 if broken is None else (counts < 0.0) | broken
        if bad.any():
            at = int(np.argmax(bad))
            reason = f"{counts[at].item()!r} is not a count; give a whole number of at least 0"
            raise _of_its_pair(RowError(reason, "Multinomial", at), 1, offsets)
        try:
            elements = self.encoder.seq_encode(values)
        except RowError as error:
            raise _of_its_pair(error, 0, offsets) from None
        read = BagRows(offsets, counts, elements, None, np.zeros(0))
        read = read._replace(orders=_orders(read, values))
        try:
            return read._replace(lengths=self.length.seq_encode(read.sizes().astype(np.int64).tolist()))
        except RowError as error:
            raise error.inside("length") from None

    def nbytes(self, payload: BagRows) -> int:  # type: ignore[override]  # own rows
        """Return the bytes of offsets, counts, values and totals."""
        children = self.encoder.nbytes(payload.elements) + self.length.nbytes(payload.lengths)
        return int(payload.offsets.nbytes + payload.counts.nbytes + payload.orders.nbytes) + children

    def slice(self, payload: BagRows, start: int, stop: int) -> BagRows:  # type: ignore[override]  # own rows
        """Return rows ``start:stop``."""
        offsets = payload.offsets[start : max(start, stop) + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        return BagRows(
            offsets - first,
            payload.counts[first:last],
            self.encoder.slice(payload.elements, first, last),
            self.length.slice(payload.lengths, start, max(start, stop)),
            payload.orders[start:stop],
        )

    def columns(self, payload: BagRows, start: int, stop: int) -> list[Column] | None:  # type: ignore[override]  # own rows
        """Return the total and, for each column of the values, its mean (of labels: their position) over the bag."""
        part = self.slice(payload, start, stop)
        owners, sizes = part.owners(), part.sizes()
        result = [Column(sizes)]
        for column in self.encoder.columns(part.elements, 0, int(part.offsets[-1])) or []:
            if column.labels is None and column.missing is None:
                total = np.bincount(owners, part.counts * column.values, part.rows)
                result.append(Column(total / np.maximum(sizes, 1.0)))
        return result


def _pairs(row: Any, i: int) -> list[tuple[Any, Any]]:
    """Return the pairs of a row."""
    if isinstance(row, Mapping):
        return list(row.items())
    if isinstance(row, (str, bytes)) or not (hasattr(row, "__len__") and np.iterable(row)):
        raise RowError(
            f"{shown(row)} is not a bag; pass a list of pairs (value, count), or a mapping", "Multinomial", i
        )
    pairs = []
    for j, pair in enumerate(row):
        if isinstance(pair, (str, bytes)) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise RowError(f"{shown(pair)} is not a pair; pass (value, count)", "Multinomial", i).inside(j)
        value, count = pair.tolist() if isinstance(pair, np.ndarray) else pair
        pairs.append((value, count))
    return pairs


def _orders(bags: BagRows, values: list[Any]) -> np.ndarray:
    """Return the logarithm of the number of orders of each bag; equal values of a bag count together."""
    parts = np.bincount(bags.owners(), log_factorial(bags.counts), bags.rows)
    edges = bags.offsets.tolist()
    for row, (first, last) in enumerate(pairwise(edges)):
        try:
            if len(set(values[first:last])) == last - first:
                continue
        except TypeError:  # values without a hash, such as vectors, stand for themselves
            continue
        together: dict[Any, float] = {}
        for value, count in zip(values[first:last], bags.counts[first:last].tolist(), strict=True):
            together[value] = together.get(value, 0.0) + count
        parts[row] = math.fsum(log_factorial(np.array(list(together.values()))).tolist())
    return np.asarray(log_factorial(bags.sizes()) - parts)


def _of_its_pair(error: RowError, side: int, offsets: np.ndarray) -> RowError:
    """Return `error` of a value (side 0) or a count (side 1) as one of its row and pair."""
    if error.row is None:
        return error
    row = int(np.searchsorted(offsets, error.row, side="right")) - 1
    return error.inside(side).inside(error.row - int(offsets[row])).at(row)


class MultinomialAccumulator(SequenceAccumulator):
    """Accumulator of a `MultinomialEstimator`."""

    def _shares(self, x: Any, weights: np.ndarray) -> np.ndarray:
        """Return the weight of each pair (pairs,) or (pairs, K) for row weights (n,) or (n, K)."""
        spread = super()._shares(x, weights)
        spread *= x.counts if spread.ndim == 1 else x.counts[:, None]
        return spread

    def _count(self, spread: np.ndarray, weights: np.ndarray) -> None:
        """Count nothing: the statistic has no weights of its own."""

    def combine(self, suff_stat: Any) -> MultinomialAccumulator:
        """Add another statistic."""
        elements, lengths = suff_stat
        self.element.combine(elements)
        self.length.combine(lengths)
        return self

    def value(self) -> Any:
        """Return the statistic."""
        return MultinomialStatistics(self.element.value(), self.length.value())

    def from_value(self, x: Any) -> MultinomialAccumulator:
        """Replace the statistic."""
        elements, lengths = x
        self.element.from_value(elements)
        self.length.from_value(lengths)
        return self

    def acc_to_encoder(self) -> MultinomialEncoder:
        """Return the encoder."""
        return MultinomialEncoder(self.element.acc_to_encoder(), self.length.acc_to_encoder())


class MultinomialFactory(SequenceFactory):
    """Factory of `MultinomialAccumulator`."""

    def make(self) -> MultinomialAccumulator:
        """Return a fresh accumulator."""
        return MultinomialAccumulator(self.element.make(), self.length.make(), self.len_normalized, self.keys)


class MultinomialDistribution(SequenceDistribution):
    """Law of a bag of N independent values, ``N! / Π n! · Π p(x)ⁿ`` over its pairs (x, n), times the law of N.

    A row is a list of pairs (value, count) in any order, or a mapping of values to counts; a value may come up in more
    than one pair.

    Parameters
    ----------
    dist : distribution
        Law of one value.
    len_dist : distribution, optional
        Law of the total; without one the total scores 0 and bags cannot be sampled.
    len_normalized : bool
        Divide the log-density of the values, orders included, by the total.
    name, keys
        Label and tying key of the whole.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Discrete Multivariate Distributions", chapter 35, 1997.

    Examples
    --------
    >>> from mixle.stats import CategoricalDistribution, PoissonDistribution
    >>> d = MultinomialDistribution(CategoricalDistribution({"a": 0.5, "b": 0.5}), PoissonDistribution(2.0))
    >>> d.log_density([]), round(d.log_density([("a", 2), ("b", 1)]), 12)
    (-2.0, -2.69314718056)
    """

    def decomposition(self) -> Decomposition:
        """Return that a bag is one unit."""
        return Decomposition.atomic()

    def _listed(self, elements: Iterator[Any], totals: Iterator[Any]) -> Iterator[tuple[Any, float]]:
        return bags(elements, totals)

    def dist_to_encoder(self) -> MultinomialEncoder:
        """Return the encoder."""
        return MultinomialEncoder(self.dist.dist_to_encoder(), self.len_dist.dist_to_encoder())

    def seq_log_density(self, x: Any) -> np.ndarray:
        """Return the log-densities, shape (n,); pairs are added in order, whatever stands around the row."""
        with np.errstate(invalid="ignore"):
            terms = np.where(x.counts > 0.0, x.counts * self.dist.seq_log_density(x.elements), 0.0)
        result = np.bincount(x.owners(), terms, x.rows) + x.orders
        if self.len_normalized:
            result = result / np.maximum(x.sizes(), 1.0)
        return np.asarray(result + self.len_dist.seq_log_density(x.lengths))

    @staticmethod
    def seq_log_densities(members: Sequence[Any], x: Any) -> np.ndarray:
        """Return `seq_log_density` of each of K members, shape (K, n) and with its bits."""
        terms = np.ascontiguousarray(together.all_densities([member.dist for member in members], x.elements).T)
        with np.errstate(invalid="ignore"):
            terms *= x.counts[:, None]
        terms[x.counts <= 0.0] = 0.0
        result: np.ndarray = row_sums(x.offsets, terms.T) + x.orders
        for k, member in enumerate(members):
            if member.len_normalized:
                result[k] /= np.maximum(x.sizes(), 1.0)
        result += together.all_densities([member.len_dist for member in members], x.lengths)
        return result

    def sampler(self, seed: int | None = None) -> MultinomialSampler:
        """Return a sampler."""
        return MultinomialSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> Any:
        """Return the estimator made of the children's estimators."""
        value, total = self.dist.estimator(pseudo_count), self.len_dist.estimator(pseudo_count)
        return MultinomialEstimator(value, total, None, self.len_normalized, self.name, self.keys)


class MultinomialSampler(SequenceSampler):
    """Sampler of a `MultinomialDistribution`."""

    _unsized: ClassVar[str] = "a bag without a law of its total"

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a list of pairs (value, count), or a list of `size` such lists.

        Raises
        ------
        NonGenerativeSequenceError
            If there is no law of the total.
        """
        drawn = super().sample(size)
        return counted(drawn) if size is None else [counted(values) for values in drawn]


class MultinomialEstimator(SequenceEstimator):
    """Estimator of a `MultinomialDistribution`.

    Parameters
    ----------
    estimator : estimator
        Estimator of the law of a value.
    len_estimator : estimator, optional
        Estimator of the law of the total.
    len_dist : distribution, optional
        Law of the total, kept as it is; used where there is no `len_estimator`.
    len_normalized : bool
        Let the values of a row share its weight.
    name, keys
        Label and tying key of what is fitted.

    Examples
    --------
    >>> from mixle.stats import CategoricalEstimator, PoissonEstimator
    >>> estimator = MultinomialEstimator(CategoricalEstimator(), PoissonEstimator())
    >>> model = estimator.estimate(None, ({"a": 2.0, "b": 6.0}, (2.0, 8.0)))
    >>> model.dist.pmap, model.len_dist.lam
    ({'a': 0.25, 'b': 0.75}, 4.0)
    """

    def accumulator_factory(self) -> SequenceFactory:
        """Return the factory."""
        value, total = self.estimator.accumulator_factory(), self._length().accumulator_factory()
        return MultinomialFactory(value, total, self.len_normalized, self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> Any:
        """Return the fitted distribution; both children are told `nobs`."""
        elements, lengths = suff_stat
        dist = self.estimator.estimate(nobs, elements)
        return MultinomialDistribution(dist, self._length_law(nobs, lengths), self.len_normalized, self.name, self.keys)
