"""Emissions of a batch: log-densities of its elements under the states, and their scaled exponentials."""

from __future__ import annotations

import numpy as np

from mixle.stats.kinds import LOG_ZERO
from mixle.stats.latent.hmm_batches import Batch
from mixle.stats.latent.hmm_encoder import Chains
from mixle.stats.latent.hmm_scratch import Scratch
from mixle.stats.stacking.features import aligned
from mixle.stats.stacking.natural import impossible
from mixle.stats.stacking.walk import Walk
from mixle.stats.sums import BLOCK

__all__ = ["Emissions", "padded"]


def padded(n: int) -> int:
    """Return the next multiple of 8."""
    return -(-n // 8) * 8


class Emissions:
    """Scaled emissions, batch by batch.

    Parameters
    ----------
    walk : Walk
        Emissions of a chunk's elements, log weights zero.
    payload : Chains
        The chunk.
    terminal : ndarray of bool, shape (K,), or None
        States that the last element of a sequence is in, and no other.
    elements : int
        Elements of the largest batch.
    scratch : Scratch
        Where work space comes from.

    Attributes
    ----------
    b : ndarray, shape (K, elements + ...)
        Emission probabilities, divided by those of the likeliest state of the element.
    top : ndarray
        Logarithms of these divisors.
    """

    def __init__(
        self, walk: Walk, payload: Chains, terminal: np.ndarray | None, elements: int, scratch: Scratch
    ) -> None:
        self.walk, self.payload, self.terminal = walk, payload, terminal
        self.b = scratch.buffer(walk.count, padded(elements) + 16)
        self.top = scratch.borrow(padded(elements) + 16)
        table = walk.label_table() if terminal is None else None
        if table is not None:  # a label's emissions are found once, not once per element
            tops = np.maximum.reduce(table, axis=0)
            table = np.exp(table - tops)
            self._tops, self._found = tops, np.empty(walk.count * BLOCK)
        self._table = table

    def fill(self, batch: Batch) -> np.ndarray:
        """Fill `b` and `top` for a batch; return which of its elements no state supports."""
        gone = np.zeros(batch.total, bool)
        for start in range(0, batch.total, BLOCK):
            stop = min(start + BLOCK, batch.total)
            if self._table is None:
                self._fill_block(batch, start, stop)
            else:
                columns = self.walk.label_columns(batch.offset + start, batch.offset + stop)
                found = self._found[: len(self._table) * len(columns)].reshape(len(self._table), -1)
                np.take(self._table, columns, axis=1, out=found, mode="clip")  # into rows apart it would copy twice
                self.b[:, start:stop] = found
                np.take(self._tops, columns, out=self.top[start:stop], mode="clip")
            top = self.top[start:stop]
            if top.min() <= LOG_ZERO / 10:
                gone[start:stop] = impossible(top)
        return gone

    def _fill_block(self, batch: Batch, start: int, stop: int) -> None:
        out = self.b[:, start : start + padded(stop - start)]
        self.logs(batch, start, stop, out)
        top = self.top[start : start + out.shape[1]]
        np.maximum.reduce(out, axis=0, out=top)
        np.subtract(out, top, out=out)
        np.exp(out, out=out)
        self.walk.add_base(batch.offset + start, batch.offset + stop, top)

    def logs(self, batch: Batch, start: int, stop: int, out: np.ndarray) -> None:
        """Write the log-densities (without base measure) of elements ``start:stop`` of a batch, at most a block."""
        self.walk.score_block(batch.offset + start, batch.offset + stop, out)
        if self.terminal is not None:
            part = slice(start, stop)
            last = batch.times()[part] == self.payload.sizes[batch.rows][batch.ranks()[part]] - 1
            out[:, : stop - start][self.terminal[:, None] != last] = LOG_ZERO

    def logs_at(self, batch: Batch, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-densities (K, n) and base measures (n,) of the elements of a batch at `columns`."""
        logs, base = np.empty((self.walk.count, len(columns))), np.zeros(len(columns))
        out, measure = aligned(self.walk.count, BLOCK), np.empty(BLOCK)
        blocks = columns // BLOCK
        for block in np.unique(blocks).tolist():
            start = block * BLOCK
            stop = min(start + BLOCK, batch.total)
            mine = np.flatnonzero(blocks == block)
            self.logs(batch, start, stop, out[:, : padded(stop - start)])
            logs[:, mine] = out[:, columns[mine] - start]
            measure[:] = 0.0
            self.walk.add_base(batch.offset + start, batch.offset + stop, measure)
            base[mine] = measure[columns[mine] - start]
        return logs, base
