"""Coefficients of a stacked model: log-densities of K components are one product with the feature block."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from mixle.stats.domains import LARGEST_FLOAT
from mixle.stats.identities import Watch, current
from mixle.stats.kinds import LOG_2PI, LOG_ZERO, forward_square
from mixle.stats.precision import FLOAT64, Working
from mixle.stats.stacking.features import Features, product
from mixle.stats.stacking.frame import Frame, Normal
from mixle.stats.stacking.plan import Plan

__all__ = ["Natural"]


class Natural:
    """Coefficients of K components for one plan and frame.

    Parameters
    ----------
    plan, frame : Plan, Frame
        Rows and centres of the feature block.
    members : dict
        The K distributions of each slot, by slot index.
    found : dict
        Parameters of the normal slots, from `normals`.
    log_weights : ndarray, shape (K,)
        Log mixture weights.
    precision : Working
        What the products are computed in; coefficients are found in float64.
    """

    def __init__(
        self,
        plan: Plan,
        frame: Frame,
        members: dict[int, tuple[Any, ...]],
        found: dict[int, Normal],
        log_weights: np.ndarray,
        precision: Working = FLOAT64,
    ) -> None:
        self.precision = precision
        self.plan, self.frame, self.members, self.found = plan, frame, members, found
        self.count = len(log_weights)
        self.group_of = np.zeros(self.count, int)
        for g, group in enumerate(frame.groups):
            self.group_of[group] = g
        self.dense = np.zeros((self.count, plan.dense))
        self.dense[:, 0] = log_weights
        self._optionals()
        self._shells()
        self._splits()
        self._squares()
        self._linear()
        self.direct: list[tuple[int, int, int]] = []
        for position in range(len(plan.quadratic)):
            self._quadratic(position)
        self._codes: dict[int, Any] = {slot.index: slot.node.leaf for slot in plan.codes}
        self.watch: Watch | None = None
        self.seen_again, self._classed = False, False
        self._open: dict[int, np.ndarray] = {}
        self.table = self._by_label = np.zeros((0, self.count))
        self.by_group: list[np.ndarray] = []
        #: The last three, by which slots have labels that the model does not list.
        self._looked_up: dict[tuple[bool, ...], tuple[np.ndarray, np.ndarray, list[np.ndarray]]] = {}

    def _add(self, slot: Any, constant: np.ndarray) -> None:
        self.dense[:, self.plan.gate_row(slot)] += constant

    def _optionals(self) -> None:
        for slot in self.plan.slots:
            if slot.node.kind == "optional":
                row = self.plan.gates[slot.index]
                for k, dist in enumerate(self.members[slot.index]):
                    self.dense[k, row] += dist.log_present
                    self.dense[k, row + 1] += dist.log_missing

    def _shells(self) -> None:
        for slot in self.plan.slots:
            if slot.node.kind == "shell":
                self._add(slot, np.array([dist.log_constant for dist in self.members[slot.index]]))

    def _splits(self) -> None:
        for slot in self.plan.slots:
            if slot.node.kind == "split":
                row, members = self.plan.gates[slot.index], self.members[slot.index]
                self.dense[:, row : row + 2] += np.maximum(members[0].split_terms(members), LOG_ZERO)

    def _squares(self) -> None:
        first, count = self.plan.first_square, self.plan.columns
        for slot, offset, d in self.plan.squares:
            mean, variance = self.found[slot.index]
            shift = mean - self.frame.centres[self.group_of, offset : offset + d]
            with np.errstate(over="ignore"):  # a variance that underflowed has a coefficient that overflows
                one, other = first + offset, first + count + offset
                self.dense[:, one : one + d] = shift / variance
                self.dense[:, other : other + d] = np.maximum(-0.5 / variance, -LARGEST_FLOAT)
                self._add(slot, -0.5 * np.add.reduce(LOG_2PI + np.log(variance) + shift * shift / variance, axis=1))

    def _linear(self) -> None:
        for slot, row, d in self.plan.linear:
            leaf: Any = slot.node.leaf
            facts = [leaf.natural(dist) for dist in self.members[slot.index]]
            self.dense[:, row : row + d] = [eta for eta, _ in facts]
            self._add(slot, np.array([constant for _, constant in facts]))

    def _quadratic(self, position: int) -> None:
        slot, row, d = self.plan.quadratic[position]
        leaf: Any = slot.node.leaf
        centre, w, _ = self.frame.whitenings[position]
        mean, covariance = self.found[slot.index]
        shift = (mean - centre) @ w.T
        spread = np.array([w @ c @ w.T for c in covariance]) + shift[:, :, None] * shift[:, None, :]
        weights = np.exp(np.minimum(self.dense[:, 0], 0.0))  # a rough size is enough for the threshold
        second = np.add.reduce((weights / weights.sum())[:, None] * np.diagonal(spread, axis1=1, axis2=2), axis=0)
        i, j = np.triu_indices(d)
        for k, dist in enumerate(self.members[slot.index]):
            factor = leaf.factor(dist)
            inverse = np.linalg.solve(factor, np.linalg.inv(w))
            precision = inverse.T @ inverse
            size = (np.abs(precision) * np.sqrt(np.outer(second, second))).sum()
            if not self.precision.unit * size <= self.precision.pair_loss:  # nor where a size overflowed
                self.direct.append((position, slot.index, k))
                continue
            h = precision @ shift[k]
            self.dense[k, row : row + d] = h
            self.dense[k, row + d : row + d + len(i)] = np.where(i == j, -0.5, -1.0) * precision[i, j]
            determinant = float(np.add.reduce(np.log(np.diagonal(factor))))
            self.dense[k, self.plan.gate_row(slot)] += -0.5 * (d * LOG_2PI + float(h @ shift[k])) - determinant

    def bound(self, features: Features) -> Natural:
        """Return the coefficients with the labels of a chunk looked up; all else is shared."""
        mine = copy(self)
        mine.begin(features)
        return mine

    def begin(self, features: Features) -> None:
        """Look up the labels of a chunk and who watches, and let its features leave out rows that are too far."""
        features.guarded = True
        self.watch, self.seen_again = current(), False
        self._classed = bool(features.classes)
        # each has a probability of its own, and the column that they share adds nothing
        self._open = {
            index: leaf.log_tables(self.members[index], features.strangers[index])
            for index, leaf in self._codes.items()
            if leaf.open_labels
        }
        odd = tuple(bool(features.strangers[slot.index]) for slot in self.plan.codes)
        found = None if any(laid.narrow for laid in features.laid.values()) else self._looked_up.get(odd)
        if found is None:
            found = self._look_up(features)
            if not any(laid.narrow for laid in features.laid.values()):
                self._looked_up[odd] = found
        self.table, self._by_label, self.by_group = found

    def _look_up(self, features: Features) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return the tables of labels, and with them the coefficients of each group."""
        table = np.zeros((self.count, features.total_labels))
        for index, leaf in self._codes.items():
            (labels, _, known, _), first = features.laid[index], features.first_code[index]
            members, stop = self.members[index], first + len(labels)
            table[:, first:stop] = leaf.log_tables(members, labels) if known is None else known
            # to the model they are all alike
            strangers = () if leaf.open_labels else features.strangers[index][:1]
            table[:, stop : stop + len(strangers)] = leaf.log_tables(members, strangers)
        full = np.concatenate([self.dense, table], axis=1) if features.dense_labels else self.dense
        by_label = self._rounded(np.concatenate([table.T, np.zeros((1, self.count))]))
        return table, by_label, [self._rounded(full[group]) for group in self.frame.groups]

    def _rounded(self, values: np.ndarray) -> np.ndarray:
        """Return coefficients in the precision of the products."""
        if self.precision is FLOAT64:
            return np.ascontiguousarray(values)
        return np.ascontiguousarray(np.maximum(values, self.precision.log_zero), self.precision.dtype)

    def log_density(self, features: Features, start: int, stop: int, out: np.ndarray) -> None:
        """Write the log-densities (plus log weights) of chunk rows ``start:stop`` to `out` (K, n), n padded to 8."""
        for g, group in enumerate(self.frame.groups):
            block = features.fill(start, stop, g)
            if len(self.frame.groups) == 1:
                product(self.by_group[g], block, out)
                part = out
            else:
                part = np.empty((len(group), block.shape[1]), block.dtype)
                product(self.by_group[g], block, part)
                out[group] = part
            if self.watch is not None and self.watch.turns():
                self.watch.scored(self.by_group[g], block, part, self.seen_again)
        for index, far in features.far.items():
            apart = [k for _, other, k in self.direct if other == index]
            out[np.ix_(np.setdiff1d(np.arange(self.count), apart), far)] = self.precision.log_zero
        for _, index, k in self.direct:
            self._substitute(features, index, k, start, stop, out)
        if not features.dense_labels:
            self._sparse(features, start, stop, out)
        for classes in features.classes.values():
            classes.score(start, stop, out, self.precision.log_zero)
        for index, terms in self._open.items():
            laid: Any = features.parts[index]
            a, b, where = laid.span(start, stop)
            out[:, where] += terms[:, laid.rows.x[a:b]]

    @property
    def whole(self) -> bool:
        """Whether a product and a table say all about the log-densities."""
        return len(self.frame.groups) == 1 and not (self.direct or self._open or self._classed)

    def by_label(self) -> np.ndarray | None:
        """Return log-densities plus log weights of each label (K, L) where rows hold one label and nothing else.

        None for other rows.
        """
        plan = self.plan
        if plan.dense > 1 or len(plan.codes) != 1 or plan.general or self._open:
            return None
        return np.asarray(self.dense[:, :1] + self.table)

    def _substitute(self, features: Features, index: int, k: int, start: int, stop: int, out: np.ndarray) -> None:
        dist = self.members[index][k]
        slot = self.plan.slots[index]
        leaf: Any = slot.node.leaf
        part: Any = features.parts[index]
        a, b, where = part.span(start, stop)
        factor = leaf.factor(dist)
        mean = self.found[index].mean[k]
        half = forward_square(factor, part.rows.x[a:b].T - mean[:, None])
        half *= -0.5
        half += -0.5 * len(mean) * LOG_2PI - float(np.add.reduce(np.log(np.diagonal(factor))))
        out[k, where] += np.maximum(half, LOG_ZERO, out=half)

    def _sparse(self, features: Features, start: int, stop: int, out: np.ndarray) -> None:
        rows = stop - start
        matrix, by_label = sparse_labels(features, self.plan, start, stop)
        if self.watch is not None:
            self.watch.labelled(self._by_label, by_label)
        out[:, :rows] += (matrix @ self._by_label).T


