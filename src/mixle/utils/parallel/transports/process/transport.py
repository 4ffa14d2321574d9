"""Shards on a supervised pool of worker processes."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError, HandleClosed
from mixle.utils.parallel.folding import payload
from mixle.utils.parallel.folding.faults import RemoteFault, load_error
from mixle.utils.parallel.folding.refusals import check_retirable, check_worker
from mixle.utils.parallel.folding.tasks import Result
from mixle.utils.parallel.folding.transport import Source, Transport
from mixle.utils.parallel.planning.discover import count_workers, usable_cpus
from mixle.utils.parallel.transports.process import system, wire
from mixle.utils.parallel.transports.process.exchange import Exchange
from mixle.utils.parallel.transports.process.holdings import Pool, pools
from mixle.utils.parallel.transports.process.link import LauncherLink
from mixle.utils.parallel.transports.process.parcels import Definitions, unpicklable
from mixle.utils.parallel.transports.process.spool import Spool
from mixle.utils.parallel.transports.process.supervisor import Request, Supervisor
from mixle.utils.parallel.transports.process.view import WorkerProcess

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Task
    from mixle.utils.parallel.transports.process.link import Link

__all__ = ["ProcessTransport"]

Hook = Callable[[int, WorkerProcess], Any]
_LATE = ("hashlib", "numpy.random")  # each worker's first round needs them


class ProcessTransport(Transport):
    """Shards live in worker processes, which one launcher forks; rows lie in memory that all of them map.

    Shard `s` lives on worker ``s % num_workers``. A worker that was lost is started again by the next call.

    Parameters
    ----------
    num_workers : int, optional
        Number of processes; the usable CPUs if not given. Clipped to [1, rows].
    worker_timeout_s : float
        Silence after which a worker counts as hung: asleep, no CPU time, no byte. It bounds no computation.
    step_timeout_s : float, optional
        Bound on the time that one shard may take, if wanted.
    shutdown_timeout_s : float
        How long `close` waits for the launcher before it is killed, and all workers with it.
    preload : sequence of str
        Modules to import once before workers start, besides those that the estimator needs.
    start_method : {"launcher", "spawn"}, optional
        "spawn" starts interpreters one by one and is the only way where processes cannot be forked.

    Examples
    --------
    >>> from mixle.utils.parallel.folding.tasks import Apply
    >>> transport = ProcessTransport(num_workers=2)
    >>> transport.close()
    """

    name = "mp"
    eager = True

    def __init__(
        self,
        num_workers: int | None = None,
        *,
        worker_timeout_s: float = 30.0,
        step_timeout_s: float | None = None,
        shutdown_timeout_s: float = 1.0,
        preload: Sequence[str] = (),
        start_method: str | None = None,
    ) -> None:
        limits = {"worker_timeout_s": worker_timeout_s, "step_timeout_s": step_timeout_s}
        for word, seconds in {**limits, "shutdown_timeout_s": shutdown_timeout_s}.items():
            if seconds is not None and not seconds > 0:
                raise BackendError(f"{word} must be a positive number of seconds, not {seconds!r}")
        self.num_workers = usable_cpus() if num_workers is None else max(1, int(num_workers))
        self.worker_timeout_s, self.step_timeout_s = worker_timeout_s, step_timeout_s
        self.preload = tuple(preload)
        self.sizes: dict[int, int] = {}
        self.owner: dict[int, int] = {}
        self.copies: dict[int, int] = {}
        self.retired: set[int] = set()
        self.digests: dict[int, str] = {}
        self._link = _link_factory(start_method, shutdown_timeout_s)
        self._definitions = Definitions()
        self._hook: Hook | None = None
        self._pool = Pool()
        self._close = weakref.finalize(self, self._pool.close)

    # The verbs

    def load(self, source: Source) -> None:
        """Start the workers and let them encode their shards, all at once.

        Raises
        ------
        RowError
            For the first shard with a row that cannot be read; `row` is its position in the data.
        TypeError, AttributeError, pickle.PicklingError
            If the encoder or a row cannot be pickled; then no worker was started.
        WorkerLost
            If workers died while they encoded.
        """
        self.open(source)
        try:
            self.loaded(self.dispatch(None, self._residence()))
        except BaseException:
            self.close()
            raise

    def open(self, source: Source) -> None:
        """Do all of `load` except the encoding: write the rows, start the workers, say which shard lives where."""
        if self._pool.supervisor is not None or not self._close.alive:
            raise BackendError("this transport was loaded or closed already; make a new one")
        self.num_workers = count_workers(self.num_workers, len(source.rows))
        try:
            self._open(source)
        except BaseException:
            self.close()
            raise

    def _open(self, source: Source) -> None:
        pool = self._pool
        supervisor = pool.supervisor = Supervisor(
            self._link, self._definitions, self.worker_timeout_s, self.step_timeout_s
        )
        pools.add(pool)  # the launcher imports while rows are written
        pool.spool = Spool()
        pool.spool.write(source, self._definitions)
        supervisor.prepare({"rows": pool.spool.fd}, self._modules())
        self.owner = {shard: shard % self.num_workers for shard in range(len(source.shards))}
        self.sizes = {shard: len(positions) for shard, positions in enumerate(source.shards)}
        supervisor.ensure(self.workers())

    def loaded(self, results: Iterable[Result]) -> None:
        """Take the results of the encoding (of the task None on all shards).

        Raises
        ------
        RowError
            For the first shard with a row that cannot be read.
        """
        loaded = {result.shard: result for result in results}
        for shard in sorted(loaded):
            error = loaded[shard].error
            if error is not None:
                raise load_error(error, shard, loaded[shard].receipt.get("worker"))
        self.sizes = {shard: loaded[shard].rows for shard in sorted(loaded)}
        self.digests = {shard: result.receipt["rows"] for shard, result in loaded.items() if "rows" in result.receipt}

    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard and yield each result as it arrives.

        Raises
        ------
        RoundLosses
            After everything that arrived was yielded, if workers were lost. The next call starts them again.
        """
        self._supervisor().ensure(self.workers())
        return self.dispatch(task, self._residence())

    def run(self, task: Task, shard: int, worker: int) -> Result:
        """Run `task` on one shard on a chosen worker, which encodes it for this once if it does not hold it.

        Raises
        ------
        WorkerLost
            If that worker is lost meanwhile.
        """
        self._supervisor().ensure([worker])
        from mixle.errors import RoundLosses

        try:
            (result,) = self.dispatch(task, {worker: [shard]})
        except RoundLosses as lost:
            raise lost.losses[0] from None
        return result

    def move(self, shard: int, worker: int) -> None:
        """Let a shard live on another worker from the next call on; its bits do not change."""
        check_worker(worker, self.workers())
        before = self.owner[shard]
        if before != worker:
            self.owner[shard] = worker
            if not self._keeps(shard, before):
                self._supervisor().tell(before, wire.DROP, shard=shard)

    def hold(self, shard: int, worker: int) -> None:
        """Let a second worker keep the encoded rows of a shard; there is one such copy per shard."""
        before = self.copies.get(shard)
        self.copies[shard] = worker
        if before is not None and not self._keeps(shard, before):
            self._supervisor().tell(before, wire.DROP, shard=shard)

    def forget(self, shard: int, worker: int) -> None:
        """Let a worker drop the encoded rows of a shard: it encodes them anew when it needs them."""
        self._supervisor().tell(worker, wire.DROP, shard=shard)

    def _keeps(self, shard: int, worker: int) -> bool:
        return worker in {self.owner[shard], self.copies.get(shard)}

    def workers(self) -> list[int]:
        """Return the ids of the workers that are not retired."""
        return [worker for worker in range(self.num_workers) if worker not in self.retired]

    def retire(self, worker: int) -> None:
        """End a worker for good; its shards must have been moved.

        Raises
        ------
        BackendError
            If shards live there, or no other worker is left.
        """
        check_retirable(worker, self.owner, self.workers())
        self.retired.add(worker)
        self.copies = {shard: holder for shard, holder in self.copies.items() if holder != worker}
        self._supervisor().dismiss(worker)

    def grow(self) -> int:
        """Let there be one more worker from the next call on, and return its id."""
        self.num_workers += 1
        return self.num_workers - 1

    def close(self) -> None:
        """End all processes and release the memory of the rows; further calls do nothing."""
        self._close()

    # For policies and hooks

    def dispatch(self, task: Task | None, assignment: Mapping[int, Sequence[int]]) -> Iterator[Result]:
        """Run `task` on chosen shards on chosen workers at once, and yield each result as it arrives.

        Parameters
        ----------
        task : Task or None
            None encodes the shards and counts their rows.
        assignment : mapping of int to sequence of int
            Shards by worker. Workers keep the encoded rows of shards that they own.

        Raises
        ------
        RoundLosses
            After everything that arrived was yielded, if workers were lost.
        """
        supervisor = self._supervisor()
        parts = self._parcel(task)
        orders = {rank: [(shard, self._keeps(shard, rank)) for shard in shards] for rank, shards in assignment.items()}
        hook = self._take_hook(task)
        request = supervisor.submit(
            parts, {rank: items for rank, items in orders.items() if items}, wire.ARMED * (hook is not None)
        )
        if hook is not None:
            supervisor.rendezvous(request, hook)
        return self._results(supervisor, request)

    def begin(self, task: Task | None, assignment: Mapping[int, Sequence[int]]) -> Exchange:
        """Begin what `dispatch` does and return the exchange, through which more shards may be given to workers.

        Parameters
        ----------
        task : Task or None
            None encodes the shards and counts their rows.
        assignment : mapping of int to sequence of int
            Shards by worker. Those of a worker that is dead come back as lost.
        """
        supervisor = self._supervisor()
        exchange = Exchange(supervisor, self._parcel(task), self._read, self._keeps)
        hook = self._take_hook(task)
        request = exchange.give(assignment, flags=wire.ARMED * (hook is not None))
        if hook is not None and request is not None:
            supervisor.rendezvous(request, hook)
        return exchange

    def _parcel(self, task: Task | None) -> list[payload.Buffer]:
        try:
            return self._definitions.parcel(task)
        except Exception as error:
            raise unpicklable(error, f"the {type(task).__name__} task") from error

    def _take_hook(self, task: Task | None) -> Callable[[int], None] | None:
        """Return what is to be called for each worker that has the task; encoding leaves the hook armed."""
        if task is None or self._hook is None:
            return None
        hook, self._hook = self._hook, None
        return lambda rank: hook(rank, self.process(rank))

    def _results(self, supervisor: Supervisor, request: Request) -> Iterator[Result]:
        for shard, rank, body in supervisor.collect(request):
            yield self._read(shard, rank, body)

    def _read(self, shard: int, rank: int, body: bytearray) -> Result:
        """Return a reply as a result; what cannot be read is the result's error."""
        try:
            seconds, told = wire.read_seconds(body), memoryview(body)[: -wire.SECONDS.size]
            _, rows, weight, value, log_density, receipt, fault = payload.decode(told, True, self._definitions.loads)
        except Exception as error:  # noqa: BLE001 - a user's class may fail to unpickle in any way
            from mixle.utils.parallel.folding.faults import fault_of

            error.add_note("raised while the driver read a worker's reply")
            return Result(shard, 0, 0.0, None, None, {"worker": rank}, fault_of(error))
        receipt["payload_bytes"] = len(told)
        receipt["encode_seconds"] = seconds
        return Result(shard, rows, weight, value, log_density, receipt, None if fault is None else RemoteFault(*fault))

    def arm(self, hook: Hook | None) -> None:
        """Let the next task wait on every worker until ``hook(worker, process)`` was called for each.

        The hook is used once. It may kill the process: the worker has the task and has not begun to work on it. None
        disarms.
        """
        self._hook = hook

    def process(self, worker: int) -> WorkerProcess:
        """Return the process of a worker."""
        supervisor = self._supervisor()
        return WorkerProcess(supervisor.members[worker], supervisor)

    def processes(self) -> dict[int, WorkerProcess]:
        """Return the process of each worker."""
        return {rank: self.process(rank) for rank in sorted(self._supervisor().members)}

    def start(self, workers: Iterable[int]) -> None:
        """Start those of `workers` that do not live and wait until they do.

        Raises
        ------
        RuntimeError
            If they cannot be started.
        """
        self._supervisor().ensure(sorted(workers))

    def spawn(self, workers: Iterable[int]) -> None:
        """Start workers and do not wait for them: `live` has them when they are born."""
        self._supervisor().spawn(sorted(workers))

    def rows_of(self, shard: int) -> Any:
        """Return the rows of a shard as the workers read them."""
        self._supervisor()
        return self._pool.rows(shard, self._definitions)

    def live(self) -> list[int]:
        """Return the workers that live now."""
        return self._supervisor().live()

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or nothing was loaded yet."""
        return self._pool.supervisor is None or self._pool.supervisor.closed

    def _supervisor(self) -> Supervisor:
        supervisor = self._pool.supervisor
        if supervisor is None or supervisor.closed:
            raise HandleClosed("this pool of worker processes is closed: make a new handle")
        return supervisor

    def _residence(self) -> dict[int, list[int]]:
        residence: dict[int, list[int]] = {}
        for shard, rank in self.owner.items():
            residence.setdefault(rank, []).append(shard)
        return residence

    def _modules(self) -> list[str]:
        """Return the mathematics that the driver has loaded: what encoded or will fit these rows is part of it."""
        wanted = sorted(name for name in sys.modules if name.startswith("mixle.stats.") or name in _LATE)
        return [*wanted, *self.preload]


def _link_factory(start_method: str | None, shutdown_timeout_s: float) -> Callable[[], Link]:
    if start_method not in {None, "launcher", "spawn"}:
        raise BackendError(f"start_method must be 'launcher' or 'spawn', not {start_method!r}")
    if start_method == "launcher" or (start_method is None and system.can_fork()):
        return partial(LauncherLink, shutdown_timeout_s)
    from mixle.utils.parallel.transports.process.spawning import SpawnLink

    return SpawnLink
