"""Encoded data behind an executor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import (
    check_count,
    check_rows,
    check_weights,
    choose_encoder,
    choose_map,
    make_source,
)
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.policies.base import stack
from mixle.utils.parallel.transports.futures.transport import FuturesTransport

if TYPE_CHECKING:
    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.policies.base import Policy

__all__ = ["FuturesEncodedData"]

#: Shards where none are asked for: enough for the processes of a machine, and no function of their number.
SHARDS = 16


class FuturesEncodedData(Handle):
    """Encoded rows behind an executor of `concurrent.futures`.

    Parameters
    ----------
    data : sequence or ndarray
        Rows.
    estimator, encoder : optional
        One of them is needed.
    client : executor or callable
        An executor (`ThreadPoolExecutor`, `ProcessPoolExecutor`, loky's, mpi4py.futures'), which `close` leaves
        running, or a function that makes one, which `close` shuts down.
    sub_chunks : int
        Encoded pieces per shard; one accumulator runs over them.
    num_shards : int or shard map, optional
        Shard map: an int is ``Strided(K)``; ``Strided(16)`` by default, whatever the executor.
    weights : array_like, shape (n,), optional
        Row weights, finite and at least 0.
    policies : iterable of Policy, optional
        What happens around each round. An executor counts as one worker: audits check sums.
    telemetry : Telemetry, optional
        Where a record per round is sent.
    run_id : str, optional
        Tags the records.

    Raises
    ------
    TypeError
        For data that are no sequence of rows; the message has the line to type.
    ValueError
        Without an executor, for one that takes no work, for empty data, wrong weights.
    RowError
        For a row that cannot be encoded, named by its position.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from mixle.stats import GaussianEstimator
    >>> with ThreadPoolExecutor(2) as pool, FuturesEncodedData([1.0, 2.0, 6.0], GaussianEstimator(), client=pool) as h:
    ...     h.pysp_seq_estimate(GaussianEstimator(), None).mu
    3.0
    """

    def __init__(
        self,
        data: Any,
        estimator: Any | None = None,
        encoder: Any | None = None,
        client: Any | None = None,
        sub_chunks: int = 1,
        *,
        num_shards: Any = None,
        weights: Any = None,
        policies: Iterable[Policy] | None = None,
        telemetry: Telemetry | None = None,
        run_id: str | None = None,
    ) -> None:
        title = type(self).__name__
        rows = check_rows(data, title)
        encoder = choose_encoder(title, estimator, None, encoder, takes_model=False)
        pieces = check_count(sub_chunks, "sub_chunks") or 1
        shard_map = choose_map(Strided(SHARDS), len(rows), num_shards=num_shards) or Strided(SHARDS)
        source = make_source(rows, encoder, shard_map, pieces, check_weights(weights, len(rows)), estimator)
        super().__init__(stack(FuturesTransport(client), policies or ()), source)
        self.observe(telemetry, run_id)
