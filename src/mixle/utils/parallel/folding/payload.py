"""The closed, typed frame in which statistics travel: magic, version, length and checksum in front.

A frame is decoded only after its checksum holds, and decoding builds nothing but the closed set: None, bool, int,
float, complex, str, bytes, tuple, list, dict, numpy scalars and arrays, dates and times, and NamedTuples registered by
name. Other values travel as a pickle inside the same frame where both ends say ``allow_pickle=True``.
"""

from __future__ import annotations

import datetime as dt
import pickle
import struct
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mixle.errors import AlteredPayload, PayloadError
from mixle.utils.parallel.folding.dtypes import REMEMBERED, array_of, describe, integers, is_plain, malformed
from mixle.utils.parallel.folding.named import name_of, named, register_namedtuple

__all__ = ["HEAD_SIZE", "MAGIC", "decode", "encode", "encode_bytes", "is_frame", "is_plain", "register_namedtuple"]

MAGIC, VERSION = b"MXPL", 1
PREFIX, CRC = (
    struct.Struct("<4sB3xQ"),
    struct.Struct("<I"),
)  # magic, version, length; crc32
HEAD_SIZE = PREFIX.size + CRC.size
DEPTH = 100  # of which each takes up to six calls to read: well inside what Python allows
INLINE = 4096  # smaller arrays are copied into the stream, larger ones stay buffers of their own
MANY = 16  # from so many integers on they are written at once
CONSTANT = 96  # bytes from which on a tuple of text and numbers is written as a block, which readers remember

Buffer: TypeAlias = bytes | bytearray | memoryview

_NUMBER, _FLOAT, _COMPLEX, _SIZE = struct.Struct("<q"), struct.Struct("<d"), struct.Struct("<dd"), struct.Struct("<Q")


def _altered(what: str) -> AlteredPayload:
    return AlteredPayload(f"{what}; send it again")


def is_frame(data: Any) -> bool:
    """Return whether `data` starts as a frame of this module does (its checksum is not looked at)."""
    return isinstance(data, bytes | bytearray | memoryview) and bytes(data[:4]) == MAGIC


def encode(value: Any, allow_pickle: bool = False, dumps: Callable[[Any], bytes] | None = None) -> list[Buffer]:
    """Return the frame of `value` as a list of buffers, to be written one after another.

    Parameters
    ----------
    value : Any
        A value of the closed set.
    allow_pickle : bool
        Let values outside the closed set travel as a pickle.
    dumps : callable, optional
        How these are pickled; `pickle.dumps` if not given.

    Returns
    -------
    list of bytes-like
        Large arrays are views of the caller's memory: write them before it changes.

    Raises
    ------
    PayloadError
        For a value outside the closed set, or nested deeper than 100 levels.
    """
    writer = _Writer((dumps or pickle.dumps) if allow_pickle else None)
    writer.put(value, 0)
    parts = [*writer.parts, writer.tail]
    prefix = PREFIX.pack(MAGIC, VERSION, sum(len(part) for part in parts))
    crc = zlib.crc32(prefix)
    for part in parts:
        crc = zlib.crc32(part, crc)
    return [prefix + CRC.pack(crc), *parts]


def encode_bytes(value: Any, allow_pickle: bool = False) -> bytes:
    """Return the frame of `value` as one bytes object; see `encode`.

    Examples
    --------
    >>> decode(encode_bytes({"a": (1, 2.5)}))
    {'a': (1, 2.5)}
    """
    return b"".join(encode(value, allow_pickle))


