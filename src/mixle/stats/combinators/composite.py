"""Rows of independent fields, by position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

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
from mixle.stats.given import estimators_given, laws_given

__all__ = [
    "CompositeAccumulator",
    "CompositeDistribution",
    "CompositeEncoder",
    "CompositeEstimator",
    "CompositeSampler",
]


class CompositeEncoder(FieldsEncoder):
    """Encoder of tuples, lists, or rows of a two-dimensional array."""


class CompositeAccumulator(FieldsAccumulator):
    """Accumulator of a composite; the statistic is the tuple of the fields' statistics."""

    encoder: ClassVar[type[FieldsEncoder]] = CompositeEncoder


class CompositeDistribution(SequenceEncodableProbabilityDistribution):
    """Product of laws, ``p(x) = Π_j p_j(x_j)``, one for each position of a tuple.

    Parameters
    ----------
    dists : sequence of distributions
        The law of each field, at least one.
    name, keys
        Label and tying key of the whole.

    References
    ----------
    P. F. Lazarsfeld, N. W. Henry, "Latent Structure Analysis", 1968: mixtures of it are latent class models.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, PoissonDistribution
    >>> d = CompositeDistribution((GaussianDistribution(0.0, 1.0), PoissonDistribution(2.0)))
    >>> d.log_density((0.0, 0))
    -2.9189385332046727
    >>> d.log_density((0.0,))
    Traceback (most recent call last):
        ...
    mixle.errors.ArityError: expected 2 fields, got 1; write None for what is missing
    """

    _fields = ("dists",)
    _keyword_fields = ("name", "keys")

    def __init__(self, dists: Sequence[Any], name: str | None = None, keys: Any = None) -> None:
        self.dists = laws_given(dists, "Composite")
        if not self.dists:
            raise ValueError("a Composite needs at least one field")
        self.count = len(self.dists)
        self.name, self.keys = name, keys

    def decomposition(self) -> Decomposition:
        """Return the axis of the fields."""
        return axis_of(DecompAxis.FACTOR, [f"factor_{i}" for i in range(self.count)])

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the tuples, the most probable first."""
        return products([dist.outcomes() for dist in self.dists])

    def dist_to_encoder(self) -> CompositeEncoder:
        """Return the encoder of the fields."""
        return CompositeEncoder([dist.dist_to_encoder() for dist in self.dists])

    def seq_log_density(self, x: Any) -> np.ndarray:
        """Return the sum of the fields' log-densities, shape (n,)."""
        result = np.array(self.dists[0].seq_log_density(x[0]), dtype=float)
        for dist, part in zip(self.dists[1:], x[1:], strict=True):
            result += dist.seq_log_density(part)
        return result

    def sampler(self, seed: int | None = None) -> CompositeSampler:
        """Return a sampler."""
        return CompositeSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> CompositeEstimator:
        """Return the estimator made of the fields' estimators."""
        return CompositeEstimator([dist.estimator(pseudo_count) for dist in self.dists], self.keys, self.name)

    def stack_node(self) -> tuple[str, Any]:
        """Return how this part stacks over a component axis."""
        return ("composite", self.dists)


class CompositeSampler(DistributionSampler):
    """Sampler of a `CompositeDistribution`."""

    def __init__(self, dist: CompositeDistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.samplers = [child.sampler(self.new_seed()) for child in dist.dists]

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a tuple, or a list of `size` tuples."""
        if size is None:
            return tuple(sampler.sample() for sampler in self.samplers)
        return list(zip(*(plain_list(sampler.sample(size)) for sampler in self.samplers), strict=True))


class CompositeEstimator(FieldsEstimator):
    """Estimator of a `CompositeDistribution`.

    Parameters
    ----------
    estimators : sequence of estimators
        The estimator of each field, at least one.
    keys : hashable, optional
        Tying key of the whole.
    name : str, optional
        Label of the fitted distribution.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator, PoissonEstimator
    >>> estimator = CompositeEstimator([GaussianEstimator(), PoissonEstimator()])
    >>> model = estimator.estimate(2.0, ((2.0, 4.0, 2.0), (2.0, 3.0)))
    >>> model.dists[0].mu, model.dists[1].lam
    (1.0, 1.5)
    """

    _laws: ClassVar[tuple[str, ...]] = ("dists",)
    _fields = ("estimators",)
    _keyword_fields = ("keys", "name")

    def __init__(self, estimators: Sequence[Any], keys: Any = None, name: str | None = None) -> None:
        self.estimators = estimators_given(estimators, "Composite")
        if not self.estimators:
            raise ValueError("a Composite needs at least one field")
        self.count = len(self.estimators)
        self.name, self.keys = name, keys

    def accumulator_factory(self) -> FieldsFactory:
        """Return the factory of this composite's accumulators."""
        return FieldsFactory(CompositeAccumulator, self.estimators, range(self.count), self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> CompositeDistribution:
        """Return the fitted distribution; `nobs` goes to every field, unless the whole is tied: then it is unknown."""
        known = None if self.keys is not None else nobs
        return CompositeDistribution(estimate_fields(self.estimators, known, suff_stat), self.name, self.keys)

    def _of_dists(self, dists: list[Any], model: Any) -> CompositeDistribution:
        return CompositeDistribution(dists, model.name, model.keys)

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return tuple((f"field {i}", estimator) for i, estimator in enumerate(self.estimators))
