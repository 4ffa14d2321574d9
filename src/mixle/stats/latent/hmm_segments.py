"""Long sequences in segments: what each segment does to the states, and from there where each begins and ends.

Each segment's transfer matrix (probability of its elements and its last state, given its first) comes from one pass
for all segments of a batch, a column per state that a segment may begin in. A short loop over the segments of a
sequence then gives the law of each segment's first state, and the likelihood of all that follows it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixle.stats.latent.hmm_batches import Batch
from mixle.stats.stacking.features import product

__all__ = ["Ends", "Links", "ends_of_segments"]

#: Steps after which a transfer is scaled.
RESCALE = 4


class Links(NamedTuple):
    """Order of the segments of a batch.

    Attributes
    ----------
    grid : ndarray of int, shape (S, R)
        The s-th segment of each sequence, as its position in the batch; sequences of most segments first.
    counts : ndarray of int, shape (S,)
        How many sequences have an s-th segment: they are the first ones.
    """

    grid: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, batch: Batch) -> Links:
        """Return the links of a batch of segments."""
        order = np.lexsort((batch.begins, batch.rows))
        rows = batch.rows[order]
        first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
        sizes = np.diff(np.concatenate([first, [len(rows)]]))
        by_size = np.argsort(-sizes, kind="stable")
        counts = len(sizes) - np.cumsum(np.bincount(sizes))[:-1]
        grid = np.zeros((len(counts), -(-len(sizes) // 8) * 8), np.int64)
        for r, k in enumerate(by_size.tolist()):
            grid[: sizes[k], r] = order[first[k] : first[k] + sizes[k]]
        return cls(grid, counts)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each segment that is followed by one, and the one that follows it."""
        cut = [(self.grid[s - 1, :n], self.grid[s, :n]) for s, n in enumerate(self.counts.tolist()) if s]
        return np.concatenate([a for a, _ in cut]), np.concatenate([b for _, b in cut])


class Ends(NamedTuple):
    """Laws of the first state of each segment, and likelihoods of what follows its last, both (K, n)."""

    first: np.ndarray
    follows: np.ndarray
    links: Links


def ends_of_segments(chain: Any, batch: Batch, b: np.ndarray) -> Ends:
    """Return where the segments of a batch begin and end.

    Parameters
    ----------
    chain : Chain
        The hidden chain.
    batch : Batch
        Segments.
    b : ndarray, shape (K, elements + ...)
        Scaled emissions of their elements.
    """
    links = Links.of(batch)
    transfer, scale = _transfers(chain, batch, b)
    states, n = len(chain.w), len(batch.rows)
    first, follows = np.empty((states, n)), np.ones((states, n))
    into, out = np.ascontiguousarray(chain.transitions.T), chain.transitions
    wide = links.grid.shape[1]
    law, moved = np.repeat(chain.w[:, None], wide, axis=1), np.empty((states, wide))
    counts = links.counts.tolist()
    first[:, links.grid[0, : counts[0]]] = law[:, : counts[0]]
    for s in range(1, len(counts)):
        before = links.grid[s - 1]
        logs = scale[:, before] + np.log(law)
        share = np.exp(logs - np.maximum.reduce(logs, axis=0))
        end = np.add.reduce(transfer[:, :, before] * share, axis=1)
        end /= np.add.reduce(end, axis=0)
        product(into, end, moved)
        law, moved = moved, law
        first[:, links.grid[s, : counts[s]]] = law[:, : counts[s]]
    for s in range(len(counts) - 1, 0, -1):
        here = links.grid[s]
        share = np.exp(scale[:, here] - np.maximum.reduce(scale[:, here], axis=0))
        seen = np.add.reduce(transfer[:, :, here] * follows[:, None, here], axis=0) * share
        seen /= np.maximum.reduce(seen, axis=0)
        product(out, seen, moved)
        follows[:, links.grid[s - 1, : counts[s]]] = moved[:, : counts[s]]
    return Ends(first, follows, links)


def _transfers(chain: Any, batch: Batch, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return transfers (K last, K first, n) whose columns sum to one, and the logarithms of their scales (K, n)."""
    states, n = len(chain.w), len(batch.rows)
    wide = -(-n // 8) * 8
    now, then = np.zeros((states, states, wide)), np.zeros((states, states, wide))
    result, scale = np.empty((states, states, n)), np.zeros((states, wide))
    scales = np.empty((states, n))
    into = np.ascontiguousarray(chain.transitions.T)
    active = n
    for t, (o, m) in enumerate(batch.spans()):
        if m < active:
            result[:, :, m:active] = now[:, :, m:active]
            scales[:, m:active] = scale[:, m:active]
            active = m
        if t:
            product(into, now.reshape(states, -1), then.reshape(states, -1))
            now, then = then, now
            now[:, :, :m] *= b[:, None, o : o + m]
        else:
            for k in range(states):
                now[k, k, :m] = b[k, o : o + m]
        if t % RESCALE == RESCALE - 1:
            _rescale(now, scale)
    result[:, :, :active], scales[:, :active] = now[:, :, :active], scale[:, :active]
    _rescale(result, scales)
    return result, scales


def _rescale(transfer: np.ndarray, scale: np.ndarray) -> None:
    total = np.add.reduce(transfer, axis=0)
    total[total == 0.0] = 1.0  # a state that the segment cannot begin in
    transfer /= total
    scale += np.log(total)
