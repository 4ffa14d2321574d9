"""Mixtures of pairs: each half has components of its own, and these depend on each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.combinators.fields import FieldsEncoder, plain_list
from mixle.stats.contract import DistributionSampler, SequenceEncodableProbabilityDistribution
from mixle.stats.domains import probabilities
from mixle.stats.given import laws_given
from mixle.stats.latent.joint_walk import JointWalk
from mixle.stats.latent.mixture_encoder import mixture_encoder

__all__ = ["JointMixtureDistribution", "JointMixtureSampler"]


class JointMixtureDistribution(SequenceEncodableProbabilityDistribution):
    """Mixture ``Σ_ij W_ij p_i(x₁) q_j(x₂)`` of pairs.

    Parameters
    ----------
    components1, components2 : sequence of distributions
        The K₁ components of the first half and the K₂ of the second.
    w1 : array_like, shape (K1,), optional
        Weights of the first half's components.
    w2 : array_like, shape (K2,), optional
        Weights of the second half's; used where `w1` and `taus12` are not given.
    taus12 : array_like, shape (K1, K2), optional
        Row i holds the probabilities of the second half's components given component i of the first.
    taus21 : array_like, shape (K1, K2), optional
        Column j holds the probabilities of the first half's components given component j of the second.
    keys : (hashable, hashable, hashable)
        Tying keys of the weights, of the first and of the second components.
    name : str, optional
        Label carried along.
    joint_weights : array_like, shape (K1, K2), optional
        The weights W of all pairs of components. One of `joint_weights`, (`w1`, `taus12`), (`w2`, `taus21`) is needed;
        what comes first in this list is taken.

    Raises
    ------
    ValueError
        If weights are no probabilities or of another shape.

    References
    ----------
    T. Hofmann, J. Puzicha, "Statistical models for co-occurrence data", MIT AI Memo 1625, 1998.

    Examples
    --------
    >>> from mixle.stats import BernoulliDistribution, GaussianDistribution
    >>> halves = [GaussianDistribution(0.0, 1.0), GaussianDistribution(9.0, 1.0)], [BernoulliDistribution(0.0)] * 2
    >>> d = JointMixtureDistribution(*halves, joint_weights=[[0.5, 0.0], [0.25, 0.25]])
    >>> d.w1.tolist(), d.w2.tolist(), d.taus12.tolist()
    ([0.5, 0.5], [0.75, 0.25], [[1.0, 0.0], [0.5, 0.5]])
    """

    _fields: ClassVar[tuple[str, ...]] = ("components1", "components2")
    _keyword_fields: ClassVar[tuple[str, ...]] = ("joint_weights", "keys", "name")

    def __init__(
        self,
        components1: Sequence[Any],
        components2: Sequence[Any],
        w1: Any = None,
        w2: Any = None,
        taus12: Any = None,
        taus21: Any = None,
        keys: tuple[Any, Any, Any] | None = (None, None, None),
        name: str | None = None,
        joint_weights: Any = None,
    ) -> None:
        self.components1 = list(laws_given(components1, "JointMixture"))
        self.components2 = list(laws_given(components2, "JointMixture"))
        shape = (len(self.components1), len(self.components2))
        if not all(shape):
            raise ValueError("a joint mixture needs at least one component for each half")
        given = _joint(shape, joint_weights, (w1, taus12), (w2, taus21))
        if given.shape != shape:
            raise ValueError(f"the weights of a JointMixture must have shape {shape}, have {given.shape}")
        self.joint_weights = probabilities(given.ravel(), "joint_weights of a JointMixture").reshape(shape)
        self.keys: tuple[Any, Any, Any] = (None, None, None) if keys is None else (keys[0], keys[1], keys[2])
        self.name = name

    @property
    def w1(self) -> np.ndarray:
        """Return the weights of the first half's components, shape (K1,)."""
        return np.asarray(np.add.reduce(self.joint_weights, axis=1))

    @property
    def w2(self) -> np.ndarray:
        """Return the weights of the second half's components, shape (K2,)."""
        return np.asarray(np.add.reduce(self.joint_weights, axis=0))

    @property
    def taus12(self) -> np.ndarray:
        """Return the probabilities of the second half's components given the first's, rows summing to one."""
        total = self.w1[:, None]
        return np.asarray(np.where(total > 0.0, self.joint_weights / np.where(total > 0.0, total, 1.0), self.w2))

    @property
    def taus21(self) -> np.ndarray:
        """Return the probabilities of the first half's components given the second's, columns summing to one."""
        total, even = self.w2, self.w1[:, None]
        return np.asarray(np.where(total > 0.0, self.joint_weights / np.where(total > 0.0, total, 1.0), even))

    def walk(self, payload: Any) -> JointWalk:
        """Return the E-step of one encoded chunk."""
        rows = self.dist_to_encoder().row_count(payload)
        return JointWalk(self.components1, self.components2, self.joint_weights, payload, rows)

    def seq_log_density(self, x: Any) -> np.ndarray:
        """Return the log-densities of encoded pairs, shape (n,)."""
        return self.walk(x).score()

    def seq_posterior(self, x: Any) -> np.ndarray:
        """Return the probabilities of the pairs of components, shape (n, K1, K2); 0 for an impossible row."""
        walk = self.walk(x)
        result = np.zeros((walk.rows, *self.joint_weights.shape))
        for block in walk.blocks():
            result[block.start : block.stop] = block.posterior(self.joint_weights)
        return result

    def posterior(self, x: Any) -> np.ndarray:
        """Return the probabilities of the pairs of components of one row, shape (K1, K2)."""
        return np.asarray(self.seq_posterior(self.dist_to_encoder().seq_encode([x]))[0])

    def sampler(self, seed: int | None = None) -> JointMixtureSampler:
        """Return a sampler."""
        return JointMixtureSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> Any:
        """Return the estimator; `pseudo_count` weighs this mixture's parameters as a prior."""
        from mixle.stats.latent.joint_mixture_estimator import JointMixtureEstimator

        first, second = ([c.estimator(pseudo_count) for c in half] for half in (self.components1, self.components2))
        prior = None if pseudo_count is None else self.joint_weights
        return JointMixtureEstimator(first, second, prior, pseudo_count, self.keys, self.name)

    def dist_to_encoder(self) -> FieldsEncoder:
        """Return the encoder of pairs."""
        halves = (self.components1, self.components2)
        return FieldsEncoder([mixture_encoder([c.dist_to_encoder() for c in half]) for half in halves])


