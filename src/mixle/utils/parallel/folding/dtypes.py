"""Types of arrays as plain data, and which of them raw memory says everything about."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from mixle.errors import PayloadError

__all__ = ["REMEMBERED", "array_of", "describe", "dtype_of", "integers", "is_plain", "malformed"]

REMEMBERED = 256  # descriptions at most, and blocks that stand for constant tuples

_PLAIN = re.compile(r"[<>|=]?[biufcSUVmM]\d+(\[[a-zA-Z0-9/]+\])?|[<>|=]?[mM]8(\[[a-zA-Z0-9/]+\])?|\|?b1|\?")
_dtypes: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in ("<f8", "<i8", "|b1", "|u1", "<u8", "<i4")}


def malformed(what: str) -> PayloadError:
    """Return the error of a payload whose checksum holds, and which says `what` no writer of this version does."""
    return PayloadError(f"{what}; encode it again with this version of mixle")


def is_plain(kind: np.dtype[Any]) -> bool:
    """Return whether raw memory says everything about values of this dtype."""
    if kind.hasobject or kind.metadata or kind.kind not in "biufcSUVmM":
        return False
    if kind.names is None:
        return kind.shape == () and _PLAIN.fullmatch(kind.str) is not None
    return all(len(field) == 2 and is_plain(field[0].base) for field in (kind.fields or {}).values())


def describe(kind: Any) -> Any:
    """Return a dtype as plain data: its string, or its fields, offsets, size and alignment."""
    if kind.names is None:
        return kind.str
    fields = [kind.fields[name] for name in kind.names]
    formats = tuple((describe(field[0].base), field[0].shape) for field in fields)
    return kind.names, formats, tuple(field[1] for field in fields), kind.itemsize, bool(kind.isalignedstruct)


def dtype_of(description: Any) -> np.dtype[Any]:
    """Return the dtype that `describe` described."""
    if isinstance(description, str):
        known = _dtypes.get(description)
        if known is not None:
            return known
        if not _PLAIN.fullmatch(description):
            raise malformed(f"a payload has the dtype {description!r}")
        return np.dtype(description)
    names, formats, offsets, itemsize, aligned = description
    fields = [(dtype_of(base), shape) if shape else dtype_of(base) for base, shape in formats]
    spec: Any = {"names": list(names), "formats": fields, "offsets": list(offsets), "itemsize": itemsize}
    return np.dtype(spec, align=aligned)  # type: ignore[no-any-return]


_TAGGED = np.dtype([("tag", "S1"), ("number", "<i8")])


def integers(values: Any, tag: bytes) -> bytes | None:
    """Return a tag of one byte and eight bytes for each integer, None if there are others or they are longer.

    Examples
    --------
    >>> len(integers((1, 2), b"i")), integers((1, True), b"i"), integers((1 << 63,), b"i")
    (18, None, None)
    """
    if set(map(type, values)) != {int}:
        return None
    written = np.empty(len(values), _TAGGED)
    try:
        written["number"] = np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return None
    written["tag"] = tag
    return written.tobytes()


_arrays: dict[Any, tuple[Any, tuple[int, ...], np.dtype[Any], int]] = {}


def array_of(told: Any) -> tuple[Any, tuple[int, ...], np.dtype[Any], int]:
    """Return order, shape, dtype and bytes of an array from what stands before it: ``(order, shape, description)``."""
    found = _arrays.get(told)
    if found is None:
        order, shape, description = told
        kind = dtype_of(description)
        if kind.hasobject or min(shape, default=0) < 0:
            raise malformed(f"a payload has an array of shape {shape} and dtype {kind}")
        if len(_arrays) >= REMEMBERED:
            _arrays.clear()
        found = _arrays[told] = order, shape, kind, math.prod(shape) * kind.itemsize
    return found
