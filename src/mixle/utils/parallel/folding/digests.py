"""Digests of what a worker computes from: its encoded rows at rest, and the model it was sent."""

from __future__ import annotations

import dataclasses
import io
import marshal
import pickle
import weakref
import zlib
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.errors import PayloadError
from mixle.stats.serialize import Serializable

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.shards import Chunk, Shard

__all__ = ["lies_in", "model_digest", "rows_digest", "sealed", "words_of"]

MASK = (1 << 64) - 1
PIECE = 1 << 15  # words
PLAIN = {str, int, float, bool, type(None), bytes}
BARE = {*PLAIN, tuple}
_GET_STATE: Any = Serializable.__getstate__
_REDUCE: Any = object.__reduce_ex__


def rows_digest(shard: Shard) -> str:
    """Return the digest of a shard's encoded rows and weights: xor and sum of their 64-bit words, in hexadecimal.

    It reads at the speed of memory, sees every single flipped bit, and every pair of them in different places of a
    word; it is no cryptographic digest. Arrays of numbers, label tables and whatever tuples, lists, dicts and data
    classes of them hold count; arrays of Python objects and types of a user's own do not.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> from mixle.utils.parallel.folding.shards import encode_shard
    >>> encoder = GaussianEstimator().accumulator_factory().make().acc_to_encoder()
    >>> rows_digest(encode_shard(0, [1.0, 2.0], range(2), encoder, (range(2),)))
    '7ff00000000000107ff0000000000010'
    """
    xor = total = 0
    for chunk in shard.chunks:
        held = _known.get(id(chunk))
        if held is None:
            held = _Held(chunk, _parts((chunk.payload, chunk.weights)))
        xor, total = xor ^ held.salt, total + held.size
        for piece in held.pieces:
            xor ^= int(_xor(piece))
            total += int(_sum(piece))
        if held.texts:
            one, two = held.read()
            xor, total = xor ^ one, total + two
        for part in held.scattered:
            one, two = part.added_up()
            xor, total = xor ^ one, total + two
    return f"{xor & MASK:016x}{total & MASK:016x}"


def words_of(array: np.ndarray) -> tuple[int, int]:
    """Return xor and sum of the words of an array of plain numbers or text, however it lies.

    Examples
    --------
    >>> words_of(np.arange(4)), words_of(np.arange(8)[::2])
    ((0, 6), (0, 12))
    """
    xor, total = _Words(array).added_up()
    return xor, total & MASK


def sealed(shard: Shard) -> str | None:
    """Return the sha256 of a shard's encoded rows; None for types without one. An `Apply` of this runs on workers."""
    from mixle.utils.parallel.folding.digest import shard_digest

    try:
        return shard_digest(shard)[1]
    except PayloadError:
        return None


def lies_in(chunk: Chunk, arena: np.ndarray, arrays: Container[int]) -> None:
    """Note that some arrays of a chunk are views of one, with nothing but zeros in between: it is read at once.

    Parameters
    ----------
    chunk : Chunk
        Encoded rows.
    arena : ndarray of uint64
        What the arrays are views of.
    arrays : container of int
        The `id` of each array that lies there.
    """
    parts = list(_parts((chunk.payload, chunk.weights)))
    inside = [part for part in parts if id(part) in arrays]
    held = _Held(chunk, (part for part in parts if id(part) not in arrays))
    held.pieces += _pieces(arena)
    held.count(inside)  # as if each were read on its own


def _parts(value: Any) -> Iterator[Any]:
    """Yield the arrays of numbers, and the plain values and sequences of them."""
    if isinstance(value, np.ndarray):
        mask = getattr(value, "mask", None)
        plain = value if type(value) is np.ndarray else value.view(np.ndarray)
        if plain.dtype.kind != "O":
            yield plain
        if isinstance(mask, np.ndarray):
            yield mask
    elif isinstance(value, (tuple, list)):
        if len(value) and set(map(type, value)) <= PLAIN:
            yield value
        else:
            for item in value:
                yield from _parts(item)
    elif type(value) in PLAIN:
        if value is not None:
            yield value
    else:
        yield from _parts(_items(value))


def _items(value: Any) -> list[Any]:
    """Return what a dict or a data class holds; nothing of other types is known."""
    if isinstance(value, dict):
        return list(value.items())
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return []


class _Held:
    """Where what a chunk holds lies: words in one piece, text and plain values, and what lies otherwise."""

    def __init__(self, chunk: Chunk, parts: Iterable[Any]) -> None:
        place = id(chunk)
        _known[place] = self
        self.owner = weakref.ref(chunk, lambda _: _known.pop(place, None))
        self.pieces: list[np.ndarray] = []
        self.texts: list[Any] = []
        self.seen: tuple[bytes, int, int] = b"", 0, 0
        self.scattered: list[_Words] = []
        self.size = self.salt = 0
        for part in parts:
            if not isinstance(part, np.ndarray):
                self.texts.append(part)
                continue
            self.count([part])
            words = _Words(part)
            if words.words is not None and not len(words.rest):
                self.pieces += _pieces(words.words)
            else:
                self.scattered.append(words)

    def count(self, arrays: Iterable[np.ndarray]) -> None:
        """Let the sizes of arrays count."""
        for array in arrays:
            self.size, self.salt = self.size + array.nbytes, self.salt ^ array.nbytes

    def read(self) -> tuple[int, int]:
        """Return two checksums of the text and the plain values as they stand now."""
        # a version without references: equal text gives equal bytes; named tuples are not among its types
        text = marshal.dumps([one if type(one) in BARE else tuple(one) for one in self.texts], 2)
        before, one, two = self.seen
        if text != before:  # comparing is cheaper
            one, two = zlib.crc32(text), zlib.adler32(text)
            self.seen = text, one, two
        return one, two


