"""The E-step of pairs whose halves have components of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixle.stats.kinds import LOG_ZERO, log_or_floor
from mixle.stats.stacking.features import aligned
from mixle.stats.stacking.walk import Walk, row_log_densities
from mixle.stats.sums import BLOCK

__all__ = ["JointBlock", "JointWalk"]

#: A row whose weighted sum falls below this is worked on in log space: its likeliest pair has little or no weight.
TINY = 2.0**-500


class JointBlock(NamedTuple):
    """One block of pairs after the E-step.

    Attributes
    ----------
    start, stop : int
        The rows.
    first, second : ndarray, shape (K1, n) and (K2, n)
        Densities of the halves, each row's largest scaled to 1 (in log space: what makes `posterior` right).
    total : ndarray, shape (n,)
        ``Σ_ij W_ij first_i second_j``; 1 where the row is impossible, whose `first` is 0 then.
    log_density : ndarray, shape (n,)
        Log-densities of the rows, -inf where impossible.
    apart : dict
        Probabilities (K1, K2) of the rows that were worked on in log space, by their place in the block.
    """

    start: int
    stop: int
    first: np.ndarray
    second: np.ndarray
    total: np.ndarray
    log_density: np.ndarray
    apart: dict[int, np.ndarray]

    def posterior(self, joint: np.ndarray) -> np.ndarray:
        """Return the probabilities of the pairs of components, shape (n, K1, K2)."""
        result = self.first.T[:, :, None] * joint * (self.second / self.total).T[:, None, :]
        for row, found in self.apart.items():
            result[row] = found
        return np.asarray(result)

    def halves(self, joint: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weighted probabilities of the first (K1, n) and second (K2, n) components and of pairs (K1, K2)."""
        share = 1.0 / self.total
        if weights is not None:
            share = share * weights
        if self.apart:
            share[list(self.apart)] = 0.0
        second = self.second * share
        first = self.first * (joint @ second)
        pairs = joint * (self.first @ second.T)
        second = second * (joint.T @ self.first)
        for row, found in self.apart.items():
            w = found if weights is None else found * weights[row]
            first[:, row], second[:, row] = np.add.reduce(w, axis=1), np.add.reduce(w, axis=0)
            pairs = pairs + w
        return first, second, pairs


class JointWalk:
    """Scores one chunk of pairs.

    Parameters
    ----------
    first, second : sequence of distributions
        Components of the halves.
    joint : ndarray, shape (K1, K2)
        Weights of the pairs of components.
    payload : tuple
        Payloads of the halves.
    rows : int
        Number of pairs.
    """

    def __init__(self, first: Sequence[Any], second: Sequence[Any], joint: np.ndarray, payload: Any, rows: int) -> None:
        self.joint, self.rows, self.payload = joint, rows, payload
        sides = ((first, payload[0], joint.sum(axis=1)), (second, payload[1], joint.sum(axis=0)))
        self.walks = tuple(Walk(parts, w, np.zeros(len(parts)), x, rows) for parts, x, w in sides)

    def score(self) -> np.ndarray:
        """Return the log-density of each row, shape (n,)."""
        return row_log_densities(self)

    def blocks(self) -> Iterator[JointBlock]:
        """Yield the blocks of the chunk after the E-step."""
        buffers = [aligned(walk.count, BLOCK) for walk in self.walks]
        with np.errstate(all="ignore"):
            for start in range(0, self.rows, BLOCK):
                stop = min(start + BLOCK, self.rows)
                width = -(-(stop - start) // 8) * 8
                outs = [buffer[:, :width] for buffer in buffers]
                for walk, out in zip(self.walks, outs, strict=True):
                    walk.score_block(start, stop, out)
                yield self._block(start, stop, outs)

    def _block(self, start: int, stop: int, outs: list[np.ndarray]) -> JointBlock:
        size = stop - start
        tops, scaled = [], []
        for out in outs:
            top = np.maximum.reduce(out, axis=0)
            top[top <= LOG_ZERO / 10] = LOG_ZERO
            tops.append(top)
            scaled.append(np.exp(out - top))
        total = np.zeros(outs[0].shape[1])
        for i, row in enumerate(self.joint):  # pair by pair: a row's bits do not depend on those around it
            inner = np.zeros_like(total)
            for j, w in enumerate(row.tolist()):
                if w:
                    inner += w * scaled[1][j]
            total += inner * scaled[0][i]
        impossible = (tops[0] <= LOG_ZERO / 10) | (tops[1] <= LOG_ZERO / 10)
        density = np.log(total) + tops[0] + tops[1]
        apart: dict[int, np.ndarray] = {}
        for row in np.flatnonzero((total < TINY) & ~impossible).tolist():
            density[row], found = _in_log_space(outs, self.joint, row)
            if found is None:
                impossible[row] = True
            elif row < size:
                apart[row] = found
        total[impossible | (total < TINY)] = 1.0
        scaled[0][:, impossible] = 0.0
        density = density[:size]
        for walk in self.walks:
            walk.add_base(start, stop, density)
        density[impossible[:size]] = -np.inf
        return JointBlock(start, stop, scaled[0][:, :size], scaled[1][:, :size], total[:size], density, apart)


def _in_log_space(outs: list[np.ndarray], joint: np.ndarray, row: int) -> tuple[float, np.ndarray | None]:
    """Return log-density and probabilities (K1, K2) of the pairs of one row; None if it is impossible."""
    logs = outs[0][:, row, None] + outs[1][None, :, row] + log_or_floor(joint)
    top = float(logs.max())
    if top <= LOG_ZERO / 10:
        return -np.inf, None
    shares = np.exp(logs - top)
    total = float(np.add.reduce(shares, axis=None))
    return top + float(np.log(total)), shares / total


Blocks = Iterator[tuple[int, int, np.ndarray]]


def side(walk: JointWalk, weights: np.ndarray | None, which: int) -> Callable[[], Blocks]:
    """Return what walks the weighted responsibilities of one half, padded to 8 columns."""

    def given() -> Blocks:
        for block in walk.blocks():
            part = None if weights is None else weights[block.start : block.stop]
            r = block.halves(walk.joint, part)[which]
            out = np.zeros((len(r), -(-r.shape[1] // 8) * 8))
            out[:, : r.shape[1]] = r
            yield block.start, block.stop, out

    return given
