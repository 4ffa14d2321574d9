"""What a model tree costs: work of one row and bytes of parameters, node by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixle.stats.decomposition import DecompAxis, Decomposition
from mixle.utils.parallel.planning.memory import payload_nbytes

__all__ = [
    "NodeSize",
    "compute_cost",
    "cost_children",
    "decomposition_of",
    "roles_of",
    "shard_children",
    "size_model_tree",
    "subtree_work",
]


def _is_law(value: Any) -> bool:
    return hasattr(value, "seq_log_density") and not isinstance(value, type)


def _parts(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        return tuple(value.values())
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def cost_children(model: Any) -> tuple[Any, ...]:
    """Return the distributions in a model's public attributes, also in lists, tuples and mappings, each once.

    Examples
    --------
    >>> from mixle.stats import CompositeDistribution, GaussianDistribution, PoissonDistribution
    >>> len(cost_children(CompositeDistribution((GaussianDistribution(0.0, 1.0), PoissonDistribution(2.0)))))
    2
    """
    found: dict[int, Any] = {}
    for name, value in vars(model).items() if hasattr(model, "__dict__") else ():
        if name.startswith("_"):
            continue
        found.update((id(part), part) for part in _parts(value) if _is_law(part))
    return tuple(found.values())


def shard_children(node: Any, dc: Decomposition | None = None) -> tuple[Any, ...]:
    """Return the distributions that lie along the axis of a node's decomposition, empty without an axis.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, MixtureDistribution
    >>> len(shard_children(MixtureDistribution([GaussianDistribution(0.0, 1.0)] * 3)))
    3
    """
    dc = decomposition_of(node) if dc is None else dc
    if not dc.is_shardable:
        return ()
    for name, value in vars(node).items():
        parts = tuple(value.values()) if isinstance(value, Mapping) else value
        if name.startswith("_") or not isinstance(parts, (list, tuple)) or len(parts) != dc.num_units:
            continue
        if all(_is_law(part) for part in parts):
            return tuple(parts)
    return ()


def decomposition_of(model: Any) -> Decomposition:
    """Return what a model tells about its parts; one that tells nothing is one unit."""
    tell = getattr(model, "decomposition", None)
    found = tell() if callable(tell) else None
    return found if isinstance(found, Decomposition) else Decomposition.atomic()


def _numbers(model: Any) -> Iterator[Any]:
    """Yield the public numbers and arrays of a node: its attributes, and properties of its class."""
    names = [name for name in getattr(model, "__dict__", {}) if not name.startswith("_")]
    names += [
        name
        for kind in type(model).__mro__
        for name, value in vars(kind).items()
        if isinstance(value, property) and not name.startswith("_") and name not in names
    ]
    for name in dict.fromkeys(names):
        try:
            value = getattr(model, name)
        except Exception:  # noqa: BLE001 - a property that cannot be asked now costs nothing
            continue
        if isinstance(value, (np.ndarray, float, int)) and not isinstance(value, bool):
            yield value


def _own_work(model: Any) -> float:
    return 1.0 + sum(float(value.size) if isinstance(value, np.ndarray) else 1.0 for value in _numbers(model))


def _own_bytes(model: Any) -> int:
    """Return the bytes of a node's own parameters, its parts left out."""
    kept = {
        name: value
        for name, value in getattr(model, "__dict__", {}).items()
        if not name.startswith("_") and not _holds_laws(value)
    }
    return payload_nbytes(list(kept.values()))


def _holds_laws(value: Any) -> bool:
    return any(_is_law(part) for part in _parts(value))


def compute_cost(model: Any, _seen: dict[int, Any] | None = None) -> tuple[float, int]:
    """Return (work of one row, bytes of the parameters) of a model tree; a part that is used twice counts once.

    The work is a proxy: per node 1, and 1 for each number among its public attributes and properties. Bytes are those
    of `estimate_model_nbytes`: scalars count as well as arrays.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> compute_cost(GaussianDistribution(0.0, 1.0))
    (5.0, 48)
    """
    seen: dict[int, Any] = {} if _seen is None else _seen
    if id(model) in seen:
        return 0.0, 0
    seen[id(model)] = model
    work, size = _own_work(model), _own_bytes(model)
    for child in cost_children(model):
        more, bytes_ = compute_cost(child, seen)
        work, size = work + more, size + bytes_
    return work, size


def subtree_work(model: Any, _seen: dict[int, Any] | None = None) -> float:
    """Return the work of one row, as `compute_cost` counts it.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> subtree_work(PoissonDistribution(2.0)) > 1.0
    True
    """
    return compute_cost(model, _seen)[0]


@dataclass(frozen=True)
class NodeSize:
    """One node of a model tree with its size.

    Attributes
    ----------
    path : str
        Roles from the root, joined by "/"; empty for the root.
    axis : DecompAxis
        Axis of its decomposition.
    num_units : int
        Parts along it.
    own_param_bytes, subtree_param_bytes : int
        Bytes of its own parameters, and with all below.
    subtree_work : float
        Work of one row.
    children : tuple of NodeSize
        Nodes below.
    """

    path: str
    axis: DecompAxis
    num_units: int
    own_param_bytes: int
    subtree_param_bytes: int
    subtree_work: float = 1.0
    children: tuple[NodeSize, ...] = ()


def size_model_tree(model: Any, _path: str = "", _seen: set[int] | None = None) -> NodeSize:
    """Return the sizes of all nodes of a model tree.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, MixtureDistribution
    >>> [n.path for n in size_model_tree(MixtureDistribution([GaussianDistribution(0.0, 1.0)] * 2)).children]
    ['component_0', 'component_1']
    """
    dc, children = decomposition_of(model), []
    for role, child in roles_of(model, dc):
        children.append(size_model_tree(child, f"{_path}/{role}" if _path else role))
    work, size = compute_cost(model)
    return NodeSize(_path, dc.axis, dc.num_units, _own_bytes(model), size, work, tuple(children))


def roles_of(model: Any, dc: Decomposition) -> list[tuple[str, Any]]:
    """Return (role, child) of all children of a node: those along its axis, then the others."""
    along = shard_children(model, dc)
    named = list(zip(dc.child_roles, along, strict=True)) if len(dc.child_roles) == len(along) else []
    known = {id(child) for child in along}
    others = [child for child in cost_children(model) if id(child) not in known]
    return named + [(f"child_{i}", child) for i, child in enumerate(others)]
