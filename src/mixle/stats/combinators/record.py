"""Rows of independent fields, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from mixle.errors import ArityError
from mixle.stats.combinators.fields import (
    FieldsAccumulator,
    FieldsEncoder,
    FieldsEstimator,
    FieldsFactory,
    estimate_fields,
    plain_list,
)
from mixle.stats.contract import (
    DistributionSampler,
    SequenceEncodableProbabilityDistribution,
)
from mixle.stats.decomposition import DecompAxis, Decomposition, axis_of
from mixle.stats.enumeration import products
from mixle.stats.given import estimator_given, estimators_given, law_given, laws_given
from mixle.stats.refusals import shown
from mixle.stats.table import Table

__all__ = ["RecordAccumulator", "RecordDistribution", "RecordEncoder", "RecordEstimator", "RecordSampler"]


class RecordEncoder(FieldsEncoder):
    """Encoder of mappings that have exactly the fields of the record."""

    row_form: ClassVar[str] = "mapping"

    def split(self, rows: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the rows as columns.

        Raises
        ------
        ArityError
            Naming the first row with a field too many or too few, and the field.
        """
        known = set(self.fields)
        if isinstance(rows, Table) and rows.mappings and len(rows):
            columns = rows.by_name(self.fields)
            if columns is not None:
                return columns
        if not (set(map(type, rows)) <= {dict} and set(map(len, rows)) <= {len(known)}):
            for i, row in enumerate(rows):
                self._check(i, row, known)
        try:
            return [list(map(itemgetter(field), rows)) for field in self.fields]
        except KeyError:
            for i, row in enumerate(rows):
                self._check(i, row, known)
            raise

    def _check(self, i: int, row: Any, known: set[Any]) -> None:
        if not isinstance(row, Mapping):
            raise ArityError(f"{shown(row)} is not a mapping; it needs the fields {_listed(self.fields)}", row=i)
        for field in self.fields:
            if field not in row:
                raise ArityError(f"the field is missing; the row has {_listed(row)}", row=i, fields=(field,))
        for field in row:
            if field not in known:
                raise ArityError(f"the record has no such field; it has {_listed(self.fields)}", row=i, fields=(field,))


def _listed(fields: Any) -> str:
    return ", ".join(map(repr, fields)) or "none"


class RecordAccumulator(FieldsAccumulator):
    """Accumulator of a record; the statistic is the tuple of the fields' statistics, in order."""

    encoder: ClassVar[type[FieldsEncoder]] = RecordEncoder


def as_fields(fields: Any, parts: Any = None) -> dict[Any, Any]:
    """Return ``{field: part}`` from such a mapping, from names and `parts`, or from a pair of both.

    Raises
    ------
    TypeError
        If `parts` stand beside a mapping.
    ValueError
        If there is no field, a name comes twice, or there are not as many names as parts.
    """
    if parts is not None:
        if isinstance(fields, Mapping):
            raise TypeError("a Record was given a mapping and parts beside it; pass the names of the fields first")
        fields = (fields, parts)
    if isinstance(fields, Mapping):
        found = dict(fields)
    else:
        try:
            names, parts = (list(part) for part in fields)
        except (TypeError, ValueError):
            raise ValueError(f"fields of a Record is a mapping, as {{'a': part}}, not {shown(fields)}") from None
        if len(names) != len(parts):
            raise ValueError(f"a Record was given {len(names)} field names and {len(parts)} parts; give each a name")
        found = dict(zip(names, parts, strict=True))
        if len(found) != len(names):
            raise ValueError(f"a Record has a field name twice: {_listed(names)}; give each its own")
    if not found:
        raise ValueError("a Record needs at least one field")
    return found


class _Named:
    """Parts by the names of their fields."""

    _fields: ClassVar[tuple[str, ...]] = ("fields",)
    _keyword_fields: ClassVar[tuple[str, ...]] = ("name",)
    _estimates: ClassVar[bool] = False

    def _take(self, fields: Any, parts: Any, name: str | None) -> None:
        given, all_given = (estimator_given, estimators_given) if self._estimates else (law_given, laws_given)
        if parts is not None and not isinstance(fields, Mapping):
            parts = all_given(parts, "Record")
        self.fields = {field: given(part, "Record") for field, part in as_fields(fields, parts).items()}
        self.name = name

    @property
    def keys(self) -> tuple[Any, ...]:
        """Return the names of the fields."""
        return tuple(self.fields)


