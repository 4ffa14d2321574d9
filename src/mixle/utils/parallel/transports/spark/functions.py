"""The functions over encoded rows, for RDDs: `seq_encode` gives an RDD of (count, payload), the others take one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from mixle.errors import ContractError
from mixle.utils.parallel.folding.engine import partition_source
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.remote import by_value
from mixle.utils.parallel.folding.travel import pack, unpack
from mixle.utils.parallel.transports.spark.transport import SparkTransport

__all__ = ["encoded", "handle"]


def encoded(rdd: Any, encoder: Any, num_chunks: int = 1, chunk_size: int | None = None) -> Any:
    """Return an RDD of (count, payload), one pair per partition.

    Parameters
    ----------
    rdd : pyspark.RDD
        Rows.
    encoder : DataSequenceEncoder
        How they are encoded.
    num_chunks, chunk_size : int
        Not taken: the partitions are the chunks.

    Raises
    ------
    ContractError
        (a ValueError) for `num_chunks` or `chunk_size`.
    """
    if num_chunks != 1 or chunk_size is not None:
        raise ContractError("an RDD's chunks are its partitions: leave num_chunks and chunk_size out, or repartition")
    how, encode = pack(encoder, definitions=True), by_value(encode_chunk)
    return rdd.mapPartitions(lambda rows: encode(how, rows))


def encode_chunk(encoder: bytes, rows: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Encode the rows of a partition in a Python worker of Spark."""
    from mixle.stats import seq_encode

    part = list(rows)
    yield from seq_encode(part, unpack(encoder))


def handle(rdd: Any, encoder: Any) -> Handle:
    """Return a handle over an RDD of (count, payload); it keeps nothing: what should stay, the caller persists."""
    source = partition_source("RDD", rdd, encoder, None, 1)
    return Handle(SparkTransport(materialize=False), replace(source, chunks=True))
