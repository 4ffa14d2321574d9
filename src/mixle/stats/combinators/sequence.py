"""Rows that are sequences of independent elements of one law, and a law of their length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats import together
from mixle.stats.combinators.drawing import drawn_lengths, in_rows
from mixle.stats.combinators.fields import plain_list
from mixle.stats.combinators.ignored import KeepsLength
from mixle.stats.combinators.null import NullDistribution, NullEstimator
from mixle.stats.combinators.parts import update_part, update_parts
from mixle.stats.combinators.ragged import (
    RaggedRows,
    SequenceEncoder,
    initialize_lengths,
    of_its_row,
    row_sums,
    shown_elements,
    update_lengths,
)
from mixle.stats.contract import (
    Column,
    DistributionSampler,
    SequenceEncodableProbabilityDistribution,
    SequenceEncodableStatisticAccumulator,
    StatisticAccumulatorFactory,
)
from mixle.stats.decomposition import DecompAxis, Decomposition, ReductionOp
from mixle.stats.enumeration import refuse, sequences
from mixle.stats.given import estimator_given, law_given
from mixle.stats.starts import seed_start, start_components
from mixle.stats.sums import block_sum, signed_suff_stat

__all__ = [
    "SequenceAccumulator",
    "SequenceDistribution",
    "SequenceEncoder",
    "SequenceEstimator",
    "SequenceFactory",
    "SequenceSampler",
    "SequenceStatistics",
]


class SequenceStatistics(NamedTuple):
    """Statistic of sequences.

    Attributes
    ----------
    schema_version : int
        Version of this layout.
    element_nobs, length_nobs : float
        Weight of the elements, and of the rows.
    elements, lengths : object
        Statistics of the elements and of the lengths.
    """

    schema_version: int
    element_nobs: float
    length_nobs: float
    elements: Any
    lengths: Any

    def scaled(self, c: float) -> SequenceStatistics:
        """Return the statistic with every weight times `c`."""
        elements, lengths = signed_suff_stat(self.elements, c), signed_suff_stat(self.lengths, c)
        return SequenceStatistics(self.schema_version, self.element_nobs * c, self.length_nobs * c, elements, lengths)


class SequenceAccumulator(SequenceEncodableStatisticAccumulator):
    """Accumulator of a `SequenceEstimator`."""

    def __init__(
        self, element: Any, length: Any, len_normalized: bool = False, keys: Any = None, shows: bool = False
    ) -> None:
        self.element, self.length, self.len_normalized, self.keys = element, length, len_normalized, keys
        self.shows = shows
        self.element_nobs, self.length_nobs = 0.0, 0.0

    def _spread(self, x: RaggedRows, weights: np.ndarray) -> np.ndarray:
        """Count rows and return the weight of each element."""
        spread = np.asarray(self._shares(x, weights), float)
        self._count(spread, weights)
        return spread

    def _shares(self, x: Any, weights: np.ndarray) -> np.ndarray:
        """Return the weight of each element (elements,) or (elements, K) for row weights (n,) or (n, K)."""
        share = (weights.T / np.maximum(x.sizes(), 1)).T if self.len_normalized else weights
        found: np.ndarray = np.ascontiguousarray(share)[x.owners()]
        return found

    def _count(self, spread: np.ndarray, weights: np.ndarray) -> None:
        """Count the elements and the rows."""
        self.element_nobs += block_sum(np.ascontiguousarray(spread))
        self.length_nobs += block_sum(weights)

    def seq_update(self, x: RaggedRows, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded rows; an element weighs as its row, or by its share of it where lengths are normalised."""
        spread = self._spread(x, weights)
        try:
            update_part(self.element, x.elements, spread, None if estimate is None else estimate.dist)
        except RowError as error:
            raise of_its_row(error, x.offsets) from None
        update_lengths(self.length, x.lengths, weights, estimate)

    @staticmethod
    def seq_update_all(
        accumulators: Sequence[SequenceAccumulator], x: Any, weights: np.ndarray, models: Sequence[Any]
    ) -> bool:
        """Add encoded rows with weights (K, n) to K accumulators as `seq_update` would; False: not done.

        Raises
        ------
        RowError
            As `seq_update` raises it.
        """
        first = accumulators[0]
        if any(made.len_normalized != first.len_normalized for made in accumulators):
            return False
        spread = first._shares(x, weights.T).T  # noqa: SLF001 - of this class
        for made, own, given in zip(accumulators, spread, weights, strict=True):
            made._count(own, given)  # noqa: SLF001 - of this class
        try:
            update_parts([made.element for made in accumulators], x.elements, spread, [m.dist for m in models])
        except RowError as error:
            raise of_its_row(error, x.offsets) from None
        try:
            update_parts([made.length for made in accumulators], x.lengths, weights, [m.len_dist for m in models])
        except RowError as error:
            raise error.inside("length") from None
        return True

    def seq_initialize(self, x: RaggedRows, weights: np.ndarray, rng: Any) -> None:
        """Add encoded rows before there is a model."""
        spread = self._spread(x, weights)
        try:
            self.element.seq_initialize(x.elements, spread, rng)
        except RowError as error:
            raise of_its_row(error, x.offsets) from None
        initialize_lengths(self.length, x.lengths, weights, rng)

    def start(self, enc: RaggedRows, draws: np.ndarray, centres: Any, p: float, weights: Any = None) -> None:
        """Add the rows whose draw is below `p`, the mixtures of their elements starting from seeded centres."""
        from numpy.random import RandomState

        kept = np.where(draws < p, 1.0 if weights is None else weights, 0.0)
        spread = self._spread(enc, kept)
        try:
            self.element.start(enc.elements, np.zeros(len(spread)), centres, 1.0, spread)
        except RowError as error:
            raise of_its_row(error, enc.offsets) from None
        initialize_lengths(self.length, enc.lengths, kept, RandomState(0))

    def combine(self, suff_stat: Any) -> SequenceAccumulator:
        """Add another statistic."""
        _, element_nobs, length_nobs, elements, lengths = suff_stat
        self.element_nobs, self.length_nobs = self.element_nobs + element_nobs, self.length_nobs + length_nobs
        self.element.combine(elements)
        self.length.combine(lengths)
        return self

    def value(self) -> SequenceStatistics:
        """Return the statistic."""
        return SequenceStatistics(1, self.element_nobs, self.length_nobs, self.element.value(), self.length.value())

    def from_value(self, x: Any) -> SequenceAccumulator:
        """Replace the statistic."""
        _, self.element_nobs, self.length_nobs, elements, lengths = x
        self.element.from_value(elements)
        self.length.from_value(lengths)
        return self

    def scale(self, c: float) -> SequenceAccumulator:
        """Scale both children."""
        self.element.scale(c)
        self.length.scale(c)
        self.element_nobs, self.length_nobs = self.element_nobs * c, self.length_nobs * c
        return self

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Pool the whole under its key, then both children under theirs."""
        super().key_merge(stats_dict)
        self.element.key_merge(stats_dict)
        self.length.key_merge(stats_dict)

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take the pooled whole, then the pooled statistics of both children."""
        super().key_replace(stats_dict)
        self.element.key_replace(stats_dict)
        self.length.key_replace(stats_dict)

    def acc_to_encoder(self) -> SequenceEncoder:
        """Return the encoder."""
        return SequenceEncoder(self.element.acc_to_encoder(), self.length.acc_to_encoder(), self.shows)


