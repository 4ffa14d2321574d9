"""The feature block of one chunk, filled block by block into buffers that are allocated once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mixle.stats.identities import sizes_wanted
from mixle.stats.precision import FLOAT64, Working
from mixle.stats.recall import borrowed
from mixle.stats.stacking.frame import Frame
from mixle.stats.stacking.lanes import each
from mixle.stats.stacking.lookup import Laid
from mixle.stats.stacking.plan import DENSE_LABELS, Attached, Plan
from mixle.stats.stacking.split import classes_of
from mixle.stats.sums import BLOCK

__all__ = ["Features", "aligned", "product"]

#: Longer inner products are cut here: past this length a matrix product's bits depend on its other dimensions.
INNER = 384
TILE = 16
#: Rows further out than this, in standard deviations of all components together, have no density under any of them,
#: unless it is scored by substitution; the sum of a block's squares tells whether it may hold one.
FAR_OUT, FAR_SQUARE = 1e150, 1e300


def aligned(*shape: int, dtype: Any = float) -> np.ndarray:
    """Return zeros, of float64 by default, whose data start on a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    return np.asarray(raw[offset : offset + size].view(dtype).reshape(shape))


def scratch(owner: Any, *shape: int, dtype: Any = float) -> np.ndarray:
    """Return `aligned` memory of `owner`, with anything in it."""
    return borrowed((*shape, np.dtype(dtype).str), owner, lambda: aligned(*shape, dtype=dtype))


def tiles(count: int) -> list[tuple[int, int]]:
    """Return the fixed tiles of a component axis: 16 each, the last one 9 to 24."""
    cuts = list(range(0, max(1, count), TILE))
    if len(cuts) > 1 and count - cuts[-1] < 9:
        cuts.pop()
    return list(zip(cuts, [*cuts[1:], count], strict=True))


