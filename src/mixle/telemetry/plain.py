"""Anything as JSON, one line a row, in strict JSON that every reader takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

__all__ = ["encode", "plain"]

#: Longest text that stands for a value JSON has no form for.
TEXT = 200
#: Containers nested deeper are written as text.
DEPTH = 24


def plain(value: Any, depth: int = DEPTH) -> Any:
    """Return `value` in the types of JSON.

    Numbers that are not finite become None, numpy scalars and arrays become numbers and lists, sets are sorted by
    their text, dates become ISO text, and what JSON has no form for becomes its `repr`, cut at 200 characters.

    Parameters
    ----------
    value : Any
        What to write.
    depth : int
        How many levels of containers to keep.

    Examples
    --------
    >>> plain({"a": float("inf"), "b": (1, {2}), 3: object})
    {'a': None, 'b': [1, [2]], 3: "<class 'object'>"}
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return _number(value)
    if depth <= 0:
        return _text(value)
    if isinstance(value, dict):
        return {_key(key): plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth - 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return [plain(item, depth - 1) for item in sorted(value, key=_text)]
    for name in ("tolist", "isoformat"):  # numpy's scalars and arrays; dates and times
        convert = getattr(value, name, None)
        if callable(convert) and not isinstance(value, type):
            return plain(convert(), depth - 1)
    return _text(value)


def _number(value: Any) -> Any:
    if isinstance(value, int):
        number = int(value)
        return number if number.bit_length() <= 4096 else f"<an integer of {number.bit_length()} bits>"
    return float(value) if math.isfinite(value) else None


def _key(key: Any) -> Any:
    key = plain(key, 1)
    return key if isinstance(key, (str, int, float)) or key is None else _text(key)


def _text(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a repr is the user's code
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= TEXT else text[: TEXT - 3] + "..."


@cache
def _writer() -> Callable[[Any], str]:
    import json

    return json.JSONEncoder(allow_nan=False).encode


def encode(row: dict[str, Any]) -> bytes:
    r"""Return a row as one line of JSON with its line feed; a value that JSON cannot hold does not stop it.

    Parameters
    ----------
    row : dict
        What to write.

    Examples
    --------
    >>> encode({"kind": "fit", "ts": float("nan"), "tags": {"fit": 1 + 2j}})
    b'{"kind": "fit", "ts": null, "tags": {"fit": "(1+2j)"}}\n'
    """
    try:
        text = _writer()(row)
    except (TypeError, ValueError, RecursionError):
        text = _writer()(plain(row))
    return text.encode("ascii") + b"\n"
