"""Two statistics compared as typed numbers inside a declared envelope."""

from __future__ import annotations

import datetime as dt
import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["WITHIN", "Comparison", "attributes_of", "compare", "failure", "plain"]

WITHIN = "within declared numeric envelope"
ATOMS: tuple[type[Any], ...] = (type(None), str, bytes, dt.date, dt.time, dt.timedelta, dt.tzinfo)
_CONTAINERS = (dict, list, tuple, np.ndarray)


def unsupported(value: Any) -> TypeError:
    """Return the error of a part of a statistic that cannot be compared."""
    kind = type(value)
    what = (
        f"array dtype {value.dtype}" if kind is np.ndarray else f"statistic type {kind.__module__}.{kind.__qualname__}"
    )
    return TypeError(f"unsupported {what}; value() must return numbers, text, arrays, or containers of them")


@dataclass(frozen=True)
class Comparison:
    """What came of a comparison.

    Attributes
    ----------
    match : bool
        Whether every number lies inside the envelope and everything else is equal.
    reason : str
        Path and kind of the first mismatch, or "within declared numeric envelope".
    max_abs_error, max_rel_error : float
        Largest errors seen up to the first mismatch.
    """

    match: bool
    reason: str
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0


def compare(left: Any, right: Any, rtol: float, atol: float, path: str = "statistic") -> Comparison:
    """Compare two statistics under the envelope ``|a - b| <= atol + rtol * max(|a|, |b|)``.

    Floats and complex numbers may differ within it; integers, booleans, text, keys, shapes and types must be equal. An
    infinity or NaN never matches. Attributes that a container carries besides its items are compared too.

    Parameters
    ----------
    left, right : Any
        Numbers, text, dates, arrays, and sequences and mappings of them.
    rtol, atol : float
        Tolerances, at least 0.
    path : str
        Name of the statistic in the reason.

    Returns
    -------
    Comparison
        A type that has no place in a statistic is a mismatch, ``payload decode/schema failure: Type: message``.

    Examples
    --------
    >>> compare((4.0, [1.0]), (4.0, [1.0 + 1e-15]), 1e-12, 1e-12).reason
    'within declared numeric envelope'
    >>> compare((4.0, {"a": 1}), (4.0, {"a": 2}), 1e-12, 1e-12).reason
    "statistic[1]['a']: integer mismatch"
    """
    walk = _Envelope(rtol, atol)
    try:
        reason = walk.any(left, right, path)
    except Exception as error:  # noqa: BLE001 - whatever a foreign type does when it is looked at
        return failure(error)
    return Comparison(reason is None, reason or WITHIN, walk.max_abs, walk.max_rel)


def failure(error: Exception) -> Comparison:
    """Return the mismatch of a payload that cannot be read."""
    return Comparison(False, f"payload decode/schema failure: {type(error).__name__}: {error}", math.inf, math.inf)


def plain(value: Any) -> Any:
    """Return a numpy scalar as a Python value, anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def attributes_of(value: Any) -> dict[str, Any]:
    """Return what a container carries besides its items."""
    return dict(getattr(value, "__dict__", None) or {})


class _Envelope:
    """One walk over two statistics; each method returns None, or the first mismatch."""

    def __init__(self, rtol: float, atol: float) -> None:
        self.rtol, self.atol = rtol, atol
        self.max_abs = self.max_rel = 0.0

    def any(self, left: Any, right: Any, path: str) -> str | None:
        left, right = plain(left), plain(right)
        if isinstance(left, bool) or isinstance(right, bool):
            same = type(left) is type(right) and left == right
            return None if same else f"{path}: boolean/schema mismatch"
        if isinstance(left, numbers.Number) and isinstance(right, numbers.Number):
            return self.number(left, right, path)
        if isinstance(left, _CONTAINERS):
            return self.container(left, right, path)
        if isinstance(left, (*ATOMS, numbers.Number)):
            same = type(left) is type(right) and left == right
            return None if same else f"{path}: value/schema mismatch"
        raise unsupported(left)

    def number(self, left: Any, right: Any, path: str) -> str | None:
        if isinstance(left, int) and isinstance(right, int):
            return None if left == right else f"{path}: integer mismatch"
        a, b = complex(left), complex(right)
        if not all(map(math.isfinite, (a.real, a.imag, b.real, b.imag))):
            return f"{path}: non-finite numeric value"
        error, scale = abs(a - b), max(abs(a), abs(b))
        self.note(error, error / scale if scale else 0.0)
        return None if error <= self.atol + self.rtol * scale else f"{path}: numeric error exceeds tolerance"

    def note(self, error: float, relative: float) -> None:
        self.max_abs, self.max_rel = max(self.max_abs, error), max(self.max_rel, relative)

    def container(self, left: Any, right: Any, path: str) -> str | None:
        if not isinstance(right, np.ndarray if isinstance(left, np.ndarray) else type(left)):
            return f"{path}: value/schema mismatch"
        if isinstance(left, np.ndarray):
            reason = self.array(left, right, path)
        elif isinstance(left, dict):
            reason = self.mapping(left, right, path)
        else:
            reason = self.sequence(left, right, path)
        if reason is not None:
            return reason
        hidden, other = attributes_of(left), attributes_of(right)
        if not (hidden or other):
            return None
        if hidden.keys() != other.keys():
            return f"{path}: value/schema mismatch"
        reasons = (self.any(hidden[name], other[name], f"{path}.{name}") for name in hidden)
        return next((reason for reason in reasons if reason is not None), None)

    def sequence(self, left: Any, right: Any, path: str) -> str | None:
        if len(left) != len(right):
            return f"{path}: sequence length mismatch"
        for i, (a, b) in enumerate(zip(left, right, strict=True)):
            reason = self.any(a, b, f"{path}[{i}]")
            if reason is not None:
                return reason
        return None

    def mapping(self, left: Any, right: Any, path: str) -> str | None:
        if left.keys() != right.keys():
            return f"{path}: mapping key mismatch"
        for key, item in left.items():
            reason = self.any(item, right[key], f"{path}[{key!r}]")
            if reason is not None:
                return reason
        return None

    def array(self, left: Any, right: Any, path: str) -> str | None:
        kind = left.dtype.kind
        if left.shape != right.shape or kind != right.dtype.kind:
            return f"{path}: array shape/dtype-kind mismatch"
        if kind == "O":
            return self.sequence(left.ravel().tolist(), right.ravel().tolist(), path)
        if kind in "biu":
            return None if np.array_equal(left, right) else f"{path}: exact array mismatch"
        if kind in "fc":
            return self.floats(left, right, path)
        if kind not in "SUmM":
            raise unsupported(left)
        return None if left.tolist() == right.tolist() else f"{path}: array mismatch"

    def floats(self, left: Any, right: Any, path: str) -> str | None:
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            return f"{path}: non-finite array value"
        if not left.size:
            return None
        with np.errstate(all="ignore"):
            wide = np.result_type(left, right, np.float64)
            error = np.abs(np.subtract(left, right, dtype=wide))
            scale = np.maximum(np.abs(left), np.abs(right)).astype(error.dtype)
            relative = np.divide(error, scale, out=np.zeros_like(error), where=scale > 0)
            inside = bool((error <= self.atol + self.rtol * scale).all())
        self.note(float(error.max()), float(relative.max()))
        return None if inside else f"{path}: array error exceeds tolerance"
