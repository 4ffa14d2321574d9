"""The five pieces of a model: distribution, sampler, encoder, accumulator (with its factory), estimator.

A model family is these five classes. The loop knows nothing else: it encodes rows once, asks an accumulator for a
statistic of each shard, adds the statistics up and hands the total to the estimator.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mixle.errors import ContractError, KeyValidationError, RowError, UnscorableObservation
from mixle.stats.decomposition import Decomposition
from mixle.stats.doors import Doors
from mixle.stats.drawn import seeded
from mixle.stats.enumeration import Listed
from mixle.stats.serialize import Serializable

__all__ = [
    "Column",
    "ConditionalSampler",
    "ContractError",
    "DataSequenceEncoder",
    "DistributionSampler",
    "KeyValidationError",
    "ParameterEstimator",
    "ProbabilityDistribution",
    "SequenceEncodableProbabilityDistribution",
    "SequenceEncodableStatisticAccumulator",
    "StatisticAccumulator",
    "StatisticAccumulatorFactory",
]


class Column(NamedTuple):
    """One column of encoded rows as a start sees it.

    Attributes
    ----------
    values : ndarray, shape (n,)
        float64 numbers, or integer codes when `labels` is given.
    labels : tuple or None
        The label of each code.
    missing : ndarray of bool, shape (n,), or None
        Rows without a value.
    path : tuple of int
        Fields on the way to it, outermost first.
    wide : bool
        Whether it stands for all columns of vectors whose width no row has told: a chunk without any.
    within : int
        1 for an element of a row, 2 for an element of an element: they do not tell rows apart.
    """

    values: np.ndarray
    labels: tuple[Any, ...] | None = None
    missing: np.ndarray | None = None
    path: tuple[int, ...] = ()
    wide: bool = False
    within: int = 0


class DistributionSampler(Doors, ABC):
    """Draws observations from one distribution.

    Parameters
    ----------
    dist : ProbabilityDistribution
        The law.
    seed : int or None
        Seed of ``numpy.random.RandomState``; equal seeds give equal draws.
    """

    def __init__(self, dist: Any, seed: int | None = None) -> None:
        self.dist, self.rng = dist, seeded(seed)

    @abstractmethod
    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Draw one observation (`size` None) or a collection of `size` of them."""

    def new_seed(self) -> int:
        """Return a seed for a child sampler, drawn from this sampler's stream."""
        return int(self.rng.randint(2**31))


class ConditionalSampler(ABC):
    """Draws observations given a value of the conditioning part.

    Examples
    --------
    >>> from mixle.stats import ConditionalDistribution, GaussianDistribution
    >>> sampler = ConditionalDistribution({"a": GaussianDistribution(0.0, 1.0)}).conditional_sampler(1)
    >>> isinstance(sampler, ConditionalSampler), type(sampler.sample_given("a"))
    (True, <class 'float'>)
    """

    @abstractmethod
    def sample_given(self, x: Any) -> Any:
        """Draw one observation given `x`."""


class DataSequenceEncoder(Doors, ABC):
    """Turns rows into the arrays that the vectorised calls work on; rows are validated here, once."""

    @abstractmethod
    def seq_encode(self, rows: Sequence[Any]) -> Any:
        """Encode `rows`.

        Raises
        ------
        RowError
            Naming the position of the first row that cannot be read.
        """

    def row_count(self, payload: Any) -> int:
        """Return the number of rows behind `payload`, off arrays whose first axes agree; other layouts override it."""
        arrays = [payload] if isinstance(payload, np.ndarray) else payload
        if isinstance(arrays, (tuple, list)) and arrays and all(isinstance(a, np.ndarray) and a.ndim for a in arrays):
            lengths = {len(a) for a in arrays}
            if len(lengths) == 1:
                return int(lengths.pop())
        name = type(self).__name__
        raise NotImplementedError(f"{name} must define row_count(payload): its layout is not plain arrays")

    def nbytes(self, payload: Any) -> int:
        """Return the bytes held by the arrays of `payload`."""
        if isinstance(payload, np.ndarray):
            return int(payload.nbytes)
        if isinstance(payload, (tuple, list)):
            return sum(self.nbytes(part) for part in payload)
        return 0

    def slice(self, payload: Any, start: int, stop: int) -> Any:
        """Return the payload of rows ``start:stop`` (views where possible).

        The base class cuts arrays, and tuples or lists of arrays with one entry per row; other layouts override it.
        """
        if isinstance(payload, np.ndarray):
            return payload[start:stop]
        try:
            self.row_count(payload)
        except NotImplementedError:
            name = type(self).__name__
            raise NotImplementedError(
                f"{name} must define slice(payload, start, stop): its layout is not plain arrays"
            ) from None
        return type(payload)(part[start:stop] for part in payload)

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        """Return rows ``start:stop`` as plain columns for a start, or None if rows have no fixed columns."""
        return None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return id(type(self))

    def __str__(self) -> str:
        return type(self).__name__