def decode(data: Any, allow_pickle: bool = False, loads: Callable[[Any], Any] | None = None) -> Any:
    """Return the value of a frame.

    Parameters
    ----------
    data : bytes-like
        One whole frame.
    allow_pickle : bool
        Read pickled values too. Only inside one job.
    loads : callable, optional
        How these are read; `pickle.loads` if not given.

    Returns
    -------
    Any
        Arrays own their memory and are writable.

    Raises
    ------
    PayloadError
        If the frame is torn, altered or of another version, or holds what may not be decoded.
    """
    try:
        view = memoryview(data).cast("B")
        (magic, version, length), (crc,) = PREFIX.unpack_from(view), CRC.unpack_from(view, PREFIX.size)
    except (TypeError, ValueError, struct.error) as error:
        raise _altered(f"this is no payload frame: {error}") from None
    if magic != MAGIC or version != VERSION:
        raise _altered(f"this is no payload frame of version {VERSION}: it starts with {bytes(view[:5])!r}")
    if length != len(view) - HEAD_SIZE:
        raise _altered(f"a payload frame of {length} bytes came with {len(view) - HEAD_SIZE} bytes")
    if zlib.crc32(view[HEAD_SIZE:], zlib.crc32(view[: PREFIX.size])) != crc:
        raise _altered("the checksum of a payload frame does not hold: it was altered on its way")
    return _Reader(view, (loads or pickle.loads) if allow_pickle else None).whole()


class _Writer:
    """Appends tagged values to a list of buffers."""

    def __init__(self, dumps: Callable[[Any], bytes] | None) -> None:
        self.parts, self.tail, self.dumps = list[Buffer](), bytearray(), dumps
        self.changeable = 0  # values so far that two readers must not share

    def put(self, value: Any, depth: int) -> None:
        if depth > DEPTH:
            raise PayloadError(f"a payload is nested deeper than {DEPTH} levels; it must not contain itself")
        kind = type(value)
        put = _PUT.get(kind)
        if put is not None:
            put(self, value, depth)
        elif issubclass(kind, tuple) and (name := name_of(kind)) is not None:
            self.changeable += 1
            self.block(b"N", name.encode())
            self.many(b"", value, depth)
        elif issubclass(kind, np.generic) and is_plain(value.dtype):
            self.changeable += 1
            self.tail += b"g"
            self.array(np.asarray(value), depth)
        else:
            self.foreign(value)

    def block(self, tag: bytes, data: bytes) -> None:
        self.tail += tag + _SIZE.pack(len(data))
        self.tail += data

    def text(self, value: str, tag: bytes = b"s") -> None:
        self.block(tag, value.encode("utf-8", "surrogatepass"))

    def many(self, tag: bytes, values: Any, depth: int) -> None:
        self.tail += tag + _SIZE.pack(len(values))
        if len(values) >= MANY and depth < DEPTH and (written := integers(values, b"i")) is not None:
            self.tail += written
            return
        for value in values:
            self.put(value, depth + 1)

    def sequence(self, value: tuple[Any, ...], depth: int) -> None:
        start, before = len(self.tail), self.changeable
        self.many(b"(", value, depth)
        if self.changeable == before and len(self.tail) - start >= CONSTANT:
            self.tail[start:start] = b"m" + _SIZE.pack(len(self.tail) - start)

    def listing(self, value: list[Any], depth: int) -> None:
        self.changeable += 1
        self.many(b"[", value, depth)

    def integer(self, value: int) -> None:
        if -(1 << 63) <= value < 1 << 63:
            self.tail += b"i" + _NUMBER.pack(value)
        else:
            self.block(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))

    def mapping(self, value: dict[Any, Any], depth: int) -> None:
        self.changeable += 1
        self.tail += b"d" + _SIZE.pack(len(value))
        for key, item in value.items():
            self.put(key, depth + 1)
            self.put(item, depth + 1)

    def array(self, value: np.ndarray[Any, Any], depth: int) -> None:
        self.changeable += 1
        flags, kind = value.flags, value.dtype
        order: Any = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
        if kind.char == "O":
            self.tail += b"o"
            self.put((order, value.shape, None), depth)
            self.many(b"", value.ravel(order).tolist(), depth)
            return
        head = None if kind.metadata else _heads.get((order, value.shape, kind))
        if head is None:
            if not is_plain(kind):
                self.foreign(value)
                return
            head = _head(order, value.shape, kind)
        self.tail += head
        if value.nbytes < INLINE:
            self.block(b"", value.tobytes(order))
        else:
            self.tail += _SIZE.pack(value.nbytes)
            self.parts.append(self.tail)
            self.tail = bytearray()
            self.parts.append(np.ascontiguousarray(value.reshape(-1, order=order)).view(np.uint8).data)

    def moment(self, value: Any, depth: int) -> None:
        self.changeable += 1
        self.many(b"t" + bytes([_MOMENTS.index(type(value))]), value.__reduce_ex__(4)[1], depth)

    def foreign(self, value: Any) -> None:
        self.changeable += 1
        if self.dumps is None:
            kind = type(value)
            raise PayloadError(
                f"a value of type {kind.__module__}.{kind.__qualname__} has no place in a payload; plain data and "
                f"arrays do (register_namedtuple for a NamedTuple, allow_pickle=True inside one job)"
            )
        self.block(b"P", self.dumps(value))