def sparse_labels(features: Features, plan: Plan, start: int, stop: int) -> tuple[Any, Any]:
    """Return rows × label columns as a sparse matrix, and its transpose.

    A row without a label points at the spare last column. The next block overwrites both.
    """
    rows, slots = stop - start, len(plan.codes)
    pair = features.sparse.get(rows)
    if pair is None:  # making the matrices anew costs more than the products with them
        from scipy.sparse import csr_array

        pointers = np.arange(0, rows * slots + 1, slots, dtype=np.int32)
        empty = np.zeros(rows * slots, dtype=np.int32)
        ones = np.ones(rows * slots, features.precision.dtype)
        matrix = csr_array((ones, empty, pointers), shape=(rows, features.total_labels + 1))
        pair = features.sparse[rows] = (matrix, matrix.T)
    if features.sparse_at == (start, stop):
        return pair
    features.sparse_at = (start, stop)
    columns = pair[0].indices.reshape(rows, slots)
    for position, slot in enumerate(plan.codes):
        found, where = features.codes(slot.index, start, stop)
        if not isinstance(where, slice):
            columns[:, position] = features.total_labels
        columns[where, position] = found
    if not np.may_share_memory(pair[0].indices, pair[1].indices):
        pair[1].indices[:] = pair[0].indices
    return pair


def impossible(maximum: np.ndarray) -> np.ndarray:
    """Return which rows no component supports, from their largest log-density."""
    return np.asarray(maximum <= LOG_ZERO / 10)
