"""Finite mixtures of any distributions of one kind of row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.combinators.parts import fit_parts, is_latent
from mixle.stats.contract import (
    Column,
    DistributionSampler,
    ParameterEstimator,
    SequenceEncodableProbabilityDistribution,
)
from mixle.stats.decomposition import DecompAxis, Decomposition, ReductionOp, axis_of
from mixle.stats.domains import fraction, nonnegative, probabilities
from mixle.stats.enumeration import mixed
from mixle.stats.given import either, estimators_given, laws_given
from mixle.stats.keys import has_keys
from mixle.stats.kinds import log_or_floor
from mixle.stats.latent.mixture_accumulator import MixtureFactory, split_value
from mixle.stats.latent.mixture_encoder import mixture_encoder
from mixle.stats.leaf import repaired
from mixle.stats.parameter_laws import dirichlet_log_density
from mixle.stats.precision import working
from mixle.stats.priors import check_weight_prior, prior_alpha, weight_posterior
from mixle.stats.recall import recalled
from mixle.stats.refusals import check_mass
from mixle.stats.stacking.statistic import StackedStatistic, handed
from mixle.stats.stacking.walk import Walk
from mixle.stats.starts import Centres, seed_centres, seed_components

__all__ = ["MixtureDistribution", "MixtureEstimator", "MixtureSampler"]


class MixtureDistribution(SequenceEncodableProbabilityDistribution):
    """Mixture ``Σ_k w_k p_k(x)``.

    Parameters
    ----------
    components : sequence of distributions
        The K components.
    w : array_like, shape (K,)
        Weights; a sum off one by up to 1e-6 is scaled away.
    name : str, optional
        Label carried along.
    weights : array_like, optional
        Another name of `w`.
    prior : conjugate law, optional
        Dirichlet law of the weights, which `estimator` hands on.
    keys : (hashable, hashable)
        Tying keys of the weights and of the components.

    Raises
    ------
    ValueError
        If the weights are not probabilities or not as many as the components.

    References
    ----------
    A. P. Dempster, N. M. Laird, D. B. Rubin, "Maximum likelihood from incomplete data via the EM algorithm", Journal of
    the Royal Statistical Society B 39, 1977; G. McLachlan, D. Peel, "Finite Mixture Models", 2000.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> m = MixtureDistribution([GaussianDistribution(0.0, 1.0), GaussianDistribution(4.0, 1.0)], [0.5, 0.5])
    >>> m.posterior(2.0).tolist()
    [0.5, 0.5]
    """

    _fields: ClassVar[tuple[str, ...]] = ("components", "w")
    _keyword_fields: ClassVar[tuple[str, ...]] = ("name", "keys")
    _extras: ClassVar[tuple[str, ...]] = ("prior",)
    _engine_axis: ClassVar[int | None] = 0

    def __init__(
        self,
        components: Sequence[Any],
        w: Any = None,
        name: str | None = None,
        weights: Any = None,
        prior: Any = None,
        keys: tuple[Any, Any] | None = (None, None),
    ) -> None:
        self.components = list(laws_given(components, "Mixture"))
        if not self.components:
            raise ValueError("a mixture needs at least one component")
        given = either("Mixture", w=w, weights=weights)
        self.w = probabilities(
            np.full(len(self.components), 1.0 / len(self.components)) if given is None else given, "w of a Mixture"
        )
        if len(self.w) != len(self.components):
            raise ValueError(f"a mixture of {len(self.components)} components needs as many weights, got {len(self.w)}")
        self.name = name
        self.keys: tuple[Any, Any] = (None, None) if keys is None else (keys[0], keys[1])
        self.set_prior(prior)

    def get_prior(self) -> Any:
        """Return the Dirichlet prior of the weights, or None; after a fit with a prior it is the posterior."""
        return self.prior

    def set_prior(self, prior: Any) -> None:
        """Set the Dirichlet prior of the weights; None takes it away.

        Raises
        ------
        ValueError
            If it is none, has no mode, or is of another number of weights.
        """
        self.prior = check_weight_prior(prior, len(self.components), "Mixture")

    @property
    def num_components(self) -> int:
        """Return the number of components K."""
        return len(self.components)

    @property
    def log_w(self) -> np.ndarray:
        """Return the log weights, shape (K,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.w))

    def walk(self, payload: Any) -> Walk:
        """Return the E-step of one encoded chunk, in the precision that this thread asked for."""
        rows = recalled("encoder", [self], self.dist_to_encoder).row_count(payload)
        return Walk(self.components, self.w, log_or_floor(self.w), payload, rows, working())

    def seq_log_density(self, x: Any) -> np.ndarray:
        """Return the log-densities of encoded rows, shape (n,)."""
        return self.walk(x).score()

    def seq_component_log_density(self, x: Any) -> np.ndarray:
        """Return the log-density of encoded rows under each component, shape (n, K)."""
        payloads = [x.of(k) if hasattr(x, "of") else x for k in range(self.num_components)]
        return np.stack([c.seq_log_density(p) for c, p in zip(self.components, payloads, strict=True)], axis=1)

    def component_log_density(self, x: Any) -> np.ndarray:
        """Return the log-density of one row under each component, shape (K,)."""
        return np.array([component.log_density(x) for component in self.components])

    def seq_posterior(self, x: Any) -> np.ndarray:
        """Return the responsibilities of encoded rows, shape (n, K); zero for a row that no component supports."""
        walk = self.walk(x)
        result = np.empty((walk.rows, self.num_components))
        for block in walk.blocks():
            result[block.start : block.stop] = block.responsibilities[:, : block.stop - block.start].T
        return result

    def posterior(self, x: Any) -> np.ndarray:
        """Return the responsibilities of one row, shape (K,)."""
        return np.asarray(self.seq_posterior(self.dist_to_encoder().seq_encode([x]))[0])

    def sampler(self, seed: int | None = None) -> DistributionSampler:
        """Return a sampler."""
        return MixtureSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> MixtureEstimator:
        """Return the estimator; `pseudo_count` weighs this mixture's parameters as a prior, unless it has one."""
        children = [component.estimator(pseudo_count) for component in self.components]
        count = pseudo_count if self.prior is None else None
        prior = None if count is None else self.w
        return MixtureEstimator(children, None, prior, count, self.name, self.keys, self.prior)

    def decomposition(self) -> Decomposition:
        """Return the axis of the components."""
        roles = [f"component_{k}" for k in range(self.num_components)]
        pooled = self.keys != (None, None)
        reduction = ReductionOp.LOGSUMEXP_RESPONSIBILITY
        return axis_of(DecompAxis.COMPONENT, roles, reduction, engine_axis=self._engine_axis, key_pooling=pooled)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return what the components can show, the most probable first."""
        return mixed([c.outcomes() for c in self.components], log_or_floor(self.w).tolist(), self.log_density)

    def dist_to_encoder(self) -> Any:
        """Return the components' encoder, or one that encodes for each of them where they differ."""
        return mixture_encoder([component.dist_to_encoder() for component in self.components])


