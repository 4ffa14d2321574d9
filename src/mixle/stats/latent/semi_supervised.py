"""Mixtures of which some rows tell their component."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import Column, DistributionSampler
from mixle.stats.decomposition import Decomposition
from mixle.stats.enumeration import refuse
from mixle.stats.kinds import LOG_ZERO, log_or_floor
from mixle.stats.latent.mixture import MixtureDistribution, MixtureEstimator, MixtureSampler
from mixle.stats.latent.mixture_accumulator import Given, MixtureAccumulator, MixtureFactory
from mixle.stats.latent.semi_supervised_rows import SemiSupervisedEncoder, Told
from mixle.stats.stacking.walk import Walk
from mixle.stats.starts import Centres, distances, sample_size, seed_centres, seed_components, take_columns, telling

__all__ = ["SemiSupervisedMixtureDistribution", "SemiSupervisedMixtureEstimator", "SemiSupervisedSampler"]


class _ToldWalk(Walk):
    """E-step of rows that tell something."""

    def __init__(self, components: Sequence[Any], w: np.ndarray, x: Told, rows: int) -> None:
        super().__init__(components, w, log_or_floor(w), x.payload, rows)
        self.told = x._replace(evidence=log_or_floor(x.evidence))

    def score_block(self, start: int, stop: int, out: np.ndarray) -> None:
        """Write log-density plus log-weight plus log-evidence."""
        super().score_block(start, stop, out)
        self.check_scores(out)
        places, evidence = self.told.of(start, stop)
        if len(places):
            out[:, places] = np.maximum(out[:, places] + evidence, LOG_ZERO)


class SemiSupervisedMixtureDistribution(MixtureDistribution):
    """Mixture ``Σ_k w_k p_k(x)`` of rows ``(x, told)`` that may tell their component.

    `told` is None, or pairs (component, evidence): how likely what was observed beside x is in that component, up to
    a factor; components not listed are excluded. ``[(2, 1.0)]`` is a row that is known to be of component 2.

    Parameters
    ----------
    components : sequence of distributions
        The K components.
    w : array_like, shape (K,)
        Weights; even by default.
    name, weights, keys, prior
        As for `MixtureDistribution`.

    Notes
    -----
    A row scores ``log Σ_k w_k q_k p_k(x)``, the evidence q scaled so that the largest is 1: the log-density of x and
    what it tells together, which EM raises. Evidence that is the same for all components changes nothing.

    References
    ----------
    K. Nigam, A. K. McCallum, S. Thrun, T. Mitchell, "Text classification from labeled and unlabeled documents using
    EM", Machine Learning 39, 2000.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> m = SemiSupervisedMixtureDistribution([GaussianDistribution(0.0, 1.0), GaussianDistribution(4.0, 1.0)])
    >>> m.posterior((2.0, None)).tolist(), m.posterior((2.0, [(1, 1.0)])).tolist()
    ([0.5, 0.5], [0.0, 1.0])
    """

    def walk(self, payload: Told) -> Walk:
        """Return the E-step of one encoded chunk."""
        return _ToldWalk(self.components, self.w, payload, self.dist_to_encoder().row_count(payload))

    def seq_component_log_density(self, x: Told) -> np.ndarray:
        """Return the log-density of encoded values under each component, shape (n, K)."""
        return super().seq_component_log_density(x.payload)

    def component_log_density(self, x: Any) -> np.ndarray:
        """Return the log-density of the value of one row under each component, shape (K,)."""
        return super().component_log_density(x[0])

    def decomposition(self) -> Decomposition:
        """Return that a mixture of rows that tell their component is one unit."""
        return Decomposition.atomic()

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Refuse: a row carries what is known of its component, and that has no law."""
        raise refuse(self, "what is known of a row's component has no law")

    def sampler(self, seed: int | None = None) -> SemiSupervisedSampler:
        """Return a sampler; its rows tell nothing."""
        return SemiSupervisedSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> SemiSupervisedMixtureEstimator:
        """Return the estimator; `pseudo_count` weighs this mixture's parameters as a prior."""
        children = [component.estimator(pseudo_count) for component in self.components]
        prior = None if pseudo_count is None else self.w
        return SemiSupervisedMixtureEstimator(children, prior, pseudo_count, self.keys, self.name)

    def dist_to_encoder(self) -> SemiSupervisedEncoder:
        """Return the encoder."""
        return SemiSupervisedEncoder(super().dist_to_encoder(), len(self.components))


