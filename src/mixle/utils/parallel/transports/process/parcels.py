"""Objects for the workers: pickles with their buffers beside them, and definitions that only the driver has.

Classes and functions of the driver's ``__main__`` (or made inside a function) cannot be imported by a worker. They
travel once, by value, under a number; every later pickle names the number.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from mixle.errors import AlteredPayload

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.payload import Buffer

__all__ = ["Definitions", "KnownDefinitions", "dumps_reply", "join_sections", "split_sections", "unpicklable"]

ALIGN = 64
OUT_OF_BAND = 4096  # smaller buffers are cheaper inside the pickle
REMEMBERED = 64  # definitions that are kept besides those the rows need: a lambda per round must not pile up
_MAIN = "__main__"
_COUNT = struct.Struct("<II")  # sections, crc32 of their number and of what follows
_LENGTH = struct.Struct("<Q")
_UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, NotImplementedError, ValueError, RecursionError)


def join_sections(sections: Sequence[Buffer]) -> list[Buffer]:
    """Return buffers that hold `sections` one after another, each at a multiple of 64 bytes."""
    lengths = b"".join(_LENGTH.pack(len(section)) for section in sections)
    parts: list[Buffer] = [lengths + bytes(-(_COUNT.size + len(lengths)) % ALIGN)]
    for section in sections:
        parts += [section, bytes(-len(section) % ALIGN)]
    crc = zlib.crc32(_LENGTH.pack(len(sections)))
    for part in parts:
        crc = zlib.crc32(part, crc)
    return [_COUNT.pack(len(sections), crc), *parts]


def split_sections(data: Any) -> list[memoryview]:
    """Return the sections that `join_sections` joined; PayloadError if they were altered."""
    view = memoryview(data)
    count, crc = _COUNT.unpack_from(view) if len(view) >= _COUNT.size else (0, -1)
    if zlib.crc32(view[_COUNT.size :], zlib.crc32(_LENGTH.pack(count))) != crc:
        raise AlteredPayload("the checksum of a parcel does not hold: it was altered on its way")
    lengths = [_LENGTH.unpack_from(view, _COUNT.size + i * _LENGTH.size)[0] for i in range(count)]
    at = _aligned(_COUNT.size + count * _LENGTH.size)
    sections = []
    for length in lengths:
        sections.append(view[at : at + length])
        at += _aligned(length)
    return sections


def _aligned(size: int) -> int:
    return size + -size % ALIGN


@dataclass
class _Definition:
    """A class or function of the driver, as it was last shipped."""

    object: Any
    number: int
    version: int
    blob: bytes


class _ByNumber(pickle.Pickler):
    """A pickler that names definitions by their number."""

    def __init__(self, file: io.BytesIO, owner: Definitions, callback: Any) -> None:
        super().__init__(file, 5, buffer_callback=callback)
        self.owner = owner
        self.seen: dict[int, int | None] = {}

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, (type, FunctionType)):
            return None
        if id(obj) not in self.seen:
            self.seen[id(obj)] = None if importable(obj) else self.owner.number(obj)
        return self.seen[id(obj)]


def importable(obj: Any) -> bool:
    """Return whether another process finds this class or function by importing its module."""
    module = getattr(obj, "__module__", None)
    if module in {None, _MAIN, "__mp_main__"}:
        return False
    found: Any = sys.modules.get(str(module))
    for name in obj.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is obj


class Definitions:
    """The driver's side: what was defined in ``__main__``, numbered in the order it was met."""

    def __init__(self) -> None:
        self.known: dict[int, _Definition] = {}
        self.met = 0
        self.pinned = 0

    def pin(self) -> None:
        """Keep what was met so far for ever: the rows of a pool are read again by every new worker."""
        self.pinned = self.met

    def parcel(self, value: Any) -> list[Buffer]:
        """Return `value` as joined sections: its pickle, then its large buffers.

        Raises
        ------
        TypeError, AttributeError, pickle.PicklingError
            What pickle says of a value that cannot travel.
        """
        buffers: list[Buffer] = []
        self._forget()

        def aside(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < OUT_OF_BAND:
                return True
            buffers.append(raw)
            return False

        stream = self._plain(value, aside, buffers)
        if stream is None:
            stream = self._by_value(value, aside, buffers)
        return join_sections([stream, *buffers])

    @staticmethod
    def _plain(value: Any, aside: Any, buffers: list[Buffer]) -> bytes | None:
        try:
            stream = pickle.dumps(value, 5, buffer_callback=aside)
        except _UNPICKLABLE:
            stream = None
        if stream is not None and _MAIN.encode() not in stream:
            return stream
        buffers.clear()
        return None

    def _by_value(self, value: Any, aside: Any, buffers: list[Buffer]) -> bytes:
        file = io.BytesIO()
        try:
            _ByNumber(file, self, aside).dump(value)
            return file.getvalue()
        except _UNPICKLABLE:
            buffers.clear()
        import cloudpickle

        stream: bytes = cloudpickle.dumps(value, 5, buffer_callback=aside)
        return stream

    def number(self, obj: Any) -> int:
        """Return the number of a definition, noting its present state."""
        import cloudpickle

        blob = cloudpickle.dumps(obj, 5)
        entry = self.known.pop(id(obj), None)
        if entry is None:
            entry = _Definition(obj, self.met, 0, blob)
            self.met += 1
        elif entry.blob != blob:
            entry.version, entry.blob = entry.version + 1, blob
        self.known[id(obj)] = entry  # the latest used is the last
        return entry.number

    def _forget(self) -> None:
        loose = [key for key, entry in self.known.items() if entry.number >= self.pinned]
        for key in loose[: max(0, len(loose) - REMEMBERED)]:
            del self.known[key]

    def news(self, sent: dict[int, int]) -> list[tuple[int, bytes | None]]:
        """Return what a worker has not got yet (None: what it can forget), and note in `sent` that it has it now."""
        fresh = [entry for entry in self.known.values() if sent.get(entry.number) != entry.version]
        stale = sent.keys() - {entry.number for entry in self.known.values()}
        for number in stale:
            del sent[number]
        sent.update((entry.number, entry.version) for entry in fresh)
        return [*((number, None) for number in sorted(stale)), *((entry.number, entry.blob) for entry in fresh)]

    def news_parcel(self, sent: dict[int, int]) -> list[Buffer]:
        """Return `news` under a checksum, empty if there are none; `KnownDefinitions.learn` reads them."""
        news = self.news(sent)
        return join_sections([pickle.dumps(news, 5)]) if news else []

    def loads(self, data: Any) -> Any:
        """Read a pickle from a worker; its ``__main__`` is ours, whatever module runs under that name."""
        return _FromWorker(io.BytesIO(data), self).load()

    def known_here(self) -> KnownDefinitions:
        """Return a reader of parcels in this process: numbers mean the driver's own definitions."""
        known = KnownDefinitions()
        known.table.update((entry.number, entry.object) for entry in self.known.values())
        return known

    def named(self, name: str) -> Iterator[Any]:
        """Yield the definitions of that qualified name, the latest first."""
        for entry in reversed(self.known.values()):
            if entry.object.__qualname__ == name:
                yield entry.object


class _FromWorker(pickle.Unpickler):
    """An unpickler that finds what only `exec` put under the name ``__main__``."""

    def __init__(self, file: io.BytesIO, owner: Definitions) -> None:
        super().__init__(file)
        self.owner = owner

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except AttributeError:
            for found in self.owner.named(name) if module == _MAIN else ():
                return found
            raise


class _Numbered(pickle.Unpickler):
    """An unpickler that resolves numbers of definitions."""

    def __init__(self, file: io.BytesIO, buffers: Sequence[Any], table: dict[int, Any]) -> None:
        super().__init__(file, buffers=buffers)
        self.table = table

    def persistent_load(self, pid: Any) -> Any:
        return self.table[pid]


class KnownDefinitions:
    """The worker's side: the definitions it was sent, also to be found in its own ``__main__``."""

    def __init__(self) -> None:
        self.table: dict[int, Any] = {}
        self.failed: dict[int, BaseException] = {}

    def learn(self, data: Any) -> None:
        """Take definitions; what cannot be read is reported when it is used.

        Raises
        ------
        PayloadError
            If they were altered on their way; nothing was unpickled then.
        """
        (news,) = split_sections(data)
        for number, blob in pickle.loads(news):
            if blob is None:
                self.table.pop(number, None)
                self.failed.pop(number, None)
                continue
            try:
                found = self.table[number] = pickle.loads(blob)
            except Exception as error:  # noqa: BLE001 - a module that is missing here, say; told with the task
                self.table.pop(number, None)
                self.failed[number] = error
                continue
            if getattr(found, "__module__", None) == _MAIN and found.__qualname__.isidentifier():
                setattr(sys.modules[_MAIN], found.__qualname__, found)

    def open(self, data: Any) -> Any:
        """Return the value of a parcel."""
        stream, *buffers = split_sections(data)
        if not self.table and not self.failed:
            return pickle.loads(stream, buffers=buffers)
        try:
            return _Numbered(io.BytesIO(stream), buffers, self.table).load()
        except KeyError as error:
            cause = self.failed.get(error.args[0])
            raise error if cause is None else cause from None


def unpicklable(error: Exception, what: str) -> Exception:
    """Return an error of the same kind that says what cannot be pickled, and what to do."""
    text = f"{what} cannot be pickled for the worker processes: {error}. "
    text += "Mend its pickling, or stay in this process with backend='local'"
    try:
        return type(error)(text)
    except Exception:  # noqa: BLE001 - a kind that takes other arguments
        return TypeError(text)


def dumps_reply(value: Any) -> bytes:
    """Return the pickle of a value that goes back to the driver."""
    try:
        return pickle.dumps(value, 5)
    except _UNPICKLABLE:
        import cloudpickle

        data: bytes = cloudpickle.dumps(value, 5)
        return data
