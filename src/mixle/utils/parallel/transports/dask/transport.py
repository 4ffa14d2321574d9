"""Shards as results of tasks on Dask workers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError, HandleClosed, MissingPackage, WorkerLost
from mixle.utils.parallel.folding.clusters import PACKAGES
from mixle.utils.parallel.folding.engine import EngineTransport, PartitionSource, losses_of, parcels
from mixle.utils.parallel.folding.faults import fault_of
from mixle.utils.parallel.folding.fold import GROUP
from mixle.utils.parallel.folding.remote import by_value
from mixle.utils.parallel.folding.tasks import Result
from mixle.utils.parallel.transports.dask.steps import encode, group, literal, step, summary

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Task
    from mixle.utils.parallel.folding.transport import Source

__all__ = ["DaskTransport"]

#: Shards of one message to the scheduler.
BATCH = 1024


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
        self._build: Callable[[], list[Any]] = list

    def worker_names(self) -> list[str]:
        """Return the names of the living workers, sorted."""
        return sorted(self._addresses())

    def _addresses(self) -> dict[str, str]:
        workers = _workers(self.client)
        return {str(facts.get("name", address)): address for address, facts in workers.items()}

    def encode(self, source: Source, encoding: bytes) -> list[Any]:
        """Encode the parts on the workers."""
        parts = _parts(source) if isinstance(source, PartitionSource) else parcels(source)
        for name in self.worker_names():
            self.number(name)
        self._build = lambda: self._encoded(parts, encoding)
        held = self._build()
        waiting = self._map(summary, held)
        found = []
        try:
            for index, future in enumerate(waiting):
                found.append(_summary_of(index, future))
        finally:
            self._drop(waiting)
        if self.materialize:
            self._held = held
        else:
            self._drop(held)
        return found

    def _encoded(self, parts: Sequence[Any], encoding: bytes) -> list[Any]:
        how = self._put(encoding)
        indices = list(range(len(parts)))
        if parts and hasattr(parts[0], "__dask_graph__"):
            from dask import delayed

            later = delayed(by_value(encode), pure=False)
            built: list[Any] = self.client.compute(
                [later(how, index, part) for index, part in zip(indices, parts, strict=True)], sync=False
            )
            return built
        return self._map(encode, [how] * len(parts), indices, list(parts))

    def _key(self, word: str) -> str:
        return f"{self._label}-{word}-{next(self._number)}"

    def _put(self, value: bytes) -> Any:
        return self.client.submit(by_value(literal), value, key=self._key("order"), pure=False)

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
        order = self._put(self.order(task))
        held = self._held if self.materialize else self._build()
        used = [held[index] for index in self._places]
        steps = self._map(step, [order] * len(used), used)
        if grouped:
            groups = [
                self.client.submit(by_value(group), order, *steps[at : at + GROUP], key=self._key("group"), pure=False)
                for at in range(0, len(steps), GROUP)
            ]
            wanted = {future.key: range(n * GROUP, min(len(steps), (n + 1) * GROUP)) for n, future in enumerate(groups)}
        else:
            groups = steps
            wanted = {future.key: range(n, n + 1) for n, future in enumerate(steps)}
        try:
            yield from self._collect(groups, wanted)
        finally:
            self._drop([order, *groups, *steps, *([] if self.materialize else held)])

    def _collect(self, futures: list[Any], wanted: dict[str, range]) -> Iterator[Result]:
        from distributed import as_completed

        lost: list[tuple[range, BaseException]] = []
        for future, value in as_completed(futures, with_results=True, raise_errors=False):
            if future.status == "finished":
                yield from self.read(value)
                continue
            error = _error_of(future)
            if _is_loss(error):
                lost.append((wanted[future.key], error))
            else:
                for shard in wanted[future.key]:
                    yield Result(shard, 0, 0.0, None, None, {}, fault_of(error))
        if lost:
            shards = sorted(shard for part, _ in lost for shard in part)
            raise losses_of(f"Dask gave up: {lost[0][1]}", shards, lost[0][1])

    # For policies

    def workers(self) -> list[int]:
        """Return the numbers of the living workers."""
        return sorted(self.number(name) for name in self.worker_names())

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
        held = self._held if self.materialize else self._build()
        index = list(self._places)[shard]
        future = self.client.submit(
            by_value(step), order, held[index], key=self._key("run"), pure=False, workers=[by_number[worker]]
        )
        try:
            (result,) = self._collect([future], {future.key: range(shard, shard + 1)})
        finally:
            self._drop([order, future, *([] if self.materialize else held)])
        return result

    def _check_open(self) -> None:
        if self.client.status in {"closed", "closing"}:
            raise HandleClosed(
                "the Dask client of this handle is closed: make a new client, and a new handle with "
                "DaskEncodedData(data, estimator, client=client)"
            )

    def close(self) -> None:
        """Let go of what lies on the workers, and end an owned client; further calls do nothing."""
        held, self._held, self._build = self._held, [], list
        if self.client.status not in {"closed", "closing"}:
            self._drop(held)
            if self.owned:
                self.client.close()


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
        line = PACKAGES["dask"][1]
        raise MissingPackage(f"backend 'dask' needs distributed. Install: {line}") from error
    if given is None:
        try:
            return distributed.get_client(), False
        except ValueError:
            return distributed.Client(processes=False, dashboard_address=None), True
    if not isinstance(given, distributed.Client):
        raise TypeError(f"client must be a distributed.Client, not {type(given).__name__}: pass client=Client(address)")
    if given.asynchronous:
        raise BackendError("an asynchronous client cannot be waited for: pass client=Client(address)")
    if given.status in {"closed", "closing"}:
        raise BackendError("the Dask client is closed: make a new one, client=Client(address)")
    return given, False


def _parts(source: PartitionSource) -> list[Any]:
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


def _summary_of(index: int, future: Any) -> Any:
    """Return the summary of a part; an error of its source becomes its fault."""
    from distributed import wait

    wait(future)
    if future.status == "finished":
        return future.result()
    error = _error_of(future)
    if _is_loss(error):
        raise losses_of(f"Dask gave partition {index} up while it was encoded: {error}", [index], error)
    fault = fault_of(error)
    return index, 0, b"", (fault.type_name, fault.message, fault.row, fault.fields, fault.traceback_text, fault.pickled)
