"""Whether float32 says of a chunk what float64 does: asked of the model and the rows before a product is computed.

The rounding of a log-density is the unit of float32, 2^-24, times the sum of the absolute terms of the product. Where
that may be more than some thousandths, the chunk is computed in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixle.stats.kinds import LOG_ZERO
from mixle.stats.stacking.frame import Frame, Normal
from mixle.stats.stacking.plan import Attached, Plan

__all__ = ["FAR_ROW", "holds", "suits"]

#: Largest sum of absolute terms of a row near its component: 5e-4 in log-density.
TERMS = 8192.0
#: A block with a row whose largest log-density is below this is computed in float64.
FAR_ROW = -8192.0
#: Standard deviations outside of this range leave float32 too little room for squares.
SPREAD = 1e-9, 1e9
#: Row weights whose largest lies outside of this range leave it too little room for weighted sums.
WEIGHTS = 1e-9, 1e9


def suits(
    plan: Plan,
    frame: Frame,
    attached: tuple[Attached, ...],
    members: dict[int, tuple[Any, ...]],
    found: dict[int, Normal],
) -> bool:
    """Return whether a chunk may be computed in float32 under K components.

    Parameters
    ----------
    plan, frame : Plan, Frame
        Rows and centres of the feature block.
    attached : tuple of Attached
        The chunk's payload by slot.
    members : dict
        The K distributions of each slot, by slot index.
    found : dict
        Parameters of the normal slots, by slot index.
    """
    if plan.dense == 1 and not plan.codes:
        return False  # nothing stacks: components are called one by one
    return _squares(plan, frame, found) and _linear(plan, attached, members)


def _squares(plan: Plan, frame: Frame, found: dict[int, Normal]) -> bool:
    if not plan.squares:
        return True
    mean = np.concatenate([found[slot.index].mean for slot, _, _ in plan.squares], axis=1)
    sd = np.sqrt(np.concatenate([found[slot.index].spread for slot, _, _ in plan.squares], axis=1))
    if not (sd.min() >= SPREAD[0] and sd.max() <= SPREAD[1]):
        return False
    for group, centre in zip(frame.groups, frame.centres, strict=True):
        distance = (mean[group] - centre) / sd[group]
        if not np.add.reduce(distance * distance, axis=1).max() <= TERMS:
            return False
    return True


def _linear(plan: Plan, attached: tuple[Attached, ...], members: dict[int, tuple[Any, ...]]) -> bool:
    rows = {part.slot.index: part.rows for part in attached}
    for slot, _, d in plan.linear:
        leaf: Any = slot.node.leaf
        eta = np.array([leaf.natural(dist)[0] for dist in members[slot.index]])
        eta = np.where(eta <= LOG_ZERO / 10, 0.0, np.abs(eta))
        features: Any = rows[slot.index]
        for j in range(d):
            x = features.x[j]
            size = max(float(np.max(x)), -float(np.min(x))) if len(x) else 0.0
            if not size * max(1.0, float(eta[:, j].max())) <= TERMS:
                return False
    return True


def holds(weights: np.ndarray | None) -> bool:
    """Return whether row weights may be multiplied in float32."""
    if weights is None or not len(weights):
        return True
    largest = float(np.max(weights))
    return largest == 0.0 or WEIGHTS[0] <= largest <= WEIGHTS[1]
