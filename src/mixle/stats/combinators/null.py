"""The neutral factor: scores nothing, learns nothing, cannot be sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixle.errors import NeutralFactorError
from mixle.stats.contract import (
    Column,
    DataSequenceEncoder,
    DistributionSampler,
    ParameterEstimator,
    SequenceEncodableProbabilityDistribution,
    SequenceEncodableStatisticAccumulator,
    StatisticAccumulatorFactory,
)

__all__ = [
    "NullAccumulator",
    "NullDistribution",
    "NullEncoder",
    "NullEstimator",
    "NullFactory",
    "NullSampler",
    "StatelessAccumulator",
]


class NullEncoder(DataSequenceEncoder):
    """Encoder that keeps nothing but the number of rows."""

    def seq_encode(self, rows: Sequence[Any]) -> int:
        """Return the number of rows."""
        return len(rows)

    def row_count(self, payload: Any) -> int:
        """Return the number of rows."""
        return int(payload)

    def nbytes(self, payload: Any) -> int:
        """Return 0."""
        return 0

    def slice(self, payload: Any, start: int, stop: int) -> int:
        """Return the number of rows in ``start:stop``."""
        return stop - start

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        """Return no columns."""
        return []


class StatelessAccumulator(SequenceEncodableStatisticAccumulator):
    """Accumulator of a factor that learns nothing: the statistic is None."""

    def __init__(self, encoder: DataSequenceEncoder, keys: Any = None) -> None:
        self.encoder, self.keys = encoder, keys

    def seq_update(self, x: Any, weights: np.ndarray, estimate: Any) -> None:
        """Do nothing."""

    def seq_initialize(self, x: Any, weights: np.ndarray, rng: Any) -> None:
        """Do nothing."""

    def combine(self, suff_stat: None) -> StatelessAccumulator:
        """Add nothing."""
        return self

    def value(self) -> None:
        """Return None."""
        return

    def from_value(self, x: None) -> StatelessAccumulator:
        """Replace nothing."""
        return self

    def acc_to_encoder(self) -> DataSequenceEncoder:
        """Return the encoder."""
        return self.encoder


class NullAccumulator(StatelessAccumulator):
    """Accumulator of a `NullEstimator`."""

    def __init__(self, keys: Any = None) -> None:
        super().__init__(NullEncoder(), keys)


class NullFactory(StatisticAccumulatorFactory):
    """Factory of `NullAccumulator`."""

    def __init__(self, keys: Any = None) -> None:
        self.keys = keys

    def make(self) -> NullAccumulator:
        """Return a fresh accumulator."""
        return NullAccumulator(self.keys)


class NullDistribution(SequenceEncodableProbabilityDistribution):
    """Neutral factor, ``p(x) = 1``: the log-density of every row is 0.

    Parameters
    ----------
    name : str, optional
        Label carried along.

    Examples
    --------
    >>> NullDistribution().log_density("anything")
    0.0
    """

    _keyword_fields = ("name",)

    def __init__(self, name: str | None = None) -> None:
        self.name = name

    def dist_to_encoder(self) -> NullEncoder:
        """Return the encoder."""
        return NullEncoder()

    def seq_log_density(self, x: Any) -> np.ndarray:
        """Return zeros, shape (n,)."""
        return np.zeros(x)

    def sampler(self, seed: int | None = None) -> NullSampler:
        """Return a sampler that raises."""
        return NullSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> NullEstimator:
        """Return the estimator."""
        return NullEstimator(name=self.name)

    def stack_node(self) -> tuple[str, Any]:
        """Return how this part stacks over a component axis."""
        return ("null", None)


class NullSampler(DistributionSampler):
    """Sampler of a `NullDistribution`: there is nothing to draw from."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Raise `NeutralFactorError`."""
        raise NeutralFactorError("a NullDistribution has no law to sample from; give this part of the model a family")


class NullEstimator(ParameterEstimator):
    """Estimator of a `NullDistribution`.

    Parameters
    ----------
    pseudo_count, suff_stat
        Accepted for uniformity; there is nothing to smooth.
    name : str, optional
        Label of the distribution.
    keys : hashable, optional
        Accepted for uniformity; there is nothing to tie.

    Examples
    --------
    >>> NullEstimator().estimate(None, None).log_density("anything")
    0.0
    """

    _keyword_fields = ("name", "keys")

    def __init__(
        self, pseudo_count: float | None = None, suff_stat: Any = None, name: str | None = None, keys: Any = None
    ) -> None:
        self.name, self.keys = name, keys

    def accumulator_factory(self) -> NullFactory:
        """Return the factory."""
        return NullFactory(self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> NullDistribution:
        """Return the neutral factor."""
        return NullDistribution(self.name)

    def stack_node(self) -> tuple[str, Any]:
        """Return how this part stacks over a component axis."""
        return ("null", None)

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return ()
