"""A law that depends on what comes with the value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats.combinators.conditional_sampler import ConditionalSamplerGiven, ConditionalValuesSampler
from mixle.stats.combinators.fields import read_parts, split_rows
from mixle.stats.combinators.missing import OptionalRows
from mixle.stats.combinators.null import NullDistribution, NullEstimator
from mixle.stats.combinators.routing import (
    RoutedAccumulator,
    RoutedEncoder,
    RoutedEstimator,
    RoutedFactory,
    RoutedRows,
    code_type,
    scatter,
)
from mixle.stats.contract import DataSequenceEncoder, SequenceEncodableProbabilityDistribution
from mixle.stats.enumeration import refuse, staged
from mixle.stats.given import estimator_given, law_given
from mixle.stats.refusals import refuse_statistic, shown
from mixle.stats.sums import signed_suff_stat

__all__ = [
    "ConditionalAccumulator",
    "ConditionalBranchStatistics",
    "ConditionalDistribution",
    "ConditionalDistributionEstimator",
    "ConditionalEncoder",
    "ConditionalEstimator",
    "ConditionalSamplerGiven",
    "ConditionalStatistics",
    "ConditionalValuesSampler",
]


class ConditionalBranchStatistics(NamedTuple):
    """Statistic of one branch: its key, the weight of its rows, and its law's statistic."""

    key: Any
    nobs: float
    statistic: Any

    def scaled(self, c: float) -> ConditionalBranchStatistics:
        """Return the statistic of weights times `c`; the key stays."""
        return ConditionalBranchStatistics(self.key, self.nobs * c, signed_suff_stat(self.statistic, c))


class ConditionalStatistics(NamedTuple):
    """Statistic of a `ConditionalEstimator`.

    Attributes
    ----------
    schema_version : int
        1.
    branches : tuple of ConditionalBranchStatistics
        In the order of the estimator's map.
    default_nobs, default
        Weight and statistic of the rows of other keys; 0 and None without a default law.
    given_nobs, given
        Weight of all rows, and the statistic of what is given; None without a law of it.
    """

    schema_version: int
    branches: tuple[ConditionalBranchStatistics, ...]
    default_nobs: float
    default: Any
    given_nobs: float
    given: Any

    def scaled(self, c: float) -> ConditionalStatistics:
        """Return the statistic of weights times `c`."""
        return ConditionalStatistics(
            self.schema_version,
            tuple(branch.scaled(c) for branch in self.branches),
            self.default_nobs * c,
            signed_suff_stat(self.default, c),
            self.given_nobs * c,
            signed_suff_stat(self.given, c),
        )


class ConditionalEncoder(RoutedEncoder):
    """Encoder of rows ``(given, value)``: the value is encoded by the branch of what is given."""

    row_form: ClassVar[str] = "tuple"

    def __init__(self, keys: Sequence[Any], encoders: Sequence[DataSequenceEncoder], default: bool) -> None:
        super().__init__(encoders)
        self.keys, self.default = tuple(keys), default

    def labels(self) -> tuple[Any, ...]:
        """Return the keys, and None for all others."""
        return (*self.keys, None)

    def seq_encode(self, rows: Sequence[Any]) -> RoutedRows:
        """Encode rows.

        Raises
        ------
        RowError
            Naming the first row whose key or value cannot be read, and the field.
        ArityError
            Naming the first row that is no pair.
        """
        given, values = split_rows(rows, 2)
        codes = self._codes(given)
        branches = range(len(self.keys) + self.default)
        *parts, every = read_parts(
            [
                *((partial(self.branch, values, codes, k), (1,)) for k in branches),
                (partial(self.inner[-1].encoder.seq_encode, given), (0,)),
            ]
        )
        return RoutedRows(codes, (*parts, OptionalRows(len(codes), None, every)))

    def _codes(self, given: Sequence[Any]) -> np.ndarray:
        table = {key: k for k, key in enumerate(self.keys)}
        other = len(self.keys) if self.default else -1
        values = given.tolist() if isinstance(given, np.ndarray) else given
        found = np.empty(len(given), code_type(len(self.keys) + 1))
        for i, key in enumerate(values):
            try:
                found[i] = table.get(key, other)
            except TypeError:
                reason = f"{shown(key)} cannot be a key: it is not hashable; pass a tuple, or str(key)"
                raise RowError(reason, "Conditional", i, (0,)) from None
        return found