def _joint(shape: tuple[int, int], joint: Any, first: tuple[Any, Any], second: tuple[Any, Any]) -> np.ndarray:
    if joint is not None:
        return np.array(joint, float)
    if first[0] is not None and first[1] is not None:
        return _spread(first, shape, 1)
    if second[0] is not None and second[1] is not None:
        return _spread((second[0], np.transpose(second[1])), shape[::-1], 2).T
    raise ValueError("a joint mixture needs joint_weights, or w1 and taus12, or w2 and taus21")


def _spread(given: tuple[Any, Any], shape: tuple[int, int], half: int) -> np.ndarray:
    w, taus = probabilities(given[0], f"w{half} of a JointMixture"), np.array(given[1], float)
    if taus.shape != shape or len(w) != shape[0]:
        raise ValueError(
            f"w{half} and its taus do not fit {shape[0]} and {shape[1]} components; "
            f"pass shapes ({shape[0]},) and {shape}, not {w.shape} and {taus.shape}"
        )
    rows = [probabilities(row, f"part {i} of taus{half}{3 - half} of a JointMixture") for i, row in enumerate(taus)]
    return np.asarray(w[:, None] * np.array(rows))


class JointMixtureSampler(DistributionSampler):
    """Sampler of a `JointMixtureDistribution`."""

    def __init__(self, dist: JointMixtureDistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        halves = (dist.components1, dist.components2)
        self.samplers = tuple([component.sampler(self.new_seed()) for component in half] for half in halves)

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a pair, or a list of `size` pairs."""
        w = self.dist.joint_weights.ravel()
        pairs = self.rng.choice(len(w), size=1 if size is None else size, p=w / w.sum())
        labels = np.divmod(pairs, self.dist.joint_weights.shape[1])
        halves = []
        for samplers, which in zip(self.samplers, labels, strict=True):
            drawn: list[Any] = [None] * len(which)
            for k, sampler in enumerate(samplers):
                rows = np.flatnonzero(which == k)
                if rows.size:
                    for row, value in zip(rows.tolist(), plain_list(sampler.sample(int(rows.size))), strict=True):
                        drawn[row] = value
            halves.append(drawn)
        result = list(zip(*halves, strict=True))
        return result[0] if size is None else result
