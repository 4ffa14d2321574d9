"""Digests of encoded rows: equal exactly where a fit meets the same rows, in whatever process and memory layout."""

from __future__ import annotations

import dataclasses
import datetime as dt
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from mixle.errors import PayloadError
from mixle.utils.parallel.folding.payload import is_plain
from mixle.utils.parallel.folding.shards import Shard

__all__ = ["digest_of", "shard_digest"]

_DEPTH = 100


def digest_of(value: Any) -> str:
    """Return the sha256 (hex) of nested plain data, arrays, times, NamedTuples and dataclasses.

    Types count, so that 1, 1.0 and True differ; the memory layout of an array does not.

    Parameters
    ----------
    value : Any
        What to digest. Dictionaries count in their own order.

    Raises
    ------
    PayloadError
        (a ValueError) naming a type that has no digest.

    Examples
    --------
    >>> digest_of({"a": (1, 2.5)}) == digest_of({"a": (1, 2.5)}) != digest_of({"a": [1, 2.5]})
    True
    """
    import hashlib

    found = hashlib.sha256()
    _feed(found.update, value, 0)
    return found.hexdigest()


def shard_digest(shard: Shard) -> tuple[tuple[tuple[int, int, int], ...], str]:
    """Return which rows each chunk of a shard holds, as (start, stop, step), and the digest of all it holds.

    Raises
    ------
    PayloadError
        If an encoded row is of a type that has no digest.
    """
    places = tuple((chunk.positions.start, chunk.positions.stop, chunk.positions.step) for chunk in shard.chunks)
    held = tuple((chunk.count, chunk.payload, chunk.weights) for chunk in shard.chunks)
    return places, digest_of((type(shard.encoder).__qualname__, held))


def _feed(update: Callable[[Any], None], value: Any, depth: int) -> None:
    if depth > _DEPTH:
        raise PayloadError(f"data nested deeper than {_DEPTH} levels have no digest; flatten them")
    kind = type(value)
    write = _SCALARS.get(kind)
    if write is not None:
        _block(update, kind.__name__, write(value))
    elif isinstance(value, np.ndarray):
        _array(update, value, depth)
    elif isinstance(value, np.generic) and is_plain(value.dtype):
        _block(update, f"numpy {value.dtype.str}", value.tobytes())
    elif isinstance(value, dict):
        _many(update, kind, [part for pair in value.items() for part in pair], depth)
    elif isinstance(value, (tuple, list)):
        _many(update, kind, value, depth)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        _many(update, kind, [part for name in names for part in (name, getattr(value, name))], depth)
    else:
        name = f"{kind.__module__}.{kind.__qualname__}"
        raise PayloadError(
            f"a value of type {name} has no digest: {value!r:.80}; use numbers, text or containers of them"
        )


def _block(update: Callable[[Any], None], tag: str, data: bytes | memoryview) -> None:
    update(f"{tag} {len(data)}\n".encode())
    update(data)


def _many(update: Callable[[Any], None], kind: type, values: Any, depth: int) -> None:
    update(f"{kind.__qualname__} of {len(values)}\n".encode())
    for value in values:
        _feed(update, value, depth + 1)


def _array(update: Callable[[Any], None], value: np.ndarray, depth: int) -> None:
    if value.dtype == object:
        update(f"objects {value.shape}\n".encode())
        _many(update, list, value.ravel().tolist(), depth)
        return
    if not is_plain(value.dtype):
        raise PayloadError(f"an array of dtype {value.dtype} has no digest; use a plain or structured dtype")
    update(f"array {value.shape} {np.lib.format.dtype_to_descr(value.dtype)}\n".encode())
    flat = np.ascontiguousarray(value).reshape(-1)
    _block(update, "raw", flat.view(np.uint8).data if flat.nbytes else b"")


def _timed(value: Any) -> bytes:
    return repr(value.__reduce_ex__(4)[1]).encode()


_SCALARS: dict[type[Any], Callable[[Any], bytes]] = {
    type(None): lambda _: b"",
    bool: lambda value: b"1" if value else b"0",
    int: lambda value: value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True),
    float: struct.Struct("<d").pack,
    complex: lambda value: struct.pack("<dd", value.real, value.imag),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bytes: lambda value: value,
    range: lambda value: repr(value).encode(),
    **dict.fromkeys((dt.date, dt.time, dt.datetime, dt.timedelta), _timed),
}