class ConditionalAccumulator(RoutedAccumulator):
    """Accumulator of a `ConditionalEstimator`: the branches, the default law if there is one, the law of the given."""

    name: ClassVar[str] = "Conditional"

    def __init__(self, accumulators: Sequence[Any], branches: Sequence[Any], default: bool, keys: Any = None) -> None:
        super().__init__(accumulators, keys)
        self.branches, self.default = tuple(branches), default

    def models(self, estimate: Any) -> tuple[Any, ...]:
        """Return the law of each part of a model."""
        return tuple(estimate.part_laws)

    def place(self, error: RowError, i: int) -> RowError:
        """Return the error with the field it is in: 0 is what is given, 1 the value."""
        return error.inside(0 if i == len(self.accumulators) - 1 else 1)

    def pack(self, values: tuple[Any, ...]) -> ConditionalStatistics:
        """Return the statistic."""
        own = zip(self.branches, self.nobs, values, strict=False)
        branches = tuple(ConditionalBranchStatistics(key, nobs, value) for key, nobs, value in own)
        nobs, default = (self.nobs[-2], values[-2]) if self.default else (0.0, None)
        return ConditionalStatistics(1, branches, nobs, default, self.nobs[-1], values[-1])

    def unpack(self, value: Any) -> tuple[tuple[Any, ...], tuple[float, ...]]:
        """Return (statistics, weights) of the parts."""
        return split_statistic(value, self.branches, self.default)

    def acc_to_encoder(self) -> ConditionalEncoder:
        """Return the encoder."""
        return ConditionalEncoder(self.branches, [a.acc_to_encoder() for a in self.accumulators], self.default)


def split_statistic(value: Any, keys: Sequence[Any], default: bool) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """Return (statistics, weights) of the branches, the default law if there is one, and the law of what is given.

    Raises
    ------
    ValueError
        If `value` is of other branches.
    """
    _, branches, default_nobs, other, given_nobs, given = value
    found = tuple(branch[0] for branch in branches)
    if found != tuple(keys):
        refuse_statistic(f"{found!r:.80}", f"{tuple(keys)!r:.80}", "as branches")
    between = ((other, default_nobs),) if default else ()
    parts = [*((statistic, nobs) for _, nobs, statistic in branches), *between, (given, given_nobs)]
    return tuple(part[0] for part in parts), tuple(float(part[1]) for part in parts)


def _mapping(given: Any) -> dict[Any, Any]:
    """Return a map of parts; a list stands for the keys 0, 1, 2, ..."""
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, (list, tuple)):
        return dict(enumerate(given))
    raise TypeError(
        f"a Conditional takes a map from keys to its parts, not a {type(given).__name__}; pass {{key: part, ...}}"
    )


def _or_null(estimator: Any) -> Any:
    return NullEstimator() if estimator is None else estimator_given(estimator, "Conditional")


class ConditionalDistribution(SequenceEncodableProbabilityDistribution):
    """Law of pairs ``(given, value)``: ``p(given) · p(value | given)``, with one law of values for each key.

    Parameters
    ----------
    dmap : dict or list of distributions
        Law of the value for each key; a list stands for the keys 0, 1, 2, ...
    default_dist : distribution, optional
        Law of the value for all other keys. Without one (None or a `NullDistribution`) such a row has density 0.
    given_dist : distribution, optional
        Law of what is given. Without one (None or a `NullDistribution`) the density is that of the value alone.
    name, keys
        Label and tying key of the whole.

    References
    ----------
    C. M. Bishop, "Pattern Recognition and Machine Learning", 2006 (products of conditional laws).

    Examples
    --------
    >>> from mixle.stats import CategoricalDistribution, GaussianDistribution
    >>> laws = {"a": GaussianDistribution(0.0, 1.0), "b": GaussianDistribution(1.0, 2.0)}
    >>> d = ConditionalDistribution(laws, given_dist=CategoricalDistribution({"a": 0.5, "b": 0.5}))
    >>> round(d.log_density(("a", 1.0)), 9), d.log_density(("c", 1.0))
    (-2.112085714, -inf)
    """

    _fields = ("dmap",)
    _keyword_fields = ("default_dist", "given_dist", "name", "keys")

    def __init__(
        self, dmap: Any, default_dist: Any = None, given_dist: Any = None, name: str | None = None, keys: Any = None
    ) -> None:
        self.dmap = {key: law_given(law, "Conditional") for key, law in _mapping(dmap).items()}
        self.default_dist = NullDistribution() if default_dist is None else law_given(default_dist, "Conditional")
        self.given_dist = NullDistribution() if given_dist is None else law_given(given_dist, "Conditional")
        self.name, self.keys = name, keys

    @property
    def has_default(self) -> bool:
        """Return whether there is a law for other keys."""
        return not isinstance(self.default_dist, NullDistribution)

    @property
    def has_given(self) -> bool:
        """Return whether there is a law of what is given."""
        return not isinstance(self.given_dist, NullDistribution)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the pairs, the most probable first."""
        if not self.has_given:
            raise refuse(self, "without a law of what is given its scores are no probabilities of pairs")
        for law in self.part_laws:
            law.outcomes()  # says here, not on the way, that it has no list

        def pairs(given: Any, score: float) -> Iterator[tuple[Any, float]]:
            law = self.dmap.get(given, self.default_dist if self.has_default else None)
            return iter(()) if law is None else (((given, v), score + own) for v, own in law.outcomes())

        return staged(self.given_dist.outcomes(), pairs)

    @property
    def part_laws(self) -> list[Any]:
        """Return the laws of the branches, the default law if there is one, and the law of what is given."""
        return [*self.dmap.values(), *([self.default_dist] if self.has_default else []), self.given_dist]

    def dist_to_encoder(self) -> ConditionalEncoder:
        """Return the encoder."""
        return ConditionalEncoder(
            tuple(self.dmap), [part.dist_to_encoder() for part in self.part_laws], self.has_default
        )  # fmt: skip

    def seq_log_density(self, x: RoutedRows) -> np.ndarray:
        """Return the log-densities, shape (n,)."""
        return scatter(self.part_laws, x)

    def sampler(self, seed: int | None = None) -> ConditionalValuesSampler:
        """Return a sampler of pairs; it needs a law of what is given."""
        return ConditionalValuesSampler(self, seed)

    def conditional_sampler(self, seed: int | None = None) -> ConditionalSamplerGiven:
        """Return a sampler of values given a key."""
        return ConditionalSamplerGiven(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> ConditionalEstimator:
        """Return the estimator; `pseudo_count` weighs the parts' parameters as a prior."""
        return ConditionalEstimator(
            {key: part.estimator(pseudo_count) for key, part in self.dmap.items()},
            self.default_dist.estimator(pseudo_count),
            self.given_dist.estimator(pseudo_count),
            self.name,
            self.keys,
        )

    def free_parameters(self) -> int:
        """Return the number of free parameters of all parts."""
        from mixle.stats.counting import free_parameters

        return sum(map(free_parameters, self.part_laws))


