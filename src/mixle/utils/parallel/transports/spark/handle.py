"""The documented handle over Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mixle.utils.parallel.folding.engine import partition_source, rows_source
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import choose_encoder
from mixle.utils.parallel.folding.parquet import parquet_parts
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.policies.base import stack
from mixle.utils.parallel.transports.spark.context import ANYWHERE, context_of, pyspark
from mixle.utils.parallel.transports.spark.transport import SparkTransport

if TYPE_CHECKING:
    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.folding.transport import Source
    from mixle.utils.parallel.policies.base import Policy

__all__ = ["SparkEncodedData", "spark_backend"]


class SparkEncodedData(Handle):
    """Spark RDD encoded-data handle implementing the orchestrator protocol.

    The partitions of the collection are the shards. They are encoded once and kept by the executors; only statistics
    come back. What a lost executor held Spark computes again, to the same bits.

    Parameters
    ----------
    data : RDD, DataFrame, Parquet path, or with `client` a sequence or ndarray
        A collection is never brought to this process; the columns of a DataFrame are read through Arrow. An RDD
        may be empty.
    estimator, model, encoder : optional
        One of them is needed; the encoder is the explicit one, else the model's, else the estimator's.
    materialize : bool
        Keep encoded partitions in the executors' memory (and on disk where that does not suffice); False reads and
        encodes them again in every round.
    client : SparkContext or SparkSession, optional
        Where rows of this process go. ``encoded_data(rows, estimator, backend="spark")`` takes the active one, or
        starts one on this machine and stops it with the handle.
    num_shards : int or shard map, optional
        Shard map of rows of this process: an int is ``Strided(K)``; as many contiguous shards as Spark's default
        parallelism if not given.
    sub_chunks : int
        Encoded pieces per shard; one accumulator runs over them.
    weights : array_like, shape (n,), optional
        Weights of rows of this process, finite and at least 0.
    policies : iterable of Policy, optional
        What happens around each round, e.g. ``[Audit(0.1)]``, which on Spark checks invariants.
    telemetry, run_id : optional
        Where a record per rank and round is sent, and what it is tagged with.

    Raises
    ------
    MissingPackage
        (an ImportError) without the package pyspark, or without Java.
    TypeError
        For data that are no RDD or DataFrame; the message has the line to type.
    ValueError
        For controls that a collection cannot have.
    RowError
        For a row that cannot be encoded, named by its position in the data.

    Examples
    --------
    >>> with SparkEncodedData(frame, estimator) as handle:  # doctest: +SKIP
    ...     model = optimize(None, estimator, enc_data=handle)
    """

    def __init__(
        self,
        data: Any,
        estimator: Any | None = None,
        model: Any | None = None,
        encoder: Any | None = None,
        materialize: bool = True,
        *,
        client: Any = None,
        num_shards: Any = None,
        sub_chunks: int = 1,
        weights: Any = None,
        policies: Iterable[Policy] | None = None,
        telemetry: Telemetry | None = None,
        run_id: str | None = None,
    ) -> None:
        title = "SparkEncodedData"
        parts = parquet_parts(data)
        native = parts is not None or _is_collection(data)
        if not isinstance(materialize, bool):
            raise TypeError(f"materialize must be True or False, not {materialize!r}")
        if not native and client is None:
            raise TypeError(
                f"{title} requires a Spark RDD-like object. This is a {type(data).__name__}: for rows of this process "
                'say encoded_data(rows, estimator, backend="spark"), or pass client=SparkContext'
            )
        encoder = choose_encoder(title, estimator, model, encoder)
        pyspark()
        transport = SparkTransport(client, materialize=materialize)
        try:
            if native:
                source: Source = partition_source(
                    title,
                    data if parts is None else parts,
                    encoder,
                    estimator,
                    sub_chunks,
                    num_shards=num_shards,
                    weights=weights,
                )
            else:
                source = rows_source(
                    title,
                    data,
                    encoder,
                    estimator,
                    sub_chunks,
                    default=Contiguous(max(1, int(transport.connect().defaultParallelism))),
                    num_shards=num_shards,
                    weights=weights,
                )
            outer = stack(transport, policies or ())
        except BaseException:
            transport.close()
            raise
        super().__init__(outer, source)
        self.observe(telemetry, run_id)
        self._partitions = transport.partitions

    @property
    def num_chunks(self) -> int:
        """Return the number of Spark partitions in the encoded RDD."""
        return self._partitions


def _is_collection(data: Any) -> bool:
    """Return whether `data` is an RDD or a DataFrame of a SparkContext."""
    if isinstance(data, type) or not (hasattr(data, "mapPartitionsWithIndex") or hasattr(data, "mapInArrow")):
        return False
    if context_of(data) is None:
        raise TypeError(
            "SparkEncodedData requires a Spark RDD-like object. This one has no SparkContext (Spark Connect has none): "
            "make the session with SparkSession.builder.master(...)"
        )
    return True


def spark_backend(data: Any, estimator: Any = None, **controls: Any) -> SparkEncodedData:
    """Return the handle for any data: rows of this process go to the client, the active context, or one of our own."""
    if controls.get("client") is None:
        controls["client"] = ANYWHERE
    return SparkEncodedData(data, estimator, **controls)