_heads: dict[tuple[str, tuple[int, ...], np.dtype[Any]], bytes] = {}


def _head(order: str, shape: tuple[int, ...], kind: np.dtype[Any]) -> bytes:
    """Return what stands before the bytes of an array, as a block, which readers remember."""
    writer = _Writer(None)
    writer.many(b"(", (order, shape, describe(kind)), 0)
    if len(_heads) >= REMEMBERED:
        _heads.clear()
    head = _heads[order, shape, kind] = b"am" + _SIZE.pack(len(writer.tail)) + writer.tail
    return head


_MOMENTS: tuple[type[Any], ...] = (dt.date, dt.time, dt.datetime, dt.timedelta, dt.timezone)
_PUT: dict[type[Any], Callable[[_Writer, Any, int], None]] = {
    type(None): lambda writer, _, __: writer.tail.extend(b"n"),
    bool: lambda writer, value, _: writer.tail.extend(b"b\1" if value else b"b\0"),
    float: lambda writer, value, _: writer.tail.extend(b"f" + _FLOAT.pack(value)),
    complex: lambda writer, value, _: writer.tail.extend(b"c" + _COMPLEX.pack(value.real, value.imag)),
    int: lambda writer, value, _: writer.integer(value),
    str: lambda writer, value, _: writer.text(value),
    bytes: lambda writer, value, _: writer.block(b"B", value),
    tuple: _Writer.sequence,
    list: _Writer.listing,
    dict: _Writer.mapping,
    np.ndarray: _Writer.array,
    np.str_: lambda writer, value, _: writer.text(value, b"x"),  # as an array it would lose trailing zeros
    np.bytes_: lambda writer, value, _: writer.block(b"y", bytes(value)),
    **dict.fromkeys(_MOMENTS, _Writer.moment),
}


_known: dict[bytes, Any] = {}