class StatisticAccumulator(Doors, ABC):
    """Running sufficient statistic, row by row.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> isinstance(GaussianEstimator().accumulator_factory().make(), StatisticAccumulator)
    True
    """

    @abstractmethod
    def update(self, x: Any, weight: float, estimate: Any) -> None:
        """Add one row of weight `weight`; latent families read responsibilities off the model `estimate`."""

    @abstractmethod
    def initialize(self, x: Any, weight: float, rng: Any) -> None:
        """Add one row before there is a model."""

    @abstractmethod
    def combine(self, suff_stat: Any) -> Any:
        """Add what `value` of another accumulator returned; keep no reference to it; return self."""

    @abstractmethod
    def value(self) -> Any:
        """Return the statistic as plain data that shares nothing with this accumulator."""

    @abstractmethod
    def from_value(self, x: Any) -> Any:
        """Replace the state by `x`, exactly; return self."""

    def scale(self, c: float) -> Any:
        """Multiply the weight of everything seen by `c` ≥ 0; return self."""
        from mixle.stats.sums import scale_suff_stat

        return self.from_value(scale_suff_stat(self.value(), c))

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Put this statistic under its key in `stats_dict`, or add it to what is there."""
        key = getattr(self, "keys", None)
        if key is None:
            return
        if key in stats_dict:
            stats_dict[key].combine(self.value())
        else:
            stats_dict[key] = self

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take the pooled statistic of this key."""
        key = getattr(self, "keys", None)
        if key is not None and key in stats_dict and stats_dict[key] is not self:
            self.from_value(stats_dict[key].value())


class SequenceEncodableStatisticAccumulator(StatisticAccumulator):
    """Running sufficient statistic over encoded rows."""

    @abstractmethod
    def seq_update(self, x: Any, weights: np.ndarray, estimate: Any) -> None:
        """Add encoded rows `x` with float64 `weights` (n,) ≥ 0 under the model `estimate` (None for leaves)."""

    @abstractmethod
    def seq_initialize(self, x: Any, weights: np.ndarray, rng: Any) -> None:
        """Add encoded rows before there is a model; `rng` is a ``numpy.random.RandomState``."""

    @abstractmethod
    def acc_to_encoder(self) -> DataSequenceEncoder:
        """Return the encoder whose payloads `seq_update` reads."""

    def update(self, x: Any, weight: float, estimate: Any) -> None:
        """Add one row: the encoded form of one row is the only form."""
        self.seq_update(self.acc_to_encoder().seq_encode([x]), np.array([weight], float), estimate)

    def initialize(self, x: Any, weight: float, rng: Any) -> None:
        """Add one row before there is a model."""
        self.seq_initialize(self.acc_to_encoder().seq_encode([x]), np.array([weight], float), rng)


class StatisticAccumulatorFactory(ABC):
    """Makes fresh accumulators; picklable."""

    @abstractmethod
    def make(self) -> Any:
        """Return an accumulator of the zero statistic."""


