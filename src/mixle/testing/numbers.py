"""The float numbers inside any object: how many there are, and a copy with some bits of one of them changed."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["BANDS", "altered", "count_numbers", "flip_bytes", "flipped", "set_bit"]

#: Bits of a double by what they mean.
BANDS: dict[str, range] = {
    "sign": range(63, 64),
    "exponent": range(52, 63),
    "mantissa 1": range(39, 52),
    "mantissa 2": range(26, 39),
    "mantissa 3": range(13, 26),
    "mantissa 4": range(13),
}

Change = Callable[[np.ndarray], None]  # of the bits (uint64) of one number, in place


def flipped(*bits: int) -> Change:
    """Return a change that flips bits."""
    mask = np.uint64(0)
    for bit in bits:
        mask ^= np.uint64(1 << bit)

    def change(number: np.ndarray) -> None:
        number ^= mask

    return change


def set_bit(bit: int) -> Change:
    """Return a change that sets one bit: a line that is stuck at one."""

    def change(number: np.ndarray) -> None:
        number |= np.uint64(1 << bit)

    return change


def count_numbers(value: Any) -> int:
    """Return the number of doubles inside a value: of arrays, sequences, mappings and attributes.

    Examples
    --------
    >>> count_numbers((1.0, [2, 3.0], np.ones(4)))
    6
    """
    return sum(size for _, size in _leaves(value, {}))


def altered(value: Any, number: int, change: Change) -> Any:
    """Return a copy of a value in which one of its doubles has other bits.

    Parameters
    ----------
    value : Any
        A statistic, a model, an encoded chunk.
    number : int
        Which double, in the order of `count_numbers`, modulo their number.
    change : callable
        Changes an array of one uint64 in place.

    Raises
    ------
    ValueError
        If there is no double inside.

    Examples
    --------
    >>> altered((1.0, np.zeros(2)), 0, flipped(63))
    (-1.0, array([0., 0.]))
    """
    total = count_numbers(value)
    if not total:
        raise ValueError(f"there is no float number inside a {type(value).__name__}; pass a statistic that holds some")
    return _Copy(number % total, change).of(value)


def flip_bytes(parts: list[Any], bit: int) -> list[memoryview]:
    """Return buffers as one in which one bit, modulo their number, is flipped."""
    joined = bytearray(b"".join(bytes(part) for part in parts))
    bit %= 8 * len(joined)
    joined[bit // 8] ^= 1 << (bit % 8)
    return [memoryview(joined)]


def _is_floats(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object of this or a user's package, those in slots too."""
    if isinstance(value, type) or callable(value) or type(value).__module__ in {"builtins", "numpy"}:
        return {}
    slots = [name for kind in type(value).__mro__ for name in _names(getattr(kind, "__slots__", ()))]
    found = {name: getattr(value, name) for name in slots if name[:2] != "__" and hasattr(value, name)}
    return {**found, **getattr(value, "__dict__", {})}


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _leaves(value: Any, seen: dict[int, Any]) -> Iterator[tuple[Any, int]]:
    """Yield what holds doubles, and how many; what is met a second time is not counted again."""
    if isinstance(value, float):  # numpy's doubles are floats too
        yield value, 1
        return
    if _is_floats(value):
        yield value, value.size
        return
    if id(value) in seen or isinstance(value, (str, bytes, int, np.ndarray, type(None))):
        return
    seen[id(value)] = value
    if isinstance(value, (tuple, list)):
        items: list[Any] = list(value)
    else:
        items = list(value.values()) if isinstance(value, dict) else list(_attributes(value).values())
    for item in items:
        yield from _leaves(item, seen)


class _Copy:
    """Copies along the one path that leads to a number."""

    def __init__(self, number: int, change: Change) -> None:
        self.left, self.change, self.done = number, change, False

    def of(self, value: Any) -> Any:
        """Return the value, copied where it differs."""
        size = 1 if isinstance(value, float) else value.size if _is_floats(value) else None
        if self.done:
            return value
        if size is not None:
            return self._number(value, size)
        inside = count_numbers(value)
        if self.left >= inside:
            self.left -= inside
            return value
        return self._parts(value)

    def _number(self, value: Any, size: int) -> Any:
        if self.left >= size:
            self.left -= size
            return value
        self.done = True
        array = np.array(value, dtype=np.float64)  # a copy that may be written
        flat = array.reshape(-1)
        self.change(flat[self.left : self.left + 1].view(np.uint64))
        return float(array) if isinstance(value, float) else flat.reshape(np.shape(value))

    def _parts(self, value: Any) -> Any:
        if isinstance(value, tuple):
            items = [self.of(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items()}
        twin = copy.copy(value)
        for name, item in _attributes(value).items():
            new = self.of(item)
            if new is not item:
                object.__setattr__(twin, name, new)
        return twin


def relative_difference(found: Any, wanted: Any) -> float:
    """Return the largest relative difference of two models' parameters; infinite where they cannot be compared."""
    pairs = zip(_floats_of(found), _floats_of(wanted), strict=True)
    try:
        return max((_relative(a, b) for a, b in pairs), default=0.0)
    except ValueError:
        return math.inf


def _floats_of(model: Any) -> list[float]:
    """Return the numbers of a model's JSON."""
    numbers: list[float] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for item in value.values():
                walk(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                walk(item)
        elif isinstance(value, float):
            numbers.append(value)
        elif isinstance(value, np.ndarray):
            numbers.extend(float(x) for x in value.ravel())

    walk(model.to_dict())
    return numbers


def _relative(a: float, b: float) -> float:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b))
