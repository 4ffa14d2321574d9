"""What runs in Spark's Python workers where rows come as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mixle.utils.parallel.folding.travel import pack, unpack
from mixle.utils.parallel.transports.spark.steps import Part, encoded, prepare, run

__all__ = ["COLUMNS", "FRAMES", "encode_arrow", "encode_batches", "plain", "plain_frames", "run_batches"]

#: An encoded part as a row of a data frame.
COLUMNS = "part int, size long, mark binary, fault binary, shard binary"
#: A result as a row of a data frame.
FRAMES = "shard int, frame binary"


def encode_arrow(encoding: bytes, schema: bytes, index: int, batches: Iterable[bytes]) -> Iterator[Part]:
    """Encode the Arrow batches of a partition, as the JVM wrote them, column by column."""

    def read() -> Any:
        import pyarrow as pa

        kinds = pa.ipc.read_schema(pa.py_buffer(schema))
        return _table([pa.ipc.read_record_batch(pa.py_buffer(batch), kinds) for batch in batches])

    yield encoded(encoding, index, read)


def encode_batches(encoding: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    """Encode the Arrow batches of a partition, column by column."""
    index, rows, mark, fault, shard = _encoded_batches(encoding, batches)
    yield _batch([[index], [rows], [mark], [pack(fault, definitions=True)], [shard]], COLUMNS)


def run_batches(encoding: bytes, order: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    """Encode the Arrow batches of a partition and run an order on them."""
    found = list(run(order, [_encoded_batches(encoding, batches)]))
    yield _batch([[shard for shard, _ in found], [frame for _, frame in found]], FRAMES)


def plain(parts: Iterable[Any]) -> Iterator[Part]:
    """Return encoded parts from rows of a data frame, which Spark hands to workers of another kind."""
    prepare()
    for part, rows, mark, fault, shard in parts:
        yield part, rows, bytes(mark), unpack(fault), bytes(shard)


def plain_frames(results: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
    """Return results from rows of a data frame."""
    prepare()
    for shard, frame in results:
        yield shard, bytes(frame)


def _table(batches: Iterable[Any]) -> Any:
    import pyarrow as pa

    held = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(held) if held else []


def _encoded_batches(encoding: bytes, batches: Iterable[Any]) -> Part:
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    return encoded(encoding, context.partitionId(), lambda: _table(batches))


def _batch(columns: list[list[Any]], schema: str) -> Any:
    import pyarrow as pa

    kinds = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}
    fields = [field.split() for field in schema.split(", ")]
    arrays = [pa.array(column, kinds[kind]) for column, (_, kind) in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _ in fields])
