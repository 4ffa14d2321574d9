"""Along which axis a model falls into parts, and how the parts' results come together."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = ["DecompAxis", "Decomposition", "ReductionOp", "axis_of"]


class DecompAxis(Enum):
    """What the parts of a model are."""

    NONE = "none"
    COMPONENT = "component"
    FACTOR = "factor"
    STATE = "state"
    SEQUENCE = "sequence"


class ReductionOp(Enum):
    """How the results of the parts come together."""

    REPLICATE = "replicate"
    SUM = "sum"
    LOGSUMEXP_RESPONSIBILITY = "logsumexp"


@dataclass(frozen=True)
class Decomposition:
    """The parts of one node of a model tree.

    Attributes
    ----------
    axis : DecompAxis
        What the parts are.
    num_units : int
        Number of parts; 1 where the node cannot be divided.
    reduction : ReductionOp
        How their results come together.
    exact : bool
        Whether the divided model computes what the whole one does.
    child_roles : tuple of str
        Name of each part.
    shared_children : tuple of str
        Roles of children that every part needs.
    engine_axis : int or None
        Axis of the stacked arrays that the parts lie along.
    key_pooling : bool
        Whether tying keys pool statistics across the parts.
    extra : dict
        Further facts.

    Examples
    --------
    >>> Decomposition(DecompAxis.FACTOR, 2, ReductionOp.SUM).is_shardable
    True
    """

    axis: DecompAxis = DecompAxis.NONE
    num_units: int = 1
    reduction: ReductionOp = ReductionOp.REPLICATE
    exact: bool = True
    child_roles: tuple[str, ...] = ()
    shared_children: tuple[str, ...] = ()
    engine_axis: int | None = None
    key_pooling: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_shardable(self) -> bool:
        """Return whether there are two parts or more."""
        return self.num_units > 1

    @classmethod
    def atomic(cls) -> Decomposition:
        """Return the decomposition of a node without parts."""
        return cls()


def axis_of(
    axis: DecompAxis, roles: list[str], reduction: ReductionOp = ReductionOp.SUM, **facts: Any
) -> Decomposition:
    """Return a decomposition with one unit for each role.

    Examples
    --------
    >>> axis_of(DecompAxis.FACTOR, ["factor_0", "factor_1"]).num_units
    2
    """
    return Decomposition(axis, len(roles), reduction, child_roles=tuple(roles), **facts)
