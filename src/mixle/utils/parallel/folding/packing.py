"""Encoded rows in memory of their own, column by column, where they were strided views of all rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.shards import Shard

__all__ = ["packed"]


def packed(shard: Shard) -> Shard:
    """Return a shard whose arrays lie in one piece each.

    A strided shard of a table is every n-th row of it, and each pass over it reads n times as much memory as it needs.
    Arrays that lie in one piece already are not copied; numbers and their bits stay as they are.
    """
    chunks = tuple(replace(chunk, payload=_packed(chunk.payload)) for chunk in shard.chunks)
    return replace(shard, chunks=chunks)


def _packed(value: Any) -> Any:
    if type(value) is np.ndarray:
        whole = value.flags.c_contiguous or value.flags.f_contiguous or value.dtype.kind == "O"
        return value if whole else np.asfortranarray(value)
    if isinstance(value, tuple):
        parts = [_packed(part) for part in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
