"""The common shape of K models, flattened to slots.

K models whose trees of composites, optionals, shells, splits and leaves agree are *stacked*: each position of the tree
is one slot for all K of them. Where they differ, or where a family brings its own accumulator, the slot is *general*
and its K members are called one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from mixle.stats.leaf import Leaf

__all__ = ["Node", "Shell", "Slot", "flatten", "leaf_named", "signature", "unify"]

STACKABLE = frozenset({"square", "quadratic", "linear", "code"})
#: What a split may stand around.
SINGLE = STACKABLE | {"optional", "shell"}


class Shell(NamedTuple):
    """What stands around one law without adding to its features.

    A *shell* adds a term for each row, and one for each component. A *split* hands its law some of the rows and scores
    the others by itself.

    Attributes
    ----------
    name : str
        The combinator. The statistic of a shell is ``(1, child's, weight, 0)``.
    tag : object
        What has to be equal of all components.
    child : object
        The law (or estimator) inside.
    """

    name: str
    tag: Any
    child: Any


class Node(NamedTuple):
    """A position of the common tree: `kind` is composite, optional, null, shell, split, general, or that of a leaf."""

    kind: str
    leaf: Leaf | None
    children: tuple[Node, ...]
    members: tuple[Any, ...]
    shell: Shell | None = None


@dataclass(frozen=True)
class Slot:
    """A node that has features or statistics of its own.

    Attributes
    ----------
    index : int
        Position among the slots, in the order of the tree.
    node : Node
        What stands there.
    gate : int
        Slot of the innermost optional or split around it, -1 without one.
    path : tuple of int
        Way to its payload: the child's position in composites, -1 through an optional, -2 through a shell, -3
        through a split.
    """

    index: int
    node: Node
    gate: int
    path: tuple[int, ...]


def unify(members: Sequence[Any]) -> Node:
    """Return the common tree of K distributions (or of K estimators)."""
    everyone = tuple(members)
    described = [_described(member) for member in everyone]
    if len({kind for kind, _ in described}) != 1:
        return Node("general", None, (), everyone)
    kind, first = described[0]
    if kind == "leaf":
        same = all(data == first for _, data in described)
        if same and first.kind in STACKABLE:
            return Node(first.kind, first, (), everyone)
    elif kind == "null":
        return Node("null", None, (), everyone)
    elif kind == "optional":
        return Node("optional", None, (unify([data for _, data in described]),), everyone)
    elif kind in ("shell", "split"):
        shells = [data for _, data in described]
        child = unify([shell.child for shell in shells])
        fits = child.kind in SINGLE if kind == "split" else child.kind != "general"
        if fits and all(shell[:2] == first[:2] for shell in shells):
            return Node(kind, None, (child,), everyone, first)
    elif kind == "composite" and len({len(data) for _, data in described}) == 1:
        children = tuple(unify(position) for position in zip(*(data for _, data in described), strict=True))
        return Node("composite", None, children, everyone)
    return Node("general", None, (), everyone)


def _described(member: Any) -> tuple[str, Any]:
    """Return (kind, data) as the member tells it; a member that tells nothing is general."""
    tell = getattr(member, "stack_node", None)
    found = None if tell is None else tell()
    return ("general", None) if found is None else (str(found[0]), found[1])


def flatten(node: Node) -> tuple[Slot, ...]:
    """Return the slots of a tree: leaves, general nodes, and optionals ahead of what they gate."""
    slots: list[Slot] = []
    for found, gate, path in _walk(node, -1, (), slots):
        slots.append(Slot(len(slots), found, gate, path))
    return tuple(slots)


def _walk(
    node: Node, gate: int, path: tuple[int, ...], slots: list[Slot]
) -> Iterator[tuple[Node, int, tuple[int, ...]]]:
    if node.kind == "composite":
        for position, child in enumerate(node.children):
            yield from _walk(child, gate, (*path, position), slots)
    elif node.kind == "optional":
        yield node, gate, path
        yield from _walk(node.children[0], len(slots) - 1, (*path, -1), slots)
    elif node.kind == "shell":
        yield node, gate, path
        yield from _walk(node.children[0], gate, (*path, -2), slots)
    elif node.kind == "split":
        yield node, gate, path
        yield from _walk(node.children[0], len(slots) - 1, (*path, -3), slots)
    elif node.kind != "null":
        yield node, gate, path


def signature(node: Node) -> tuple[Any, ...]:
    """Return the tree as nested tuples of strings: equal signatures, equal layouts of statistics."""
    if node.leaf is not None:
        return (node.kind, node.leaf.name)
    inner = tuple(signature(child) for child in node.children)
    return (node.kind, *inner) if node.shell is None else (node.kind, node.shell.name, *inner)


@cache
def leaf_named(name: str) -> Leaf:
    """Return the facts of a leaf family by its name."""
    import mixle.stats

    for cls in _subclasses(Leaf):
        if getattr(cls, "name", None) == name:
            leaf: Leaf = cls()
            return leaf
    found: Leaf = getattr(mixle.stats, f"{name}Distribution").leaf
    return found


def _subclasses(cls: Any) -> Iterator[Any]:
    for child in cls.__subclasses__():
        yield child
        yield from _subclasses(child)
