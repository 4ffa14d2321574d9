"""Encoded data on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import (
    check_count,
    check_rows,
    check_weights,
    choose_encoder,
    choose_map,
    make_source,
)
from mixle.utils.parallel.folding.refusals import no_rows
from mixle.utils.parallel.folding.shards import Contiguous, Partitions
from mixle.utils.parallel.policies.base import stack
from mixle.utils.parallel.transports.ray.transport import BlockSource, RayTransport

if TYPE_CHECKING:
    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.folding.transport import Source
    from mixle.utils.parallel.policies.base import Policy

__all__ = ["RayEncodedData"]

TITLE = "RayEncodedData"
#: Shards where none are asked for.
SHARDS = 4


class RayEncodedData(Handle):
    """Encoded rows on actors of a Ray cluster.

    The program's connection is used (``ray.init(...)`` before); without one, Ray is started on this machine and shut
    down by `close`.

    Parameters
    ----------
    data : sequence, ndarray or ray.data.Dataset
        Rows. The blocks of a data set are the shards; they never come to the driver.
    estimator, model, encoder : optional
        One of them is needed; the encoder is the explicit one, else the model's, else the estimator's.
    num_workers : int, optional
        Number of actors, one per CPU of the cluster by default.
    sub_chunks : int
        Encoded pieces per shard; one accumulator runs over them.
    materialize : bool
        Keep encoded shards on the actors; False encodes them again in every round from the rows in Ray's object store,
        which spills to disk what does not fit.
    num_shards : int or shard map, optional
        Shard map of rows: an int is ``Strided(K)``; ``Contiguous(4)`` by default. A data set takes none:
        ``dataset.repartition(K)``.
    weights : array_like, shape (n,), optional
        Row weights, finite and at least 0; not for data sets.
    policies : iterable of Policy, optional
        What happens around each round, e.g. ``[Retry(2)]``.
    telemetry, run_id : optional
        Where a record per rank and round is sent, and what it is tagged with.

    Raises
    ------
    MissingPackage
        Without ray.
    TypeError
        For data that are no sequence of rows; the message has the line to type.
    ValueError
        For empty data, a shard map or weights with a data set, wrong weights.
    RowError
        For a row that cannot be encoded, named by its position.
    """

    def __init__(
        self,
        data: Any,
        estimator: Any | None = None,
        model: Any | None = None,
        encoder: Any | None = None,
        num_workers: int | None = None,
        sub_chunks: int = 1,
        *,
        materialize: bool = True,
        num_shards: Any = None,
        weights: Any = None,
        policies: Iterable[Policy] | None = None,
        telemetry: Telemetry | None = None,
        run_id: str | None = None,
    ) -> None:
        given = list(policies or ())
        encoder = choose_encoder(TITLE, estimator, model, encoder)
        pieces = check_count(sub_chunks, "sub_chunks") or 1
        workers = check_count(num_workers, "num_workers", optional=True)
        if not isinstance(materialize, bool):
            raise TypeError(f"materialize must be True or False, not {materialize!r}")
        grouped = not any(policy.reads_statistics for policy in given)
        ray = RayTransport(workers, grouped=grouped, materialize=materialize)
        transport = stack(ray, given)
        if hasattr(data, "iter_internal_ref_bundles"):
            if num_shards is not None or weights is not None:
                what = (
                    "num_shards; use dataset.repartition(K)"
                    if num_shards is not None
                    else "weights; pass rows for them"
                )
                raise BackendError(f"{TITLE}: the blocks of a data set are its shards, so it takes no {what}")
            source: Source = _blocks(ray, data, encoder, pieces, estimator)
        else:
            rows = check_rows(data, TITLE)
            shard_map = choose_map(Contiguous(SHARDS), len(rows), num_shards=num_shards) or Contiguous(SHARDS)
            source = make_source(rows, encoder, shard_map, pieces, check_weights(weights, len(rows)), estimator)
        super().__init__(transport, source)
        self.observe(telemetry, run_id)

    @property
    def num_chunks(self) -> int:
        """Return the number of shards on the cluster."""
        return self.num_shards


def _blocks(ray: RayTransport, data: Any, encoder: Any, pieces: int, estimator: Any) -> BlockSource:
    """Return the blocks of a data set, which is computed once and stays in the object store."""
    ray.connect()
    try:
        bundles = list(data.materialize().iter_internal_ref_bundles())
    except BaseException:
        ray.close()
        raise
    pairs = [pair for bundle in bundles for pair in zip(bundle.block_refs, bundle.metadata, strict=True)]
    found = [(block, int(facts.num_rows)) for block, facts in pairs if facts.num_rows]
    if not found:
        ray.close()
        raise no_rows(TITLE)
    sizes = tuple(rows for _, rows in found)
    cut = make_source(range(sum(sizes)), encoder, Partitions(sizes), pieces, None, estimator)
    return BlockSource(
        None, None, encoder, cut.shards, cut.pieces, estimator, blocks=tuple(block for block, _ in found)
    )
