"""What follows a sequence under a hidden Markov model: states and elements, step by step."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from mixle.stats.latent.mixture import MixtureDistribution

__all__ = ["Forecast", "forecast", "state_forecasts"]


class Forecast(NamedTuple):
    """The next h elements of one sequence.

    Attributes
    ----------
    states : ndarray, shape (h, S)
        Probabilities of the states of each of them.
    observations : tuple of MixtureDistribution, length h
        Law of each of them, given the sequence so far and that it goes on.
    """

    states: np.ndarray
    observations: tuple[MixtureDistribution, ...]


def state_forecasts(model: Any, x: Any, horizon: int) -> np.ndarray:
    """Return the probabilities of the states of the next elements of encoded sequences, shape (n, h, S).

    Raises
    ------
    ValueError
        If the horizon is below 1, the model has terminal states, or a sequence is impossible.
    """
    steps = operator.index(horizon)
    if steps < 1:
        raise ValueError(f"horizon must be at least 1, is {horizon!r}")
    if model.terminal_states is not None:
        raise ValueError(
            "a sequence of a model with terminal states has ended in one, nothing follows it; "
            "use a model without terminal_states"
        )
    states = len(model.w)
    result = np.zeros((len(x.sizes), steps, states))
    for row, smoothed in enumerate(model.seq_posterior(x)):
        if len(smoothed) and not smoothed[-1].any():
            raise ValueError(
                f"sequence {row} is impossible under this model: nothing can be said of what follows; leave it out"
            )
        law = model.w if not len(smoothed) else _moved(smoothed[-1], model.transitions)
        for step in range(steps):
            result[row, step] = law
            law = _moved(law, model.transitions)
    return result


def _moved(law: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """Return the law of the next state, summed state by state so that it does not depend on a BLAS."""
    moved = np.add.reduce(law[:, None] * transitions, axis=0)
    return np.asarray(moved / np.add.reduce(moved))


def forecast(model: Any, row: Any, horizon: int) -> Forecast:
    """Return the forecast of one sequence; see `HiddenMarkovModelDistribution.forecast`."""
    states = state_forecasts(model, model.dist_to_encoder().seq_encode([row]), horizon)[0]
    return Forecast(states, tuple(MixtureDistribution(model.emissions, w) for w in states))
