"""Latent Dirichlet allocation: documents whose words come from shared topics, in shares of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.combinators.drawing import counted, drawn_along, drawn_lengths
from mixle.stats.combinators.null import NullDistribution
from mixle.stats.contract import DistributionSampler, SequenceEncodableProbabilityDistribution
from mixle.stats.domains import positive, shape_parameters
from mixle.stats.given import law_given, laws_given
from mixle.stats.latent.hmm_chain import not_built_in
from mixle.stats.latent.lda_documents import Documents, LDADataEncoder
from mixle.stats.latent.lda_inference import TopicWalk, row_sum
from mixle.stats.latent.mixture_encoder import mixture_encoder

__all__ = ["LDADistribution", "LDASampler"]


class LDADistribution(SequenceEncodableProbabilityDistribution):
    """Law of documents: shares of K topics are drawn from a Dirichlet law, each word from a topic drawn by the shares.

    ``p(x) = ∫ Dir(θ; α) Π_t Σ_k θ_k p_k(x_t) dθ``, θ being the shares of a document, which is a sequence of pairs
    ``(word, count)``. Its score is the *evidence lower bound* of its log-density, which has no closed form. With one
    topic the two are equal.

    Parameters
    ----------
    topics : sequence of distributions
        The K laws of a word, of any family.
    alpha : array_like, shape (K,)
        Concentrations of the shares, > 0.
    len_dist : distribution, optional
        Law of the number of words, which is the sum of the counts; without one it scores 0 and documents cannot be
        sampled.
    gamma_threshold : float
        Change of a document's variational parameters, relative to their sum, at which its iteration stops.
    max_gamma_iter : int
        Steps of that iteration at most.
    fit_diagnostics : None
        Not built in; `fit_provenance` tells of a fit.
    name : str, optional
        Label carried along.
    keys : (hashable, hashable)
        Tying keys of the shares and of the topics.

    Raises
    ------
    ValueError
        If a concentration is not above 0, or there are not as many as topics.

    Notes
    -----
    Documents are scored as sequences of words: it does not matter whether a word stands in one pair or in several. A
    document without words scores 0.

    References
    ----------
    D. M. Blei, A. Y. Ng, M. I. Jordan, "Latent Dirichlet allocation", Journal of Machine Learning Research 3, 2003.

    Examples
    --------
    >>> from mixle.stats import CategoricalDistribution
    >>> topics = [CategoricalDistribution({"goal": p, "vote": 1.0 - p}) for p in (0.8, 0.1)]
    >>> d = LDADistribution(topics, [0.5, 0.5])
    >>> shares = d.posterior([("goal", 8), ("vote", 1)])
    >>> shares.round(2).tolist(), round(d.log_density([("goal", 1)]), 3)
    ([0.94, 0.06], -0.899)
    """

    _fields: ClassVar[tuple[str, ...]] = ("topics", "alpha")
    _keyword_fields: ClassVar[tuple[str, ...]] = ("len_dist", "gamma_threshold", "max_gamma_iter", "name", "keys")

    def __init__(
        self,
        topics: Sequence[Any],
        alpha: Any,
        len_dist: Any = None,
        gamma_threshold: float = 1e-8,
        max_gamma_iter: int = 100,
        fit_diagnostics: None = None,
        name: str | None = None,
        keys: tuple[Any, Any] | None = (None, None),
    ) -> None:
        not_built_in(fit_diagnostics=fit_diagnostics)
        self.topics = list(laws_given(topics, "LDA"))
        self.alpha = shape_parameters(alpha, "alpha of an LDA")
        if not self.topics or len(self.alpha) != len(self.topics):
            raise ValueError(
                f"alpha of an LDA of {len(self.topics)} topics must be as many numbers > 0, is {alpha!r:.80}"
            )
        self.alpha.setflags(write=False)
        self.len_dist = NullDistribution() if len_dist is None else law_given(len_dist, "LDA")
        self.gamma_threshold = positive(gamma_threshold, "gamma_threshold")
        self.max_gamma_iter = int(positive(max_gamma_iter, "max_gamma_iter"))
        self.name = name
        self.keys: tuple[Any, Any] = (None, None) if keys is None else (keys[0], keys[1])

    @property
    def n_topics(self) -> int:
        """Return the number of topics K."""
        return len(self.topics)

    def walk(self, x: Documents) -> TopicWalk:
        """Return the E-step of one encoded chunk."""
        return TopicWalk(self.topics, self.alpha, x, self.gamma_threshold, self.max_gamma_iter)

    def seq_log_density(self, x: Documents) -> np.ndarray:
        """Return the evidence lower bounds of the log-densities of encoded documents, shape (n,)."""
        return np.asarray(self.walk(x).infer().bound + np.asarray(self.len_dist.seq_log_density(x.lengths), float))

    def seq_posterior(self, x: Documents) -> np.ndarray:
        """Return the expected shares of the topics of encoded documents, shape (n, K)."""
        gamma = self.walk(x).infer().gamma
        return np.ascontiguousarray((gamma / row_sum(gamma)).T)

    def posterior(self, x: Any) -> np.ndarray:
        """Return the expected shares of the topics of one document, shape (K,)."""
        return np.asarray(self.seq_posterior(self.dist_to_encoder().seq_encode([x]))[0])

    def sampler(self, seed: int | None = None) -> LDASampler:
        """Return a sampler."""
        return LDASampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> Any:
        """Return the estimator; `pseudo_count` weighs this model's parameters as a prior."""
        from mixle.stats.latent.lda_estimator import LDAEstimator
        from mixle.stats.special import digammas

        topics = [topic.estimator(pseudo_count) for topic in self.topics]
        prior = None if pseudo_count is None else digammas(self.alpha) - digammas(self.alpha.sum())
        return LDAEstimator(
            topics, self.len_dist.estimator(pseudo_count), prior, pseudo_count, self.keys,
            gamma_threshold=self.gamma_threshold, max_gamma_iter=self.max_gamma_iter, name=self.name,
        )  # fmt: skip

    def free_parameters(self) -> int:
        """Return the number of free parameters."""
        from mixle.stats.counting import free_parameters

        shares = len(self.alpha) if len(self.alpha) > 1 else 0
        return shares + sum(map(free_parameters, self.topics)) + free_parameters(self.len_dist)

    def dist_to_encoder(self) -> LDADataEncoder:
        """Return the encoder."""
        words = mixture_encoder([topic.dist_to_encoder() for topic in self.topics])
        return LDADataEncoder(words, self.len_dist.dist_to_encoder())


class LDASampler(DistributionSampler):
    """Sampler of an `LDADistribution`."""

    def __init__(self, dist: LDADistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.lengths = dist.len_dist.sampler(self.new_seed())
        self.words = [topic.sampler(self.new_seed()) for topic in dist.topics]

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a document, or a list of `size` documents: pairs of a word and its count, in the order of first draws.

        Raises
        ------
        NonGenerativeSequenceError
            If there is no law of the number of words.
        """
        what = "an LDA without a law of the number of words"
        lengths = drawn_lengths(self.dist.len_dist, self.lengths, size, what)
        documents = [self._document(n) for n in lengths]
        return documents[0] if size is None else documents

    def _document(self, words: int) -> list[tuple[Any, int]]:
        shares = self.rng.dirichlet(self.dist.alpha)
        which = self.rng.choice(len(shares), size=words, p=shares / shares.sum())
        return counted(drawn_along(which, self.words))
