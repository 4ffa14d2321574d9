"""What a cluster engine runs on its workers: encode a part once, run a task on it, send back a frame.

Everything here is called with bytes that the driver made and gives back bytes, so that an engine needs to know no
class of this library, and so that the checksum of a result is looked at before it is read.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mixle._limits import one_blas_thread
from mixle.errors import SourceChanged
from mixle.utils.parallel.folding import payload
from mixle.utils.parallel.folding.columns import partition_rows
from mixle.utils.parallel.folding.faults import RemoteFault, fault_of
from mixle.utils.parallel.folding.fold import fold_groups
from mixle.utils.parallel.folding.shards import Chunk, Partitions, Shard, check_row_count, cut, encode_shard
from mixle.utils.parallel.folding.tasks import Result, execute
from mixle.utils.parallel.folding.travel import ShardRows, told, unpack

__all__ = [
    "Encoded",
    "Encoding",
    "Order",
    "add_up",
    "by_value",
    "encode_part",
    "perform",
    "read_order",
]


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that travels by value and calls `function` where the driver's import paths are known."""
    module, name, paths = function.__module__, function.__qualname__, [path for path in sys.path if path]

    def call(*args: Any) -> Any:
        import importlib
        import sys

        sys.path.extend(path for path in paths if path not in sys.path)
        return getattr(importlib.import_module(module), name)(*args)

    return call


@dataclass(frozen=True, eq=False)
class Encoding:
    """How parts are encoded.

    Attributes
    ----------
    encoder : DataSequenceEncoder
        Encoder of the model.
    sub_chunks : int
        Encoded pieces of a partition; rows of the driver bring their own.
    chunks : bool
        The parts hold pairs (count, payload) already.
    """

    encoder: Any
    sub_chunks: int = 1
    chunks: bool = False

    def encode(self, index: int, part: Any) -> Shard:
        """Return a part as a shard; positions of a partition count from 0."""
        if isinstance(part, ShardRows):
            return part.encode(index, self.encoder)
        if self.chunks:
            return Shard(index, tuple(self._adopted(part)), self.encoder)
        rows = partition_rows(part, getattr(self.encoder, "row_form", "value"))
        positions = range(len(rows))
        pieces = cut(positions, self.sub_chunks, Partitions((len(rows),)))
        return encode_shard(index, rows, positions, self.encoder, pieces)

    def _adopted(self, part: Iterable[tuple[int, Any]]) -> Iterable[Chunk]:
        start = 0
        for count, held in part:
            content = getattr(held, "host_payload", held)
            check_row_count(self.encoder, content, count)
            if count:
                yield Chunk(count, content, range(start, start + count))
            start += count


class Encoded(NamedTuple):
    """A part where it lives.

    Attributes
    ----------
    part : int
        Number of the part among all parts.
    rows : int
        Rows of it.
    mark : bytes
        Length and checksum of what was encoded: equal rows give equal marks.
    fault : tuple or None
        Why it could not be encoded; then there is no shard.
    shard : Shard or None
        The encoded rows.
    """

    part: int
    rows: int
    mark: bytes
    fault: tuple[Any, ...] | None
    shard: Shard | None

    @property
    def summary(self) -> tuple[int, int, bytes, tuple[Any, ...] | None]:
        """All but the shard."""
        return self[:4]


def encode_part(encoding: Encoding, index: int, read: Callable[[], Any]) -> Encoded:
    """Read and encode a part; whatever goes wrong is its `fault`."""
    try:
        with one_blas_thread():
            shard = encoding.encode(index, read())
        kept = [(chunk.count, chunk.payload, chunk.weights) for chunk in shard.chunks]
        mark = bytes(payload.encode(kept, allow_pickle=True)[0])
    except Exception as error:  # noqa: BLE001 - the user's source or encoder: the driver's to see
        return Encoded(index, 0, b"", told(fault_of(error)), None)
    return Encoded(index, shard.rows, mark, None, shard)


@dataclass(frozen=True, eq=False)
class Order:
    """A task for all parts, shipped once per round.

    Attributes
    ----------
    task : Task
        What to compute.
    shards : dict of int to (int, int, bytes)
        Of each part that has rows: shard id, position of its first row, mark of its rows.
    """

    task: Any
    shards: dict[int, tuple[int, int, bytes]]


class _Last(threading.local):
    """The order that a thread read last, with its frame."""

    frame: Any = None
    order: Any = None


_last = _Last()


def read_order(frame: bytes) -> Order:
    """Return the order of a frame; one frame is read once for all shards that a thread runs it on."""
    if _last.frame is not frame:
        _last.order = unpack(frame)
        _last.frame = frame
    found: Order = _last.order
    return found


def perform(order: Order, encoded: Encoded, name: str) -> Result | None:
    """Return the result of a task on an encoded part, None for a part without rows.

    Parameters
    ----------
    order : Order
        The task.
    encoded : Encoded
        The part; one that was computed again must have the rows it had.
    name : str
        Name of the worker.
    """
    place = order.shards.get(encoded.part)
    if place is None:
        return None
    shard, start, mark = place
    if encoded.fault is not None:
        return _failed(shard, RemoteFault(*encoded.fault), name)
    if encoded.shard is None or encoded.mark != mark:
        return _failed(shard, fault_of(_changed(encoded)), name)
    chunks = tuple(
        replace(chunk, positions=range(chunk.positions.start + start, chunk.positions.stop + start)) if start else chunk
        for chunk in encoded.shard.chunks
    )
    with one_blas_thread():
        result = execute(order.task, Shard(shard, chunks, encoded.shard.encoder))
    result.receipt["name"] = name
    return result


def _failed(shard: int, fault: RemoteFault, name: str) -> Result:
    return Result(shard, 0, 0.0, None, None, {"name": name}, fault)


def _changed(encoded: Encoded) -> SourceChanged:
    return SourceChanged(
        f"partition {encoded.part} was computed again and its rows are not those of before ({encoded.rows} rows now). "
        "A source must give the same rows each time: persist it, write it to files, or give its random parts a seed"
    )


def add_up(order: Order, results: Sequence[Result]) -> list[Result]:
    """Return the results of a whole group of shards, added up; if a shard failed nothing is, and the errors go on."""
    ordered = sorted(results, key=lambda result: result.shard)
    if any(result.error is not None for result in ordered):
        return [replace(result, value=None) for result in ordered]
    try:
        with one_blas_thread():
            return fold_groups(order.task.estimator, ordered, len(order.shards))
    except Exception as error:  # noqa: BLE001 - the user's accumulator
        return [replace(result, value=None, error=fault_of(error)) for result in ordered]
