"""Markov chains over labels, and a law of their length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from mixle.errors import EmptyDataError, NonGenerativeMarkovChainError
from mixle.stats.chain_priors import chain_log_density, check_label_prior, label_alphas, label_posterior
from mixle.stats.combinators.drawing import drawn_lengths
from mixle.stats.combinators.null import NullDistribution, NullEstimator
from mixle.stats.combinators.ragged import RaggedRows
from mixle.stats.contract import DistributionSampler, ParameterEstimator, SequenceEncodableProbabilityDistribution
from mixle.stats.domains import labels_of, mapping_of, nonnegative, parts_of, probabilities
from mixle.stats.enumeration import refuse, staged
from mixle.stats.families.categorical import CategoricalDistribution
from mixle.stats.given import estimator_given, law_given
from mixle.stats.refusals import shown
from mixle.stats.sequences.likeliest import likeliest_paths
from mixle.stats.sequences.markov_counts import MarkovChainEncoder, MarkovChainFactory, MarkovChainStatistics
from mixle.stats.sequences.markov_counts import neighbours as neighbours_of
from mixle.stats.sequences.paths import check_length_nobs, draw_paths, laws_of_counts

__all__ = ["MarkovChainDistribution", "MarkovChainEstimator", "MarkovChainSampler", "MarkovChainStatistics"]


class MarkovChainDistribution(SequenceEncodableProbabilityDistribution):
    """Law of a sequence of labels in which each depends on the one before, ``p(x₁) Π_t p(x_t | x_t₋₁)``.

    Parameters
    ----------
    init_prob_map : dict
        Probability of each label as the first one; a label not listed has none.
    transition_map : dict of dict
        For each label the probabilities of the label after it; every label of the model needs its row.
    len_dist : distribution, optional
        Law of the length; without one the length scores 0 and sequences cannot be sampled.
    default_value : float
        Only 0: a label that is not listed has probability 0. ``levels=`` with ``pseudo_count=`` of the estimator gives
        labels that were not seen a probability.
    name : str, optional
        Label of the whole.
    prior : (sequence of labels, Dirichlet law, Dirichlet laws of the rows), optional
        Laws of the probabilities, which `estimator` hands on.
    keys : hashable, optional
        Tying key of the whole.

    Raises
    ------
    ValueError
        If probabilities are none, or a label has no row.

    References
    ----------
    T. W. Anderson, L. A. Goodman, "Statistical inference about Markov chains", Annals of Mathematical Statistics 28,
    1957.

    Examples
    --------
    >>> d = MarkovChainDistribution({"a": 0.5, "b": 0.5}, {"a": {"a": 0.75, "b": 0.25}, "b": {"a": 1.0}})
    >>> round(d.density(["a", "b", "a"]), 9), d.density(["b", "b"]), d.log_density([])
    (0.125, 0.0, 0.0)
    """

    _fields: ClassVar[tuple[str, ...]] = ("init_prob_map", "transition_map")
    _keyword_fields: ClassVar[tuple[str, ...]] = ("len_dist", "default_value", "name", "keys")
    _extras: ClassVar[tuple[str, ...]] = ("prior",)

    def __init__(
        self,
        init_prob_map: Mapping[Any, float],
        transition_map: Mapping[Any, Mapping[Any, float]],
        len_dist: Any = None,
        default_value: float = 0.0,
        name: str | None = None,
        prior: Any = None,
        keys: Any = None,
    ) -> None:
        if default_value != 0.0:
            raise ValueError(
                "default_value must be 0: a label without a row has no law of what follows; "
                "list it, or fit with MarkovChainEstimator(pseudo_count=, levels=)"
            )
        states = dict.fromkeys(init_prob_map)
        for label, row in transition_map.items():
            states.update(dict.fromkeys((label, *row)))
        lost = [label for label in states if label not in transition_map]
        if lost:
            raise ValueError(f"transition_map has no row for the label {shown(lost[0])}; give it one")
        self.states = tuple(states)
        self.initial_law = _law(init_prob_map, self.states, "init_prob_map")
        rows = [_law(transition_map[s], self.states, f"the row {shown(s)} of transition_map") for s in self.states]
        self.transition_laws = np.array(rows).reshape(len(rows), len(rows))
        self.init_prob_map = {s: float(p) for s, p in zip(self.states, self.initial_law, strict=True)}
        self.transition_map = {s: dict(zip(self.states, row, strict=True)) for s, row in self._rows()}
        self.len_dist = NullDistribution() if len_dist is None else law_given(len_dist, "MarkovChain")
        self.default_value, self.name, self.keys = 0.0, name, keys
        self.set_prior(prior)

    def get_prior(self) -> Any:
        """Return labels, law of the first one and laws of the rows, or None; after a fit, the posterior."""
        return self.prior

    def set_prior(self, prior: Any) -> None:
        """Set the prior, in the form of the constructor; None takes it away.

        Raises
        ------
        ValueError
            If it is of another form, or has no mode.
        """
        self.prior = check_label_prior(prior)

    def _rows(self) -> Iterable[tuple[Any, list[float]]]:
        return zip(self.states, self.transition_laws.tolist(), strict=True)

    def outcomes(self) -> Iterator[tuple[list[Any], float]]:
        """Return the sequences, the most probable first."""
        if isinstance(self.len_dist, NullDistribution):
            raise refuse(self, "without a law of lengths its scores are no probabilities of sequences")
        with np.errstate(divide="ignore"):
            first, moves = np.log(self.initial_law), np.log(self.transition_laws)

        def paths(length: Any, score: float) -> Iterator[tuple[list[Any], float]]:
            found = likeliest_paths(first, moves, int(length), score)
            return (([self.states[s] for s in path], total) for path, total in found)

        return staged(self.len_dist.outcomes(), paths)

    def dist_to_encoder(self) -> MarkovChainEncoder:
        """Return the encoder."""
        return MarkovChainEncoder(_LABELS, self.len_dist.dist_to_encoder())

    def seq_log_density(self, x: RaggedRows) -> np.ndarray:
        """Return the log-densities of encoded sequences, shape (n,)."""
        index = {label: i for i, label in enumerate(self.states)}
        size = len(self.states)
        places = np.array([index.get(label, size) for label in x.elements.labels or ()], np.intp)
        first_law, moves = np.zeros(size + 1), np.zeros((size + 1, size + 1))
        first_law[:size], moves[:size, :size] = self.initial_law, self.transition_laws
        with np.errstate(divide="ignore"):
            log_first, log_moves = np.log(first_law), np.log(moves)
        states = places[x.elements.x] if len(places) else np.zeros(0, np.intp)
        begun, first, later = neighbours_of(x)
        result = np.bincount(x.owners()[later], log_moves[states[later - 1], states[later]], x.rows).astype(float)
        result[begun] += log_first[states[first]]
        return np.asarray(result + self.len_dist.seq_log_density(x.lengths))

    def sampler(self, seed: int | None = None) -> MarkovChainSampler:
        """Return a sampler."""
        return MarkovChainSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> MarkovChainEstimator:
        """Return the estimator; `pseudo_count` weighs this chain's own probabilities as a prior, unless it has one."""
        count = pseudo_count if self.prior is None else None
        own = None if count is None else (dict(self.init_prob_map), dict(self.transition_map))
        length = self.len_dist.estimator(pseudo_count)
        return MarkovChainEstimator(count, None, length, self.name, self.keys, self.prior, own)

    def stack_node(self) -> tuple[str, Any] | None:
        """Return None: rows of varying length do not stack."""
        return None