class SemiSupervisedSampler(DistributionSampler):
    """Sampler of a `SemiSupervisedMixtureDistribution`."""

    def __init__(self, dist: SemiSupervisedMixtureDistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.values = MixtureSampler(dist, self.new_seed())

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a row ``(value, None)``, or a list of `size` of them."""
        drawn = self.values.sample(size)
        return (drawn, None) if size is None else [(value, None) for value in drawn]


class SemiSupervisedAccumulator(MixtureAccumulator):
    """Accumulator of a `SemiSupervisedMixtureEstimator`."""

    def start(self, enc: Told, draws: np.ndarray, centres: Centres, p: float, weights: Any = None) -> None:
        """Add the rows whose draw is below `p`: to the component they tell, else nearly all to the nearest centre."""
        kept = np.where(draws < p, 1.0 if weights is None else weights, 0.0)
        if kept.any():
            self._begin(enc, kept, centres, float(draws[0]))

    def _begin(self, enc: Told, kept: np.ndarray, centres: Centres, draw: float) -> None:
        from numpy.random import RandomState

        nearest = self._nearest(enc.payload, centres, kept)
        rng = RandomState(int(draw * (2**32 - 1)))
        self.initialize_given(enc.payload, len(kept), self._heeding(enc, kept, nearest), rng, centres.parts)

    def seq_initialize(self, x: Told, weights: np.ndarray, rng: Any) -> None:
        """Add encoded rows before there is a model, about centres seeded among them, else by chance."""
        encoder = self.acc_to_encoder()
        kept = np.flatnonzero(weights > 0.0)
        if not kept.size:
            return
        columns = encoder.columns(x, 0, len(weights)) if kept.size >= len(self.estimators) else None
        if columns is None or len(columns) < 2:
            chance = self._heeding(x, weights, self._by_chance(weights, rng))
            self.initialize_given(x.payload, len(weights), chance, rng)
            return
        sample = list(take_columns(columns, rng.permutation(kept)[: sample_size(len(self.estimators))]))
        self._begin(x, weights, told_centres(self.estimators, sample, rng), float(rng.random_sample()))

    @staticmethod
    def _heeding(enc: Told, weights: np.ndarray, given: Given) -> Given:
        """Return responsibilities `given` with those of telling rows multiplied by their evidence."""

        def heeded(start: int, stop: int) -> np.ndarray:
            out = given(start, stop)
            places, evidence = enc.of(start, stop)
            if len(places):
                shares = (out[:, places] + 1e-9) * evidence
                out[:, places] = shares / np.add.reduce(shares, axis=0) * weights[start + places]
            return out

        return heeded

    def acc_to_encoder(self) -> SemiSupervisedEncoder:
        """Return the encoder."""
        return SemiSupervisedEncoder(self.value_encoder(), len(self.estimators))


class SemiSupervisedFactory(MixtureFactory):
    """Factory of `SemiSupervisedAccumulator`."""

    def make(self) -> SemiSupervisedAccumulator:
        """Return a fresh accumulator."""
        return SemiSupervisedAccumulator(self.estimators, self.keys, self.name, self.init)


def told_centres(estimators: Sequence[Any], columns: list[Column], rng: Any) -> Centres:
    """Return centres on sampled rows: those that tell a component seed its centre, the others are chosen around them.

    The row that lies nearest to all that tell a component is its centre.
    """
    told = next(column for column in columns if column.path[:1] == (1,))
    values = [c._replace(path=c.path[1:]) for c in columns if c.path[:1] == (0,)]
    count, labels = len(estimators), told.labels or ()
    missing = np.zeros(len(told.values), bool) if told.missing is None else told.missing
    medoids: dict[int, int] = {}
    for k in range(count):
        code = labels.index(k) if k in labels else -1
        rows = np.flatnonzero((told.values == code) & ~missing)
        if rows.size:
            own = take_columns(telling(values), rows)
            within = distances(own, Centres(own, (1.0,) * len(own)))
            medoids[k] = int(rows[int(np.argmin(np.add.reduce(within, axis=1)))])
    found = seed_centres(values, count, rng, list(medoids.values()))
    rest = iter(range(len(medoids), count))
    order = [list(medoids).index(k) if k in medoids else next(rest) for k in range(count)]
    return seed_components(estimators, found._replace(columns=take_columns(found.columns, order)), values, rng)


class SemiSupervisedMixtureEstimator(MixtureEstimator):
    """Estimator of a `SemiSupervisedMixtureDistribution`.

    Parameters
    ----------
    estimators : sequence of estimators
        One per component.
    suff_stat : array_like, shape (K,), optional
        Prior weights, used with `pseudo_count`.
    pseudo_count : float, optional
        Weight of the prior; without `suff_stat` it is spread evenly.
    keys : (hashable, hashable)
        Tying keys of the weights and of the components.
    name : str, optional
        Label of the fitted mixture.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> SemiSupervisedMixtureEstimator([GaussianEstimator()] * 2).num_components
    2
    """

    _keyword_fields: ClassVar[tuple[str, ...]] = ("suff_stat", "pseudo_count", "keys", "name")

    def __init__(
        self,
        estimators: Sequence[Any],
        suff_stat: Any = None,
        pseudo_count: float | None = None,
        keys: tuple[Any, Any] | None = (None, None),
        name: str | None = None,
    ) -> None:
        super().__init__(estimators, None, suff_stat, pseudo_count, name, keys)

    def seed_start(self, columns: list[Column], rng: Any) -> Centres:
        """Return centres seeded on sampled rows; rows that tell a component seed its centre."""
        return told_centres(self.estimators, columns, rng)

    def accumulator_factory(self) -> SemiSupervisedFactory:
        """Return the factory."""
        return SemiSupervisedFactory(self.estimators, self.keys, self.name, self.init)

    def _mixture(self, components: list[Any], w: np.ndarray) -> SemiSupervisedMixtureDistribution:
        return SemiSupervisedMixtureDistribution(components, w, self.name, keys=self.keys)