class SequenceFactory(StatisticAccumulatorFactory):
    """Factory of `SequenceAccumulator`."""

    def __init__(self, element: Any, length: Any, len_normalized: bool, keys: Any, shows: bool = False) -> None:
        self.element, self.length, self.len_normalized, self.keys = element, length, len_normalized, keys
        self.shows = shows

    def make(self) -> SequenceAccumulator:
        """Return a fresh accumulator."""
        element, length = self.element.make(), self.length.make()
        return SequenceAccumulator(element, length, self.len_normalized, self.keys, self.shows)


class SequenceDistribution(SequenceEncodableProbabilityDistribution):
    """Law of a sequence, ``p(n) Π_t p(x_t)``: n independent elements, and a law of their number.

    Parameters
    ----------
    dist : distribution
        Law of an element.
    len_dist : distribution, optional
        Law of the length; without one the length scores 0 and sequences cannot be sampled.
    len_normalized : bool
        Divide the elements' log-density by the length.
    name, keys
        Label and tying key of the whole.

    References
    ----------
    A. McCallum, K. Nigam, "A comparison of event models for naive Bayes text classification", AAAI-98 Workshop on
    Learning for Text Categorization, 1998.

    Examples
    --------
    >>> from mixle.stats import BernoulliDistribution, PoissonDistribution
    >>> d = SequenceDistribution(BernoulliDistribution(0.5), PoissonDistribution(2.0))
    >>> round(d.density([True, False]), 6), d.log_density([])
    (0.067668, -2.0)
    """

    _fields = ("dist",)
    _keyword_fields = ("len_dist", "len_normalized", "name", "keys")

    def __init__(
        self, dist: Any, len_dist: Any = None, len_normalized: bool = False, name: str | None = None, keys: Any = None
    ) -> None:
        kind = type(self).__name__.removesuffix("Distribution")
        self.dist = law_given(dist, kind)
        self.len_dist = NullDistribution() if len_dist is None else law_given(len_dist, kind)
        self.len_normalized = bool(len_normalized)
        self.name, self.keys = name, keys

    def decomposition(self) -> Decomposition:
        """Return the axis of the elements, which is one unit of model."""
        return Decomposition(DecompAxis.SEQUENCE, 1, ReductionOp.SUM)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the rows, the most probable first."""
        if self.len_normalized or isinstance(self.len_dist, NullDistribution):
            raise refuse(self, "without a law of lengths, or divided by them, its scores are no probabilities of rows")
        return self._listed(self.dist.outcomes(), self.len_dist.outcomes())

    def _listed(self, elements: Iterator[Any], totals: Iterator[Any]) -> Iterator[tuple[Any, float]]:
        """Return the rows of these outcomes."""
        return sequences(elements, totals)

    def dist_to_encoder(self) -> SequenceEncoder:
        """Return the encoder."""
        return SequenceEncoder(self.dist.dist_to_encoder(), self.len_dist.dist_to_encoder())

    def seq_log_density(self, x: RaggedRows) -> np.ndarray:
        """Return the log-densities, shape (n,); elements are added in order, whatever stands around the row."""
        result = np.asarray(np.bincount(x.owners(), self.dist.seq_log_density(x.elements), x.rows), float)
        if self.len_normalized:
            result = result / np.maximum(x.sizes(), 1)
        return np.asarray(result + self.len_dist.seq_log_density(x.lengths))

    @staticmethod
    def seq_log_densities(members: Sequence[SequenceDistribution], x: Any) -> np.ndarray:
        """Return `seq_log_density` of each of K members, shape (K, n) and with its bits."""
        result = row_sums(x.offsets, together.all_densities([member.dist for member in members], x.elements))
        for k, member in enumerate(members):
            if member.len_normalized:
                result[k] /= np.maximum(x.sizes(), 1)
        result += together.all_densities([member.len_dist for member in members], x.lengths)
        return result

    def sampler(self, seed: int | None = None) -> SequenceSampler:
        """Return a sampler."""
        return SequenceSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> SequenceEstimator:
        """Return the estimator made of the children's estimators."""
        element, length = self.dist.estimator(pseudo_count), self.len_dist.estimator(pseudo_count)
        return SequenceEstimator(element, length, None, self.len_normalized, self.name, self.keys)

    def stack_node(self) -> tuple[str, Any] | None:
        """Return None: rows of varying length do not stack."""
        return None


