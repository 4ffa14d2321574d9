"""What the driver makes of a shard itself, from the rows that workers read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mixle._limits import one_blas_thread
from mixle.utils.parallel.folding.shards import encode_shard
from mixle.utils.parallel.folding.tasks import execute

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.folding.transport import Source, Transport

__all__ = ["own_result"]


def own_result(source: Source, transport: Transport, task: Task, shard: int) -> Result | None:
    """Return what this process computes; None if it cannot.

    Parameters
    ----------
    source : Source
        Its rows are None where the transport keeps a copy, which ``rows_of`` reads.
    transport : Transport
        Who else computes.
    task : Task
        What to compute.
    shard : int
        Where.
    """
    try:
        read = source.shard_rows if source.rows is not None else transport.rows_of  # type: ignore[attr-defined]
        rows = read(shard)
        weights = source.shard_weights(shard)
        with one_blas_thread():
            encoded = encode_shard(shard, rows, source.shards[shard], source.encoder, source.pieces[shard], weights)
            result = execute(task, encoded)
    except Exception:  # noqa: BLE001 - rows that cannot be read any more, say: others have to decide
        return None
    return replace(result, receipt={**result.receipt, "recomputed": True}) if result.error is None else None
