"""The driver's side of a Ray cluster: one put per round, one call per shard or group, answers in any order."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError, HandleClosed, MissingPackage, RoundLosses, WorkerLost
from mixle.utils.parallel.folding.backends import NEEDS
from mixle.utils.parallel.folding.faults import load_error, surface
from mixle.utils.parallel.folding.fold import GROUP
from mixle.utils.parallel.folding.refusals import check_retirable, check_worker
from mixle.utils.parallel.folding.transport import Source, Transport
from mixle.utils.parallel.folding.travel import Parcel, pack, rows_of, unpack_results
from mixle.utils.parallel.planning.discover import usable_cpus
from mixle.utils.parallel.transports.ray.keeper import Keeper

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result, Task

__all__ = ["BlockSource", "RayTransport"]

#: How often Ray starts an actor again, and repeats a call that was lost with it, before the loss is told.
RESTARTS = 4


@dataclass(frozen=True, eq=False)
class BlockSource(Source):
    """Blocks of a Ray Dataset, which are the shards.

    Attributes
    ----------
    blocks : tuple
        References of the blocks that have rows.
    """

    blocks: tuple[Any, ...] = ()

    @property
    def counted(self) -> int:
        """Number of rows."""
        return sum(len(positions) for positions in self.shards)

    @property
    def width(self) -> int | None:
        """None: the driver has not seen a row."""
        return None


def load_ray() -> Any:
    """Return the package; MissingPackage without it."""
    try:
        import ray
    except ImportError as error:
        raise MissingPackage(f"backend 'ray' needs ray ({error}). Install: {NEEDS['ray'].install}") from error
    return ray


def load_data() -> Any:
    """Return ``ray.data``; MissingPackage without what it needs."""
    try:
        import ray.data
    except ImportError as error:
        raise MissingPackage(f'rows as a data set need ray.data ({error}). Install: pip install "ray[data]"') from error
    return ray.data


class RayTransport(Transport):
    """Actors that keep shards.

    Parameters
    ----------
    num_workers : int, optional
        Number of actors, one per CPU of the cluster by default; at most one per shard. They reserve no CPU, so that
        data sets and other work go on.
    grouped : bool
        Fold whole groups of 256 shards where they live, so that one statistic per group travels.
    restarts : int
        How often Ray starts a lost actor again and repeats the call, before the loss is told to the policies.
    materialize : bool
        Keep encoded shards on the actors; without it each round encodes again what lies in the object store.

    Attributes
    ----------
    owner : dict of int to int
        Actor of each shard.
    owned : bool
        Whether Ray was started here; `close` then shuts it down.
    """

    name = "ray"

    def __init__(
        self,
        num_workers: int | None = None,
        *,
        grouped: bool = True,
        restarts: int = RESTARTS,
        materialize: bool = True,
    ) -> None:
        self.ray = load_ray()
        self.materialize = materialize
        self.num_workers, self.grouped, self.restarts = num_workers, grouped, restarts
        self.sizes: dict[int, int] = {}
        self.owner: dict[int, int] = {}
        self.retired: set[int] = set()
        self.owned = False
        self.closed = False
        self.actors: dict[int, Any] = {}
        self._orders: dict[int, tuple[int, bytes, list[Any]]] = {}
        self._number = 0

    def connect(self) -> None:
        """Start Ray on this machine if the program is not connected to a cluster."""
        if not self.ray.is_initialized():
            self.owned = True
            self.ray.init(num_cpus=usable_cpus(), include_dashboard=False, log_to_driver=False, logging_level="ERROR")

    def load(self, source: Source) -> None:
        """Encode all shards on the actors; RowError names a bad row by its position in the data."""
        self.connect()
        shards = len(source.shards)
        cpus = int(self.ray.cluster_resources().get("CPU", 1))
        self.num_workers = max(1, min(self.num_workers or cpus, shards))
        groups = -(-shards // GROUP)
        whole = self.grouped and groups >= self.num_workers
        encoder = self.ray.put(pack(source.encoder, definitions=True))
        for shard in range(shards):
            self.owner[shard] = shard // GROUP * self.num_workers // groups if whole else shard % self.num_workers
            place = pack(rows_of(source, shard, rows=False))
            blocks = getattr(source, "blocks", ())
            rows = blocks[shard] if blocks else self.ray.put(pack(Parcel(source.shard_rows(shard)), definitions=True))
            refs = [encoder, rows]
            if source.weights is not None:  # an order goes out in each round, and these are as many as rows
                refs, place = [*refs, self.ray.put(place)], b""
            self._orders[shard] = (shard, place, refs)
        self.start(range(self.num_workers))
        loaded = sorted(self._round(None, self._homes()), key=lambda result: result.shard)
        for result in loaded:
            if result.error is not None:
                raise load_error(result.error, result.shard, result.receipt.get("worker"))
        self.sizes = {result.shard: result.rows for result in loaded}

    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard where it lives and yield each result as it arrives."""
        return self._round(task, self._homes(), len(self.sizes) if self.grouped else 0)

    def dispatch(self, task: Task, assignment: Mapping[int, Sequence[int]]) -> Iterator[Result]:
        """Run `task` on chosen shards on chosen actors."""
        return self._round(task, assignment)

    def collection(self, task: Task) -> Any:
        """Return the output of `task` for each row as a data set of one column, ``data``; it outlives the actors.

        Raises
        ------
        MissingPackage
            Without the data sets of Ray.
        RoundLosses
            If actors were lost for good.
        """
        data = load_data()
        self._check_open()
        self._number += 1
        sent = [self.ray.put(pack(task, definitions=True))]
        answers: list[tuple[Any, Any]] = []
        for shard in sorted(self._orders):
            call = self.actors[self.owner[shard]].rows.options(num_returns=2)
            answers.append(call.remote(self._number, sent, self._orders[shard]))
        ragged, lost = False, dict[int, WorkerLost]()
        for shard, (head, _) in enumerate(answers):
            try:
                (result,) = unpack_results(self.ray.get(head))
            except self.ray.exceptions.RayError as error:
                self._lose(lost, self.owner[shard], [shard], error)
                continue
            if result.error is not None:
                raise surface(result.error, result.shard, result.receipt.get("worker"))
            ragged = bool(result.value)
        _raise_lost(lost)
        blocks = [rows for _, rows in answers]
        return data.from_arrow_refs(blocks) if ragged else data.from_numpy_refs(blocks)

    def run(self, task: Task, shard: int, worker: int) -> Result:
        """Run `task` on one shard on a chosen actor."""
        (result,) = self._round(task, {worker: [shard]})
        return result

    def move(self, shard: int, worker: int) -> None:
        """Let a shard live on another actor from now on; its bits do not change."""
        check_worker(worker, self.workers())
        self.owner[shard] = worker

    def workers(self) -> list[int]:
        """Return the ids of the actors that are not retired."""
        return [worker for worker in range(self.num_workers or 0) if worker not in self.retired]

    def retire(self, worker: int) -> None:
        """End an actor for good; its shards must have been moved."""
        check_retirable(worker, self.owner, self.workers())
        self.retired.add(worker)
        self._end(worker)

    def start(self, workers: Iterable[int]) -> None:
        """Start those of `workers` that are not there."""
        self._check_open()
        remote = self.ray.remote(Keeper)
        for worker in workers:
            if worker not in self.actors:
                options = {"max_restarts": self.restarts, "max_task_retries": self.restarts}
                actor = remote.options(num_cpus=0, scheduling_strategy="SPREAD", **options)
                paths = [path for path in sys.path if path]
                self.actors[worker] = actor.remote(worker, self.ray.get, paths, self.materialize)

    def spawn(self, workers: Iterable[int]) -> None:
        """Start actors and do not wait for them."""
        self.start(workers)

    def live(self) -> list[int]:
        """Return the actors that were not lost."""
        return sorted(self.actors)

    def close(self) -> None:
        """End the actors, let rows go, and shut Ray down if it was started here; further calls do nothing."""
        if self.closed:
            return
        self.closed = True
        if self.ray.is_initialized():
            for worker in list(self.actors):
                self._end(worker)
        self._orders.clear()
        if self.owned:
            self.ray.shutdown()

    def _end(self, worker: int) -> None:
        actor = self.actors.pop(worker, None)
        if actor is not None:
            self.ray.kill(actor, no_restart=True)

    def _check_open(self) -> None:
        if self.closed:
            raise HandleClosed("RayEncodedData is closed: make a new handle")
        if not self.ray.is_initialized():
            raise BackendError("Ray was shut down under this handle; call ray.init(), and make a new handle")

    def _homes(self) -> dict[int, list[int]]:
        homes: dict[int, list[int]] = {}
        for shard, worker in self.owner.items():
            homes.setdefault(worker, []).append(shard)
        return homes

    def _round(self, task: Task | None, assignment: Mapping[int, Sequence[int]], shards: int = 0) -> Iterator[Result]:
        """Put the task once, call, and yield what comes back.

        Raises
        ------
        RoundLosses
            After everything that arrived was yielded, if actors were lost for good.
        """
        self._check_open()
        self._number += 1
        told = self.ray.put(pack(task, definitions=True))
        waiting: dict[Any, tuple[int, list[int]]] = {}
        for worker, wanted in assignment.items():
            for part in _parts(wanted, shards):
                actor = self.actors[worker]
                orders = [self._orders[shard] for shard in part]
                waiting[actor.work.remote(self._number, [told], orders, shards)] = (worker, part)
        lost: dict[int, WorkerLost] = {}
        try:
            while waiting:
                (ready, *_), _ = self.ray.wait(list(waiting), num_returns=1)
                worker, part = waiting.pop(ready)
                try:
                    answer = self.ray.get(ready)
                except self.ray.exceptions.RayError as error:
                    self._lose(lost, worker, part, error)
                    continue
                yield from unpack_results(answer)
        finally:
            for call in waiting:
                self.ray.cancel(call, force=False)
        _raise_lost(lost)

    def _lose(self, lost: dict[int, WorkerLost], worker: int, part: list[int], error: Exception) -> None:
        """Note what was lost with an actor; an error of the call itself is raised."""
        self._check_open()
        exceptions = self.ray.exceptions
        if isinstance(error, exceptions.RayTaskError):
            raise error
        before = lost.get(worker)
        held = sorted([*(before.shards if before else ()), *part])
        cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        told = WorkerLost(
            f"worker {worker} (a Ray actor) was lost with shards {held}: {cause}. "
            "To recover within the round, pass policies=[Retry(2)]"
        )
        told.worker, told.shards, told.cause = worker, tuple(held), cause
        lost[worker] = told
        self.actors.pop(worker, None)


def _raise_lost(lost: Mapping[int, WorkerLost]) -> None:
    if lost:
        group = RoundLosses("\n".join(map(str, lost.values())))
        group.losses = tuple(lost.values())
        raise group


def _parts(shards: Sequence[int], total: int) -> list[list[int]]:
    """Return what goes out in one call: half of an actor's shards, or a group of the fold if there are several.

    A call costs the driver and the actor more than a shard's result does; between two halves the driver reads the first
    while the actor works on the second.
    """
    if total <= GROUP:
        half = -(-len(shards) // 2)
        return [list(part) for part in (shards[:half], shards[half:]) if part]
    groups: dict[int, list[int]] = {}
    for shard in sorted(shards):
        groups.setdefault(shard // GROUP, []).append(shard)
    return list(groups.values())
