"""Choosing one of several laws by the type of a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.refusals import shown
from mixle.stats.serialize import Serializable

__all__ = ["TypeDispatch"]

_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool, np.bool_),
    "bytes": (bytes,),
    "complex": (complex, np.complexfloating),
    "float": (float, np.floating),
    "int": (int, np.integer),
    "number": (int, float, np.integer, np.floating),
    "str": (str,),
}


def _names(spec: Any) -> tuple[str, ...]:
    """Return the names of one branch's types."""
    parts = spec if isinstance(spec, (tuple, list)) else (spec,)
    names = tuple(part.__name__ if isinstance(part, type) else part for part in parts)
    for name in names:
        if not isinstance(name, str) or name not in _TYPES:
            raise ValueError(f"{shown(name)} is no type of a TypeDispatch; known are {', '.join(sorted(_TYPES))}")
    return names


class TypeDispatch(Serializable):
    """Choice function: the first branch of whose types a value is.

    Parameters
    ----------
    specs : sequence
        For each branch a type, its name, or a tuple of them, of bool, bytes, complex, float, int, number and str. A
        truth value is an int too, so "bool" stands before it.

    Examples
    --------
    >>> choose = TypeDispatch([str, (int, float)])
    >>> choose("a"), choose(2.5), choose(np.int64(3)), choose
    (0, 1, 1, TypeDispatch((('str',), ('int', 'float'))))
    """

    _fields: ClassVar[tuple[str, ...]] = ("specs",)

    def __init__(self, specs: Sequence[Any]) -> None:
        if not isinstance(specs, (list, tuple)):
            raise TypeError(f"specs of a TypeDispatch lists types, as [str, (int, float)], not {shown(specs)}")
        self.specs = tuple(_names(spec) for spec in specs)

    def __call__(self, value: Any) -> int:
        """Return the branch of `value`, −1 if it has none."""
        for k, names in enumerate(self.specs):
            if any(isinstance(value, _TYPES[name]) for name in names):
                return k
        return -1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeDispatch) and self.specs == other.specs

    def __hash__(self) -> int:
        return id(type(self))
