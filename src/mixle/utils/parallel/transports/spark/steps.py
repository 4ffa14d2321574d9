"""What runs in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mixle.utils.parallel.folding.faults import surface
from mixle.utils.parallel.folding.remote import Encoded, Encoding, add_up, encode_part, perform, read_order
from mixle.utils.parallel.folding.travel import ShardRows, pack, pack_results, unpack, unpack_results

__all__ = ["Part", "add", "encode_parcel", "encode_rows", "encoded", "prepare", "rows", "run", "tell"]

Part = tuple[int, int, bytes, Any, bytes]


def encode_rows(encoding: bytes, index: int, rows: Iterable[Any]) -> Iterator[Part]:
    """Encode the rows of a partition."""
    yield encoded(encoding, index, lambda: list(rows))


def encode_parcel(encoding: bytes, index: int, rows: Iterable[bytes]) -> Iterator[Part]:
    """Encode what the driver sent: the rows of a shard, or where a worker reads them."""

    def read() -> Any:
        (data,) = rows
        sent = unpack(data)
        return sent if isinstance(sent, ShardRows) else sent.read()

    yield encoded(encoding, index, read)


def prepare() -> None:
    """Spare this worker what Spark would do before and after each task for all that is imported.

    Importers of zip files are forgotten; they are made again from what was read, when they are needed: Spark
    invalidates all importers before each task, and below Python 3.12 those of its zip files and of its jar then read
    whole directories again, some 90 ms of processor time. After each task Spark collects garbage: what was imported is
    exempt from it, or else its many objects are looked at each time, some 25 ms. Both are many times what a small shard
    takes.
    """
    import gc
    import sys
    import zipimport

    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]
    if len(sys.modules) != _imported.get(0):  # garbage was collected after the last task: what is there, stays
        _imported[0] = len(sys.modules)
        gc.freeze()


#: Number of modules when they were last exempted, at 0.
_imported: dict[int, int] = {}


def encoded(encoding: bytes, index: int, read: Callable[[], Any]) -> Part:
    """Return the part that `read` reads, encoded; whatever goes wrong is its fault."""
    prepare()
    how: Encoding = unpack(encoding)
    part = encode_part(how, index, read)
    return (*part.summary, pack(part.shard, definitions=True))


def tell(told: Any, parts: Iterable[Part]) -> Iterator[Part]:
    """Add the summaries of encoded parts to an accumulator; a part that is computed again is told again."""
    for part in parts:
        told.add((part[:4],))
        yield part


def run(order: bytes, parts: Iterable[Part]) -> Iterator[tuple[int, bytes]]:
    """Run an order on encoded parts; yields (shard, frame)."""
    prepare()
    read = read_order(order)
    for index, rows, mark, fault, shard in parts:
        result = perform(read, Encoded(index, rows, bytes(mark), fault, unpack(shard)), _name())
        if result is not None:
            yield result.shard, pack_results([result], definitions=True)


def add(order: bytes, frames: Iterable[bytes]) -> bytes:
    """Add up the results of a group of shards."""
    prepare()
    results = [result for frame in frames for result in unpack_results(frame)]
    return pack_results(add_up(read_order(order), results), definitions=True)


def rows(frame: bytes) -> list[Any]:
    """Return what an order said of each row of a shard; an error of the model is raised."""
    found: list[Any] = []
    for result in unpack_results(frame):
        if result.error is not None:
            raise surface(result.error, result.shard)
        found += result.value.tolist() if getattr(result.value, "ndim", 0) == 1 else list(result.value)
    return found


def _name() -> str:
    """Return the name of the executor: its host, and the process that forks its Python workers."""
    import os
    import socket

    return f"{socket.gethostname()}:{os.getppid()}"
