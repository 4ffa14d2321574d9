"""Statistics of a stacked E-step.

One product per block gives raw sums; at the end of a chunk they become moments of the components, and those that lost
digits are summed again about the means just found.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mixle.stats.domains import VARIANCE_FLOOR
from mixle.stats.identities import current
from mixle.stats.kinds import CodeCounts, LinearSums, seen_labels
from mixle.stats.stacking.features import Features, fill_pairs, tiles
from mixle.stats.stacking.lanes import each
from mixle.stats.stacking.lookup import MANY
from mixle.stats.stacking.natural import sparse_labels
from mixle.stats.stacking.split import ClassSums
from mixle.stats.stacking.statistic import OptionalWeights, ShellWeights, StackedStatistic
from mixle.stats.sums import Moments

__all__ = ["Gather"]


class Gather:
    """Sums responsibilities × features of one chunk, and turns them into a `StackedStatistic`.

    Parameters
    ----------
    features : Features
        The chunk's feature block.
    count : int
        Number of components.
    direct : list of (position, slot index, component)
        Quadratic components whose scatter is summed about their own centre.
    centres : dict
        Centre of each direct component, by (slot index, component).
    """

    def __init__(
        self,
        features: Features,
        count: int,
        direct: list[tuple[int, int, int]] | None = None,
        centres: dict[tuple[int, int], np.ndarray] | None = None,
    ) -> None:
        self.features, self.plan, self.count = features, features.plan, count
        self.watch, self.loss = current(), features.precision.loss
        self.groups, self.tiles = features.frame.groups, tiles(count)
        self.sums = np.zeros((count, features.width))
        self.label_sums = None if features.dense_labels else np.zeros((features.total_labels + 1, count))
        self.strangers = {i: np.zeros((count, len(found))) for i, found in features.strangers.items() if found}
        self.direct, self.centres = direct or [], centres or {}
        self.own = {(index, k): _Scatter(features, index) for _, index, k in self.direct}
        self.flagged: dict[int, np.ndarray] = {}
        self.classes = {index: ClassSums(found) for index, found in features.classes.items()}

    def add(self, start: int, stop: int, block: np.ndarray | None, r: np.ndarray) -> None:
        """Add a block of rows; `block` is its feature block if that is still standing."""
        if len(self.groups) == 1:
            standing = block is not None
            block = self.features.fill(start, stop) if block is None else block
            each(partial(self._add_tile, block, r), self.tiles)
            if self.watch is not None and self.watch.kept is not None and standing and len(self.tiles) == 1:
                self.watch.gathered(self._part, block, r)
        else:
            for g, group in enumerate(self.groups):
                block = self.features.fill(start, stop, g)
                for a, b in tiles(len(group)):
                    self.sums[group[a:b]] += r[group[a:b]] @ block.T
        for classes in self.classes.values():
            classes.add(start, stop, r)
        self._add_labels(start, stop, r)
        for (index, k), scatter in self.own.items():
            scatter.add(start, stop, self.centres[index, k], r[k])

    def _add_labels(self, start: int, stop: int, r: np.ndarray) -> None:
        for index, counts in self.strangers.items():
            rows_of, which = self.features.strangers_of(index, start, stop)
            seen, which, size = _seen(which, counts.shape[1])
            for k in range(self.count if len(which) else 0):
                counts[k, seen] += np.bincount(which, r[k, rows_of], size)
        if self.label_sums is not None:
            weights = np.ascontiguousarray(r[:, : stop - start].T)
            matrix, by_label = sparse_labels(self.features, self.plan, start, stop)
            seen, codes, size = _seen(matrix.indices, len(self.label_sums))
            if codes is not matrix.indices:
                by_label = type(matrix)((matrix.data, codes, matrix.indptr), shape=(len(weights), size)).T
            self.label_sums[seen] += by_label @ weights

    def _add_tile(self, block: np.ndarray, r: np.ndarray, cut: tuple[int, int]) -> None:
        a, b = cut
        part = r[a:b] @ block.T
        self.sums[a:b] += part
        if self.watch is not None:
            self._part = part

    def finish(self) -> None:
        """Find the components whose scatter lost its digits; `again` is then to be fed the same blocks."""
        first, columns = self.plan.first_square, self.plan.columns
        self.shift = np.zeros((self.count, columns))
        self.scatter = np.zeros((self.count, columns))
        if columns:
            weight = self._column_weights()
            with np.errstate(divide="ignore", invalid="ignore"):
                one, two = self.sums[:, first : first + columns], self.sums[:, first + columns : first + 2 * columns]
                self.shift = np.where(weight > 0.0, one / weight, 0.0)
                self.scatter = np.maximum(two - weight * self.shift * self.shift, 0.0)
            mean = self._square_centres() + self.shift
            floor = weight * VARIANCE_FLOOR * mean * mean
            lost = (two > self.loss * np.maximum(self.scatter, floor)).any(axis=1)
            self.flagged = {int(k): mean[k] for k in np.flatnonzero(lost)}
            self._second = {k: np.zeros((2, columns)) for k in self.flagged}
        self._finish_quadratic()

    def _column_weights(self) -> np.ndarray:
        weights = [
            np.repeat(self.sums[:, self.plan.gate_row(slot), None], d, axis=1) for slot, _, d in self.plan.squares
        ]
        return np.concatenate(weights, axis=1)

    def _square_centres(self) -> np.ndarray:
        centres = np.zeros((self.count, self.plan.columns))
        for g, group in enumerate(self.groups):
            centres[group] = self.features.frame.centres[g]
        return centres

    def _finish_quadratic(self) -> None:
        self.quadratic: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self.quadratic_flagged: dict[tuple[int, int], _Scatter] = {}
        for position, (slot, row, d) in enumerate(self.plan.quadratic):
            centre, _, factor = self.features.frame.whitenings[position]
            weight = self.sums[:, self.plan.gate_row(slot)]
            shift, scatter, size = moments_of(weight, self.sums[:, row : row + d + d * (d + 1) // 2], factor)
            centres = np.repeat(centre[None, :], self.count, axis=0)
            for (index, k), own in self.own.items():
                if index == slot.index:
                    centres[k] = self.centres[index, k]
                    shift[k], scatter[k], size[k] = own.moments(float(weight[k]))
            self.quadratic[slot.index] = (centres, shift, scatter)
            floor = weight[:, None] * VARIANCE_FLOOR * np.square(centres + shift)
            lost = (size > self.loss * np.maximum(np.diagonal(scatter, axis1=1, axis2=2), floor)).any(axis=1)
            for k in np.flatnonzero(lost).tolist():
                self.centres[slot.index, k] = centres[k] + shift[k]
                self.quadratic_flagged[slot.index, k] = _Scatter(self.features, slot.index)

    @property
    def needs_second_pass(self) -> bool:
        """Return whether some component's scatter must be summed again about its mean."""
        return bool(self.flagged or self.quadratic_flagged)

    def again(self, start: int, stop: int, r: np.ndarray) -> None:
        """Add a block of rows to the scatters about the means just found."""
        first, columns = self.plan.first_square, self.plan.columns
        rows = -(-(stop - start) // 8) * 8
        for k, mean in self.flagged.items():
            block = self.features.block[:, :rows]
            self.features.fill_squares(block, start, stop, mean)
            sums = block[first : first + 2 * columns, : stop - start] @ r[k, : stop - start]
            self._second[k] += sums.reshape(2, columns)
        for (index, k), scatter in self.quadratic_flagged.items():
            scatter.add(start, stop, self.centres[index, k], r[k])

    def settle(self) -> None:
        """Take in the second pass."""
        weight = self._column_weights() if self.flagged else np.zeros((0, 0))
        centres = self._square_centres() if self.flagged else weight
        for k, (one, two) in ((k, s) for k, s in self._second.items()) if self.flagged else ():
            with np.errstate(divide="ignore", invalid="ignore"):
                rest = np.where(weight[k] > 0.0, one / weight[k], 0.0)
            # a mean far from zero is rounded: what the pass was made about is not quite centre + shift
            self.shift[k] = (self.flagged[k] - centres[k]) + rest
            self.scatter[k] = np.maximum(two - weight[k] * rest * rest, 0.0)
        for (index, k), scatter in self.quadratic_flagged.items():
            self._settle(index, k, scatter)

    def _settle(self, index: int, k: int, own: _Scatter) -> None:
        centre, shift, scatter = self.quadratic[index]
        centre[k] = self.centres[index, k]
        shift[k], scatter[k], _ = own.moments(float(self.sums[k, self.plan.gate_row(self.plan.slots[index])]))

    def statistic(self, general: dict[int, tuple[Any, ...]], tree: tuple[Any, ...]) -> StackedStatistic:
        """Return the statistic; `general` has the values of general slots by slot index."""
        slots: list[Any] = []
        for slot in self.plan.slots:
            kind, index = slot.node.kind, slot.index
            if kind == "general":
                slots.append(general[index])
            elif kind in ("optional", "split"):
                row = self.plan.gates[index]
                slots.append(OptionalWeights(self.sums[:, row + 1].copy(), self.sums[:, row].copy()))
            elif kind == "shell":
                slots.append(ShellWeights(self.sums[:, self.plan.gate_row(slot)].copy()))
            elif kind == "code":
                slots.append(self._counts(index))
            else:
                slots.append(self._numbers(kind, index, self.sums[:, self.plan.gate_row(slot)].copy()))
        for slot in self.plan.slots:
            if slot.node.kind == "split":
                members, here = slot.node.members, slice(slot.index, slot.index + 2)
                slots[here] = members[0].split_statistics(members, slots[here], self.classes.get(slot.index))
        return StackedStatistic(self.sums[:, 0].copy(), tuple(slots), tree)

    def _numbers(self, kind: str, index: int, weight: np.ndarray) -> Any:
        if kind == "linear":
            row, d = next((row, d) for slot, row, d in self.plan.linear if slot.index == index)
            return LinearSums(weight, self.sums[:, row : row + d].copy())
        if kind == "quadratic":
            return Moments(weight, *self.quadratic[index])
        offset, d = next((offset, d) for slot, offset, d in self.plan.squares if slot.index == index)
        part = np.s_[:, offset : offset + d]
        return Moments(weight, self._square_centres()[part], self.shift[part].copy(), self.scatter[part].copy())

    def _counts(self, index: int) -> CodeCounts:
        labels = self.features.laid[index].labels
        first = self.features.first_code[index]
        if self.label_sums is None:
            counts = self.sums[:, self.plan.dense + first : self.plan.dense + first + len(labels)].copy()
        else:
            counts = np.ascontiguousarray(self.label_sums[first : first + len(labels)].T)
        if index in self.strangers:
            labels, counts = (
                (*labels, *self.features.strangers[index]),
                np.concatenate([counts, self.strangers[index]], axis=1),
            )
        return seen_labels(labels, counts)


def _seen(codes: np.ndarray, count: int) -> tuple[Any, np.ndarray, int]:
    """Return which of `count` codes a block has, its codes as positions among them, and their number.

    All of them, and the codes as they are, unless they are so many more than rows that adding zeros to those of no row
    costs more than the search.
    """
    if count <= MANY:
        return slice(count), codes, count
    seen, places = np.unique(codes, return_inverse=True)
    return seen, places, len(seen)


class _Scatter:
    """Full scatter of one component of a quadratic slot about a centre of its own, in the units of the rows."""

    def __init__(self, features: Features, index: int) -> None:
        self.features, self.index, self.d = features, index, features.plan.widths[index]
        self.sums = np.zeros((1, self.d + self.d * (self.d + 1) // 2))

    def add(self, start: int, stop: int, centre: np.ndarray, r: np.ndarray) -> None:
        """Add a block of rows with weights `r`."""
        raw = self.features.raw_columns(self.index, start, stop, centre)
        block = np.empty((self.sums.shape[1], raw.shape[1]))
        block[: self.d] = raw
        fill_pairs(block, 0, self.d)
        self.sums[0] += block @ r[: block.shape[1]]

    def moments(self, weight: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (shift, scatter, size of the terms), each of one component."""
        shift, scatter, size = moments_of(np.array([weight]), self.sums, np.eye(self.d))
        return shift[0], scatter[0], size[0]


def moments_of(weight: np.ndarray, sums: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return moments from sums of y and of its products, rows being ``factor @ y``.

    Parameters
    ----------
    weight : ndarray, shape (K,)
        Weight of each component.
    sums : ndarray, shape (K, d + d (d + 1) / 2)
        Sums of the d columns y, and of their products (i, j ≥ i) in order of i.
    factor : ndarray, shape (d, d)
        Transform back to the rows.

    Returns
    -------
    (ndarray, ndarray, ndarray)
        Shifts (K, d), scatters (K, d, d), and the size (K, d) of the terms that each variance is the difference of.
    """
    d = len(factor)
    i, j = np.triu_indices(d)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(weight[:, None] > 0.0, sums[:, :d] / weight[:, None], 0.0)
    second = np.zeros((len(weight), d, d))
    second[:, i, j] = second[:, j, i] = sums[:, d:]
    scatter = factor @ (second - weight[:, None, None] * shift[:, :, None] * shift[:, None, :]) @ factor.T
    size = np.abs(factor) @ np.abs(second) @ np.abs(factor).T
    symmetric = 0.5 * scatter + 0.5 * scatter.transpose(0, 2, 1)
    return shift @ factor.T, symmetric, np.diagonal(size, axis1=1, axis2=2).copy()
