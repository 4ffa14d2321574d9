"""Scaled forward-backward passes over batches of sequences (Rabiner 1989, Proceedings of the IEEE 77).

States × elements; the elements of a step are neighbours, so that a step is one small matrix product. Emissions are
scaled by the likeliest state of each element and forward probabilities by their sum; a sequence of which a scale
vanishes (the reachable states are hopelessly unlikely there) is worked on in log space instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.latent.hmm_batches import Batch, batch_of
from mixle.stats.latent.hmm_emissions import Emissions, padded
from mixle.stats.latent.hmm_encoder import Chains
from mixle.stats.latent.hmm_logspace import log_passes
from mixle.stats.latent.hmm_scratch import Scratch
from mixle.stats.latent.hmm_segments import Ends, ends_of_segments
from mixle.stats.stacking.features import product
from mixle.stats.stacking.walk import Walk
from mixle.stats.sums import BLOCK

__all__ = ["Chain", "Passes", "Totals"]

#: A scale below this sends its sequence to log space: more than half of the exponents are used up in one step.
TINY = 2.0**-500
#: Steps after which forward probabilities are scaled; those of a sequence are scaled at its end, too.
RESCALE = 4


class Chain(NamedTuple):
    """Parameters of a hidden chain of K states.

    Attributes
    ----------
    w : ndarray, shape (K,)
        Initial probabilities.
    transitions : ndarray, shape (K, K)
        Rows sum to one.
    terminal : ndarray of bool, shape (K,), or None
        States that a sequence ends in, and is nowhere else in.
    """

    w: np.ndarray
    transitions: np.ndarray
    terminal: np.ndarray | None


class Totals:
    """What the passes add up besides emissions: initial counts (K,), transition counts (K, K)."""

    def __init__(self, count: int) -> None:
        self.initial = np.zeros(count)
        self.transitions = np.zeros((count, count))


class _Lost(NamedTuple):
    """Sequences of a batch that were worked on in log space: a batch of their own, and where its elements stand."""

    batch: Batch
    columns: np.ndarray
    density: np.ndarray
    posterior: np.ndarray
    moves: np.ndarray


class _Run(NamedTuple):
    """What a forward pass leaves for the backward pass."""

    density: np.ndarray
    lost: _Lost | None
    ends: Ends | None


class Passes:
    """Forward and backward passes over the batches of one encoded chunk.

    Parameters
    ----------
    chain : Chain
        The hidden chain.
    walk : Walk
        Emissions of the chunk's elements, log weights zero.
    payload : Chains
        The chunk.
    """

    def __init__(self, chain: Chain, walk: Walk, payload: Chains) -> None:
        self.chain, self.walk, self.payload = chain, walk, payload
        self.count = len(chain.w)
        self.batches = payload.batches()
        elements = max((batch.total for batch in self.batches), default=0)
        widest = max((len(batch.rows) for batch in self.batches), default=0)
        self._scratch = scratch = Scratch()
        self.emissions = Emissions(walk, payload, chain.terminal, elements, scratch)
        self.alpha = scratch.buffer(self.count, padded(elements) + 16)
        self.scale = scratch.borrow(padded(elements) + 16)
        self._one, self._two = (scratch.buffer(self.count, padded(widest)) for _ in range(2))
        self._inverse = np.empty(padded(widest))
        self.into = np.ascontiguousarray(chain.transitions.T)

    @one_blas_thread()
    def densities(self) -> np.ndarray:
        """Return the log-density of each sequence without its length, shape (n,)."""
        result = np.full(self.payload.rows, self.nothing)
        with _Quiet():
            for batch in self.batches:
                result[batch.rows] = self._forward(batch).density
        return result

    @property
    def nothing(self) -> float:
        """Return the log-density of a sequence without elements."""
        return 0.0 if self.chain.terminal is None else -np.inf

    def blocks(
        self, weights: np.ndarray, densities: np.ndarray | None = None, totals: Totals | None = None
    ) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield (start, stop, weighted posteriors of the states (K, n padded)) per block of elements.

        Parameters
        ----------
        weights : ndarray, shape (n,)
            Weights of the sequences.
        densities : ndarray, shape (n,), optional
            Filled with their log-densities.
        totals : Totals, optional
            Counts of initial states and transitions are added to it.
        """
        if densities is not None:
            densities[:] = self.nothing
        with _Quiet():
            for batch in self.batches:
                run = self._forward(batch)
                if densities is not None:
                    densities[batch.rows] = run.density
                own = np.where(np.isneginf(run.density), 0.0, weights[batch.rows])
                self._backward(batch, run, own, Totals(self.count) if totals is None else totals)
                total = batch.total
                self.alpha[:, total : total + 8] = 0.0
                for start in range(0, total, BLOCK):
                    stop = min(start + BLOCK, total)
                    yield batch.offset + start, batch.offset + stop, self.alpha[:, start : start + padded(stop - start)]

    def _forward(self, batch: Batch) -> _Run:
        """Fill the forward probabilities; the log-density of a segment is that of its sequence."""
        gone = self.emissions.fill(batch)
        ends = ends_of_segments(self.chain, batch, self.emissions.b) if batch.chained else None
        self._step_forward(batch, self.chain.w[:, None] if ends is None else ends.first)
        impossible = np.zeros(self.payload.rows, bool)
        if gone.any():
            impossible[batch.rows[batch.ranks()[gone]]] = True
        lost = None
        if impossible.any() or not self.scale[: batch.total].min() > TINY:
            lost = self._lost(batch, impossible)
        density = self._sum_scales(batch)
        if batch.chained:
            order = np.lexsort((batch.begins, batch.rows))
            density = np.bincount(batch.rows[order], density[order], self.payload.rows)[batch.rows]
        density[impossible[batch.rows]] = -np.inf
        if lost is not None:
            known = np.full(self.payload.rows, np.nan)
            known[lost.batch.rows] = lost.density
            found = known[batch.rows]
            density = np.where(np.isnan(found), density, found)
        return _Run(density, lost, ends)

    def _step_forward(self, batch: Batch, first: np.ndarray) -> None:
        b, alpha, scale, into = self.emissions.b, self.alpha, self.scale, self.into
        scale[: batch.total + 8] = 1.0
        spans, before = batch.spans(), 0
        for t, (o, n) in enumerate(spans):
            width = padded(n)
            at = alpha[:, o : o + width]
            if o:
                moved = self._one[:, :width]
                product(into, alpha[:, before : before + width], moved)
                np.multiply(moved, b[:, o : o + width], out=at)
            else:
                at[:] = 0.0
                np.multiply(b[:, :n], first, out=at[:, :n])
            kept = 0 if t % RESCALE == RESCALE - 1 else _next_count(spans, t)
            if kept < n:  # all sequences, or those that end here
                total = np.add.reduce(at, axis=0, out=self._inverse[:width])[kept:n]
                scale[o + kept : o + n] = total
                np.divide(1.0, total, out=total)
                np.multiply(at[:, kept:n], total, out=at[:, kept:n])
            before = o

    def _sum_scales(self, batch: Batch) -> np.ndarray:
        logs = np.log(self.scale[: batch.total])
        logs += self.emissions.top[: batch.total]
        density = np.zeros(len(batch.rows))
        for o, n in batch.spans():
            density[:n] += logs[o : o + n]
        return density

    def _lost(self, batch: Batch, impossible: np.ndarray) -> _Lost | None:
        """Clear the sequences of which a scale was lost; work in log space on those that may be possible."""
        total = batch.total
        owners = batch.rows[batch.ranks()]
        failed = impossible.copy()
        failed[owners[~(self.scale[:total] > TINY)]] = True
        columns = np.flatnonzero(failed[owners])
        self.emissions.b[:, columns] = 0.0
        self.alpha[:, columns] = 0.0
        self.scale[columns] = 1.0
        rows = np.flatnonzero(failed & ~impossible)
        if not rows.size:
            return None
        rows = rows[np.argsort(-self.payload.sizes[rows], kind="stable")]
        rank = np.zeros(self.payload.rows, np.int64)
        rank[rows] = np.arange(len(rows))
        columns = columns[~impossible[owners[columns]]]
        columns = columns[np.lexsort((rank[owners[columns]], batch.times()[columns]))]
        own = batch_of(rows, self.payload.sizes[rows])
        logs, base = self.emissions.logs_at(batch, columns)
        return _Lost(own, columns, *log_passes(self.chain, own, logs, base))

    def _backward(self, batch: Batch, run: _Run, weights: np.ndarray, totals: Totals) -> None:
        """Turn the forward probabilities into weighted posteriors of the states; add up counts."""
        moves = np.zeros((self.count, self.count))
        last = np.broadcast_to(weights, (self.count, len(weights)))
        ends = None
        if run.ends is not None:
            sizes = np.bincount(batch.ranks(), minlength=len(batch.rows))
            ends = self.alpha[:, batch.starts[sizes - 1] + np.arange(len(sizes))]
            mass = np.add.reduce(ends * run.ends.follows, axis=0)
            last = np.where(mass > 0.0, run.ends.follows * (weights / mass), 0.0)  # of a lost sequence there is none
        self._step_backward(batch, last, moves)
        n = int(batch.counts[0])
        if run.ends is not None and ends is not None:
            ahead = self.emissions.b[:, :n] * self._beta[:, :n] / self.scale[:n]
            before, after = run.ends.links.pairs()
            moves += ends[:, before] @ np.ascontiguousarray(ahead[:, after]).T
        moves *= self.chain.transitions
        if run.lost is not None:
            own, share = run.lost.batch, np.zeros(self.payload.rows)
            share[batch.rows] = weights
            share = share[own.rows]
            self.alpha[:, run.lost.columns] = run.lost.posterior * share[own.ranks()]
            moves += np.add.reduce(run.lost.moves * share, axis=2)
        initial = self.alpha[:, :n][:, batch.begins == 0] if batch.chained else self.alpha[:, :n]
        totals.transitions += moves
        totals.initial += np.add.reduce(initial, axis=1)

    def _step_backward(self, batch: Batch, last: np.ndarray, moves: np.ndarray) -> None:
        b, alpha, scale, transitions = self.emissions.b, self.alpha, self.scale, self.chain.transitions
        beta, other, active = self._one, self._two, 0
        spans = batch.spans()
        for t in range(len(spans) - 1, -1, -1):
            o, n = spans[t]
            if n > active:
                beta[:, active:n] = last[:, active:n]
                active = n
            at, ahead, beta_n = alpha[:, o : o + n], b[:, o : o + n], beta[:, :n]
            np.multiply(at, beta_n, out=at)
            if t:
                np.multiply(ahead, beta_n, out=ahead)
                kept = 0 if t % RESCALE == RESCALE - 1 else _next_count(spans, t)
                if kept < n:
                    inverse = np.divide(1.0, scale[o + kept : o + n], out=self._inverse[: n - kept])
                    np.multiply(ahead[:, kept:], inverse, out=ahead[:, kept:])
                before = spans[t - 1][0]
                moves += np.matmul(alpha[:, before : before + n], ahead.T)
                width = padded(n)
                product(transitions, b[:, o : o + width], other[:, :width])
                beta, other = other, beta
        self._beta = beta


def _next_count(spans: list[tuple[int, int]], t: int) -> int:
    """Return how many sequences have an element after the t-th."""
    return spans[t + 1][1] if t + 1 < len(spans) else 0


class _Quiet:
    """No warnings, and no copies of short rows in numpy's iterator; entered and left around each use."""

    def __enter__(self) -> None:
        self._size = np.setbufsize(64)
        self._errors = np.seterr(all="ignore")

    def __exit__(self, *_: object) -> None:
        np.seterr(**self._errors)
        np.setbufsize(self._size)
