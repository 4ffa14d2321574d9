"""One digest per statistic: typed, whatever the order of a mapping or the bytes of a pickle."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from mixle.utils.parallel.policies.compare import ATOMS, attributes_of, plain, unsupported

__all__ = ["canonical_bytes", "canonical_sha256", "sha256"]

_WIDE = {"f": "<f8", "c": "<c16", "i": "<i8", "u": "<u8", "b": "|b1"}


def sha256(data: bytes) -> str:
    """Return the digest of `data` in hexadecimal."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def canonical_sha256(value: Any) -> str:
    """Return the digest of a typed statistic.

    Mappings count without their order, numpy scalars as Python values, arrays by kind, shape and numbers (a float32
    array has the digest of the same numbers as float64). Every bit of a float counts, the sign of zero too.

    Parameters
    ----------
    value : Any
        As for `compare`.

    Raises
    ------
    TypeError
        For a type that has no place in a statistic.

    Examples
    --------
    >>> canonical_sha256({"a": 1, "b": np.float64(2)}) == canonical_sha256({"b": 2.0, "a": 1})
    True
    >>> canonical_sha256(1) == canonical_sha256(1.0)
    False
    """
    return sha256(canonical_bytes(value))


def canonical_bytes(value: Any) -> bytes:
    """Return the bytes that `canonical_sha256` digests."""
    value = plain(value)
    if isinstance(value, bool) or value is None:
        return repr(value).encode()
    if isinstance(value, int):
        return _block(b"i", str(value).encode())
    if isinstance(value, float):
        return b"f" + struct.pack("<d", value)
    if isinstance(value, complex):
        return b"c" + struct.pack("<dd", value.real, value.imag)
    if isinstance(value, str):
        return _block(b"s", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return _block(b"B", value)
    if isinstance(value, (dict, list, tuple, np.ndarray)):
        return _container(value)
    if isinstance(value, ATOMS):
        return _block(b"t", repr(value).encode())
    raise unsupported(value)


def _block(tag: bytes, data: bytes) -> bytes:
    return tag + struct.pack("<Q", len(data)) + data


def _container(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        body = _array(value)
    elif isinstance(value, dict):
        pairs = sorted(canonical_bytes(key) + canonical_bytes(item) for key, item in value.items())
        body = _many(b"d", pairs)
    else:
        body = _many(b"[" if isinstance(value, list) else b"(", [canonical_bytes(item) for item in value])
    kind = type(value)
    if kind not in {dict, list, tuple, np.ndarray}:
        body = _block(b"N", f"{kind.__module__}.{kind.__qualname__}".encode()) + body
    hidden = attributes_of(value)
    return body + b"@" + canonical_bytes(hidden) if hidden else body


def _many(tag: bytes, parts: list[bytes]) -> bytes:
    return tag + struct.pack("<Q", len(parts)) + b"".join(parts)


def _array(value: Any) -> bytes:
    kind = value.dtype.kind
    head = _block(b"a", f"{kind}{value.shape}".encode())
    if kind in _WIDE:
        wide = np.dtype(_WIDE[kind])
        narrow = value.dtype.itemsize <= wide.itemsize
        data = value.astype(wide if narrow else value.dtype.newbyteorder("<"), order="C")
        return head + _block(b"", data.tobytes("C"))
    if kind in "mM":
        return head + _block(value.dtype.str.encode(), value.tobytes("C"))
    if kind in "OSU":
        return head + _many(b"", [canonical_bytes(item) for item in value.ravel().tolist()])
    raise unsupported(value)