class _Reader:
    """Reads tagged values from a checked body; any fault becomes a PayloadError."""

    def __init__(self, view: memoryview, loads: Callable[[Any], Any] | None) -> None:
        self.view, self.at, self.end, self.loads = view, HEAD_SIZE, len(view), loads

    def whole(self) -> Any:
        try:
            value = self.get(0)
        except PayloadError:
            raise
        except Exception as error:
            raise malformed(f"a payload cannot be decoded: {type(error).__name__}: {error}") from error
        if self.at != self.end:
            raise malformed(f"a payload has {self.end - self.at} bytes too many")
        return value

    def skip(self, size: int) -> int:
        """Go `size` bytes on and return where they start."""
        start, self.at = self.at, self.at + size
        if self.at > self.end:
            raise malformed(f"a payload ends {self.at - self.end} bytes too early")
        return start

    def read(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack_from(self.view, self.skip(form.size))

    def count(self) -> int:
        """Return a number of elements, each of which takes at least one byte."""
        count: int = _SIZE.unpack_from(self.view, self.skip(8))[0]
        if count > self.end - self.at:
            raise malformed(f"a payload announces {count} elements in {self.end - self.at} bytes")
        return count

    def block(self) -> memoryview:
        start = self.skip(self.count())
        return self.view[start : self.at]

    def text(self) -> str:
        return str(self.block(), "utf-8", "surrogatepass")

    def get(self, depth: int) -> Any:
        if depth > DEPTH:
            raise malformed(f"a payload is nested deeper than {DEPTH} levels")
        tag = self.view[self.skip(1)]
        get = _GET.get(tag)
        if get is None:
            raise malformed(f"a payload has the unknown tag {tag:#x}")
        return get(self, depth)

    def many(self, depth: int) -> list[Any]:
        return [self.get(depth + 1) for _ in range(self.count())]

    def mapping(self, depth: int) -> dict[Any, Any]:
        return {self.get(depth + 1): self.get(depth + 1) for _ in range(self.count())}

    def constant(self, depth: int) -> Any:
        """Return a tuple that cannot change, the same one for the same bytes."""
        start = self.at
        block = bytes(self.block())
        known = _known.get(block)
        if known is None:
            end, self.at = self.at, start + _SIZE.size
            known = self.get(depth)
            if self.at != end:
                raise malformed("a tuple of a payload is not as long as it says")
            if len(_known) >= REMEMBERED:
                _known.clear()
            _known[block] = known
        return known

    def record(self, depth: int) -> Any:
        name = self.text()
        cls = named(name)
        if cls is None:
            raise PayloadError(f"a payload holds the record {name!r}, not registered here; import its module first")
        return cls._make(self.many(depth))

    def array(self, depth: int) -> np.ndarray[Any, Any]:
        told = self.get(depth)
        order, shape, kind, size = array_of(told)
        raw = self.block()
        if len(raw) != size:
            raise malformed(f"a payload has {len(raw)} bytes for an array of shape {shape} and dtype {kind}")
        return np.ndarray(shape, kind, bytearray(raw), order=order) if size else np.zeros(shape, kind, order)

    def objects(self, depth: int) -> np.ndarray[Any, Any]:
        order, shape, _ = self.get(depth)
        items = self.many(depth)
        flat = np.empty(len(items), object)
        for i, item in enumerate(items):  # a slice would spread items that are sequences
            flat[i] = item
        return flat.reshape(shape, order=order)

    def moment(self, depth: int) -> Any:
        value = _MOMENTS[self.view[self.skip(1)]](*self.many(depth))
        return value if isinstance(value, dt.timedelta | dt.timezone) else value.replace()  # checks the ranges

    def foreign(self, depth: int) -> Any:
        if self.loads is None:
            raise PayloadError(
                "a payload holds a pickle, which is not read here; pass allow_pickle=True inside one job"
            )
        return self.loads(self.block())


_GET: dict[int, Callable[[_Reader, int], Any]] = {
    ord("n"): lambda _, __: None,
    ord("b"): lambda reader, _: (False, True)[reader.view[reader.skip(1)]],
    ord("i"): lambda reader, _: reader.read(_NUMBER)[0],
    ord("I"): lambda reader, _: int.from_bytes(reader.block(), "little", signed=True),
    ord("f"): lambda reader, _: reader.read(_FLOAT)[0],
    ord("c"): lambda reader, _: complex(*reader.read(_COMPLEX)),
    ord("s"): lambda reader, _: reader.text(),
    ord("B"): lambda reader, _: bytes(reader.block()),
    ord("("): lambda reader, depth: tuple(reader.many(depth)),
    ord("m"): _Reader.constant,
    ord("["): _Reader.many,
    ord("d"): _Reader.mapping,
    ord("N"): _Reader.record,
    ord("a"): _Reader.array,
    ord("o"): _Reader.objects,
    ord("g"): lambda reader, depth: reader.get(depth + 1)[()],
    ord("x"): lambda reader, _: np.str_(reader.text()),
    ord("y"): lambda reader, _: np.bytes_(bytes(reader.block())),
    ord("t"): _Reader.moment,
    ord("P"): _Reader.foreign,
}
