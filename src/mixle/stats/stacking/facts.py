"""What the E-step of a chunk needs to know of its components, whatever the rows are."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixle.stats.precision import Working
from mixle.stats.stacking.features import places_of, use_dense
from mixle.stats.stacking.frame import frame_of_model, normals
from mixle.stats.stacking.natural import Natural
from mixle.stats.stacking.plan import Plan
from mixle.stats.stacking.tree import Node

__all__ = ["Facts"]


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
    labels : dict
        Labels of each code slot in the order of their columns.
    places : dict
        The column of each of these labels, by slot index.
    frame : Frame
        Centres and scales.
    dense_labels : bool
        Whether labels stand in the block one-hot.
    """

    def __init__(self, plan: Plan, weights: np.ndarray, log_weights: np.ndarray) -> None:
        self.plan, self.log_weights = plan, log_weights
        self.members = {slot.index: slot.node.members for slot in plan.slots}
        self.found = normals(plan, self.members)
        self.labels = {slot.index: _model_labels(slot.node) for slot in plan.codes}
        self.places = places_of(self.labels)
        self.frame = frame_of_model(plan, self.found, weights)
        self.dense_labels = use_dense(plan, self.labels)
        self._naturals: dict[Working, Natural] = {}

    def natural(self, precision: Working) -> Natural:
        """Return the coefficients for products in a precision; each chunk binds a copy."""
        natural = self._naturals.get(precision)
        if natural is None:
            natural = Natural(self.plan, self.frame, self.members, self.found, self.log_weights, precision)
            self._naturals[precision] = natural
        return natural


def _model_labels(node: Node) -> tuple[Any, ...]:
    leaf: Any = node.leaf
    first = tuple(leaf.model_labels(node.members[0]))
    if all(leaf.model_labels(dist) == first for dist in node.members[1:]):
        return tuple(dict.fromkeys(first))
    names: dict[Any, None] = {}
    for dist in node.members:
        names.update(dict.fromkeys(leaf.model_labels(dist)))
    return tuple(names)
