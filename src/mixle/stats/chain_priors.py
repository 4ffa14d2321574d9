"""Dirichlet priors of chains: one law of the initial probabilities, one of each row of transitions.

The likeliest row under a Dirichlet prior is its counts plus the concentrations less one, divided by their sum (Gelman
et al. 2013, Bayesian Data Analysis; for hidden chains Gauvain and Lee 1994, IEEE Transactions on Speech and
Audio Processing 2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mixle.stats.priors import check_weight_prior, prior_alpha, weight_posterior

__all__ = [
    "ChainAlphas",
    "chain_alphas",
    "chain_log_density",
    "chain_posterior",
    "check_chain_prior",
    "check_label_prior",
    "label_alphas",
    "label_posterior",
    "without",
]


class ChainAlphas(NamedTuple):
    """Concentrations of a chain of S states: `initial` (S,), `rows` (S, S)."""

    initial: np.ndarray
    rows: np.ndarray


def check_chain_prior(prior: Any, states: int, family: str) -> tuple[Any, list[Any]] | None:
    """Return a prior of a chain as a law of the initial probabilities and a list of one law per row.

    Parameters
    ----------
    prior : (Dirichlet law, Dirichlet law or sequence of them), or None
        One law in place of the sequence is that of every row.
    states : int
        Number of states S.
    family : str
        Whose prior it is, for the messages.

    Raises
    ------
    ValueError
        If it is of another form, of another number of states, or has no mode.
    """
    if prior is None:
        return None
    if not isinstance(prior, (tuple, list)) or len(prior) != 2:
        raise ValueError(
            f"the prior of a {family} is (law of the initial probabilities, laws of the rows of transitions), "
            f"not a {type(prior).__name__}; pass prior=(SymmetricDirichletDistribution(2.0),) * 2"
        )
    initial, rows = prior
    laws = list(rows) if isinstance(rows, (tuple, list)) else [rows] * states
    if len(laws) != states:
        raise ValueError(
            f"a prior of {len(laws)} rows of transitions does not fit {states} states; pass a law for each"
        )
    for law in (initial, *laws):
        if law is None:
            raise ValueError(
                f"a law is missing in the prior of a {family}; SymmetricDirichletDistribution(1.0) is flat"
            )
        check_weight_prior(law, states, family)
    return initial, laws


def chain_alphas(prior: tuple[Any, list[Any]], states: int) -> ChainAlphas:
    """Return the concentrations of a checked prior."""
    return ChainAlphas(prior_alpha(prior[0], states), np.array([prior_alpha(law, states) for law in prior[1]]))


def chain_posterior(prior: tuple[Any, list[Any]], initial: np.ndarray, moves: np.ndarray) -> tuple[Any, list[Any]]:
    """Return the laws of the probabilities after these counts; those of a single state stay as they are."""
    rows = [weight_posterior(law, row) for law, row in zip(prior[1], moves, strict=True)]
    return weight_posterior(prior[0], initial), rows


def chain_log_density(alpha: ChainAlphas, initial: np.ndarray, rows: np.ndarray) -> float:
    """Return the log-density of the probabilities of a chain; those of 0 are taken as ruled out and left out."""
    every = zip((alpha.initial, *alpha.rows), (initial, *rows), strict=True)
    return math.fsum(_row_log_density(a.tolist(), np.asarray(p, float).tolist()) for a, p in every)


def _row_log_density(alpha: list[float], p: list[float]) -> float:
    terms = [(a - 1.0) * math.log(x) for a, x in zip(alpha, p, strict=True) if x > 0.0 and a != 1.0]
    return math.lgamma(math.fsum(alpha)) - math.fsum(map(math.lgamma, alpha)) + math.fsum(terms)


def without(p: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Return rows of probabilities in which `gone` entries are 0; a row of nothing else stays as it is.

    Examples
    --------
    >>> without(np.array([0.5, 0.25, 0.25]), np.array([False, False, True])).round(6).tolist()
    [0.666667, 0.333333, 0.0]
    """
    kept = np.where(gone, 0.0, p)
    total = np.add.reduce(kept, axis=-1, keepdims=True)
    return np.asarray(np.where(total > 0.0, kept / np.where(total > 0.0, total, 1.0), p))


def check_label_prior(prior: Any) -> tuple[tuple[Any, ...], Any, list[Any]] | None:
    """Return a prior of a chain over labels as the labels, the law of the first one, and a list of laws of the rows.

    Raises
    ------
    ValueError
        If it is of another form, of another number of labels, names one twice, or has no mode.
    """
    if prior is None:
        return None
    if not isinstance(prior, (tuple, list)) or len(prior) != 3:
        raise ValueError(
            "the prior of a MarkovChain is (labels, law of the first label, laws of the rows); pass "
            "prior=(labels, SymmetricDirichletDistribution(2.0), [SymmetricDirichletDistribution(2.0)] * len(labels))"
        )
    labels, rows = tuple(prior[0]), prior[2]
    if not labels or len(dict.fromkeys(labels)) != len(labels):
        raise ValueError("the prior of a MarkovChain names each label once, and at least one; pass distinct labels")
    if isinstance(rows, Mapping):
        lost = [label for label in labels if label not in rows]
        if lost:
            raise ValueError(
                f"the prior of a MarkovChain has no law of the row {lost[0]!r:.80}; add one for each label"
            )
        rows = [rows[label] for label in labels]
    initial, laws = check_chain_prior((prior[1], rows), len(labels), "MarkovChain") or (None, [])
    return labels, initial, laws


def label_alphas(prior: tuple[tuple[Any, ...], Any, list[Any]], labels: tuple[Any, ...]) -> ChainAlphas:
    """Return the concentrations of a chain over `labels`; one that the prior does not name has a flat law."""
    own = chain_alphas((prior[1], prior[2]), len(prior[0]))
    place = {label: i for i, label in enumerate(labels)}
    named = [(i, place[label]) for i, label in enumerate(prior[0]) if label in place]
    ours, theirs = [i for i, _ in named], [j for _, j in named]
    alpha = ChainAlphas(np.ones(len(labels)), np.ones((len(labels), len(labels))))
    alpha.initial[theirs] = own.initial[ours]
    alpha.rows[np.ix_(theirs, theirs)] = own.rows[np.ix_(ours, ours)]
    return alpha


def label_posterior(
    prior: tuple[tuple[Any, ...], Any, list[Any]], labels: tuple[Any, ...], initial: np.ndarray, moves: np.ndarray
) -> tuple[tuple[Any, ...], Any, list[Any]]:
    """Return the laws of the probabilities of a chain over `labels` after these counts."""
    from mixle.stats.families.dirichlet import DirichletDistribution

    if len(labels) < 2:
        return prior
    alpha = label_alphas(prior, labels)
    rows = [DirichletDistribution(row) for row in alpha.rows + moves]
    return labels, DirichletDistribution(alpha.initial + initial), rows
