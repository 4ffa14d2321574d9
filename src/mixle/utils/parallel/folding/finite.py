"""Tell whether every number of a statistic is finite."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["all_finite"]


def all_finite(value: Any) -> bool:
    """Return False if an infinity or NaN hides anywhere in `value`.

    Arrays, sequences, sets, mappings (keys too), dataclasses, ``__dict__`` and ``__slots__`` are walked, each object
    once; strings, bytes, booleans and None hold no number.

    Examples
    --------
    >>> all_finite({"a": (1, [2.0])}), all_finite({"a": (1, [float("nan")])})
    (True, False)
    """
    seen: set[int] = set()
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is str or item is None:
            continue
        if kind is np.ndarray and item.dtype.kind == "f":
            if not bool(np.isfinite(item).all()):
                return False
            continue
        if _is_bare(kind):
            if id(item) not in seen:
                seen.add(id(item))
                stack.extend(item)
            continue
        if isinstance(item, (str, bytes, bool, int, np.bool_, np.integer)):
            continue
        if isinstance(item, (float, complex, np.inexact)):
            if not _finite_number(item):
                return False
            continue
        if isinstance(item, np.ndarray) and item.dtype.kind not in "OV":
            if item.dtype.kind in "fc" and not bool(np.isfinite(item).all()):
                return False
            continue
        if id(item) not in seen:
            seen.add(id(item))
            stack.extend(_parts(item))
    return True


@functools.cache
def _is_bare(kind: type[Any]) -> bool:
    """Return whether values of a type are tuples that hold nothing beside their items, and cannot hold themselves."""
    if not issubclass(kind, tuple) or dataclasses.is_dataclass(kind) or kind.__dictoffset__:
        return False
    return kind.__iter__ is tuple.__iter__ and not any(vars(base).get("__slots__") for base in kind.__mro__)


def _finite_number(item: Any) -> bool:
    number = complex(item)
    return math.isfinite(number.real) and math.isfinite(number.imag)


def _parts(item: Any) -> Iterator[Any]:
    if isinstance(item, np.ndarray):
        yield from item.ravel().tolist() if item.dtype.kind == "O" else (item[name] for name in item.dtype.names or ())
    elif isinstance(item, Mapping):
        for key, part in item.items():
            yield key
            yield part
    elif isinstance(item, (list, tuple, set, frozenset)):
        yield from item
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        for entry in dataclasses.fields(item):
            yield getattr(item, entry.name, None)
    if not isinstance(item, type):
        yield from _attributes(item)


def _attributes(item: Any) -> Iterator[Any]:
    yield from getattr(item, "__dict__", {}).values()
    for kind in type(item).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield getattr(item, name, None)
