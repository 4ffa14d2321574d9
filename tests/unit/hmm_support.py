"""The plain definition of hidden Markov models: every path, one at a time, and EM in log space."""

from __future__ import annotations

import itertools
import math

import numpy as np


def paths(model, row):
    """Yield (path, probability) of every path of states of positive probability."""
    states = model.n_states
    terminal = model.terminal_states
    for path in itertools.product(range(states), repeat=len(row)):
        if terminal is not None and [s in terminal for s in path] != [False] * (len(row) - 1) + [True]:
            continue
        p = 1.0
        for t, (state, x) in enumerate(zip(path, row, strict=True)):
            p *= float(model.w[state] if t == 0 else model.transitions[path[t - 1], state])
            p *= model.emissions[state].density(x)
        if p > 0.0:
            yield path, p


def enumerated(model, row):
    """Return (log-density, posteriors (T, S), transitions (S, S), best path) of a row of at least one element."""
    states = model.n_states
    total, posterior, moves, best = 0.0, np.zeros((len(row), states)), np.zeros((states, states)), (0.0, None)
    for path, p in paths(model, row):
        total += p
        best = max(best, (p, path), key=lambda one: one[0])
        for t, state in enumerate(path):
            posterior[t, state] += p
            if t:
                moves[path[t - 1], state] += p
    if total == 0.0:
        return -math.inf, posterior, moves, None
    return math.log(total), posterior / total, moves / total, best[1]


def log_sum(x, axis):
    top = np.max(x, axis=axis, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.squeeze(np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top, axis)


def expected_counts(w, transitions, logs):
    """Return (log-density, posteriors, transition counts) of one sequence from log emissions (T, S), in log space."""
    with np.errstate(divide="ignore"):
        start, move = np.log(w), np.log(transitions)
    length = len(logs)
    forward, backward = np.zeros_like(logs), np.zeros_like(logs)
    forward[0] = start + logs[0]
    for t in range(1, length):
        forward[t] = log_sum(forward[t - 1][:, None] + move, 0) + logs[t]
    for t in range(length - 2, -1, -1):
        backward[t] = log_sum(move + logs[t + 1] + backward[t + 1], 1)
    total = log_sum(forward[-1], 0)
    moves = np.zeros_like(move)
    for t in range(1, length):
        share = np.exp(forward[t - 1][:, None] + move + logs[t] + backward[t] - total)
        moves += share / share.sum()  # a long sum of logarithms has lost digits
    posterior = np.exp(forward + backward - total)
    return float(total), posterior / posterior.sum(axis=1, keepdims=True), moves