class ProbabilityDistribution(Doors, Listed, Serializable, ABC):
    """A law of rows.

    `log_density(x)` is the encoded score of the single row `x`, so that the scalar and the vectorised path are one.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> isinstance(GaussianDistribution(0.0, 1.0), ProbabilityDistribution)
    True
    """

    name: str | None = None
    _repairs: tuple[str, ...] = ()

    def log_density(self, x: Any) -> float:
        """Return the log-density of one row; -inf outside the support.

        Raises
        ------
        UnscorableObservation
            If the row cannot be read (NaN, a wrong type).
        ContractError
            If the row has other fields than the model.
        """
        try:
            payload = self.dist_to_encoder().seq_encode([x])
        except RowError as error:
            kind = type(error) if isinstance(error, ContractError) else UnscorableObservation
            raise kind(error.reason, error.family, None, error.fields) from error
        return float(self.seq_log_density(payload)[0])

    def density(self, x: Any) -> float:
        """Return the density (or probability) of one row."""
        try:
            return math.exp(self.log_density(x))
        except OverflowError:
            return math.inf

    @abstractmethod
    def seq_log_density(self, x: Any) -> np.ndarray:
        """Return the log-densities of encoded rows, float64 of shape (n,)."""

    @abstractmethod
    def sampler(self, seed: int | None = None) -> DistributionSampler:
        """Return a sampler; equal seeds give equal draws."""

    @abstractmethod
    def estimator(self, pseudo_count: float | None = None) -> Any:
        """Return the estimator of this family; with `pseudo_count` its prior statistic is this distribution."""

    @abstractmethod
    def dist_to_encoder(self) -> DataSequenceEncoder:
        """Return the encoder whose payloads `seq_log_density` reads."""

    def kernel(self, engine: Any = None, estimator: Any = None) -> Any:
        """Return a `Kernel` of this model: ``score``, ``component_scores``, ``accumulate``, ``refresh``."""
        from mixle.stats.kernel import Kernel

        return Kernel(self, engine, estimator)

    def decomposition(self) -> Decomposition:
        """Return along which axis this model falls into parts; a law without parts is one unit.

        Examples
        --------
        >>> from mixle.stats import GaussianDistribution, MixtureDistribution
        >>> MixtureDistribution([GaussianDistribution(0.0, 1.0)] * 3).decomposition().child_roles
        ('component_0', 'component_1', 'component_2')
        """
        return Decomposition.atomic()

    def get_prior(self) -> Any:
        """Return the conjugate prior, or None."""
        return None

    def set_prior(self, prior: Any) -> None:
        """Take None; conjugate priors are not supported yet, `pseudo_count` of an estimator smooths.

        Raises
        ------
        ValueError
            For anything but None.
        """
        if prior is not None:
            raise ValueError("conjugate priors are not supported; use pseudo_count and suff_stat of the estimator")

    def fit_provenance(self) -> Any:
        """Return how this model was fitted, or None if it was not made by `optimize`."""
        return self.__dict__.get("_fit_provenance")

    def numerical_repairs(self) -> tuple[str, ...]:
        """Return what had to be repaired (floors, ridges) to make these parameters valid."""
        return tuple(self._repairs)

    def digest(self) -> str:
        """Return the sha256 of the canonical JSON of this model; equal bits, equal digest."""
        from mixle.stats.serialize import digest

        return digest(self)


class SequenceEncodableProbabilityDistribution(ProbabilityDistribution):
    """A distribution with vectorised scoring; every family of this library is one."""


class ParameterEstimator(Doors, Serializable, ABC):
    """Turns a statistic into a model (the M-step)."""

    @abstractmethod
    def accumulator_factory(self) -> StatisticAccumulatorFactory:
        """Return the factory of this estimator's accumulators."""

    @abstractmethod
    def estimate(self, nobs: float | None, suff_stat: Any) -> Any:
        """Return the model that fits `suff_stat`; `nobs` is the weight behind it, or None if unknown."""

    def get_prior(self) -> Any:
        """Return the conjugate prior; of an estimator with parts, those of the parts as a tuple; None without any."""
        own = getattr(self, "prior", None)
        if own is not None:
            return own
        parts = tuple(part.get_prior() for _, part in parts_of(self) if hasattr(part, "get_prior"))
        return parts if any(part is not None for part in parts) else None

    def own_log_density(self, model: Any) -> float:
        """Return the log-density of what is the model's own, not of a part, under the prior; 0 without one."""
        return 0.0

    def model_log_density(self, model: Any) -> float:
        """Return the log-density of the model's parameters under the priors; 0 without one.

        A prior of sites that share a key counts once, as their pooled statistic does.
        """
        from mixle.stats.penalty import log_density_of

        return log_density_of(self, model, set())

    def resident_accumulation_supported(self) -> bool:
        """Return True: statistics are accumulated where the encoded rows live."""
        return True


def parts_of(estimator: Any) -> tuple[tuple[str, Any], ...]:
    """Return (name, child) for each child of an estimator; one that does not tell has none."""
    tell = getattr(estimator, "_parts", None)
    return tuple(tell()) if callable(tell) else ()
