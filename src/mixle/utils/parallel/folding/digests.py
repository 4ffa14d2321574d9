"""Digests of the encoded rows that a worker has at rest."""

from __future__ import annotations

import dataclasses
import marshal
import weakref
import zlib
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.errors import PayloadError

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.shards import Chunk, Shard

__all__ = ["lies_in", "rows_digest", "sealed", "words_of"]

MASK = (1 << 64) - 1
PIECE = 1 << 15  # words of a copy
PLAIN = {str, int, float, bool, type(None), bytes}
BARE = {*PLAIN, tuple}


def rows_digest(shard: Shard) -> str:
    """Return the digest of a shard's encoded rows and weights: the sum of their 64-bit words, in hexadecimal.

    It reads at the speed of memory, and sees every flipped bit, and every two of them but the same bit of two words
    where one rises as the other falls (or both are the highest). Their xor would see no other pair, and take as long
    again. It is no cryptographic digest. Arrays of numbers, label tables and whatever tuples, lists, dicts and data
    classes of them hold count; arrays of Python objects and types of a user's own do not.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> from mixle.utils.parallel.folding.shards import encode_shard
    >>> encoder = GaussianEstimator().accumulator_factory().make().acc_to_encoder()
    >>> rows_digest(encode_shard(0, [1.0, 2.0], range(2), encoder, (range(2),)))
    '7ff0000000000010'
    """
    total = 0
    for chunk in shard.chunks:
        held = _known.get(id(chunk))
        if held is None:
            held = _Held(chunk, _parts((chunk.payload, chunk.weights)))
        total += held.size
        for words in held.whole:
            total += int(_sum(words))
        if held.texts:
            total += held.read()
        for part in held.scattered:
            total += part.added_up()
    return f"{total & MASK:016x}"


def words_of(array: np.ndarray) -> int:
    """Return the sum of the words of an array of plain numbers or text, however it lies, modulo 2^64.

    Examples
    --------
    >>> words_of(np.arange(4)), words_of(np.arange(8)[::2])
    (6, 12)
    """
    return _Words(array).added_up() & MASK


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
    held.whole.append(arena)
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
        self.whole: list[np.ndarray] = []
        self.texts: list[Any] = []
        self.seen: tuple[bytes, int] = b"", 0
        self.scattered: list[_Words] = []
        self.size = 0
        for part in parts:
            if not isinstance(part, np.ndarray):
                self.texts.append(part)
                continue
            self.count([part])
            words = _Words(part)
            if words.words is not None and not len(words.rest):
                self.whole.append(words.words)
            else:
                self.scattered.append(words)

    def count(self, arrays: Iterable[np.ndarray]) -> None:
        """Let the sizes of arrays count."""
        for array in arrays:
            self.size += array.nbytes

    def read(self) -> int:
        """Return two checksums of the text and the plain values as they stand now, beside each other."""
        # a version without references: equal text gives equal bytes; named tuples are not among its types
        text = marshal.dumps([one if type(one) in BARE else tuple(one) for one in self.texts], 2)
        before, found = self.seen
        if text != before:  # comparing is cheaper
            found = zlib.crc32(text) << 32 | zlib.adler32(text)
            self.seen = text, found
        return found


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

    def added_up(self) -> int:
        """Return the sum of the words as they stand now."""
        if self.words is not None:
            return _added(self.words, self.rest)
        cuts = range(0, len(self.part), self.step)
        return sum([_added(*_whole(np.ascontiguousarray(self.part[cut : cut + self.step]))) for cut in cuts])


_known: dict[int, _Held] = {}  # by the id of the chunk, as long as that lives
_sum = np.add.reduce


def _whole(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return views of the words of an array in one piece, and of the bytes behind them."""
    flat = part.reshape(-1).view(np.uint8)
    whole = len(flat) - len(flat) % 8
    return flat[:whole].view(np.uint64), flat[whole:]


def _added(words: np.ndarray, rest: np.ndarray) -> int:
    return int(_sum(words)) + (int.from_bytes(rest.tobytes(), "little") if len(rest) else 0)
