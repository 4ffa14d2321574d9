"""Shards as results of tasks on Dask workers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError, HandleClosed, MissingPackage, RoundLosses, WorkerLost
from mixle.utils.parallel.folding.backends import NEEDS
from mixle.utils.parallel.folding.engine import EngineTransport, PartitionSource, losses_of, parcels
from mixle.utils.parallel.folding.faults import fault_of
from mixle.utils.parallel.folding.fold import GROUP
from mixle.utils.parallel.folding.remote import by_value
from mixle.utils.parallel.folding.tasks import Result
from mixle.utils.parallel.folding.travel import told
from mixle.utils.parallel.transports.dask.output import as_collection, raise_first
from mixle.utils.parallel.transports.dask.steps import (
    encode,
    fresh,
    fresh_rows,
    group,
    head,
    literal,
    rows,
    step,
    summary,
    survey,
    tail,
)

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Task
    from mixle.utils.parallel.folding.transport import Source

__all__ = ["DaskTransport"]

#: Shards of one message to the scheduler.
BATCH = 1024
#: Seconds until a cluster without workers is given up.
PATIENCE_S = 60.0


class DaskTransport(EngineTransport):
    """Shards live as results of tasks on Dask workers, which Dask computes again where a worker is lost.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; the current client if there is one, else a client of this process that `close` ends.
    materialize : bool
        Keep encoded rows on the workers; without it every round reads and encodes again.
    """

    name = "dask"

    def __init__(self, client: Any = None, *, materialize: bool = True) -> None:
        super().__init__()
        self.client, self.owned = _client(client)
        self.materialize = materialize
        self._number = itertools.count()
        self._label = f"mixle-{os.urandom(6).hex()}"
        self._held: list[Any] = []
        self._running: list[Any] = []
        self._parts: list[Any] = []
        self._how = b""

    def worker_names(self) -> list[str]:
        """Return the names of the living workers, sorted."""
        return sorted(self._addresses())

    def _addresses(self) -> dict[str, str]:
        workers = _workers(self.client)
        return {str(facts.get("name", address)): address for address, facts in workers.items()}

    def encode(self, source: Source, encoding: bytes) -> list[Any]:
        """Encode the parts on the workers."""
        self._parts = _partitions(source) if isinstance(source, PartitionSource) else parcels(source)
        for name in self.worker_names():
            self.number(name)
        self._how = encoding
        indices = list(range(len(self._parts)))
        if self.materialize:
            self._held = self._on_parts(encode, indices, encoding)
            waiting = self._map(summary, self._held)
        else:
            waiting = self._on_parts(survey, indices, encoding)
        order = {future.key: index for index, future in enumerate(waiting)}
        found = []
        try:
            for future, value, error in self._arrivals(waiting):
                index = order[future.key]
                if error is not None and _is_loss(error):
                    raise losses_of(f"Dask gave partition {index} up while it was encoded: {error}", [index], error)
                found.append(value if error is None else (index, 0, b"", told(fault_of(error))))
        finally:
            self._drop(waiting)
        return found

    def _on_parts(self, function: Callable[..., Any], indices: list[int], *before: bytes) -> list[Any]:
        """Run ``function(*before, index, part)`` on parts, as one task each with what makes the part."""
        parts = [self._parts[index] for index in indices]
        if not parts or not hasattr(parts[0], "__dask_graph__"):
            shared = [self._put(value) for value in before]
            futures = self._map(function, *([one] * len(parts) for one in shared), indices, parts)
            self._drop(shared)
            return futures
        from dask import delayed

        # A future inside a Delayed would ask for a default client.
        literals = [delayed(value, name=self._key("literal"), pure=False) for value in before]
        later = delayed(by_value(function), pure=False)
        tasks = [later(*literals, index, part) for index, part in zip(indices, parts, strict=True)]
        computed: list[Any] = self.client.compute(tasks, sync=False)
        return computed

    def _key(self, word: str) -> str:
        return f"{self._label}-{word}-{next(self._number)}"

    def _put(self, value: bytes) -> Any:
        return self._submit(literal, value)

    def _submit(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self.client.submit(by_value(function), *args, key=self._key(function.__name__), pure=False, **options)

    def _map(self, function: Callable[..., Any], *columns: list[Any]) -> list[Any]:
        if not columns[0]:
            return []
        futures: list[Any] = self.client.map(
            by_value(function), *columns, key=self._key(function.__name__), pure=False, batch_size=BATCH
        )
        return futures

    def _drop(self, futures: Iterable[Any]) -> None:
        for future in futures:
            future.release()

    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard; the task travels once, results come as they are ready.

        Raises
        ------
        RoundLosses
            If Dask gave shards up: their workers died again and again.
        """
        yield from self._round(task, grouped=False)

    def map_groups(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard and add up groups of 256 consecutive shards on the workers."""
        yield from self._round(task, grouped=True)

    def _round(self, task: Task, grouped: bool) -> Iterator[Result]:
        self._check_open()
        sent = self.order(task)
        order = self._put(sent)
        steps = self._steps(sent, order)
        wanted = [range(n, n + 1) for n in range(len(steps))]
        last = steps
        if grouped:
            wanted = [range(at, min(len(steps), at + GROUP)) for at in range(0, len(steps), GROUP)]
            last = [self._submit(group, order, *steps[part.start : part.stop]) for part in wanted]
        try:
            yield from self._collect(last, wanted)
        finally:
            self._drop([order, *last, *steps])

    def _steps(self, sent: bytes, order: Any) -> list[Any]:
        indices = list(self._places)
        if not self.materialize:
            return self._on_parts(fresh, indices, sent, self._how)
        return self._map(step, [order] * len(indices), [self._held[index] for index in indices])

    def collection(self, task: Task) -> Any:
        """Return the output of `task` for each row as an Array or, for rows of unlike shape, a Bag.

        Its blocks are computed now, lie on the workers, and stay there after `close`, as long as the collection lives.
        """
        self._check_open()
        sent, indices = self.order(task), list(self._places)
        order = self._put(sent)
        if self.materialize:
            found = self._map(rows, [order] * len(indices), [self._held[index] for index in indices])
        else:
            found = self._on_parts(fresh_rows, indices, sent, self._how)
        heads = self._map(head, found)
        try:
            told_by = self._gather(heads)
            raise_first(list(enumerate(told_by)))
            form = told_by[0][1]
            name, rest = self._key("rows"), () if form is None else (0,) * len(form[0])
            keys = [(name, shard, *rest) for shard in range(len(found))]
            kept = self.client.map(by_value(tail), found, key=keys, pure=False, batch_size=BATCH)
            return as_collection(name, kept, [self.sizes[shard] for shard in range(len(found))], form)
        finally:
            self._drop([order, *heads, *found])

    def _gather(self, futures: list[Any]) -> list[Any]:
        """Return one value for each shard."""
        try:
            values: list[Any] = self.client.gather(futures)
        except Exception as error:
            if not _is_loss(error):
                raise
            raise losses_of(f"Dask gave up: {error}", sorted(self.sizes), error) from error
        return values

    def _collect(self, futures: list[Any], wanted: list[range]) -> Iterator[Result]:
        """Yield the results of futures as they come; `wanted` has the shards of each."""
        self._running = futures
        shards = {future.key: part for future, part in zip(futures, wanted, strict=True)}
        lost: list[tuple[range, BaseException]] = []
        for future, value, error in self._arrivals(futures):
            if error is None:
                yield from self.read(value)
            elif _is_loss(error):
                lost.append((shards[future.key], error))
            else:
                for shard in shards[future.key]:
                    yield Result(shard, 0, 0.0, None, None, {}, fault_of(error))
        if lost:
            missing = sorted(shard for part, _ in lost for shard in part)
            raise losses_of(f"Dask gave up: {lost[0][1]}", missing, lost[0][1])

    def _arrivals(self, futures: list[Any]) -> Iterator[tuple[Any, Any, BaseException | None]]:
        """Yield (future, value, error) as futures end."""
        from distributed import as_completed

        for future, value in as_completed(futures, loop=self.client.loop, with_results=True, raise_errors=False):
            yield (future, value, None) if future.status == "finished" else (future, None, _error_of(future))

    # For policies

    def workers(self) -> list[int]:
        """Return the numbers of the living workers; where all have just died, a nanny's next one is waited for."""
        names = self.worker_names()
        if not names:
            with suppress(TimeoutError):
                self.client.wait_for_workers(1, timeout=PATIENCE_S)
            names = self.worker_names()
        return sorted(self.number(name) for name in names)

    def run(self, task: Task, shard: int, worker: int) -> Result:
        """Run `task` on one shard on a chosen worker, which fetches the encoded rows if it does not hold them.

        Raises
        ------
        WorkerLost
            If there is no such worker any more.
        """
        self._check_open()
        by_number = {self.number(name): address for name, address in self._addresses().items()}
        if worker not in by_number:
            error = WorkerLost(f"there is no Dask worker {worker} any more; it had shard {shard}")
            error.worker, error.shards = worker, (shard,)
            raise error
        order = self._put(self.order(task))
        address = by_number[worker]
        index = list(self._places)[shard]
        if self.materialize:
            future = self._submit(step, order, self._held[index], workers=[address])
        else:
            (future,) = self._on_parts(fresh, [index], self.order(task), self._how)
        try:
            (result,) = self._collect([future], [range(shard, shard + 1)])
        except RoundLosses as lost:
            raise losses_of(str(lost), [shard], lost, worker).losses[0] from lost
        finally:
            self._drop([order, future])
        return result

    def _check_open(self) -> None:
        if self.client.status in {"closed", "closing"}:
            raise HandleClosed(
                "the Dask client of this handle is closed: make a new client, and a new handle with "
                "DaskEncodedData(data, estimator, client=client)"
            )

    def close(self) -> None:
        """Let go of what lies on the workers, and end an owned client; further calls do nothing."""
        held, self._held, self._parts = self._held, [], []
        running, self._running = self._running, []
        if self.client.status not in {"closed", "closing"}:
            if running:
                self.client.cancel(running)
            self._drop(held)
            if self.owned:
                self.client.close()
                self.client.folder()


def _workers(client: Any) -> dict[str, Any]:
    try:
        found = client.scheduler_info(n_workers=-1)
    except TypeError:  # older versions list all without being asked
        found = client.scheduler_info()
    workers: dict[str, Any] = found.get("workers", {})
    return workers


def _client(given: Any) -> tuple[Any, bool]:
    """Return the client to use and whether it is ours to close."""
    try:
        import distributed
    except ImportError as error:
        raise MissingPackage(f"backend 'dask' needs distributed. Install: {NEEDS['dask'].install}") from error
    if given is None:
        try:
            return distributed.get_client(), False
        except ValueError:
            return _own_client(distributed), True
    if not isinstance(given, distributed.Client):
        raise TypeError(f"client must be a distributed.Client, not {type(given).__name__}: pass client=Client(address)")
    if given.asynchronous:
        raise BackendError("an asynchronous client cannot be waited for: pass client=Client(address)")
    if given.status in {"closed", "closing"}:
        raise BackendError("the Dask client is closed: make a new one, client=Client(address)")
    return given, False


def _own_client(distributed: Any) -> Any:
    """Return a client of a cluster of threads in this process, whose folder goes when the client does."""
    import shutil
    import tempfile
    import weakref

    import dask

    folder = tempfile.mkdtemp(prefix="mixle-dask-")
    try:
        with dask.config.set({"temporary-directory": folder}):
            client = distributed.Client(processes=False, dashboard_address="127.0.0.1:0")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    client.folder = weakref.finalize(client, shutil.rmtree, folder, ignore_errors=True)
    return client


def _partitions(source: PartitionSource) -> list[Any]:
    """Return the partitions of a collection in order, each a Delayed or something with `read`."""
    import numpy as np

    collection = source.collection
    if not hasattr(collection, "to_delayed"):
        return list(collection)
    if getattr(collection, "ndim", 1) == 2 and hasattr(collection, "rechunk"):
        collection = collection.rechunk({1: -1})
    return list(np.asarray(collection.to_delayed(), dtype=object).ravel())


def _error_of(future: Any) -> BaseException:
    from distributed import CancelledError

    if future.status == "error":
        error = future.exception()
        if isinstance(error, BaseException):
            return error
    gone: BaseException = CancelledError(f"the future is {future.status}")
    return gone


def _is_loss(error: BaseException) -> bool:
    """Return whether Dask lost the task, as against user code that raised."""
    from distributed import CancelledError, KilledWorker

    return isinstance(error, (CancelledError, KilledWorker))
