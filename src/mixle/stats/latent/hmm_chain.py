"""Probabilities of a hidden chain: checked when given, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixle.stats.domains import probabilities

__all__ = ["initial_law", "not_built_in", "stationary", "terminal_mask", "transition_laws"]


def initial_law(w: Any) -> np.ndarray:
    """Return initial probabilities, shape (S,)."""
    if w is None:
        raise ValueError("a hidden Markov model needs the probabilities of its first state: pass w=")
    return probabilities(w, "w of a HiddenMarkovModel")


def terminal_mask(terminal: Sequence[int] | None, states: int) -> np.ndarray | None:
    """Return which states are terminal, shape (S,); None if none is.

    Raises
    ------
    ValueError
        If the list is empty, or names a state that is not there.
    """
    if terminal is None:
        return None
    if not len(terminal):
        raise ValueError("terminal_states cannot be empty; leave it out")
    outside = [s for s in terminal if not 0 <= s < states]
    if outside:
        raise ValueError(f"terminal_states {outside} are outside of 0 to {states - 1}; give numbers of states")
    mask = np.zeros(states, bool)
    mask[list(terminal)] = True
    return mask


def transition_laws(transitions: Any, w: np.ndarray, terminal: np.ndarray | None) -> np.ndarray:
    """Return transition probabilities (S, S), a row of zeros as a self-loop.

    Raises
    ------
    ValueError
        If a row holds no probabilities, or a row of zeros belongs to a state that can be reached and left.
    """
    states = len(w)
    if transitions is None:
        raise ValueError("a hidden Markov model needs the transition probabilities of its states: pass transitions=")
    given = np.array(transitions, float)
    if given.shape != (states, states):
        raise ValueError(f"transitions of {states} states must have shape {(states, states)}, have {given.shape}")
    empty = np.flatnonzero((given == 0.0).all(axis=1))
    reached = _reached(given, w) if empty.size else np.zeros(states, bool)
    lost = [int(s) for s in empty if reached[s] and (terminal is None or not terminal[s])]
    if lost:
        raise ValueError(
            f"states {lost} can be reached, their rows of transitions cannot be all zero; "
            "give them a law, or list them in terminal_states"
        )
    given[empty, empty] = 1.0
    result = np.array([probabilities(row, f"row {i} of transitions") for i, row in enumerate(given)])
    result.setflags(write=False)
    return result


def _reached(transitions: np.ndarray, w: np.ndarray) -> np.ndarray:
    reached = w > 0.0
    for _ in range(len(w)):
        reached = reached | ((transitions > 0.0) & reached[:, None]).any(axis=0)
    return reached


def stationary(transitions: np.ndarray) -> np.ndarray:
    """Return a law that `transitions` leave as it is, shape (S,).

    Examples
    --------
    >>> stationary(np.array([[0.9, 0.1], [0.3, 0.7]])).round(6).tolist()
    [0.75, 0.25]
    """
    states = len(transitions)
    system = np.concatenate([transitions.T - np.eye(states), np.ones((1, states))])
    found = np.linalg.lstsq(system, np.concatenate([np.zeros(states), np.ones(1)]), rcond=None)[0]
    found = np.maximum(found, 0.0)
    return np.asarray(found / np.add.reduce(found))


def not_built_in(**arguments: Any) -> None:
    """Refuse an argument of the documented signature that nothing here would heed."""
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(f"{name}={value!r:.60} is not built in; leave {name} out")
