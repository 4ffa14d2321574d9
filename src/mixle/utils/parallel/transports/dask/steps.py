"""What runs on Dask workers."""

from __future__ import annotations

from typing import Any

from mixle.utils.parallel.folding.remote import Encoded, Encoding, add_up, encode_part, perform, read_order
from mixle.utils.parallel.folding.travel import pack_results, told, unpack, unpack_results

__all__ = ["encode", "fresh", "fresh_rows", "group", "head", "literal", "rows", "step", "summary", "survey", "tail"]


def encode(encoding: bytes, index: int, part: Any) -> Encoded:
    """Encode a part on a worker; rows of the driver come as bytes."""
    how: Encoding = unpack(encoding)
    return encode_part(how, index, (lambda: unpack(part)) if isinstance(part, bytes) else (lambda: _read(part)))


def _read(part: Any) -> Any:
    return part.read() if hasattr(part, "read") and hasattr(part, "row_group") else part


def summary(encoded: Encoded) -> Any:
    """Return all but the shard."""
    return encoded.summary


def survey(encoding: bytes, index: int, part: Any) -> Any:
    """Encode a part, keep nothing, and return all but the shard."""
    return encode(encoding, index, part).summary


def fresh(order: bytes, encoding: bytes, index: int, part: Any) -> bytes | None:
    """Encode a part and run an order on it, as one task: nothing is kept."""
    return step(order, encode(encoding, index, part))


def step(order: bytes, encoded: Encoded) -> bytes | None:
    """Run an order on an encoded part on a worker."""
    from distributed import get_worker

    result = perform(read_order(order), encoded, str(get_worker().name))
    return None if result is None else pack_results([result], definitions=True)


def rows(order: bytes, encoded: Encoded) -> tuple[Any, ...]:
    """Run an order that says something of each row; returns (fault, kind of rows, rows), the last one to stay here."""
    result = perform(read_order(order), encoded, "")
    if result is None or result.error is not None:
        return None if result is None or result.error is None else told(result.error), None, None
    ragged = isinstance(result.value, list)
    return None, None if ragged else (result.value.shape[1:], str(result.value.dtype)), result.value


def fresh_rows(order: bytes, encoding: bytes, index: int, part: Any) -> tuple[Any, ...]:
    """Encode a part and run an order that says something of each row, as one task."""
    return rows(order, encode(encoding, index, part))


def head(found: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return all but the rows."""
    return found[:2]


def tail(found: tuple[Any, ...]) -> Any:
    """Return the rows."""
    return found[2]


def group(order: bytes, *frames: bytes | None) -> bytes:
    """Add up a group of shards on a worker."""
    results = [result for frame in frames if frame is not None for result in unpack_results(frame)]
    return pack_results(add_up(read_order(order), results), definitions=True)


def literal(value: Any) -> Any:
    """Return what is to lie in the cluster, computed again if its worker dies."""
    return value