class ConditionalEstimator(RoutedEstimator):
    """Estimator of a `ConditionalDistribution`: each branch is fitted to the rows of its key.

    Parameters
    ----------
    estimator_map : dict or list of estimators
        Estimator of the law of values for each key; a list stands for the keys 0, 1, 2, ...
    default_estimator : estimator, optional
        That of the values of all other keys; without one a fit refuses them.
    given_estimator : estimator, optional
        That of what is given.
    name, keys
        Label and tying key of what is fitted.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> from mixle.stats import GaussianEstimator
    >>> rows = [("a", 1.0), ("b", 5.0), ("a", 3.0), ("b", 5.0)]
    >>> model = optimize(rows, ConditionalEstimator({"a": GaussianEstimator(), "b": GaussianEstimator()}), out=None)
    >>> [law.mu for law in model.dmap.values()]
    [2.0, 5.0]
    """

    _fields = ("estimator_map",)
    _keyword_fields = ("default_estimator", "given_estimator", "name", "keys")
    _laws: ClassVar[tuple[str, ...]] = ("part_laws",)

    def __init__(
        self,
        estimator_map: Any,
        default_estimator: Any = None,
        given_estimator: Any = None,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.estimator_map = {key: estimator_given(e, "Conditional") for key, e in _mapping(estimator_map).items()}
        self.default_estimator = _or_null(default_estimator)
        self.given_estimator = _or_null(given_estimator)
        self.name, self.keys = name, keys

    @property
    def has_default(self) -> bool:
        """Return whether there is an estimator for other keys."""
        return not isinstance(self.default_estimator, NullEstimator)

    def parts(self) -> tuple[tuple[str, Any], ...]:
        """Return (name, estimator) of each part."""
        branches = [(f"branch {key!r}", part) for key, part in self.estimator_map.items()]
        default = [("default", self.default_estimator)] if self.has_default else []
        return (*branches, *default, ("given", self.given_estimator))

    def laws(self, model: ConditionalDistribution) -> tuple[Any, ...]:
        """Return the law of each part of a model."""
        return tuple(model.part_laws)

    def split(self, suff_stat: Any) -> tuple[tuple[Any, ...], tuple[float, ...]]:
        """Return (statistics, weights) of the parts."""
        return split_statistic(suff_stat, tuple(self.estimator_map), self.has_default)

    def build(self, laws: list[Any], suff_stat: Any) -> ConditionalDistribution:
        """Return the model of these laws."""
        count = len(self.estimator_map)
        default = laws[count] if self.has_default else None
        dmap = dict(zip(self.estimator_map, laws[:count], strict=True))
        return ConditionalDistribution(dmap, default, laws[-1], self.name, self.keys)

    def accumulator_factory(self) -> RoutedFactory:
        """Return the factory."""
        estimators = [part for _, part in self.parts()]
        return RoutedFactory(
            ConditionalAccumulator, estimators, tuple(self.estimator_map), self.has_default, self.keys
        )  # fmt: skip


#: Another name of `ConditionalEstimator`.
ConditionalDistributionEstimator = ConditionalEstimator