_LABELS = CategoricalDistribution({}).dist_to_encoder()


def _law(given: Mapping[Any, float], states: tuple[Any, ...], what: str) -> np.ndarray:
    if not states:
        raise ValueError(f"{what} of a MarkovChain lists no label; give {{label: probability, ...}}")
    return probabilities([given.get(label, 0.0) for label in states], f"{what} of a MarkovChain")


class MarkovChainSampler(DistributionSampler):
    """Sampler of a `MarkovChainDistribution`."""

    def __init__(self, dist: MarkovChainDistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.lengths = dist.len_dist.sampler(self.new_seed())

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a list of labels, or a list of `size` such lists.

        Raises
        ------
        NonGenerativeMarkovChainError
            If there is no law of the length.
        """
        what = "a MarkovChain without a law of the length"
        lengths = drawn_lengths(self.dist.len_dist, self.lengths, size, what, NonGenerativeMarkovChainError)
        rows = self.sample_paths(lengths)
        return rows[0] if size is None else rows

    def sample_paths(self, lengths: Iterable[int]) -> list[list[Any]]:
        """Return one list of labels of each of these lengths."""
        moves, first = np.cumsum(self.dist.transition_laws, axis=1), np.cumsum(self.dist.initial_law)
        paths = draw_paths(np.array(list(lengths), np.int64), first, moves, self.rng)
        return [[self.dist.states[i] for i in path.tolist()] for path in paths]


class MarkovChainEstimator(ParameterEstimator):
    """Estimator of a `MarkovChainDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior of the first label and of each row of transitions; without `suff_stat` it is spread evenly
        over the labels.
    levels : iterable, optional
        All the labels there may be, seen or not. A fit refuses others.
    len_estimator : estimator, optional
        Estimator of the law of the length.
    name : str, optional
        Label of the fitted chain.
    keys : hashable, optional
        Tying key of the whole.
    prior : (sequence of labels, Dirichlet law, Dirichlet laws of the rows), optional
        Labels, the law of the probabilities of the first one, and the law of each label's row: in the order of the
        labels, a dict by label, or one law for all rows. The fit is then the likeliest chain, and carries the posterior
        as its prior. Labels that only the data show have a flat law.
    suff_stat : (dict, dict of dict), optional
        Prior probabilities, used with `pseudo_count`.

    Notes
    -----
    A label that nothing followed gets an even law of what follows it.

    Examples
    --------
    >>> estimator = MarkovChainEstimator()
    >>> counts = MarkovChainStatistics(1, ("a", "b"), (2.0, 0.0), ((1.0, 3.0), (0.0, 0.0)), 2.0, None)
    >>> estimator.estimate(2.0, counts).transition_map
    {'a': {'a': 0.25, 'b': 0.75}, 'b': {'a': 0.5, 'b': 0.5}}
    """

    _laws: ClassVar[tuple[str, ...]] = ("len_dist",)
    _fields: ClassVar[tuple[str, ...]] = ()
    _keyword_fields: ClassVar[tuple[str, ...]] = (
        "pseudo_count", "levels", "len_estimator", "name", "keys", "prior", "suff_stat",
    )  # fmt: skip

    def __init__(
        self,
        pseudo_count: float | None = None,
        levels: Iterable[Any] | None = None,
        len_estimator: Any = None,
        name: str | None = None,
        keys: Any = None,
        prior: Any = None,
        suff_stat: tuple[Mapping[Any, float], Mapping[Any, Mapping[Any, float]]] | None = None,
    ) -> None:
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.levels = None if levels is None else labels_of(levels, "levels")
        if self.levels == ():
            raise ValueError("levels of a MarkovChain lists no label; leave it out to take the labels of the data")
        self.len_estimator = NullEstimator() if len_estimator is None else estimator_given(len_estimator, "MarkovChain")
        self.name, self.keys = name, keys
        self.suff_stat = None
        if suff_stat is not None:
            first, second = parts_of(suff_stat, "suff_stat", 2)
            self.suff_stat = (mapping_of(first, "suff_stat"), mapping_of(second, "suff_stat", "mappings"))
        self.prior = check_label_prior(prior)
        if self.prior is not None and self.pseudo_count:
            raise ValueError("MarkovChain: prior and pseudo_count are two priors; pass one of them")

    def accumulator_factory(self) -> MarkovChainFactory:
        """Return the factory."""
        return MarkovChainFactory(_LABELS, self.len_estimator.accumulator_factory(), self.levels, self.keys)

    def estimate(self, nobs: float | None, suff_stat: Any) -> MarkovChainDistribution:
        """Return the fitted chain.

        Parameters
        ----------
        nobs : float or None
            Weight of the data, which is that of the sequences. None skips the check.
        suff_stat : MarkovChainStatistics
            The statistic.

        Raises
        ------
        ValueError
            If the weights differ, or no sequence shows a label and there is no prior.
        """
        stat = MarkovChainStatistics(*suff_stat)
        if self.keys is None:
            check_length_nobs("MarkovChain", nobs, stat.length_nobs)
        prior = self.suff_stat if self.pseudo_count else None
        states = dict.fromkeys(stat.states)
        states.update(dict.fromkeys(() if prior is None else (*prior[0], *prior[1])))
        states.update(dict.fromkeys(() if self.prior is None else self.prior[0]))
        labels = tuple(states)
        first, moves = _widened(stat, len(labels))
        known = prior is not None or self.prior is not None or bool(self.pseudo_count and self.levels)
        if not labels or not (known or math.fsum(stat.initial_counts) > 0.0):
            raise EmptyDataError(
                "no sequence of positive weight shows a label: pass data, or pseudo_count= with levels="
            )
        after = None if self.prior is None else label_posterior(self.prior, labels, first, moves)
        if self.prior is not None:
            alpha = label_alphas(self.prior, labels)
            first, moves = first + alpha.initial - 1.0, moves + alpha.rows - 1.0
        elif prior is None:
            even = (self.pseudo_count or 0.0) / len(labels)
            first, moves = first + even, moves + even
        else:
            first = first + (self.pseudo_count or 0.0) * np.array([prior[0].get(s, 0.0) for s in labels])
            rows = [[prior[1].get(s, {}).get(t, 0.0) for t in labels] for s in labels]
            moves = moves + (self.pseudo_count or 0.0) * np.array(rows)
        first, moves = laws_of_counts(first[None, :])[0], laws_of_counts(moves)
        return MarkovChainDistribution(
            dict(zip(labels, first.tolist(), strict=True)),
            {s: dict(zip(labels, row, strict=True)) for s, row in zip(labels, moves.tolist(), strict=True)},
            self.len_estimator.estimate(nobs, stat.length), 0.0, self.name, after, self.keys,
        )  # fmt: skip

    def own_log_density(self, model: Any) -> float:
        """Return the log-density of the probabilities under their prior; 0 without one."""
        if self.prior is None:
            return 0.0
        return chain_log_density(label_alphas(self.prior, model.states), model.initial_law, model.transition_laws)

    def stack_node(self) -> tuple[str, Any] | None:
        """Return None: rows of varying length do not stack."""
        return None

    def _parts(self) -> tuple[tuple[str, Any], ...]:
        return (("length", self.len_estimator),)


def _widened(stat: MarkovChainStatistics, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts as arrays (S,) and (S, S) of `size` labels."""
    seen = len(stat.states)
    first, moves = np.zeros(size), np.zeros((size, size))
    first[:seen] = stat.initial_counts
    moves[:seen, :seen] = np.asarray(stat.transition_counts, float).reshape(seen, seen)
    return first, moves
