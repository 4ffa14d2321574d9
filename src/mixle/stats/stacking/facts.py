"""What the E-step of a chunk needs to know of its components, whatever the rows are."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixle.stats.precision import Working
from mixle.stats.stacking.features import use_dense
from mixle.stats.stacking.frame import frame_of_model, normals
from mixle.stats.stacking.lookup import MANY, Laid, Lookup
from mixle.stats.stacking.natural import Natural
from mixle.stats.stacking.plan import Attached, Plan

__all__ = ["Facts", "chunk_labels"]


class Facts:
    """Parameters, centres, tables and coefficients of K components; chunks of the same widths share them.

    Parameters
    ----------
    plan : Plan
        Rows of the feature block.
    weights, log_weights : ndarray, shape (K,)
        Mixture weights and their logarithms.

    Attributes
    ----------
    members : dict
        The K distributions of each slot, by slot index.
    found : dict
        Parameters of the normal slots.
    lookups : dict
        What is known of the labels of each code slot, by slot index.
    frame : Frame
        Centres and scales.
    dense_labels : bool
        Whether labels stand in the block one-hot.
    """

    def __init__(self, plan: Plan, weights: np.ndarray, log_weights: np.ndarray) -> None:
        self.plan, self.log_weights = plan, log_weights
        self.members = {slot.index: slot.node.members for slot in plan.slots}
        self.found = normals(plan, self.members)
        self.lookups = {slot.index: Lookup(slot.node.leaf, slot.node.members) for slot in plan.codes}
        self.frame = frame_of_model(plan, self.found, weights)
        self.dense_labels = use_dense(one.labels for one in self.lookups.values())
        self._naturals: dict[Working, Natural] = {}

    def natural(self, precision: Working) -> Natural:
        """Return the coefficients for products in a precision; each chunk binds a copy."""
        natural = self._naturals.get(precision)
        if natural is None:
            natural = Natural(self.plan, self.frame, self.members, self.found, self.log_weights, precision)
            self._naturals[precision] = natural
        return natural

    def lay(self, attached: tuple[Attached, ...]) -> dict[int, Laid]:
        """Return the labels of each code slot for a chunk: of very many only those that it has."""
        laid = {}
        for index, known in self.lookups.items():
            rows: Any = attached[index].rows
            few = self.dense_labels or len(known.labels) <= MANY or rows is None
            laid[index] = known.lay(chunk_labels(attached[index]), None if few else rows.x)
        return laid


def chunk_labels(part: Attached) -> tuple[Any, ...]:
    """Return the labels of a chunk's codes."""
    return part.rows.labels if part.rows is not None and part.rows.labels else ()
