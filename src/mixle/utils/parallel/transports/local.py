"""Shards in this process, one after another or on threads."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixle._limits import one_blas_thread
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import (
    check_count,
    check_engine,
    check_fits,
    check_precision,
    check_rows,
    check_weights,
    choose_encoder,
    choose_map,
    make_source,
    warn_user,
)
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.folding.tasks import Accumulate, Score, execute
from mixle.utils.parallel.folding.transport import GLANCE_S, Source, Transport
from mixle.utils.parallel.planning.devices import DeviceSpec
from mixle.utils.parallel.planning.discover import usable_cpus
from mixle.utils.parallel.planning.plan import plan
from mixle.utils.parallel.planning.quicker import Quicker
from mixle.utils.parallel.policies.base import stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.folding.shards import Shard
    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.planning.devices import Resources
    from mixle.utils.parallel.planning.placement import Placement
    from mixle.utils.parallel.policies.base import Policy

__all__ = ["LocalEncodedData", "LocalTransport"]


class LocalTransport(Transport):
    """Runs tasks in this process.

    Parameters
    ----------
    threads : int, optional
        Run up to this many shards at a time where that is quicker; None or 1 runs them one after another. Results have
        the same bits.
    shards : iterable of Shard, optional
        Shards that are encoded already; then `load` is not called.

    Notes
    -----
    Threads serve code that waits, or computes long without the interpreter's lock. Two threads that hand that lock to
    each other every few microseconds take longer than one, up to many times as long for small pieces. So rounds tell:
    E-steps run on threads twice, then once without, and from then on as was quicker (`Quicker`).
    """

    name = "local"
    closable = False

    def __init__(self, threads: int | None = None, shards: Iterable[Shard] = ()) -> None:
        self.threads = threads
        self.together = False  # whether the last tasks ran on threads
        self._quicker: dict[Any, Quicker] = {}
        self._adopt(shards)

    def _adopt(self, shards: Iterable[Shard]) -> None:
        self.shards = {shard.id: shard for shard in shards}
        self.sizes = {shard.id: shard.rows for shard in self.shards.values()}

    def load(self, source: Source) -> None:
        """Encode all shards here; RowError names a bad row by its position in the data."""
        with one_blas_thread():
            self._adopt(source.encode(shard) for shard in range(len(source.shards)))

    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard."""
        with one_blas_thread():
            if self.threads is None or min(self.threads, len(self.shards)) < 2:
                yield from self.one_by_one(task)
            elif not isinstance(task, (Accumulate, Score)):  # those are done once in a fit
                yield from self.on_threads(task)
            else:
                quicker = self._quicker.setdefault((type(task), type(task.model)), Quicker())
                together = quicker.choose()
                yield from quicker.timed(together, self.on_threads(task) if together else self.one_by_one(task))

    def one_by_one(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard on the thread that asks for the results."""
        self.together = False
        for shard in self.shards.values():
            yield execute(task, shard)

    def on_threads(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard, several at a time."""
        from concurrent.futures import ThreadPoolExecutor, as_completed

        self.together = True
        pool = ThreadPoolExecutor(min(self.threads or 1, len(self.shards)), thread_name_prefix="mixle-shard")
        done = 0
        try:
            waiting = {pool.submit(self.run, task, shard) for shard in self.shards}
            while waiting:
                with suppress(TimeoutError):
                    for future in as_completed(waiting, GLANCE_S):
                        waiting.discard(future)
                        done += 1
                        yield future.result()
        finally:
            # Whoever gives a round up (Ctrl-C) does not wait for shards that are under way; they disturb nobody.
            pool.shutdown(wait=done == len(self.shards), cancel_futures=True)

    def run(self, task: Task, shard: int, worker: int | None = None) -> Result:
        """Run `task` on one shard; there is only one worker, this process."""
        with one_blas_thread():
            return execute(task, self.shards[shard], worker)

    def close(self) -> None:
        """Do nothing: there is nothing to release, and the transport stays usable."""


@dataclass(frozen=True)
class _LocalShard:
    """One shard of a `LocalEncodedData`: its device, engine, and chunks as ``(count, ResidentEncodedPayload)``."""

    device: DeviceSpec
    engine: str
    chunks: list[tuple[int, Any]]


class LocalEncodedData(Handle):
    """In-process encoded-data handle implementing the orchestrator protocol.

    Rows are encoded once, shard by shard, according to an advisory `Placement` (one shard by default). `close` does
    nothing: the handle stays usable.

    Parameters
    ----------
    data : sequence or ndarray
        Rows.
    estimator, model, encoder : optional
        One of them is needed; the encoder is the explicit one, else the model's, else the estimator's.
    placement : Placement, optional
        Shards as planned; more than one of `placement`, `resources`, `num_chunks` and `num_shards` is refused.
    resources : Resources, optional
        Devices to plan for.
    engine, precision : optional
        "numpy"; "float64", or "float32" for E-steps that compute in float32 and add up in float64.
    num_chunks : int, optional
        Number of contiguous shards.
    sub_chunks : int
        Encoded pieces per shard; one accumulator runs over them.
    parallel_chunks : bool
        Run shards on threads as long as that is quicker; the results have the same bits.
    chunk_workers : int, optional
        Number of threads; given alone it turns threads on.
    num_shards : int or shard map, optional
        Shard map: an int is ``Strided(K)``.
    weights : array_like, shape (n,), optional
        Row weights, finite and at least 0; ``nobs`` is their total.
    force : bool
        Encode although the placement, given or planned for `resources`, says that memory does not suffice.
    policies : iterable of Policy, optional
        What happens around each round.
    telemetry, run_id : optional
        Where a record per rank and round is sent, and what it is tagged with.

    Attributes
    ----------
    placement : Placement or None
        What was planned; None with `num_shards`.
    encoder : DataSequenceEncoder
        The encoder in use.
    size : int
        Number of rows.

    Raises
    ------
    TypeError
        For data that are no sequence of rows; the message has the line to type.
    ValueError
        For empty data, controls that exclude each other, wrong weights, a placement whose ``fits`` is False.
    RowError
        For a row that cannot be encoded, named by its position.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> handle = LocalEncodedData([1.0, 2.0, 3.0, 4.0], GaussianEstimator(), num_chunks=2)
    >>> handle.num_chunks, handle.pysp_seq_estimate(GaussianEstimator(), None).mu
    (2, 2.5)
    """

    def __init__(
        self,
        data: Sequence[Any],
        estimator: Any | None = None,
        model: Any | None = None,
        encoder: Any | None = None,
        placement: Placement | None = None,
        resources: Resources | None = None,
        engine: Any | None = None,
        precision: Any | None = None,
        num_chunks: int | None = None,
        sub_chunks: int = 1,
        parallel_chunks: bool = False,
        chunk_workers: int | None = None,
        *,
        num_shards: Any = None,
        weights: Any = None,
        force: bool = False,
        policies: Iterable[Policy] | None = None,
        telemetry: Telemetry | None = None,
        run_id: str | None = None,
    ) -> None:
        title = "LocalEncodedData"
        rows = check_rows(data, title)
        encoder = choose_encoder(title, estimator, model, encoder)
        check_engine(title, engine, precision)
        pieces = check_count(sub_chunks, "sub_chunks") or 1
        threads = _threads(parallel_chunks, chunk_workers)
        row_weights = check_weights(weights, len(rows))
        shard_map = choose_map(
            None, len(rows), num_shards=num_shards, num_chunks=num_chunks, placement=placement, resources=resources
        )
        cuts: int | list[int] = pieces
        if num_shards is None:
            if placement is None:
                placement = plan(rows, model, estimator, encoder, resources, engine, precision, num_chunks, pieces)
            check_fits(title, placement, force)
            shard_map = Contiguous(sizes=tuple(shard.size for shard in placement.shards))
            cuts = [shard.sub_chunks for shard in placement.shards]
        self.placement = placement
        source = make_source(rows, encoder, shard_map or Contiguous(1), cuts, row_weights, estimator)
        if threads is not None and len(source.shards) == 1:
            warn_user(
                "parallel_chunks has no effect with one shard: threads run shards, never the sub-chunks of one. "
                "Give num_shards=K or num_chunks=K"
            )
        super().__init__(stack(LocalTransport(threads), policies or ()), source)
        self.precision = check_precision(title, precision)
        self.observe(telemetry, run_id)

    @functools.cached_property
    def shards(self) -> tuple[_LocalShard, ...]:
        """The shards, each with its device, engine, and chunks as ``(count, ResidentEncodedPayload)``."""
        from mixle.stats import ResidentEncodedPayload

        return tuple(
            _LocalShard(
                self._device(shard.id),
                "numpy",
                [(chunk.count, ResidentEncodedPayload(chunk.payload, chunk.payload)) for chunk in shard.chunks],
            )
            for shard in self._resident()
        )

    def _resident(self) -> Iterable[Shard]:
        transport = self.transport
        while not isinstance(transport, LocalTransport):
            transport = transport.inner  # type: ignore[attr-defined] # a policy around it
        return transport.shards.values()

    def _device(self, shard: int) -> DeviceSpec:
        return DeviceSpec("cpu:0") if self.placement is None else self.placement.shards[shard].device

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        for shard in self._resident():
            for chunk in shard.chunks:
                yield chunk.count, chunk.payload

    @property
    def num_chunks(self) -> int:
        """Return the number of local encoded chunks across all shards."""
        return sum(len(shard.chunks) for shard in self._resident())


#: More threads than this gain nothing anywhere, and a machine starts only so many.
_MOST_THREADS = 256


def _threads(parallel_chunks: Any, chunk_workers: Any) -> int | None:
    """Return the number of threads, None for none."""
    if not isinstance(parallel_chunks, bool):
        raise TypeError(f"parallel_chunks must be True or False, not {parallel_chunks!r}")
    workers = check_count(chunk_workers, "chunk_workers", optional=True)
    if workers is not None:
        return min(workers, _MOST_THREADS)
    return usable_cpus() if parallel_chunks else None
