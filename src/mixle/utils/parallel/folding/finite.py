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
        told = _of_itself(item)
        if told is None and id(item) not in seen:
            seen.add(id(item))
            stack.extend(item if _is_bare(item.__class__) else _parts(item))
        elif told is False:
            return False
    return True


def _of_itself(item: Any) -> bool | None:
    """Return whether a number, an array of numbers, or text is finite; None for what holds others."""
    kind = type(item)
    if kind is np.ndarray and item.dtype.kind == "f":
        return bool(np.isfinite(item).all())
    if kind is tuple:
        return None
    if item is None or isinstance(item, (str, bytes, bool, int, np.bool_, np.integer)):
        return True
    if isinstance(item, (float, complex, np.inexact)):
        return _finite_number(item)
    if isinstance(item, np.ndarray) and item.dtype.kind not in "OV":
        return item.dtype.kind not in "fc" or bool(np.isfinite(item).all())
    return None


@functools.cache
def _is_bare(kind: type[Any]) -> bool:
    """Return whether values of a type are tuples that hold nothing beside their items."""
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
