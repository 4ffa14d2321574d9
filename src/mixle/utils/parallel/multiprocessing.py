"""Encoded data on a pool of worker processes."""

from __future__ import annotations

import math
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
from mixle.utils.parallel.planning.discover import count_workers
from mixle.utils.parallel.policies.base import stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.folding.transport import Transport
    from mixle.utils.parallel.policies.base import Policy

__all__ = ["MPEncodedData"]


class MPEncodedData(Handle):
    """Encoded rows on worker processes of this machine.

    Each worker encodes its shards once and keeps them; an EM step sends the model and brings statistics back.

    Parameters
    ----------
    data : sequence or ndarray
        Rows; they must be picklable unless they are an array.
    estimator, encoder : optional
        One of them is needed.
    num_workers : int, optional
        Worker processes, clipped to 1 ... number of rows; one per processor that this process may use by default.
    sub_chunks : int
        Encoded pieces per shard; one accumulator runs over them.
    response_timeout : float
        Seconds of silence (no byte, no processor time, not waiting for a disk) after which a worker counts as hung.
        A worker that computes is never ended, however long it takes.
    shutdown_timeout : float
        Upper bound of the seconds that `close` may take. It is kept by design: `close` ends workers at once, whatever
        they do, so the value changes nothing.
    num_shards : int or shard map, optional
        Shard map: an int is ``Strided(K)``. By default one shard per worker, row `i` in shard ``i % num_workers``.
        With more shards than workers the result no longer depends on the number of workers.
    weights : array_like, shape (n,), optional
        Row weights, finite and at least 0.
    policies : iterable of Policy, optional
        What happens around each round, e.g. ``[Retry(2)]``.
    telemetry, run_id : optional
        Where a record per rank and round is sent, and what it is tagged with.

    Attributes
    ----------
    num_workers : int
        Number of worker processes.
    size : int
        Number of rows.

    Raises
    ------
    TypeError
        For data that are no sequence of rows; the message has the line to type.
    ValueError
        For empty data, wrong weights.
    RowError
        For a row that cannot be encoded, named by its position.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> with MPEncodedData([1.0, 2.0, 3.0, 4.0], GaussianEstimator(), num_workers=2) as handle:
    ...     handle.pysp_seq_estimate(GaussianEstimator(), None).mu
    2.5
    """

    def __init__(
        self,
        data: Sequence[Any],
        estimator: Any | None = None,
        encoder: Any | None = None,
        num_workers: int | None = None,
        sub_chunks: int = 1,
        response_timeout: float = 30.0,
        shutdown_timeout: float = 2.0,
        *,
        num_shards: Any = None,
        weights: Any = None,
        policies: Iterable[Policy] | None = None,
        telemetry: Telemetry | None = None,
        run_id: str | None = None,
    ) -> None:
        title = "MPEncodedData"
        rows = check_rows(data, title)
        encoder = choose_encoder(title, estimator, None, encoder, takes_model=False)
        pieces = check_count(sub_chunks, "sub_chunks") or 1
        wanted: Any = num_workers
        if isinstance(wanted, float) and math.isfinite(wanted):
            wanted = int(wanted)
        self.num_workers = count_workers(wanted, len(rows))
        shard_map = choose_map(Strided(self.num_workers), len(rows), num_shards=num_shards)
        source = make_source(
            rows, encoder, shard_map or Strided(1), pieces, check_weights(weights, len(rows)), estimator
        )
        silence = _seconds(response_timeout, "response_timeout")
        _seconds(shutdown_timeout, "shutdown_timeout")
        super().__init__(stack(_pool(self.num_workers, silence), policies or ()), source)
        self.observe(telemetry, run_id)


def _pool(num_workers: int, worker_timeout_s: float) -> Transport:
    from mixle.utils.parallel.transports.process import ProcessTransport

    return ProcessTransport(num_workers, worker_timeout_s=worker_timeout_s)


def _seconds(value: Any, name: str) -> float:
    """Return a positive number of seconds."""
    seconds = float("nan") if isinstance(value, bool) else float(value)
    if not seconds > 0.0:
        raise ValueError(f"{name} must be a positive number of seconds, got {value!r}")
    return seconds
