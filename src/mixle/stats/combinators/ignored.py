"""A factor that is scored and never fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixle.stats.combinators.null import NullEstimator, StatelessAccumulator
from mixle.stats.contract import (
    Column,
    DataSequenceEncoder,
    ParameterEstimator,
    SequenceEncodableProbabilityDistribution,
    StatisticAccumulatorFactory,
)
from mixle.stats.given import law_given

__all__ = ["IgnoredDistribution", "IgnoredEncoder", "IgnoredEstimator", "IgnoredFactory", "KeepsLength"]


class IgnoredEncoder(DataSequenceEncoder):
    """The child's encoder, without columns for a start."""

    def __init__(self, encoder: DataSequenceEncoder) -> None:
        self.encoder = encoder

    @property
    def row_form(self) -> str:
        """Return the form of the child's rows."""
        return getattr(self.encoder, "row_form", "value")

    def seq_encode(self, rows: Sequence[Any]) -> Any:
        """Encode rows as the child does."""
        return self.encoder.seq_encode(rows)

    def row_count(self, payload: Any) -> int:
        """Return the number of rows."""
        return self.encoder.row_count(payload)

    def nbytes(self, payload: Any) -> int:
        """Return the bytes held by `payload`."""
        return self.encoder.nbytes(payload)

    def slice(self, payload: Any, start: int, stop: int) -> Any:
        """Return rows ``start:stop``."""
        return self.encoder.slice(payload, start, stop)

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        """Return no columns: nothing here is fitted."""
        return []


class IgnoredFactory(StatisticAccumulatorFactory):
    """Factory of accumulators that learn nothing."""

    def __init__(self, encoder: IgnoredEncoder, keys: Any = None) -> None:
        self.encoder, self.keys = encoder, keys

    def make(self) -> StatelessAccumulator:
        """Return a fresh accumulator."""
        return StatelessAccumulator(self.encoder, self.keys)


class IgnoredDistribution(SequenceEncodableProbabilityDistribution):
    """A law ``p(x)`` that takes part in scores and stays as it is in a fit.

    Parameters
    ----------
    dist : distribution
        The law.
    name : str, optional
        Label carried along.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> d = IgnoredDistribution(PoissonDistribution(2.0))
    >>> d.log_density(0), d.estimator().estimate(None, None).dist.lam
    (-2.0, 2.0)
    """

    _fields = ("dist",)
    _keyword_fields = ("name",)

    def __init__(self, dist: Any, name: str | None = None) -> None:
        self.dist, self.name = law_given(dist, "Ignored"), name

    def dist_to_encoder(self) -> IgnoredEncoder:
        """Return the encoder."""
        return IgnoredEncoder(self.dist.dist_to_encoder())

    def seq_log_density(self, x: Any) -> np.ndarray:
        """Return the child's log-densities, shape (n,)."""
        return np.asarray(self.dist.seq_log_density(x))

    def sampler(self, seed: int | None = None) -> Any:
        """Return the child's sampler."""
        return self.dist.sampler(seed)

    def estimator(self, pseudo_count: float | None = None) -> IgnoredEstimator:
        """Return the estimator that gives this law back."""
        return IgnoredEstimator(self.dist, name=self.name)


class IgnoredEstimator(ParameterEstimator):
    """Gives back the law it was made with.

    Parameters
    ----------
    dist : distribution
        The law.
    pseudo_count, suff_stat
        Accepted for uniformity; there is nothing to smooth.
    keys : None
        There is nothing to tie; a key is refused when keys are validated.
    name : str, optional
        Label of the distribution.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> IgnoredEstimator(PoissonDistribution(2.0)).estimate(None, None)
    IgnoredDistribution(PoissonDistribution(2.0, name=None, keys=None), name=None)
    """

    _fields = ("dist",)
    _keyword_fields = ("name", "keys")

    def __init__(
        self,
        dist: Any,
        pseudo_count: float | None = None,
        suff_stat: Any = None,
        keys: Any = None,
        name: str | None = None,
    ) -> None:
        self.dist, self.name, self.keys = law_given(dist, "Ignored"), name, keys

    def accumulator_factory(self) -> IgnoredFactory:
        """Return the factory."""
        return IgnoredFactory(IgnoredEncoder(self.dist.dist_to_encoder()), self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> IgnoredDistribution:
        """Return the law, unchanged."""
        return IgnoredDistribution(self.dist, self.name)

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return ()


class KeepsLength(ParameterEstimator):
    """Estimator of sequences whose law of the length may be kept as it is: `len_dist` without a `len_estimator`."""

    len_estimator: Any
    len_dist: Any

    def _length(self) -> Any:
        fixed = isinstance(self.len_estimator, NullEstimator) and self.len_dist is not None
        return IgnoredEstimator(self.len_dist) if fixed else self.len_estimator

    def _length_law(self, nobs: float | None, lengths: Any) -> Any:
        estimator = self._length()
        return self.len_dist if estimator is not self.len_estimator else estimator.estimate(nobs, lengths)