class _Words:
    """Where the words of one array lie. They count without their order, so that whole ones may lie anyhow."""

    def __init__(self, part: np.ndarray) -> None:
        self.part = part
        self.words: np.ndarray | None = None
        self.rest = np.empty(0, np.uint8)
        if part.flags.f_contiguous and part.dtype.itemsize % 8 == 0:
            part = part.T
        if part.flags.c_contiguous:
            self.words, self.rest = _whole(part)
            return
        line = part.nbytes // len(part)
        self.step = max(PIECE // line * 8, 8)  # lines, such that each piece but the last one holds whole words
        if part.ndim == 2 and part.strides[1] == part.dtype.itemsize:
            self.part = part.view(np.dtype((np.void, line)))[:, 0]  # copied line by line, not number by number

    def added_up(self) -> tuple[int, int]:
        """Return xor and sum of the words as they stand now."""
        if self.words is not None:
            return _both(self.words, self.rest)
        xor = total = 0
        for start in range(0, len(self.part), self.step):
            one, two = _both(*_whole(np.ascontiguousarray(self.part[start : start + self.step])))
            xor, total = xor ^ one, total + two
        return xor, total


_known: dict[int, _Held] = {}  # by the id of the chunk, as long as that lives
_xor, _sum = np.bitwise_xor.reduce, np.add.reduce


def _pieces(words: np.ndarray) -> list[np.ndarray]:
    """Return words in pieces that the second look finds in the cache."""
    return [words[start : start + PIECE] for start in range(0, len(words), PIECE)]


def _whole(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return views of the words of an array in one piece, and of the bytes behind them."""
    flat = part.reshape(-1).view(np.uint8)
    whole = len(flat) - len(flat) % 8
    return flat[:whole].view(np.uint64), flat[whole:]


def _both(words: np.ndarray, rest: np.ndarray) -> tuple[int, int]:
    xor = total = int.from_bytes(rest.tobytes(), "little") if len(rest) else 0
    for piece in _pieces(words):
        xor ^= int(_xor(piece))
        total += int(_sum(piece))
    return xor, total


class _Canonical(pickle.Pickler):
    """A pickler that writes arrays by type, shape and bytes, wherever their memory lies."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray and obj.dtype.kind != "O":
            return np.frombuffer, (obj.tobytes(), obj.dtype.str, *obj.shape)
        return NotImplemented


def _stream(model: Any) -> bytes:
    file = io.BytesIO()
    pickler = _Canonical(file, 5)
    pickler.fast = True  # no memo: whether equal text is one object differs between a model and its copy
    pickler.dump(model)
    return file.getvalue()


def _bare(value: Any) -> Any:
    """Return what is pickled for a value as plain data: that of this library quickly, all else as its pickle."""
    kind = type(value)
    if kind is dict:
        if _only_plain(value.values()) and _only_plain(value):
            return value
        return [(_bare(key), one if type(one) in PLAIN else _bare(one)) for key, one in value.items()]
    if kind is tuple or kind is list:
        return value if _only_plain(value) else kind([one if type(one) in PLAIN else _bare(one) for one in value])
    if kind is np.ndarray and not value.dtype.hasobject:
        return value.dtype.str, value.shape, value.tobytes()
    if kind in PLAIN:
        return value
    if kind.__getstate__ is _GET_STATE and kind.__reduce_ex__ is _REDUCE:
        state = [kind.__module__, kind.__qualname__]
        for name, one in value.__dict__.items():
            if not name.startswith("_cached"):
                state += name, one if type(one) in PLAIN else _bare(one)
        return state
    return _stream(value)


def _only_plain(values: Iterable[Any]) -> bool:
    return PLAIN.issuperset(map(type, values))


def model_digest(model: Any) -> int | None:
    """Return a checksum of a model's parameters as they stand in memory now; None where they cannot be told.

    Parameters
    ----------
    model : distribution or None
        What is pickled for it, arrays by their numbers. Models of classes that only the main script has are not told.

    Examples
    --------
    >>> import pickle
    >>> from mixle.stats import GaussianDistribution
    >>> model = GaussianDistribution(0.0, 1.0)
    >>> model_digest(model) == model_digest(pickle.loads(pickle.dumps(model)))
    True
    """
    if model is None:
        return None
    try:
        stream = marshal.dumps(_bare(model), 2)
    except Exception:  # noqa: BLE001 - a user's class that does not pickle by name
        return None
    return None if b"__main__" in stream else zlib.crc32(stream)
