"""The documented handle over Dask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError
from mixle.utils.parallel.folding.engine import partition_source, rows_source
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import check_count, choose_encoder, is_cluster_collection
from mixle.utils.parallel.folding.parquet import parquet_parts
from mixle.utils.parallel.folding.refusals import no_rows
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.policies.base import stack
from mixle.utils.parallel.transports.dask.transport import DaskTransport

if TYPE_CHECKING:
    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.folding.transport import Source
    from mixle.utils.parallel.policies.base import Policy

__all__ = ["DaskEncodedData"]


def _is_collection(data: Any) -> bool:
    """Return whether `data` is a Dask collection or a list of Delayed."""
    if isinstance(data, (list, tuple)):
        return bool(data) and all(callable(getattr(one, "__dask_graph__", None)) for one in data)
    return is_cluster_collection(data) and hasattr(data, "to_delayed")


class DaskEncodedData(Handle):
    """dask.distributed encoded-data handle implementing the orchestrator protocol.

    Encoded partitions are results of tasks on the workers; only statistics come back. A lost worker's partitions are
    computed again by Dask, to the same bits.

    Parameters
    ----------
    data : Bag, DataFrame, Series, Array, list of Delayed, Parquet path, sequence or ndarray
        A collection is never brought to this process: its partitions are the shards. Rows of this process are cut into
        contiguous shards.
    estimator, model, encoder : optional
        One of them is needed; the encoder is the explicit one, else the model's, else the estimator's.
    client : distributed.Client, optional
        The cluster. Otherwise the current client, or one in this process that `close` ends.
    num_partitions : int, optional
        Number of contiguous shards of rows of this process; one per worker by default.
    sub_chunks : int
        Encoded pieces per shard; one accumulator runs over them.
    materialize : bool
        Keep encoded partitions on the workers; False reads and encodes them again in every round.
    num_shards : int or shard map, optional
        Shard map of rows of this process: an int is ``Strided(K)``.
    weights : array_like, shape (n,), optional
        Weights of rows of this process, finite and at least 0.
    policies : iterable of Policy, optional
        What happens around each round, e.g. ``[Retry(2), Audit(0.1)]``.
    telemetry, run_id : optional
        Where a record per rank and round is sent, and what it is tagged with.

    Raises
    ------
    MissingPackage
        (an ImportError) without the package distributed.
    TypeError
        For data that are no rows and no Dask collection; the message has the line to type.
    ValueError
        For empty data, a closed client, controls that exclude each other.
    RowError
        For a row that cannot be encoded, named by its position in the data.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> with DaskEncodedData([1.0, 2.0, 3.0, 4.0], GaussianEstimator(), num_partitions=2) as handle:  # doctest: +SKIP
    ...     handle.num_chunks, handle.pysp_seq_estimate(GaussianEstimator(), None).mu
    (2, 2.5)
    """

    def __init__(
        self,
        data: Any,
        estimator: Any | None = None,
        model: Any | None = None,
        encoder: Any | None = None,
        client: Any | None = None,
        num_partitions: int | None = None,
        sub_chunks: int = 1,
        materialize: bool = True,
        *,
        num_shards: Any = None,
        weights: Any = None,
        policies: Iterable[Policy] | None = None,
        telemetry: Telemetry | None = None,
        run_id: str | None = None,
    ) -> None:
        title = "DaskEncodedData"
        parts = parquet_parts(data)
        encoder = choose_encoder(title, estimator, model, encoder)
        count = check_count(num_partitions, "num_partitions", optional=True)
        if not isinstance(materialize, bool):
            raise TypeError(f"materialize must be True or False, not {materialize!r}")
        if count is not None and num_shards is not None:
            raise BackendError("num_partitions and num_shards each say how rows are split: give only one of them")
        transport = DaskTransport(client, materialize=materialize)
        try:
            if parts is not None or _is_collection(data):
                source: Source = partition_source(
                    title,
                    data if parts is None else parts,
                    encoder,
                    estimator,
                    sub_chunks,
                    num_partitions=num_partitions,
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
                    default=Contiguous(count or max(1, len(transport.worker_names()))),
                    num_shards=num_shards,
                    weights=weights,
                )
            outer = stack(transport, policies or ())
        except BaseException:
            transport.close()
            raise
        super().__init__(outer, source)
        if not self.size:
            self.close()
            raise no_rows(title)
        self.observe(telemetry, run_id)
        self._partitions = transport.partitions

    @property
    def num_chunks(self) -> int:
        """Return the number of persisted dask encoded partitions."""
        return self._partitions
