"""Mixtures of sequences that share topics: each sequence has a mixture, each element a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.combinators.drawing import drawn_along, drawn_lengths, in_rows
from mixle.stats.combinators.null import NullDistribution
from mixle.stats.contract import DistributionSampler, SequenceEncodableProbabilityDistribution
from mixle.stats.domains import probabilities
from mixle.stats.given import law_given, laws_given
from mixle.stats.latent.hierarchical_walk import HierarchicalWalk
from mixle.stats.latent.hmm_encoder import Chains, HiddenMarkovDataEncoder
from mixle.stats.latent.mixture_encoder import mixture_encoder
from mixle.stats.sequences.paths import draw_states

__all__ = ["HierarchicalMixtureDistribution", "HierarchicalMixtureSampler"]


class HierarchicalMixtureDistribution(SequenceEncodableProbabilityDistribution):
    """Law ``Σ_m w_m Π_t Σ_k τ_mk p_k(x_t)`` of sequences: M mixtures over the same K topics.

    Parameters
    ----------
    topics : sequence of distributions
        The K laws of an element.
    mixture_weights : array_like, shape (M,)
        Probability of each mixture.
    topic_weights : array_like, shape (M, K)
        Row m holds the probabilities of the topics in mixture m.
    len_dist : distribution, optional
        Law of the length; without one the length scores 0 and sequences cannot be sampled.
    name : str, optional
        Label carried along.
    keys : (hashable, hashable)
        Tying keys of the weights (of mixtures and of topics) and of the topics.

    Raises
    ------
    ValueError
        If weights are no probabilities or shapes do not agree.

    References
    ----------
    J. K. Vermunt, "Multilevel latent class models", Sociological Methodology 33, 2003.

    Examples
    --------
    >>> from mixle.stats import BernoulliDistribution
    >>> topics = [BernoulliDistribution(0.0), BernoulliDistribution(1.0)]
    >>> d = HierarchicalMixtureDistribution(topics, [0.5, 0.5], [[1.0, 0.0], [0.5, 0.5]])
    >>> round(d.density([False, False]), 9), d.posterior([True]).tolist()
    (0.625, [0.0, 1.0])
    """

    _fields: ClassVar[tuple[str, ...]] = ("topics", "mixture_weights", "topic_weights")
    _keyword_fields: ClassVar[tuple[str, ...]] = ("len_dist", "name", "keys")

    def __init__(
        self,
        topics: Sequence[Any],
        mixture_weights: Any,
        topic_weights: Any,
        len_dist: Any = None,
        name: str | None = None,
        keys: tuple[Any, Any] | None = (None, None),
    ) -> None:
        self.topics = list(laws_given(topics, "HierarchicalMixture"))
        self.mixture_weights = probabilities(mixture_weights, "mixture_weights of a HierarchicalMixture")
        wanted, given = (len(self.mixture_weights), len(self.topics)), np.array(topic_weights, float)
        if given.shape != wanted:
            raise ValueError(f"topic_weights must have shape {wanted}, have {given.shape}")
        rows = [probabilities(row, f"row {m} of topic_weights") for m, row in enumerate(given)]
        self.topic_weights = np.array(rows)
        self.topic_weights.setflags(write=False)
        self.len_dist = NullDistribution() if len_dist is None else law_given(len_dist, "HierarchicalMixture")
        self.name = name
        self.keys: tuple[Any, Any] = (None, None) if keys is None else (keys[0], keys[1])

    @property
    def num_topics(self) -> int:
        """Return the number of topics K."""
        return len(self.topics)

    @property
    def num_mixtures(self) -> int:
        """Return the number of mixtures M."""
        return len(self.mixture_weights)

    @property
    def w(self) -> np.ndarray:
        """Return `mixture_weights`."""
        return self.mixture_weights

    @property
    def taus(self) -> np.ndarray:
        """Return `topic_weights`."""
        return self.topic_weights

    def walk(self, x: Chains) -> HierarchicalWalk:
        """Return the E-step of one encoded chunk."""
        return HierarchicalWalk(self.topics, self.mixture_weights, self.topic_weights, x)

    def seq_log_density(self, x: Chains) -> np.ndarray:
        """Return the log-densities of encoded sequences, shape (n,)."""
        lengths = np.asarray(self.len_dist.seq_log_density(x.lengths), float)
        return np.asarray(self.walk(x).rows().log_density + lengths)

    def seq_posterior(self, x: Chains) -> np.ndarray:
        """Return the probabilities of the mixtures of encoded sequences, shape (n, M); 0 for an impossible one."""
        return np.ascontiguousarray(self.walk(x).rows().posterior.T)

    def posterior(self, x: Any) -> np.ndarray:
        """Return the probabilities of the mixtures of one sequence, shape (M,)."""
        return np.asarray(self.seq_posterior(self.dist_to_encoder().seq_encode([x]))[0])

    def sampler(self, seed: int | None = None) -> HierarchicalMixtureSampler:
        """Return a sampler."""
        return HierarchicalMixtureSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> Any:
        """Return the estimator; `pseudo_count` weighs this mixture's parameters as a prior."""
        from mixle.stats.latent.hierarchical_estimator import HierarchicalMixtureEstimator

        topics = [topic.estimator(pseudo_count) for topic in self.topics]
        prior = None if pseudo_count is None else (self.mixture_weights, self.topic_weights)
        length = self.len_dist.estimator(pseudo_count)
        return HierarchicalMixtureEstimator(
            topics, self.num_mixtures, length, None, prior, pseudo_count, self.name, self.keys
        )

    def dist_to_encoder(self) -> HiddenMarkovDataEncoder:
        """Return the encoder."""
        elements = mixture_encoder([topic.dist_to_encoder() for topic in self.topics])
        return HiddenMarkovDataEncoder(elements, self.len_dist.dist_to_encoder())


class HierarchicalMixtureSampler(DistributionSampler):
    """Sampler of a `HierarchicalMixtureDistribution`."""

    def __init__(self, dist: HierarchicalMixtureDistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.lengths = dist.len_dist.sampler(self.new_seed())
        self.elements = [topic.sampler(self.new_seed()) for topic in dist.topics]

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a list of elements, or a list of `size` such lists.

        Raises
        ------
        NonGenerativeSequenceError
            If there is no law of the length.
        """
        what = "a HierarchicalMixture without a law of the length"
        lengths = drawn_lengths(self.dist.len_dist, self.lengths, size, what)
        count, w = len(lengths), self.dist.mixture_weights
        which = self.rng.choice(len(w), size=count, p=w / w.sum())
        laws = np.cumsum(self.dist.topic_weights, axis=1)[np.repeat(which, lengths)]
        topics = draw_states(laws, self.rng.random_sample(len(laws)))
        rows = in_rows(drawn_along(topics, self.elements), lengths)
        return rows[0] if size is None else rows