class MixtureSampler(DistributionSampler):
    """Sampler of a `MixtureDistribution`."""

    def __init__(self, dist: MixtureDistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.samplers = [component.sampler(self.new_seed()) for component in dist.components]

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return one row, or a list of `size` rows."""
        w = np.asarray(self.dist.w)
        labels = self.rng.choice(len(w), size=1 if size is None else size, p=w / w.sum())
        if size is None:
            return self.samplers[labels[0]].sample()
        drawn: list[Any] = [None] * size
        for k, sampler in enumerate(self.samplers):
            rows = np.flatnonzero(labels == k)
            if rows.size:
                for row, value in zip(rows.tolist(), sampler.sample(int(rows.size)), strict=True):
                    drawn[row] = value
        return drawn


class MixtureEstimator(ParameterEstimator):
    """Estimator of a `MixtureDistribution`.

    Parameters
    ----------
    estimators : sequence of estimators
        One per component.
    fixed_weights : array_like, shape (K,), optional
        Weights that are kept.
    suff_stat : array_like, shape (K,), optional
        Prior weights, used with `pseudo_count`.
    pseudo_count : float, optional
        Weight of the prior; without `suff_stat` it is spread evenly.
    name : str, optional
        Label of the fitted mixture.
    keys : (hashable, hashable)
        Tying keys of the weights and of the components.
    prior : conjugate law, optional
        `SymmetricDirichletDistribution` of the weights: the fit is then the likeliest mixture.
    w_min : float
        Smallest weight of a component.
    robust : bool
        Set `w_min` to ``1e-4 / K``.
    init : {'kmeans++', 'dirichlet'}, optional
        How a start assigns rows; k-means++ by default.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> MixtureEstimator([GaussianEstimator()] * 2).num_start_components()
    2
    """

    _laws: ClassVar[tuple[str, ...]] = ("components",)
    _fields: ClassVar[tuple[str, ...]] = ("estimators",)
    _keyword_fields: ClassVar[tuple[str, ...]] = (
        "fixed_weights", "suff_stat", "pseudo_count", "name", "keys", "prior", "w_min", "robust", "init",
    )  # fmt: skip

    def __init__(
        self,
        estimators: Sequence[Any],
        fixed_weights: Any = None,
        suff_stat: Any = None,
        pseudo_count: float | None = None,
        name: str | None = None,
        keys: tuple[Any, Any] | None = (None, None),
        prior: Any = None,
        w_min: float = 0.0,
        robust: bool = False,
        init: str | None = None,
    ) -> None:
        self.estimators = list(estimators_given(estimators, "Mixture"))
        count = len(self.estimators)
        if not count:
            raise ValueError("a mixture needs at least one component estimator")
        if init not in (None, "kmeans++", "dirichlet"):
            raise ValueError(f"init is 'kmeans++' or 'dirichlet', not {init!r}")
        self.fixed_weights = None if fixed_weights is None else probabilities(fixed_weights, "fixed_weights")
        self.suff_stat = None if suff_stat is None else np.array(suff_stat, float)
        for what, values in (("fixed_weights", self.fixed_weights), ("suff_stat", self.suff_stat)):
            if values is not None and len(values) != count:
                raise ValueError(f"{what} has {len(values)} entries for {count} components; pass one for each")
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.name, self.robust, self.init = name, bool(robust), init
        self.prior = check_weight_prior(prior, count, "Mixture")
        if self.prior is not None and (self.pseudo_count or self.fixed_weights is not None):
            raise ValueError(
                "a prior of the weights goes with neither pseudo_count nor fixed_weights; pass one of them"
            )
        self.keys: tuple[Any, Any] = (None, None) if keys is None else (keys[0], keys[1])
        self.w_min = 1e-4 / count if robust and not w_min else fraction(w_min, "w_min")
        if self.w_min * count > 1.0:
            raise ValueError(
                f"w_min={self.w_min!r} leaves no room for {count} components; pass at most {1.0 / count:.3g}"
            )

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return tuple((f"component {k}", estimator) for k, estimator in enumerate(self.estimators))

    @property
    def num_components(self) -> int:
        """Return the number of components K."""
        return len(self.estimators)

    @property
    def least_start_rows(self) -> int:
        """Return K: a start needs a row for each component."""
        return len(self.estimators)

    def num_start_components(self) -> int | None:
        """Return K if a start seeds centres for this mixture."""
        return None if self.init == "dirichlet" else len(self.estimators)

    def seed_start(self, columns: list[Column], rng: Any) -> Centres | None:
        """Return centres seeded on sampled rows, and below them those of mixtures inside the components."""
        if self.init == "dirichlet":
            return None
        centres = seed_centres(columns, len(self.estimators), rng)
        return seed_components(self.estimators, centres, columns, rng)

    def accumulator_factory(self) -> MixtureFactory:
        """Return the factory of this mixture's accumulators."""
        return MixtureFactory(self.estimators, self.keys, self.name, self.init)

    def estimate(self, nobs: float | None, suff_stat: Any) -> Any:
        """Return the fitted mixture.

        Parameters
        ----------
        nobs : float or None
            Weight of the data; the components' weights may not exceed it. None skips the check.
        suff_stat : StackedStatistic or (counts, children)
            Statistic of either layout.
        """
        if isinstance(suff_stat, StackedStatistic) and len(suff_stat.counts) == len(self.estimators):
            counts, children = suff_stat.counts, handed(suff_stat, self.estimators)
        else:
            counts, children = split_value(suff_stat, len(self.estimators))
        counts = np.asarray(counts, float)
        total = math.fsum(counts.tolist())
        check_mass(total, nobs, self.keys[0] is not None)
        tied = self.keys[1] is not None  # a pooled component has seen more than its own count
        fitted = fit_parts(self.estimators, counts, children, tied)
        model = self._mixture(fitted, self._weights(counts, total))
        model.set_prior(weight_posterior(self.prior, counts))
        return model

    def _mixture(self, components: list[Any], w: np.ndarray) -> Any:
        """Return the fitted distribution made of its parts."""
        return MixtureDistribution(components, w, self.name, keys=self.keys)

    def _weights(self, counts: np.ndarray, total: float) -> np.ndarray:
        k = len(counts)
        if self.fixed_weights is not None:
            return self.fixed_weights
        if self.prior is not None:
            counts = counts + prior_alpha(self.prior, k) - 1.0
            total = float(np.add.reduce(counts))
        if self.pseudo_count:
            prior = np.full(k, 1.0 / k) if self.suff_stat is None else self.suff_stat
            mass = total + self.pseudo_count * float(np.add.reduce(prior))
            w = (counts + self.pseudo_count * prior) / mass
        else:
            w = counts / total if total > 0.0 else np.full(k, 1.0 / k)
        if self.w_min:
            low = w < self.w_min
            while low.any():
                free = 1.0 - self.w_min * low.sum()
                rest = np.where(low, self.w_min, w * (free / max(float(w[~low].sum()), 1e-300)))
                more = rest < self.w_min
                w, low = rest, (low | more) if more.any() else np.zeros(k, bool)
        return w / float(np.add.reduce(w))

    def own_log_density(self, model: Any) -> float:
        """Return the log-density of the weights under their prior; 0 without one."""
        if self.prior is None:
            return 0.0
        return dirichlet_log_density(prior_alpha(self.prior, len(model.w)).tolist(), np.asarray(model.w).tolist())

    def keep_empty(self, model: Any, previous: Any, suff_stat: Any) -> Any:
        """Return `model` with the components that no row belongs to as they were in `previous`.

        A component that is tied elsewhere has the pooled statistic and is left alone.
        """
        counts = np.asarray(suff_stat[0], float)
        old = getattr(previous, "components", None)
        if old is None or len(old) != len(counts) or self.pseudo_count or self.keys[1] is not None:
            return model
        empty = [k for k in np.flatnonzero(counts == 0.0).tolist() if not has_keys(self.estimators[k])]
        components = [old[k] if k in empty else c for k, c in enumerate(model.components)]
        latent = [k for k, estimator in enumerate(self.estimators) if k not in empty and is_latent(estimator)]
        if latent:
            children = split_value(suff_stat, len(self.estimators))[1]
            for k in latent:
                components[k] = self.estimators[k].keep_empty(components[k], old[k], children[k])
        if not empty and not latent:
            return model
        notes = model.numerical_repairs()
        if empty:
            notes = (*notes, f"empty components kept as they were: {empty}")
        kept = self._mixture(components, model.w)
        kept.set_prior(model.prior)
        return repaired(kept, *notes)