class SequenceSampler(DistributionSampler):
    """Sampler of a `SequenceDistribution`."""

    _unsized: ClassVar[str] = "a Sequence without a law of the length"

    def __init__(self, dist: SequenceDistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.lengths = dist.len_dist.sampler(self.new_seed())
        self.elements = dist.dist.sampler(self.new_seed())

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a list of elements, or a list of `size` such lists.

        Raises
        ------
        NonGenerativeSequenceError
            If there is no law of the length.
        """
        lengths = drawn_lengths(self.dist.len_dist, self.lengths, size, self._unsized)
        rows = in_rows(plain_list(self.elements.sample(sum(lengths))), lengths)
        return rows[0] if size is None else rows


class SequenceEstimator(KeepsLength):
    """Estimator of a `SequenceDistribution`.

    Parameters
    ----------
    estimator : estimator
        Estimator of the law of an element.
    len_estimator : estimator, optional
        Estimator of the law of the length.
    len_dist : distribution, optional
        Law of the length, kept as it is; used where there is no `len_estimator`.
    len_normalized : bool
        Let the elements of a row share its weight.
    name, keys
        Label and tying key of what is fitted.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> estimator = SequenceEstimator(PoissonEstimator(), PoissonEstimator())
    >>> model = estimator.estimate(None, SequenceStatistics(1, 4.0, 2.0, (4.0, 6.0), (2.0, 4.0)))
    >>> model.dist.lam, model.len_dist.lam
    (1.5, 2.0)
    """

    _laws: ClassVar[tuple[str, ...]] = ("dist", "len_dist")
    _fields = ("estimator",)
    _keyword_fields = ("len_estimator", "len_dist", "len_normalized", "name", "keys")

    def __init__(
        self,
        estimator: Any,
        len_estimator: Any = None,
        len_dist: Any = None,
        len_normalized: bool = False,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        kind = type(self).__name__.removesuffix("Estimator")
        self.estimator = estimator_given(estimator, kind)
        self.len_estimator = NullEstimator() if len_estimator is None else estimator_given(len_estimator, kind)
        self.len_dist = None if len_dist is None else law_given(len_dist, kind)
        self.len_normalized = bool(len_normalized)
        self.name, self.keys = name, keys

    def accumulator_factory(self) -> SequenceFactory:
        """Return the factory."""
        element, length = self.estimator.accumulator_factory(), self._length().accumulator_factory()
        return SequenceFactory(element, length, self.len_normalized, self.keys, bool(start_components(self.estimator)))

    def estimate(self, nobs: float | None, suff_stat: Any) -> SequenceDistribution:
        """Return the fitted distribution; the children are told the weight of elements, and of rows."""
        _, element_nobs, length_nobs, elements, lengths = suff_stat
        dist = self.estimator.estimate(None if self.keys is not None else element_nobs, elements)
        length = self._length_law(length_nobs, lengths)
        return SequenceDistribution(dist, length, self.len_normalized, self.name, self.keys)

    least_start_rows: ClassVar[int] = 1  # a single row may have all elements

    @property
    def start_parts(self) -> tuple[Any, ...]:
        """Return the parts that a start may seed centres for."""
        return (self.estimator,)

    def seed_start(self, columns: list[Column], rng: Any) -> Any:
        """Return seeds of the mixtures of elements, found among the elements that sampled rows show; None without."""
        shown = shown_elements(columns) if start_components(self.estimator) else []
        return seed_start(self.estimator, shown, rng) if shown else None

    def stack_node(self) -> tuple[str, Any] | None:
        """Return None: rows of varying length do not stack."""
        return None

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return (("element", self.estimator), ("length", self.len_estimator))
