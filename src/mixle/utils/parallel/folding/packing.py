"""Encoded rows in memory of their own where they were narrow strided views of all rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.shards import Shard

__all__ = ["packed"]

LINE = 64  # bytes that a processor reads at once


def packed(shard: Shard, wide: bool = False) -> Shard:
    """Return a shard whose arrays lie in one piece each.

    A strided shard of a table is every n-th row of it. Where a row is shorter than a line of the cache, each pass over
    the shard reads several times as much memory as it needs, and a copy is worth its memory. Wider rows, and
    arrays that lie in one piece already, stay views; numbers and their bits stay as they are.

    Parameters
    ----------
    shard : Shard
        Encoded rows.
    wide : bool
        Copy wider rows, too.

    Examples
    --------
    >>> import numpy as np
    >>> _packed(np.zeros(100)[::4], False).strides, _packed(np.zeros((100, 8))[::4], False).strides
    ((8,), (256, 8))
    >>> _packed(np.zeros((100, 8))[::4], True).strides
    (64, 8)
    """
    chunks = [(chunk, _packed(chunk.payload, wide)) for chunk in shard.chunks]
    if all(payload is chunk.payload for chunk, payload in chunks):
        return shard
    return replace(shard, chunks=tuple(replace(chunk, payload=payload) for chunk, payload in chunks))


def _packed(value: Any, wide: bool) -> Any:
    if type(value) is np.ndarray:
        if value.flags.c_contiguous or value.flags.f_contiguous or value.dtype.kind == "O":
            return value
        broad = value.ndim > 1 and value[0].flags.c_contiguous and value[0].nbytes >= LINE
        if broad:
            return np.ascontiguousarray(value) if wide else value
        return np.asfortranarray(value)
    if isinstance(value, tuple):
        parts = [_packed(part, wide) for part in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
