"""The variational E-step of latent Dirichlet allocation.

A document's shares of topics have the variational law Dirichlet(γ). Given γ, a word belongs to topic k with a
probability proportional to ``p_k(word) exp ψ(γ_k)``, and γ is α plus the expected number of words of each topic. The
two are alternated from γ = α + words / K until γ stands still, document by document: what is found for one does not
depend on the others (Blei, Ng and Jordan 2003, Journal of Machine Learning Research 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.kinds import LOG_ZERO
from mixle.stats.latent.lda_documents import Documents
from mixle.stats.special import digammas, gammaln
from mixle.stats.stacking.features import aligned
from mixle.stats.stacking.walk import Walk
from mixle.stats.sums import BLOCK

__all__ = ["Inference", "TopicWalk", "row_sum"]

#: Pairs of the documents that are worked on together, at least; a longer document is worked on alone.
TOGETHER = 8192
#: Smallest ``exp ψ(γ_k)`` relative to the largest: a word that only topic k can have is then never lost.
LEAST = 1e-300

Blocks = Iterator[tuple[int, int, np.ndarray]]


class Inference(NamedTuple):
    """What the E-step finds of n documents.

    Attributes
    ----------
    gamma : ndarray, shape (K, n)
        Parameters of the variational laws of the shares.
    bound : ndarray, shape (n,)
        The evidence lower bound of each document's log-density, its length aside; -inf where a word is impossible.
    """

    gamma: np.ndarray
    bound: np.ndarray

    def mean_logs(self) -> np.ndarray:
        """Return the expected logarithms of the shares, shape (K, n)."""
        return np.asarray(digammas(self.gamma) - digammas(row_sum(self.gamma)))


def row_sum(a: np.ndarray) -> np.ndarray:
    """Return the sum of the rows of an array (K, n), row after row whatever n is."""
    total: np.ndarray = a[0].copy()
    for row in a[1:]:
        total += row
    return total


class TopicWalk:
    """The E-step of one encoded chunk of documents.

    Parameters
    ----------
    topics : sequence of distributions
        The K laws of a word.
    alpha : ndarray, shape (K,)
        Concentrations of the shares.
    x : Documents
        The chunk.
    threshold : float
        Change of γ, relative to its sum, below which a document is done.
    iterations : int
        Steps of a document at most.
    """

    def __init__(
        self, topics: Sequence[Any], alpha: np.ndarray, x: Documents, threshold: float, iterations: int
    ) -> None:
        self.alpha, self.x, self.threshold, self.iterations = alpha, x, threshold, iterations
        count = len(topics)
        self.words = Walk(topics, np.full(count, 1.0 / count), np.zeros(count), x.elements, x.total)

    def _groups(self) -> Iterator[tuple[int, int]]:
        """Yield (first, last) document of those worked on together."""
        offsets, start = self.x.offsets, 0
        while start < self.x.rows:
            stop = int(np.searchsorted(offsets, offsets[start] + TOGETHER, side="left"))
            stop = min(max(stop, start + 1), self.x.rows)
            yield start, stop
            start = stop

    def _logs(self, first: int, last: int) -> np.ndarray:
        """Return the log-densities (K, n) of the pairs ``first:last``, base measures aside."""
        result, out = np.empty((self.words.count, last - first)), aligned(self.words.count, BLOCK)
        for start in range(first, last, BLOCK):
            stop = min(start + BLOCK, last)
            part = out[:, : -(-(stop - start) // 8) * 8]
            self.words.score_block(start, stop, part)
            result[:, start - first : stop - first] = part[:, : stop - start]
        return result

    @one_blas_thread()
    def infer(self) -> Inference:
        """Return the variational laws and the bounds of all documents."""
        k, n = len(self.alpha), self.x.rows
        gamma, bound = np.repeat(self.alpha[:, None], n, axis=1), np.zeros(n)
        with np.errstate(all="ignore"):
            for start, stop in self._groups():
                some = start + np.flatnonzero(self.x.sizes[start:stop] > 0)
                if some.size:
                    gamma[:, some], bound[some] = self._group(some, k)
        return Inference(gamma, bound)

    def _group(self, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return γ (K, m) and bounds (m,) of neighbouring documents `rows`, each with words."""
        offsets, sizes = self.x.offsets, self.x.sizes[rows]
        first, last = int(offsets[rows[0]]), int(offsets[rows[-1] + 1])
        logs = self._logs(first, last)
        top = np.maximum.reduce(logs, axis=0)
        lost = top <= LOG_ZERO / 10
        top[lost] = 0.0
        logs -= top
        shares = np.exp(logs, out=logs)
        shares[:, lost] = 1.0  # such a document is impossible, and no number of it is used
        self.words.add_base(first, last, top)
        counts = self.x.counts[first:last]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)[:-1]])
        total = np.add.reduceat(counts, starts)
        gamma = self.alpha[:, None] + np.repeat(total[None, :] / k, k, axis=0)
        _settle(self.alpha, shares, counts, sizes, gamma, self.threshold, self.iterations)
        mean_logs = digammas(gamma) - digammas(row_sum(gamma))
        weights, scale = _weights(mean_logs)
        mixed = np.log(row_sum(shares * np.repeat(weights, sizes, axis=1))) + np.repeat(scale, sizes) + top
        bound = np.add.reduceat(counts * mixed, starts) + _prior_term(self.alpha, gamma, mean_logs)
        bound[np.logical_or.reduceat(lost, starts)] = -np.inf
        return gamma, bound

    def given(self, found: Inference, weights: np.ndarray) -> Callable[[], Blocks]:
        """Return what walks the expected numbers of words of each topic, pair by pair.

        Parameters
        ----------
        found : Inference
            What `infer` returned.
        weights : ndarray, shape (n,)
            Weights of the documents; 0 for an impossible one.
        """
        factors, _ = _weights(found.mean_logs())

        def blocks() -> Blocks:
            owners, spread = self.x.owners(), self.x.spread(weights)
            with np.errstate(all="ignore"):
                for start in range(0, self.x.total, BLOCK):
                    stop = min(start + BLOCK, self.x.total)
                    logs = self._logs(start, stop)
                    shares = np.exp(logs - np.maximum.reduce(logs, axis=0)) * factors[:, owners[start:stop]]
                    own = spread[start:stop]
                    shares *= np.where(own > 0.0, own / row_sum(shares), 0.0)
                    shares[:, own == 0.0] = 0.0
                    out = np.zeros((len(shares), -(-(stop - start) // 8) * 8))
                    out[:, : stop - start] = shares
                    yield start, stop, out

        return blocks


def _weights(mean_logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``exp E log θ`` (K, m), the largest of each document scaled to 1, and the scales' logarithms (m,)."""
    scale = np.maximum.reduce(mean_logs, axis=0)
    return np.maximum(np.exp(mean_logs - scale), LEAST), scale


def _settle(
    alpha: np.ndarray,
    shares: np.ndarray,
    counts: np.ndarray,
    sizes: np.ndarray,
    gamma: np.ndarray,
    threshold: float,
    iterations: int,
) -> None:
    """Bring γ (K, m) of documents to rest, in place; those that are done are left out from then on."""
    left = np.arange(len(sizes))
    for _ in range(iterations):
        now = gamma[:, left]
        weights, _scale = _weights(digammas(now))
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)[:-1]])
        part = shares * np.repeat(weights, sizes, axis=1)
        part *= counts / row_sum(part)
        then = np.add.reduceat(part, starts, axis=1) + alpha[:, None]
        gamma[:, left] = then
        moving = row_sum(np.abs(then - now)) > threshold * row_sum(then)
        if not moving.any():
            return
        if not moving.all():
            pairs = np.repeat(moving, sizes)
            left, sizes = left[moving], sizes[moving]
            shares, counts = shares[:, pairs], counts[pairs]


def _prior_term(alpha: np.ndarray, gamma: np.ndarray, mean_logs: np.ndarray) -> np.ndarray:
    """Return minus the divergence of Dirichlet(γ) from Dirichlet(α), shape (m,)."""
    terms = row_sum(gammaln(gamma) - gammaln(alpha)[:, None] + (alpha[:, None] - gamma) * mean_logs)
    return np.asarray(terms + gammaln(np.asarray(row_sum(alpha[:, None])))[0] - gammaln(row_sum(gamma)))
