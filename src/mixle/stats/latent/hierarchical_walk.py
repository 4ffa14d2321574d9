"""The E-step of sequences whose mixtures share topics: once over the elements for the rows, once for the topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.kinds import LOG_ZERO, log_or_floor
from mixle.stats.latent.hmm_encoder import Chains
from mixle.stats.stacking.walk import Walk

__all__ = ["HierarchicalWalk", "RowScores"]

#: An element whose weighted sum falls below this is worked on in log space.
TINY = 2.0**-500


Blocks = Iterator[tuple[int, int, np.ndarray]]


class RowScores(NamedTuple):
    """What the first pass tells of n sequences: `log_density` (n,), and `posterior` (M, n) of their mixtures."""

    log_density: np.ndarray
    posterior: np.ndarray


class Elements(NamedTuple):
    """A block of elements: shares (K, n) with the largest scaled to 1, and their log-density (M, n) in each mixture."""

    start: int
    stop: int
    logs: np.ndarray
    shares: np.ndarray
    mixed: np.ndarray


class HierarchicalWalk:
    """Scores one chunk of sequences.

    Parameters
    ----------
    topics : sequence of distributions
        The K laws of an element.
    w, taus : ndarray, shape (M,) and (M, K)
        Weights of the mixtures, and of the topics in each.
    x : Chains
        Encoded sequences.
    """

    def __init__(self, topics: Sequence[Any], w: np.ndarray, taus: np.ndarray, x: Chains) -> None:
        self.w, self.taus, self.x = w, taus, x
        count = len(topics)
        self.elements = Walk(topics, np.full(count, 1.0 / count), np.zeros(count), x.elements, x.total)
        self.owners = x.owners()

    def _blocks(self) -> Iterator[Elements]:
        for start, stop, out in self.elements.log_densities():
            size = stop - start
            logs = out[:, :size]
            top = np.maximum.reduce(logs, axis=0)
            shares = np.exp(logs - top)
            total = np.zeros((len(self.w), size))
            for m, row in enumerate(self.taus.tolist()):  # topic by topic: bits do not depend on the elements around
                for k, share in enumerate(row):
                    if share:
                        total[m] += share * shares[k]
            mixed = np.log(total) + top
            for m, far in enumerate(total < TINY):
                if far.any():
                    mixed[m, far] = _log_sum(logs[:, far] + log_or_floor(self.taus[m])[:, None])
            np.maximum(mixed, LOG_ZERO, out=mixed)
            yield Elements(start, stop, logs, shares, mixed)

    @one_blas_thread()
    def rows(self) -> RowScores:
        """Return the log-densities of the sequences, lengths aside, and the probabilities of their mixtures."""
        count, n = len(self.w), self.x.rows
        logs = np.zeros((count, n))
        base = np.zeros(n)
        with np.errstate(all="ignore"):
            for block in self._blocks():
                owners = self.owners[block.start : block.stop]
                for m in range(count):
                    np.add.at(logs[m], owners, block.mixed[m])
                own = np.zeros(block.stop - block.start)
                self.elements.add_base(block.start, block.stop, own)
                np.add.at(base, owners, own)
            logs = np.maximum(logs, LOG_ZERO) + log_or_floor(self.w)[:, None]
            top = np.maximum.reduce(logs, axis=0)
            lost = top <= LOG_ZERO / 10
            top[lost] = 0.0
            shares = np.exp(logs - top)
            shares[:, lost] = 0.0
            total = np.zeros(n)
            for row in shares:
                total += row
            density = np.log(total) + top + base
            density[lost] = -np.inf
        return RowScores(density, shares / np.where(lost, 1.0, total))

    def given(self, weights: np.ndarray, counts: np.ndarray | None) -> Callable[[], Blocks]:
        """Return what walks the weighted probabilities of the topics of each element, padded to 8 columns.

        Parameters
        ----------
        weights : ndarray, shape (M, n)
            Weighted probabilities of the mixtures of each sequence.
        counts : ndarray, shape (M, K), or None
            Gets the weights of the topics in each mixture added, at the first walk.
        """
        wanted = [counts, None]

        def blocks() -> Blocks:
            into = wanted.pop(0) if len(wanted) > 1 else None
            with np.errstate(all="ignore"):
                for block in self._blocks():
                    size = block.stop - block.start
                    r = np.zeros((len(block.logs), -(-size // 8) * 8))
                    self._share(block, weights[:, self.owners[block.start : block.stop]], r[:, :size], into)
                    yield block.start, block.stop, r

        return blocks

    def _share(self, block: Elements, weights: np.ndarray, out: np.ndarray, counts: np.ndarray | None) -> None:
        """Spread the weights (M, n) of a block's elements over the topics."""
        top = np.maximum.reduce(block.logs, axis=0)
        for m, row in enumerate(self.taus):
            scale = block.mixed[m] - top  # log Σ_k τ_mk share_k
            far = (scale < -340.0) & (weights[m] > 0.0)
            factor = np.where(far | (weights[m] == 0.0), 0.0, weights[m] * np.exp(-scale))
            part = row[:, None] * block.shares * factor
            if far.any():
                logs = block.logs[:, far] + log_or_floor(row)[:, None] - block.mixed[m, far]
                part[:, far] = weights[m, far] * np.exp(logs)
            out += part
            if counts is not None:
                counts[m] += np.add.reduce(part, axis=1)


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """Return the logarithm of the sum of each column of logarithms (K, n)."""
    top = np.maximum.reduce(logs, axis=0)
    found = top + np.log(np.add.reduce(np.exp(logs - top), axis=0))
    return np.asarray(np.where(top <= LOG_ZERO / 10, LOG_ZERO, found))
