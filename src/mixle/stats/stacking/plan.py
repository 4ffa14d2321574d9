"""Which row of the feature block belongs to which slot.

The feature block is features × rows. Its first row is ones; then come the gates of optionals and splits (present,
missing), the centred columns of all square slots, their squares, the features of linear slots, and for each quadratic
slot its transformed columns and their products. Labels come last, one-hot when they are few.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixle.stats.leaf import Rows, as_rows
from mixle.stats.stacking.tree import Slot

__all__ = ["DENSE_LABELS", "Attached", "Plan", "attach"]

#: Up to this many labels in all, they stand in the feature block one-hot; more go through a sparse matrix.
DENSE_LABELS = 24


class Attached(NamedTuple):
    """A slot's part of one chunk: encoded rows (or a general payload) and their positions in the chunk.

    Of a split these are the positions of the rows that its law sees; `around` are those of all its rows, None for all.
    """

    slot: Slot
    rows: Rows | None
    payload: Any
    present: np.ndarray | None
    around: np.ndarray | None = None

    def span(self, start: int, stop: int) -> tuple[int, int, Any]:
        """Return the own rows that lie in chunk rows ``start:stop`` and their columns relative to `start`."""
        if self.present is None:
            return start, stop, slice(0, stop - start)
        a, b = np.searchsorted(self.present, (start, stop))
        return int(a), int(b), self.present[a:b] - start


def attach(slots: tuple[Slot, ...], payload: Any) -> tuple[Attached, ...]:
    """Return each slot's part of an encoded chunk."""
    result: list[Attached] = []
    inner: dict[tuple[int, ...], tuple[Any, np.ndarray | None]] = {}
    for slot in slots:
        part, present = payload, None
        for depth, step in enumerate(slot.path):
            if step >= 0:
                part = part[step]
            elif step == -3:
                part, present = inner[slot.path[: depth + 1]]
            else:
                kept = part.rows if step == -2 else part
                present = _inner(present, kept.present)
                part = kept.payload
        if slot.node.kind == "optional":
            result.append(Attached(slot, None, part, _inner(present, part.present)))
        elif slot.node.kind == "split":
            handed, positions = slot.node.members[0].split_rows(part)
            inside = _inner(present, positions)
            inner[*slot.path, -3] = handed, inside
            result.append(Attached(slot, None, part, inside, present))
        elif slot.node.kind == "shell":
            rows = slot.node.members[0].shell_rows(part)
            result.append(Attached(slot, rows, part, present))
        elif slot.node.kind == "general":
            result.append(Attached(slot, None, part, present))
        else:
            rows = as_rows(part)
            if not rows.size:
                rows = as_rows(_empty(slot, part))
            result.append(Attached(slot, rows, part, present))
    return tuple(result)


def _empty(slot: Slot, part: Any) -> Any:
    """Return no rows, as wide as the laws of a slot where they tell: no row of the chunk has."""
    law = slot.node.members[0]
    return law.dist_to_encoder().seq_encode([]) if hasattr(law, "dist_to_encoder") else part


def _inner(outer: np.ndarray | None, inner: np.ndarray | None) -> np.ndarray | None:
    if outer is None or inner is None:
        return inner if outer is None else outer
    return np.asarray(outer[inner])


class Plan:
    """Rows of the feature block, given the widths of the slots."""

    def __init__(self, slots: tuple[Slot, ...], widths: dict[int, int]) -> None:
        self.slots, self.widths = slots, widths
        row = 1
        self.gates: dict[int, int] = {}
        for slot in self._of("optional", "split"):
            self.gates[slot.index] = row
            row += 2
        self.first_square = row
        self.squares: list[tuple[Slot, int, int]] = []
        for slot in self._of("square"):
            self.squares.append((slot, row - self.first_square, widths[slot.index]))
            row += widths[slot.index]
        self.columns = row - self.first_square
        row += self.columns
        self.linear: list[tuple[Slot, int, int]] = []
        for slot in self._of("linear"):
            self.linear.append((slot, row, widths[slot.index]))
            row += widths[slot.index]
        self.quadratic: list[tuple[Slot, int, int]] = []
        for slot in self._of("quadratic"):
            d = widths[slot.index]
            self.quadratic.append((slot, row, d))
            row += d + d * (d + 1) // 2
        self.dense = row
        self.codes = self._of("code")
        self.general = self._of("general")

    def _of(self, *kinds: str) -> list[Slot]:
        return [slot for slot in self.slots if slot.node.kind in kinds]

    def gate_row(self, slot: Slot) -> int:
        """Return the feature row that is one where the slot has a value."""
        return self.gates[slot.gate] if slot.gate >= 0 else 0

    @classmethod
    def of(cls, attached: tuple[Attached, ...]) -> Plan:
        """Return the plan for the widths of an encoded chunk."""
        widths: dict[int, int] = {}
        for part in attached:
            kind = part.slot.node.kind
            if kind in ("square", "quadratic") and part.rows is not None:
                widths[part.slot.index] = part.rows.x.shape[1] if part.rows.x.ndim == 2 else 1
            elif kind == "linear" and part.rows is not None:
                widths[part.slot.index] = len(part.rows.x)
        return cls(tuple(part.slot for part in attached), widths)