class RecordDistribution(_Named, SequenceEncodableProbabilityDistribution):
    """Product of laws, ``p(x) = Π_f p_f(x[f])``, one for each field f of a mapping.

    Parameters
    ----------
    fields : dict, sequence of names, or (names, distributions)
        The law of each field, at least one.
    dists : sequence of distributions, optional
        The laws, where `fields` is the names alone.
    name : str, optional
        Label carried along.

    Attributes
    ----------
    keys : tuple
        The names of the fields; a record has no tying key of its own.
    dists : tuple
        The laws, in order.

    References
    ----------
    L. Hunt, M. Jorgensen, "Mixture model clustering using the MULTIMIX program", Australian & New Zealand Journal of
    Statistics 41, 1999: mixtures of it cluster rows of numbers and labels.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, PoissonDistribution
    >>> d = RecordDistribution({"x": GaussianDistribution(0.0, 1.0), "n": PoissonDistribution(2.0)})
    >>> d.log_density({"x": 0.0, "n": 0})
    -2.9189385332046727
    """

    def __init__(self, fields: Any, dists: Sequence[Any] | None = None, name: str | None = None) -> None:
        self._take(fields, dists, name)

    @property
    def dists(self) -> tuple[Any, ...]:
        """Return the laws in the order of the fields."""
        return tuple(self.fields.values())

    def decomposition(self) -> Decomposition:
        """Return the axis of the fields."""
        return axis_of(DecompAxis.FACTOR, [str(field) for field in self.fields])

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the mappings, the most probable first."""
        found = products([dist.outcomes() for dist in self.fields.values()])
        return ((dict(zip(self.fields, values, strict=True)), score) for values, score in found)

    def dist_to_encoder(self) -> RecordEncoder:
        """Return the encoder of the fields."""
        return RecordEncoder([dist.dist_to_encoder() for dist in self.dists], self.keys)

    def seq_log_density(self, x: Any) -> np.ndarray:
        """Return the sum of the fields' log-densities, shape (n,)."""
        first, *others = self.dists
        result = np.array(first.seq_log_density(x[0]), dtype=float)
        for dist, part in zip(others, x[1:], strict=True):
            result += dist.seq_log_density(part)
        return result

    def sampler(self, seed: int | None = None) -> RecordSampler:
        """Return a sampler."""
        return RecordSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> RecordEstimator:
        """Return the estimator made of the fields' estimators."""
        return RecordEstimator(
            {field: dist.estimator(pseudo_count) for field, dist in self.fields.items()}, name=self.name
        )

    def stack_node(self) -> tuple[str, Any]:
        """Return how this part stacks over a component axis."""
        return ("composite", self.dists)


class RecordSampler(DistributionSampler):
    """Sampler of a `RecordDistribution`."""

    def __init__(self, dist: RecordDistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.samplers = {field: child.sampler(self.new_seed()) for field, child in dist.fields.items()}

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a dict, or a list of `size` dicts."""
        if size is None:
            return {field: sampler.sample() for field, sampler in self.samplers.items()}
        columns = [plain_list(sampler.sample(size)) for sampler in self.samplers.values()]
        return [dict(zip(self.samplers, row, strict=True)) for row in zip(*columns, strict=True)]


class RecordEstimator(_Named, FieldsEstimator):
    """Estimator of a `RecordDistribution`.

    Parameters
    ----------
    fields : dict, sequence of names, or (names, estimators)
        The estimator of each field, at least one.
    estimators : sequence of estimators, optional
        The estimators, where `fields` is the names alone.
    name : str, optional
        Label of the fitted distribution.

    Attributes
    ----------
    keys : tuple
        The names of the fields; a record has no tying key of its own.
    estimators : tuple
        The estimators, in order.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> RecordEstimator({"n": PoissonEstimator()}).estimate(2.0, ((2.0, 3.0),)).fields["n"].lam
    1.5
    """

    _laws: ClassVar[tuple[str, ...]] = ("dists",)
    _estimates: ClassVar[bool] = True

    def __init__(self, fields: Any, estimators: Sequence[Any] | None = None, name: str | None = None) -> None:
        self._take(fields, estimators, name)

    @property
    def estimators(self) -> tuple[Any, ...]:
        """Return the estimators in the order of the fields."""
        return tuple(self.fields.values())

    def accumulator_factory(self) -> FieldsFactory:
        """Return the factory of this record's accumulators."""
        return FieldsFactory(RecordAccumulator, self.estimators, self.keys, None)

    def estimate(self, nobs: float | None, suff_stat: Any) -> RecordDistribution:
        """Return the fitted distribution; `nobs` goes to every field."""
        fitted = estimate_fields(self.estimators, nobs, suff_stat)
        return RecordDistribution(dict(zip(self.fields, fitted, strict=True)), name=self.name)

    def _of_dists(self, dists: list[Any], model: Any) -> RecordDistribution:
        return RecordDistribution(dict(zip(self.fields, dists, strict=True)), model.name)

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return tuple((f"field {field!r}", estimator) for field, estimator in self.fields.items())

    def _tying_keys(self) -> tuple[Any, ...]:
        return ()
