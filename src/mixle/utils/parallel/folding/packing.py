"""Encoded rows in memory of their own where they were narrow strided views of all rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.utils.parallel.folding.digests import lies_in

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.shards import Chunk, Shard

__all__ = ["arena", "packed"]

LINE = 64  # bytes that a processor reads at once


def packed(shard: Shard) -> Shard:
    """Return a shard whose arrays lie in one piece each.

    A strided shard of a table is every n-th row of it. Where a row is shorter than a line of the cache, each pass over
    the shard reads several times as much memory as it needs, and a copy is worth its memory. Wider rows, and
    arrays that lie in one piece already, stay views; numbers and their bits stay as they are.

    Examples
    --------
    >>> import numpy as np
    >>> _packed(np.zeros(100)[::4]).strides, _packed(np.zeros((100, 8))[::4]).strides
    ((8,), (256, 8))
    """
    chunks = [(chunk, _packed(chunk.payload)) for chunk in shard.chunks]
    if all(payload is chunk.payload for chunk, payload in chunks):
        return shard
    return replace(shard, chunks=tuple(replace(chunk, payload=payload) for chunk, payload in chunks))


def arena(shard: Shard) -> Shard:
    """Return a shard whose arrays of numbers share one piece of memory per chunk, which no one else has.

    Its digest is then taken in one pass, and a bit that flips in it is nobody else's.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> from mixle.utils.parallel.folding.digests import rows_digest
    >>> from mixle.utils.parallel.folding.shards import encode_shard
    >>> encoder = GaussianEstimator().accumulator_factory().make().acc_to_encoder()
    >>> shard = encode_shard(0, [1.0, 2.0], range(2), encoder, (range(2),))
    >>> own = arena(shard)
    >>> own.chunks[0].payload.base is not None, rows_digest(own) == rows_digest(shard)
    (True, True)
    """
    return replace(shard, chunks=tuple(map(_moved, shard.chunks)))


def _moved(chunk: Chunk) -> Chunk:
    """Return a chunk whose arrays lie in one piece of memory."""
    found: dict[int, np.ndarray] = {}
    _collect((chunk.payload, chunk.weights), found)
    size = sum(array.nbytes + -array.nbytes % LINE for array in found.values())
    raw = np.zeros(size + LINE, np.uint8)
    first = at = -raw.ctypes.data % LINE
    new: dict[int, np.ndarray] = {}
    for key, array in found.items():
        order: Any = "F" if array.flags.f_contiguous and array.dtype.itemsize % 8 == 0 else "C"
        new[key] = np.ndarray(array.shape, array.dtype, raw.data, at, order=order)
        new[key][...] = array
        at += array.nbytes + -array.nbytes % LINE
    payload, weights = _exchanged((chunk.payload, chunk.weights), new)
    moved = replace(chunk, payload=payload, weights=weights)
    lies_in(moved, raw[first : first + size].view(np.uint64), {id(array) for array in new.values()})
    return moved


def _collect(value: Any, found: dict[int, np.ndarray]) -> None:
    if type(value) is np.ndarray:
        if not value.dtype.hasobject and value.nbytes and value.dtype.names is None:
            found[id(value)] = value
    elif isinstance(value, tuple):
        for part in value:
            _collect(part, found)


def _exchanged(value: Any, new: dict[int, np.ndarray]) -> Any:
    if id(value) in new:
        return new[id(value)]
    if not isinstance(value, tuple):
        return value
    parts = [_exchanged(part, new) for part in value]
    if all(one is old for one, old in zip(parts, value, strict=True)):
        return value
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def _packed(value: Any) -> Any:
    if type(value) is np.ndarray:
        if value.flags.c_contiguous or value.flags.f_contiguous or value.dtype.kind == "O":
            return value
        wide = value.ndim > 1 and value[0].flags.c_contiguous and value[0].nbytes >= LINE
        return value if wide else np.asfortranarray(value)
    if isinstance(value, tuple):
        parts = [_packed(part) for part in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
