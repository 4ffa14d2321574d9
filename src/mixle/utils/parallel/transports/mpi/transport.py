"""Tasks on the ranks of an MPI world: the root's task goes to all, the results of all go to all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from mixle._limits import one_blas_thread
from mixle.errors import BackendError
from mixle.utils.parallel.folding.faults import RemoteFault, fault_of, load_error
from mixle.utils.parallel.folding.fold import fold_groups
from mixle.utils.parallel.folding.refusals import check_retirable, check_worker
from mixle.utils.parallel.folding.shards import Shard, encode_shard
from mixle.utils.parallel.folding.tasks import execute
from mixle.utils.parallel.folding.transport import Transport
from mixle.utils.parallel.folding.travel import Parcel, pack, pack_results, unpack, unpack_results

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.payload import Buffer
    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.transports.mpi.club import Club
    from mixle.utils.parallel.transports.mpi.rows import RankSource

__all__ = ["MPITransport"]


class MPITransport(Transport):
    """Every rank calls the same verbs in the same order; each of them is collective.

    Parameters
    ----------
    club : Club
        The ranks.
    grouped : bool
        Fold whole groups of 256 shards where they live, so that one statistic per group travels. Policies that look at
        the statistic of every shard need False.
    keeps_rows : bool
        Keep the rows beside the encoded shards, for policies that let another rank compute a shard.

    Attributes
    ----------
    owner : dict of int to int
        Rank of each shard.
    """

    name = "mpi"

    def __init__(self, club: Club, *, grouped: bool = True, keeps_rows: bool = False) -> None:
        self.club, self.grouped, self.keeps_rows = club, grouped, keeps_rows
        self.sizes: dict[int, int] = {}
        self.owner: dict[int, int] = {}
        self.retired: set[int] = set()
        self._resident: dict[int, Shard] = {}
        self._source: RankSource | None = None

    def load(self, source: Any) -> None:
        """Encode this rank's shards here; RowError, on every rank, names a bad row by its position in the data."""
        self.owner = dict(enumerate(source.home))
        self.sizes = {shard: len(positions) for shard, positions in enumerate(source.shards)}
        fault: tuple[int, RemoteFault] | None = None
        with one_blas_thread():
            for shard in self._mine():
                try:
                    self._resident[shard] = source.encode(shard)
                except Exception as error:  # noqa: BLE001 - the encoder is the user's; every rank has to know
                    fault = (shard, fault_of(error))
                    break
        self._source = source if self.keeps_rows else None
        told = self.club.exchange("encode", b"" if fault is None else pack((fault[0], astuple(fault[1]))))
        faults = [(*unpack(one), rank) for rank, one in enumerate(told) if len(one)]
        if faults:
            shard, parts, rank = min(faults)
            raise load_error(RemoteFault(*parts), shard, rank)

    def map(self, task: Task) -> Iterator[Result]:
        """Run the root's `task` on every shard; every rank gets every result."""
        yield from self._round(type(task).__name__, task, self._mine(), grouped=self.grouped)

    def dispatch(self, task: Task, assignment: Mapping[int, Sequence[int]]) -> Iterator[Result]:
        """Run the root's `task` on chosen shards on chosen ranks."""
        where = {int(rank): [int(shard) for shard in shards] for rank, shards in assignment.items()}
        self._fetch({shard: rank for rank, shards in where.items() for shard in shards})
        yield from self._round("dispatch", task, where.get(self.club.rank, []))

    def run(self, task: Task, shard: int, worker: int) -> Result:
        """Run the root's `task` on one shard on a chosen rank."""
        (result,) = self.dispatch(task, {worker: [shard]})
        return result

    def move(self, shard: int, worker: int) -> None:
        """Let a shard live on another rank from now on; its bits do not change."""
        check_worker(worker, self.workers(), "rank")
        self._fetch({shard: worker})
        self.owner[shard] = worker
        if worker != self.club.rank:
            self._resident.pop(shard, None)

    def workers(self) -> list[int]:
        """Return the ranks that hold shards or may."""
        return [rank for rank in range(self.club.size) if rank not in self.retired]

    def retire(self, worker: int) -> None:
        """Give a rank no more work; it goes on taking part, for an MPI world cannot shrink."""
        check_retirable(worker, self.owner, self.workers(), "rank", "keep it")
        self.retired.add(worker)

    def rows_of(self, shard: int) -> Any:
        """Return the rows of a shard on every rank."""
        return self._share([shard])[shard]

    def close(self) -> None:
        """Leave the job's communicator, with all other ranks; further calls do nothing."""
        self._resident.clear()
        self._source = None
        self.club.leave()

    def _mine(self) -> list[int]:
        return [shard for shard, rank in self.owner.items() if rank == self.club.rank]

    def _round(self, verb: str, task: Task, shards: Iterable[int], grouped: bool = False) -> Iterator[Result]:
        """Share the task, work, share the results."""
        club = self.club
        task = club.decide(verb, lambda: task)
        error: BaseException | None = None
        own: list[Result] = []
        data: Buffer = b""
        try:
            with one_blas_thread():
                own = [execute(task, self._shard(shard), club.rank) for shard in shards]
                estimator = getattr(task, "estimator", None) if grouped else None
                if estimator is not None and not any(result.error for result in own):
                    own = fold_groups(estimator, own, len(self.sizes))
            data = pack_results(own)
        except BaseException as failure:  # noqa: BLE001 - the others wait for this rank's results
            error = failure
        bodies = club.exchange("results", data, error)
        for rank, body in enumerate(bodies):
            yield from own if rank == club.rank else unpack_results(body)

    def _shard(self, shard: int) -> Shard:
        if shard not in self._resident:
            self._resident[shard] = self._held().encode(shard)
        return self._resident[shard]

    def _held(self) -> RankSource:
        if self._source is None:
            raise BackendError(
                "this MPI handle keeps encoded rows only: give it a policy, such as Audit(), to keep the rows"
            )
        return self._source

    def _fetch(self, wanted: Mapping[int, int]) -> None:
        """Encode shards on the ranks that will need them, from rows that the ranks that have them send."""
        source = self._held()
        rank = self.club.rank
        if source.held is None:
            return
        rows = self._share(sorted(shard for shard, to in wanted.items() if to != source.home[shard]))
        for shard, part in rows.items():
            if wanted[shard] == rank and shard not in self._resident:
                weights = source.shard_weights(shard)
                self._resident[shard] = encode_shard(
                    shard, part, source.shards[shard], source.encoder, source.pieces[shard], weights
                )

    def _share(self, shards: list[int]) -> dict[int, Any]:
        """Return the rows of shards on every rank."""
        source = self._held()
        if source.held is None:
            return {shard: source.shard_rows(shard) for shard in shards}
        if not shards:
            return {}
        mine = {shard: source.held[shard] for shard in shards if source.home[shard] == self.club.rank}
        return {
            shard: rows
            for body in self.club.exchange("share rows", pack(Parcel(mine)))
            for shard, rows in unpack(body).value.items()
        }
