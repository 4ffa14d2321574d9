"""Hidden Markov models over sequences of any elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.chain_priors import check_chain_prior
from mixle.stats.combinators.null import NullDistribution
from mixle.stats.contract import SequenceEncodableProbabilityDistribution
from mixle.stats.decomposition import DecompAxis, Decomposition, axis_of
from mixle.stats.domains import probabilities
from mixle.stats.given import either, law_given, laws_given
from mixle.stats.latent.hmm_chain import initial_law, not_built_in, terminal_mask, transition_laws
from mixle.stats.latent.hmm_decode import decode, smooth, so_far
from mixle.stats.latent.hmm_encoder import Chains, HiddenMarkovDataEncoder
from mixle.stats.latent.hmm_forecast import Forecast, forecast, state_forecasts
from mixle.stats.latent.hmm_forward import Chain, Passes
from mixle.stats.latent.hmm_sampler import HiddenMarkovSampler
from mixle.stats.latent.mixture import MixtureDistribution
from mixle.stats.latent.mixture_encoder import mixture_encoder
from mixle.stats.stacking.walk import Walk

__all__ = ["HiddenMarkovModelDistribution"]


class HiddenMarkovModelDistribution(SequenceEncodableProbabilityDistribution):
    """Law of a sequence whose elements hang on the states z of a hidden Markov chain.

    ``p(x) = Σ_z w[z₁] p(x₁ | z₁) Π_t A[z_t₋₁, z_t] p(x_t | z_t)`` over all paths, A being the transitions, times the
    probability of the length.

    Parameters
    ----------
    topics : sequence of distributions
        Law of an element in each of the S states.
    w : array_like, shape (S,)
        Probabilities of the first state.
    transitions : array_like, shape (S, S)
        Row i holds the probabilities of the state after state i. A row of zeros, allowed for a state that is never
        reached or never left, becomes a self-loop.
    taus : array_like, shape (S, n_topics), optional
        Weights of the topics in each state; an element's law is then their mixture.
    len_dist : distribution, optional
        Law of the length; without one the length scores 0.
    name : str, optional
        Label carried along.
    terminal_values : None
        Not built in; terminal states are.
    use_numba : bool, optional
        Taken and not needed: there is one path.
    weights : array_like, optional
        Another name of `w`.
    prior : (Dirichlet law, Dirichlet law or sequence of them), optional
        Laws of the initial probabilities and of each row of transitions, which `estimator` hands on.
    terminal_states : sequence of int, optional
        A sequence ends in one of these states and is nowhere else in one; its length then follows from the chain and
        `len_dist` is not scored.
    components : sequence of distributions, optional
        Another name of `topics`.
    keys : (hashable, hashable, hashable), optional
        Tying keys of initial probabilities, transitions and emissions, carried along.

    Raises
    ------
    ValueError
        If probabilities are none, or shapes do not agree.

    Notes
    -----
    A sequence's log-density has the same bits alone and among others.

    References
    ----------
    L. R. Rabiner, "A tutorial on hidden Markov models and selected applications in speech recognition", Proceedings of
    the IEEE 77, 1989.

    Examples
    --------
    >>> from mixle.stats import CategoricalDistribution
    >>> weather = [CategoricalDistribution({"dry": p, "wet": 1.0 - p}) for p in (0.9, 0.2)]
    >>> d = HiddenMarkovModelDistribution(weather, [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    >>> round(d.density(["dry", "wet"]), 6), d.viterbi(["dry", "dry", "wet", "wet"]).tolist()
    (0.1425, [0, 0, 1, 1])
    """

    _fields: ClassVar[tuple[str, ...]] = ("topics", "w", "transitions")
    _keyword_fields: ClassVar[tuple[str, ...]] = ("taus", "len_dist", "name", "terminal_states", "keys")
    _extras: ClassVar[tuple[str, ...]] = ("prior",)

    def __init__(
        self,
        topics: Sequence[Any] | None = None,
        w: Any = None,
        transitions: Any = None,
        taus: Any = None,
        len_dist: Any = None,
        name: str | None = None,
        terminal_values: None = None,
        use_numba: bool | None = None,
        weights: Any = None,
        prior: Any = None,
        terminal_states: Sequence[int] | None = None,
        components: Sequence[Any] | None = None,
        keys: tuple[Any, Any, Any] | None = None,
    ) -> None:
        not_built_in(terminal_values=terminal_values)
        given = either("HiddenMarkovModel", topics=topics, components=components)
        self.topics = [] if given is None else list(laws_given(given, "HiddenMarkovModel"))
        if not self.topics:
            raise ValueError("a hidden Markov model needs at least one law of an element: pass topics=")
        self.w = initial_law(either("HiddenMarkovModel", w=w, weights=weights))
        states = len(self.w)
        self.terminal_states = None if terminal_states is None else sorted({int(s) for s in terminal_states})
        self._terminal = terminal_mask(self.terminal_states, states)
        self.transitions = transition_laws(transitions, self.w, self._terminal)
        self.taus = None if taus is None else np.array([probabilities(row, "a row of taus") for row in taus])
        wanted = (states, len(self.topics))
        if self.taus is None and states != len(self.topics):
            raise ValueError(f"{states} states need as many laws of an element, got {len(self.topics)}")
        if self.taus is not None and self.taus.shape != wanted:
            raise ValueError(f"taus must have shape {wanted}, has {self.taus.shape}")
        self.len_dist = NullDistribution() if len_dist is None else law_given(len_dist, "HiddenMarkovModel")
        self.name, self.use_numba = name, use_numba
        self.keys: tuple[Any, Any, Any] = (None, None, None) if keys is None else (keys[0], keys[1], keys[2])
        self.set_prior(prior)

    def get_prior(self) -> Any:
        """Return the laws of the initial probabilities and of the rows, or None; after a fit, the posterior."""
        return self.prior

    def set_prior(self, prior: Any) -> None:
        """Set the Dirichlet laws of the initial probabilities and of the rows of transitions, or None.

        Raises
        ------
        ValueError
            If it is of another form, has no mode, or is of another number of states.
        """
        self.prior = check_chain_prior(prior, len(self.w), "HiddenMarkovModel")

    @property
    def components(self) -> list[Any]:
        """Return `topics`."""
        return self.topics

    @property
    def n_topics(self) -> int:
        """Return the number of topics."""
        return len(self.topics)

    @property
    def n_states(self) -> int:
        """Return the number of states S."""
        return len(self.w)

    num_states = n_states

    @property
    def has_topics(self) -> bool:
        """Return whether an element's law is a mixture of topics."""
        return self.taus is not None

    @property
    def log_w(self) -> np.ndarray:
        """Return the logarithms of the initial probabilities, shape (S,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.w))

    @property
    def log_transitions(self) -> np.ndarray:
        """Return the logarithms of the transition probabilities, shape (S, S)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.transitions))

    @property
    def emissions(self) -> list[Any]:
        """Return the law of an element in each state."""
        if self.taus is None:
            return self.topics
        return [MixtureDistribution(self.topics, row) for row in self.taus]

    @property
    def nothing(self) -> float:
        """Return the log-density of no elements, length aside."""
        return 0.0 if self._terminal is None else -math.inf

    def passes(self, x: Chains) -> Passes | None:
        """Return the forward and backward passes over encoded sequences; None if they have no elements."""
        total = x.total
        if not total:
            return None
        states = len(self.w)
        walk = Walk(self.emissions, np.full(states, 1.0 / states), np.zeros(states), x.elements, total)
        return Passes(Chain(self.w, self.transitions, self._terminal), walk, x)

    def length_log_density(self, x: Chains) -> np.ndarray:
        """Return the log-densities of the lengths of encoded sequences, shape (n,)."""
        if self._terminal is not None:
            return np.zeros(x.rows)
        return np.asarray(self.len_dist.seq_log_density(x.lengths), float)

    def seq_log_density(self, x: Chains) -> np.ndarray:
        """Return the log-densities of encoded sequences, shape (n,)."""
        passes = self.passes(x)
        result = np.full(x.rows, self.nothing) if passes is None else passes.densities()
        return np.asarray(result + self.length_log_density(x))

    def seq_posterior(self, x: Chains, filtered: bool = False) -> list[np.ndarray]:
        """Return the probabilities of the states of each element, one array (T, S) per encoded sequence.

        They are given the whole sequence, or with `filtered` what came up to the element.
        """
        if not filtered:
            return smooth(self.passes(x), x, len(self.w))
        logs = MixtureDistribution(self.emissions).seq_component_log_density(x.elements) if x.total else None
        return so_far(self.w, self.transitions, logs, x)

    def posterior(self, x: Any) -> np.ndarray:
        """Return the probabilities of the states of each element of one sequence, shape (T, S)."""
        return self.seq_posterior(self.dist_to_encoder().seq_encode([x]))[0]

    def seq_viterbi(self, x: Chains) -> list[np.ndarray]:
        """Return the likeliest path of states, one array (T,) per encoded sequence."""
        return decode(self.passes(x), x)

    def viterbi(self, x: Any) -> np.ndarray:
        """Return the likeliest path of states of one sequence, shape (T,)."""
        return self.seq_viterbi(self.dist_to_encoder().seq_encode([x]))[0]

    def forecast(self, x: Any, horizon: int = 1) -> Forecast:
        """Return what follows one sequence.

        Parameters
        ----------
        x : sequence
            The elements so far, in order; none are allowed.
        horizon : int
            How many elements ahead.

        Returns
        -------
        Forecast
            ``states`` (horizon, S), and ``observations``, the law of each element: a `MixtureDistribution` to score,
            sample or take quantiles of.

        Raises
        ------
        ValueError
            If the horizon is below 1, the model has terminal states, or the sequence is impossible.

        Examples
        --------
        >>> from mixle.stats import CategoricalDistribution
        >>> weather = [CategoricalDistribution({"dry": p, "wet": 1.0 - p}) for p in (1.0, 0.25)]
        >>> d = HiddenMarkovModelDistribution(weather, [0.5, 0.5], [[0.75, 0.25], [0.5, 0.5]])
        >>> ahead = d.forecast(["wet"], 2)
        >>> ahead.states.tolist(), ahead.observations[0].density("dry")
        ([[0.5, 0.5], [0.625, 0.375]], 0.625)
        """
        return forecast(self, x, horizon)

    def seq_forecast(self, x: Chains, horizon: int = 1) -> np.ndarray:
        """Return the probabilities of the states of the next elements of encoded sequences, shape (n, horizon, S)."""
        return state_forecasts(self, x, horizon)

    def sampler(self, seed: int | None = None) -> HiddenMarkovSampler:
        """Return a sampler."""
        return HiddenMarkovSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> Any:
        """Return the estimator; `pseudo_count` weighs this model's own parameters as a prior, unless it has one."""
        from mixle.stats.latent.hmm_estimator import HiddenMarkovEstimator

        count = pseudo_count if self.prior is None else None
        prior = None if count is None else (self.w, self.transitions)
        return HiddenMarkovEstimator(
            [topic.estimator(pseudo_count) for topic in self.emissions],
            self.len_dist.estimator(pseudo_count),
            count,
            self.name,
            self.keys,
            prior=self.prior,
            terminal_states=self.terminal_states,
            suff_stat=prior,
        )

    def decomposition(self) -> Decomposition:
        """Return the axis of the states."""
        return axis_of(DecompAxis.STATE, [f"state_{i}" for i in range(len(self.topics))])

    def dist_to_encoder(self) -> HiddenMarkovDataEncoder:
        """Return the encoder."""
        elements = mixture_encoder([topic.dist_to_encoder() for topic in self.emissions])
        return HiddenMarkovDataEncoder(elements, self.len_dist.dist_to_encoder())
