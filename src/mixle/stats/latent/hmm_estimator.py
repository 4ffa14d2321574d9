"""The M-step of hidden Markov models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.chain_priors import chain_alphas, chain_log_density, chain_posterior, check_chain_prior, without
from mixle.stats.combinators.null import NullEstimator
from mixle.stats.combinators.parts import fit_parts, is_latent
from mixle.stats.domains import nonnegative
from mixle.stats.given import estimator_given, estimators_given
from mixle.stats.keys import has_keys
from mixle.stats.latent.hmm import HiddenMarkovModelDistribution
from mixle.stats.latent.hmm_accumulator import HiddenMarkovFactory, as_statistics
from mixle.stats.latent.hmm_chain import stationary, terminal_mask
from mixle.stats.latent.sequence_estimator import SequenceModelEstimator
from mixle.stats.leaf import repaired
from mixle.stats.refusals import check_mass
from mixle.stats.stacking.statistic import handed

__all__ = ["HiddenMarkovEstimator", "HiddenMarkovModelEstimator"]


class HiddenMarkovEstimator(SequenceModelEstimator):
    """Estimator of a `HiddenMarkovModelDistribution`.

    Parameters
    ----------
    estimators : sequence of estimators
        One per state.
    len_estimator : estimator, optional
        Estimator of the law of the length.
    pseudo_count : float or (float, float), optional
        Weight of the prior of the initial and of the transition probabilities; without `suff_stat` it is spread
        evenly, over the states and over all pairs of states.
    name : str, optional
        Label of the fitted model.
    keys : (hashable, hashable, hashable), optional
        Tying keys of initial probabilities, transitions and emissions.
    use_numba : bool, optional
        Taken and not needed.
    prior : (Dirichlet law, Dirichlet law or sequence of them), optional
        Laws of the initial probabilities and of each row of transitions (one law is that of every row): the fit is
        then the likeliest model, and carries the posterior as its prior.
    steady_state_init : bool
        Take the stationary law of the fitted transitions as the initial law.
    terminal_states : sequence of int, optional
        States that a sequence ends in.
    suff_stat : (array_like (S,), array_like (S, S)), optional
        Prior initial and transition probabilities, used with `pseudo_count`.

    Notes
    -----
    Within a fit neither `pseudo_count` nor `prior` gives a probability to a first state or a transition that the model
    before has ruled out: a structural zero stays one, and its concentration does not count.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> HiddenMarkovEstimator([PoissonEstimator()] * 3).num_start_components()
    3
    """

    _laws: ClassVar[tuple[str, ...]] = ("topics", "len_dist")
    part: ClassVar[str] = "state"
    _fields: ClassVar[tuple[str, ...]] = ("estimators",)
    _keyword_fields: ClassVar[tuple[str, ...]] = (
        "len_estimator", "pseudo_count", "name", "keys", "prior", "steady_state_init", "terminal_states", "suff_stat",
    )  # fmt: skip

    def __init__(
        self,
        estimators: Sequence[Any],
        len_estimator: Any = None,
        pseudo_count: Any = None,
        name: str | None = None,
        keys: tuple[Any, Any, Any] | None = (None, None, None),
        use_numba: bool | None = None,
        prior: Any = None,
        steady_state_init: bool = False,
        terminal_states: Sequence[int] | None = None,
        suff_stat: Any = None,
    ) -> None:
        self.estimators = list(estimators_given(estimators, "HiddenMarkovModel"))
        if not self.estimators:
            raise ValueError("a hidden Markov model needs at least one estimator of its elements")
        self.len_estimator = (
            NullEstimator() if len_estimator is None else estimator_given(len_estimator, "HiddenMarkovModel")
        )
        pair = pseudo_count if isinstance(pseudo_count, (tuple, list)) else (pseudo_count, pseudo_count)
        self.pseudo_count = tuple(None if c is None else nonnegative(c, "pseudo_count") for c in pair)
        self.name, self.use_numba, self.steady_state_init = name, use_numba, bool(steady_state_init)
        self.keys = (None, None, None) if keys is None else (keys[0], keys[1], keys[2])
        self.terminal_states = None if terminal_states is None else sorted({int(s) for s in terminal_states})
        terminal_mask(self.terminal_states, len(self.estimators))
        self.prior = check_chain_prior(prior, len(self.estimators), "HiddenMarkovModel")
        if self.prior is not None and (any(self.pseudo_count) or self.steady_state_init):
            raise ValueError(
                "a prior of the chain goes with neither pseudo_count nor steady_state_init; pass one of them"
            )
        self.suff_stat = None
        if suff_stat is not None:
            self.suff_stat = (np.array(suff_stat[0], float), np.array(suff_stat[1], float))
            shapes = tuple(part.shape for part in self.suff_stat)
            if shapes != ((self.num_states,), (self.num_states,) * 2):
                raise ValueError(
                    f"suff_stat of {self.num_states} states has the shapes {shapes}; pass (initial counts, shape "
                    f"({self.num_states},); counts of transitions, shape {(self.num_states,) * 2})"
                )

    @property
    def num_states(self) -> int:
        """Return the number of states S."""
        return len(self.estimators)

    def accumulator_factory(self) -> HiddenMarkovFactory:
        """Return the factory of this model's accumulators."""
        return HiddenMarkovFactory(self.estimators, self.len_estimator, self.keys, self.terminal_states)

    def estimate(self, nobs: float | None, suff_stat: Any) -> HiddenMarkovModelDistribution:
        """Return the fitted model.

        Parameters
        ----------
        nobs : float or None
            Weight of the data; the initial counts may not exceed it. None skips the check.
        suff_stat : HiddenMarkovStatistics, or a tuple of the same parts
            Statistic of either layout.

        Raises
        ------
        ValueError
            If more weight was assigned than declared, or the statistic is of another number of states.
        """
        states = self.num_states
        stat = as_statistics(suff_stat, states)
        initial, moves = np.asarray(stat.init_counts, float), np.asarray(stat.trans_counts, float)
        total = math.fsum(initial.tolist())
        check_mass(total, nobs, self.keys[0] is not None)
        tied = self.keys[2] is not None  # a pooled emission has seen more than its own count
        topics = fit_parts(self.estimators, stat.state_counts, handed(stat.emissions, self.estimators), tied)
        transitions = self._transitions(moves)
        w = stationary(transitions) if self.steady_state_init else self._initial(initial)
        length = self.len_estimator.estimate(nobs, stat.length)
        prior = None if self.prior is None else chain_posterior(self.prior, initial, moves)
        return HiddenMarkovModelDistribution(
            topics, w, transitions, None, length, self.name,
            prior=prior, terminal_states=self.terminal_states, keys=self.keys,
        )  # fmt: skip

    def own_log_density(self, model: Any) -> float:
        """Return the log-density of the probabilities of the chain under their prior; 0 without one."""
        if self.prior is None:
            return 0.0
        return chain_log_density(chain_alphas(self.prior, self.num_states), model.w, model.transitions)

    def _initial(self, counts: np.ndarray) -> np.ndarray:
        states = len(counts)
        if self.pseudo_count[0]:
            even = np.full(states, 1.0 / states)
            counts = counts + self.pseudo_count[0] * (even if self.suff_stat is None else self.suff_stat[0])
        if self.prior is not None:
            counts = counts + chain_alphas(self.prior, states).initial - 1.0
        total = float(np.add.reduce(counts))
        return counts / total if total > 0.0 else np.full(states, 1.0 / states)

    def _transitions(self, counts: np.ndarray) -> np.ndarray:
        states = len(counts)
        if self.pseudo_count[1]:
            even = np.full((states, states), 1.0 / states)
            prior = even if self.suff_stat is None else self.suff_stat[1]
            counts = counts + self.pseudo_count[1] * prior / states
        if self.prior is not None:
            counts = counts + chain_alphas(self.prior, states).rows - 1.0
        total = np.add.reduce(counts, axis=1, keepdims=True)
        return np.where(total > 0.0, counts / np.where(total > 0.0, total, 1.0), np.eye(states))

    def keep_empty(self, model: Any, previous: Any, suff_stat: Any) -> Any:
        """Return `model` with what `previous` ruled out, and its emissions of states that no element belongs to.

        An emission that is tied elsewhere has the pooled statistic and is left alone.
        """
        stat = as_statistics(suff_stat, self.num_states)
        old = getattr(previous, "topics", None)
        if old is None or len(old) != self.num_states:
            return model
        if self.prior is not None or any(self.pseudo_count):
            model = self._ruled_out(model, previous)
        if self.keys[2] is not None:
            return model
        counts = np.asarray(stat.state_counts, float)
        empty = [k for k in np.flatnonzero(counts == 0.0).tolist() if not has_keys(self.estimators[k])]
        latent = [k for k, e in enumerate(self.estimators) if k not in empty and is_latent(e)]
        if not empty and not latent:
            return model
        topics = [old[k] if k in empty else topic for k, topic in enumerate(model.topics)]
        children = stat.children if latent else ()
        for k in latent:
            topics[k] = self.estimators[k].keep_empty(topics[k], old[k], children[k])
        kept = self._like(model, topics, model.w, model.transitions)
        note = (f"empty states kept as they were: {empty}",) if empty else ()
        return repaired(kept, *model.numerical_repairs(), *note)

    def _ruled_out(self, model: Any, previous: Any) -> Any:
        """Return `model` without the first states and the transitions that `previous` does not have."""
        gone = (previous.w == 0.0, previous.transitions == 0.0)
        if not (gone[1].any() or (gone[0].any() and not self.steady_state_init)):
            return model
        transitions = without(model.transitions, gone[1])
        w = stationary(transitions) if self.steady_state_init else without(model.w, gone[0])
        return repaired(self._like(model, model.topics, w, transitions), *model.numerical_repairs())

    @staticmethod
    def _like(model: Any, topics: list[Any], w: np.ndarray, transitions: np.ndarray) -> HiddenMarkovModelDistribution:
        return HiddenMarkovModelDistribution(
            topics, w, transitions, None, model.len_dist, model.name,
            prior=model.prior, terminal_states=model.terminal_states, keys=model.keys,
        )  # fmt: skip


#: Another name of `HiddenMarkovEstimator`.
HiddenMarkovModelEstimator = HiddenMarkovEstimator
