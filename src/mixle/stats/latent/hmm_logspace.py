"""Passes in log space: slower, and safe where scaled probabilities would vanish; and the best path (Viterbi 1967)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixle.stats.kinds import LOG_ZERO, log_or_floor
from mixle.stats.latent.hmm_batches import Batch

__all__ = ["best_paths", "log_passes"]


def _log_sum(terms: np.ndarray, axis: int) -> np.ndarray:
    top = np.maximum.reduce(terms, axis=axis, keepdims=True)
    total = np.add.reduce(np.exp(terms - top), axis=axis)
    return np.asarray(np.maximum(np.log(total) + np.squeeze(top, axis), LOG_ZERO))


def log_passes(
    chain: Any, batch: Batch, logs: np.ndarray, base: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log-densities (n,), posteriors of the states (K, elements) and of transitions (K, K, n).

    Parameters
    ----------
    chain : Chain
        The hidden chain.
    batch : Batch
        The sequences.
    logs : ndarray, shape (K, elements)
        Log-densities of the elements under the states, log 0 as -1e300.
    base : ndarray, shape (elements,)
        Logarithm of the base measure.
    """
    start, move = log_or_floor(chain.w), log_or_floor(chain.transitions)
    starts, counts = batch.starts.tolist(), batch.counts.tolist()
    states, n = len(start), len(batch.rows)
    width = -(-max(counts) // 8) * 8
    forward = np.full_like(logs, LOG_ZERO)
    step = np.full((states, width), LOG_ZERO)
    step[:, :n] = start[:, None]
    final = np.full((states, width), LOG_ZERO)
    for t, (o, m) in enumerate(zip(starts, counts, strict=False)):
        if t:
            step = _log_sum(step[:, None, :] + move[:, :, None], 0)
        step[:, :m] = np.maximum(step[:, :m] + logs[:, o : o + m], LOG_ZERO)
        forward[:, o : o + m] = step[:, :m]
        final[:, :m] = step[:, :m]
    density = _log_sum(final, 0)[:n]
    possible = density > LOG_ZERO / 10
    backward = np.zeros((states, width))
    posterior, moves = np.zeros((states, batch.total)), np.zeros((states, states, n))
    for t in range(len(counts) - 1, -1, -1):
        o, m = starts[t], counts[t]
        if t + 1 < len(counts):
            ahead, later = starts[t + 1], counts[t + 1]
            gain = np.maximum(logs[:, ahead : ahead + later] + backward[:, :later], LOG_ZERO)
            pairs = move[:, :, None] + gain[None, :, :]
            share = np.exp(forward[:, None, o : o + later] + pairs - density[:later])
            share /= np.add.reduce(share, axis=(0, 1))  # a long sum of logarithms has lost digits
            moves[:, :, :later] += np.where(possible[:later], share, 0.0)
            wide = np.full((states, states, width), LOG_ZERO)
            wide[:, :, :later] = pairs
            fresh = _log_sum(wide, 1)
            backward[:, :later] = fresh[:, :later]
        share = np.exp(forward[:, o : o + m] + backward[:, :m] - density[:m])
        share /= np.add.reduce(share, axis=0)
        posterior[:, o : o + m] = np.where(possible[:m], share, 0.0)
    total = np.where(possible, density, -np.inf)
    for o, m in zip(starts, counts, strict=False):
        total[:m] += base[o : o + m]
    return total, posterior, moves


def best_paths(chain: Any, batch: Batch, logs: np.ndarray) -> np.ndarray:
    """Return the state of each element on the likeliest path of its sequence; of equal paths the lower states.

    Parameters
    ----------
    chain, batch, logs
        As in `log_passes`.
    """
    start, move = log_or_floor(chain.w), log_or_floor(chain.transitions)
    starts, counts = batch.starts.tolist(), batch.counts.tolist()
    n = len(batch.rows)
    states = np.zeros((batch.total,), np.int64)
    came = np.zeros((len(start), batch.total), np.int32)
    step = np.repeat(start[:, None], n, axis=1)
    last = np.zeros(n, np.int64)
    for t, (o, m) in enumerate(zip(starts, counts, strict=False)):
        if t:
            paths = step[:, None, :m] + move[:, :, None]
            came[:, o : o + m] = np.argmax(paths, axis=0)
            step = np.maximum.reduce(paths, axis=0)
        step = np.maximum(step[:, :m] + logs[:, o : o + m], LOG_ZERO)
        last[:m] = np.argmax(step, axis=0)
    active, now = 0, last.copy()
    for t in range(len(counts) - 1, -1, -1):
        o, m = starts[t], counts[t]
        now[active:m] = last[active:m]
        states[o : o + m] = now[:m]
        now[:m] = came[now[:m], o + np.arange(m)]
        active = m
    return states