def product(e: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
    """Write ``e @ f`` to `out` such that no column's bits depend on the other columns.

    Parameters
    ----------
    e : ndarray, shape (K, P)
        Coefficients.
    f : ndarray, shape (P, n)
        Features; n is a multiple of 8.
    out : ndarray, shape (K, n)
        Where to.
    """
    if 1 < len(e) <= TILE and e.shape[1] <= INNER:
        np.matmul(e, f, out=out)
        return

    def tile(cut: tuple[int, int]) -> None:
        start, stop = cut
        part, target = e[start:stop], out[start:stop]
        single = len(part) == 1
        if single:  # one row would be a matrix-vector product, which rounds differently
            part, target = np.repeat(part, 2, axis=0), np.empty((2, f.shape[1]), f.dtype)
        np.matmul(part[:, :INNER], f[:INNER], out=target)
        for p in range(INNER, e.shape[1], INNER):
            target += np.matmul(part[:, p : p + INNER], f[p : p + INNER])
        if single:
            out[start] = target[0]

    each(tile, tiles(len(e)))


class Features:
    """Feature block of one chunk.

    Parameters
    ----------
    plan : Plan
        Rows of the block.
    frame : Frame
        Centres.
    attached : tuple of Attached
        The chunk's payload by slot.
    laid : dict
        Labels of each code slot in the order of their columns, by slot index. They are the model's, so that a row's
        bits do not depend on its neighbours' labels; one more column serves all labels that the model does not list.
    dense_labels : bool
        Whether labels stand in the block one-hot.
    precision : Working
        What the block holds.

    Attributes
    ----------
    guarded : bool
        Whether there is a model, and rows that are too far from it for squares are left out.
    far : dict
        Those rows of the last block, by the index of the quadratic slot.
    """

    def __init__(
        self,
        plan: Plan,
        frame: Frame,
        attached: tuple[Attached, ...],
        laid: dict[int, Laid],
        dense_labels: bool,
        precision: Working = FLOAT64,
    ) -> None:
        self.precision, single = precision, precision is not FLOAT64
        self._sized = sizes_wanted()
        self.plan, self.frame, self.dense_labels = plan, frame, dense_labels
        self.parts = {part.slot.index: part for part in attached}
        self.classes = classes_of(attached)
        self.first_code: dict[int, int] = {}
        self.strangers: dict[int, tuple[Any, ...]] = {}
        self._numbers: dict[int, np.ndarray] = {}
        total = 0
        for slot in plan.codes:
            self.first_code[slot.index] = total
            total += len(laid[slot.index].labels) + 1
        self.laid, self.total_labels = laid, total
        self.width = plan.dense + (total if dense_labels else 0)
        self.block = scratch(self, self.width, BLOCK, dtype=precision.dtype)
        self.block[plan.dense :] = 0.0
        self._exact = scratch(self, max([plan.columns, *(d for _, _, d in plan.quadratic)]), BLOCK) if single else None
        self.block[0] = 1.0
        self.remaps = {slot.index: self._remap(slot.index, laid[slot.index]) for slot in plan.codes}
        sparse = "sparse", len(plan.codes), total, precision.name
        self.sparse: dict[int, Any] = borrowed(sparse, self, dict)
        self.sparse_at = (0, 0)
        self._shift = np.arange(BLOCK)
        self._ones: list[np.ndarray] = []
        self.guarded, self.far = False, dict[int, np.ndarray]()
        self._raw = {slot.index: scratch(self, d, BLOCK) for slot, _, d in plan.quadratic}

    def _remap(self, index: int, laid: Laid) -> np.ndarray:
        """Return the column of each of the chunk's codes."""
        rows = self.parts[index].rows
        own = rows.labels if rows is not None and rows.labels else ()
        strange = laid.columns == len(laid.labels)
        self.strangers[index] = tuple(own[i] for i in np.flatnonzero(strange).tolist())
        self._numbers[index] = np.where(strange, np.cumsum(strange) - 1, -1)
        return laid.columns + self.first_code[index]

    def strangers_of(self, index: int, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows (relative to `start`) whose label the model does not list, and which stranger each has."""
        part: Any = self.parts[index]
        a, b, where = part.span(start, stop)
        which = self._numbers[index].take(part.rows.x[a:b])
        odd = np.flatnonzero(which >= 0)
        return (odd if isinstance(where, slice) else where[odd]), which[odd]

    def fill(self, start: int, stop: int, group: int = 0) -> np.ndarray:
        """Return features × rows of chunk rows ``start:stop``, zero-padded to a multiple of 8 columns."""
        rows = stop - start
        width = -(-rows // 8) * 8
        block = self.block[:, :width]
        if width > rows:
            block[:, rows:] = 0.0
            block[0, :rows] = 1.0
        else:
            block[0] = 1.0
        for slot, row, d in self.plan.linear:
            self._put_linear(slot.index, block, row, d, start, stop)
        for index, row in self.plan.gates.items():
            part = self.parts[index]
            _, _, where = part.span(start, stop)
            block[row] = 0.0
            block[row, where] = 1.0
            block[row + 1] = block[self.plan.gate_row(part.slot)]
            block[row + 1, where] = 0.0
        self.fill_squares(block, start, stop, self.frame.centres[group])
        for position, (slot, row, d) in enumerate(self.plan.quadratic):
            self._put_quadratic(position, slot.index, block, row, d, start, stop)
        if self.dense_labels and self.total_labels:
            self._put_labels(start, stop)
        return block

    def fill_squares(self, block: np.ndarray, start: int, stop: int, centre: np.ndarray) -> None:
        """Write the square columns and their squares about `centre` (C,)."""
        first, count = self.plan.first_square, self.plan.columns
        y = block[first : first + count]
        exact = y if self._exact is None else self._exact[:count, : block.shape[1]]
        for slot, offset, d in self.plan.squares:
            part: Any = self.parts[slot.index]
            a, b, where = part.span(start, stop)
            target = exact[offset : offset + d]
            x = part.rows.x[a:b]
            c = centre[offset : offset + d]
            if part.present is None:
                np.subtract(x.T if x.ndim == 2 else x, c[:, None] if x.ndim == 2 else c[0], out=target[:, where])
            else:
                target[:] = 0.0
                target[:, where] = x.T - c[:, None] if x.ndim == 2 else x - c[0]
            if exact is not y and block.shape[1] > stop - start:
                target[:, stop - start :] = 0.0
        if exact is not y:
            np.copyto(y, exact, casting="same_kind")
        np.multiply(y, y, out=block[first + count : first + 2 * count])

    def _put_linear(self, index: int, block: np.ndarray, row: int, d: int, start: int, stop: int) -> None:
        part: Any = self.parts[index]
        a, b, where = part.span(start, stop)
        for j in range(d):
            if part.present is not None:
                block[row + j] = 0.0
            x = part.rows.x[j][a:b]
            block[row + j, where] = np.abs(x) if self._sized else x

    def _put_quadratic(
        self, position: int, index: int, block: np.ndarray, row: int, d: int, start: int, stop: int
    ) -> None:
        whitening = self.frame.whitenings[position]
        raw = self.raw_columns(index, start, stop, whitening.centre)
        y = block[row : row + d]
        exact = y if self._exact is None else self._exact[:d, : block.shape[1]]
        product(whitening.w, raw, exact)
        self.far.pop(index, None)
        if self.guarded and not np.vdot(exact, exact) < FAR_SQUARE:
            self._leave_out(index, exact)
        if exact is not y:
            np.copyto(y, exact, casting="same_kind")
        fill_pairs(block, row, d)

    def _leave_out(self, index: int, y: np.ndarray) -> None:
        """Note the rows whose whitened columns (d, n) have no squares, and let them add nothing to a product."""
        far = np.flatnonzero(~(np.abs(y) < FAR_OUT).all(axis=0))
        if far.size:
            y[:, far] = 0.0
            self.far[index] = far

    def raw_columns(self, index: int, start: int, stop: int, centre: np.ndarray) -> np.ndarray:
        """Return the centred columns (d, n) of a quadratic slot, zero where it has no value."""
        part: Any = self.parts[index]
        a, b, where = part.span(start, stop)
        rows = stop - start
        raw = self._raw[index][:, : -(-rows // 8) * 8]
        if part.present is not None or raw.shape[1] > rows:
            raw[:] = 0.0
        if part.present is None:
            np.subtract(part.rows.x[a:b].T, centre[:, None], out=raw[:, where])
        else:
            raw[:, where] = part.rows.x[a:b].T - centre[:, None]
        return raw

    def codes(self, slot_index: int, start: int, stop: int) -> tuple[np.ndarray, Any]:
        """Return the label columns of the rows that have one, and those rows relative to `start`."""
        part: Any = self.parts[slot_index]
        a, b, where = part.span(start, stop)
        return self.remaps[slot_index].take(part.rows.x[a:b]), where

    def _put_labels(self, start: int, stop: int) -> None:
        first = self.plan.dense
        flat = self.block.reshape(-1)
        for columns in self._ones:  # clearing what the last block set is cheaper than clearing all
            flat[columns] = 0.0
        self._ones = []
        for slot in self.plan.codes:
            columns, where = self.codes(slot.index, start, stop)
            columns += first
            columns *= BLOCK
            columns += self._shift[: len(columns)] if isinstance(where, slice) else where
            flat[columns] = 1.0
            self._ones.append(columns)


def fill_pairs(block: np.ndarray, row: int, d: int) -> None:
    """Write the products of rows ``row:row+d`` behind them, (i, j ≥ i) in order of i."""
    target = row + d
    for i in range(d):
        np.multiply(block[row + i : row + d], block[row + i], out=block[target : target + d - i])
        target += d - i


def use_dense(labels: Iterable[tuple[Any, ...]]) -> bool:
    """Return whether the labels of a model (or of a first chunk) are few enough to stand one-hot."""
    return sum(map(len, labels)) <= DENSE_LABELS
