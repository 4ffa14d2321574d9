"""Encoded data on the ranks of an MPI world."""

from __future__ import annotations

import copy
import io
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from mixle.errors import BackendError
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import check_count, choose_encoder
from mixle.utils.parallel.folding.shards import as_shard_map
from mixle.utils.parallel.folding.travel import pack, unpack
from mixle.utils.parallel.policies.base import stack
from mixle.utils.parallel.transports.mpi import Club, MPITransport, RankFiles, RankRows, open_club, read_rows, world

if TYPE_CHECKING:
    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.policies.base import Policy

__all__ = ["MPIEncodedData", "RankFiles", "RankRows", "mpi_out"]


class MPIEncodedData(Handle):
    """Encoded rows on the ranks of an MPI world: each rank encodes and keeps its shards.

    Every rank runs the same script and makes the same calls, and every call returns the same bits on every rank: the
    model of a step, scores, statistics. Whatever is chosen (starts, audits, M-steps, when to stop) is chosen on the
    root. An error of one rank is raised on all of them, and so is Ctrl-C. `close` is collective.

    Parameters
    ----------
    data : sequence or ndarray, RankRows or RankFiles
        The same rows on every rank, which is checked by a digest. ``RankRows(rows)``: each rank has its own part.
        ``RankFiles(paths)``: each rank reads its files.
    estimator, encoder : optional
        One of them is needed.
    sub_chunks : int
        Encoded pieces per shard; one accumulator runs over them.
    comm : mpi4py communicator, optional
        ``MPI.COMM_WORLD`` by default. A private copy is used, so other messages never meet ours.
    root : int
        The rank whose choices count, and that telemetry belongs to.
    root_only : bool
        Only the root has the rows; it sends each rank its shards. Other ranks may pass None.
    num_shards : int or shard map, optional
        Shard map: an int is ``Strided(K)``. By default one shard per rank: row `i` in shard ``i % size``. With more
        shards than ranks the result no longer depends on the number of ranks.
    weights : array_like, shape (n,), optional
        Row weights, finite and at least 0; with `RankRows` those of the rank's own rows.
    policies : iterable of Policy, optional
        What happens around each round, equal on every rank, e.g. ``[Audit(0.1)]``.
    telemetry : Telemetry, optional
        Where the root sends a record per rank and round.
    run_id : str, optional
        Tags the records.

    Attributes
    ----------
    comm : mpi4py communicator
        As given, or the world.
    root, rank, world : int
        The root, this rank, and the number of ranks.
    is_root : bool
        Whether this rank is the root.
    size : int
        Number of rows of all ranks.

    Raises
    ------
    MissingPackage
        Without mpi4py or an MPI library.
    ValueError
        On every rank: for empty data, a `root` that is no rank, ranks that pass different data or settings.
    TypeError
        For data that are no sequence of rows; the message has the line to type.
    RowError
        On every rank: for a row that cannot be encoded, named by its position.

    Notes
    -----
    Run it with ``mpiexec -n 4 python -m mpi4py script.py``; the module ends the job if a script fails where no call of
    ours is near. A rank that is killed ends the job: MPI cannot go on without it.

    Examples
    --------
    Under ``mpiexec -n 4 python fit.py``, the same lines on every rank:

    >>> with MPIEncodedData(rows, estimator) as handle:  # doctest: +SKIP
    ...     model = optimize(None, estimator, enc_data=handle, out=mpi_out())
    """

    def __init__(
        self,
        data: Any,
        estimator: Any | None = None,
        encoder: Any | None = None,
        sub_chunks: int = 1,
        comm: Any | None = None,
        root: int = 0,
        root_only: bool = False,
        *,
        num_shards: Any = None,
        weights: Any = None,
        policies: Iterable[Policy] | None = None,
        telemetry: Telemetry | None = None,
        run_id: str | None = None,
    ) -> None:
        self._club = club = open_club(comm)
        self.comm, self.rank, self.world = comm, club.rank, club.size
        try:
            with club.sharing():
                self.root = club.root = _root(root, club.size)
                title = type(self).__name__
                pieces = check_count(sub_chunks, "sub_chunks") or 1
                shard_map = None if num_shards is None else as_shard_map(num_shards)
                given = list(policies or ())
                settings: dict[str, Any] = {"root": self.root, "root_only": _switch(root_only), "sub_chunks": pieces}
                settings |= {"num_shards": repr(shard_map), "policies": [type(one).__name__ for one in given]}
                settings["data"] = type(data).__name__ if isinstance(data, (RankRows, RankFiles)) else "rows"
                _same_everywhere(club, settings)
                if encoder is None and not (root_only and not club.is_root and estimator is None):
                    encoder = choose_encoder(title, estimator, None, encoder, takes_model=False)
                source = read_rows(club, data, shard_map, pieces, weights, root_only, encoder)
                grouped = not any(one.reads_statistics for one in given)
                transport = stack(
                    MPITransport(club, grouped=grouped, keeps_rows=bool(given)),
                    [_roots(club, policy) for policy in given],
                )
                transport.load(source)
        except BaseException:
            club.leave()
            raise
        super().__init__(transport)
        self.is_root = club.is_root
        self.encoder, self._width = source.encoder, source.width
        self._counted, self._first_row = source.counted, source.first_counted
        self.observe(telemetry if club.is_root else None, run_id)

    @property
    def closed(self) -> bool:
        """Whether `close` was called here, or another rank has left."""
        return self._closed or not self._club.open

    def agree(self, value: Any) -> Any:
        """Return the root's `value` on every rank; collective."""
        with self._serving("agree"):
            return self._club.agree(value)

    def _decide(self, verb: str, make: Callable[[], Any]) -> Any:
        with self._serving(verb):
            return self._club.decide(verb, make)

    @contextmanager
    def _serving(self, verb: str) -> Iterator[None]:
        self._closed = self.closed
        with super()._serving(verb), self._club.sharing():
            yield


def mpi_out(comm: Any | None = None, root: int = 0) -> TextIO:
    """Return standard output on the root and a text buffer elsewhere, for ``optimize(..., out=mpi_out())``.

    Parameters
    ----------
    comm : mpi4py communicator, optional
        The world by default.
    root : int
        The rank that prints.

    Examples
    --------
    >>> model = optimize(rows, estimator, backend="mpi", out=mpi_out())  # doctest: +SKIP
    """
    comm = world() if comm is None else comm
    return sys.stdout if int(comm.Get_rank()) == root else io.StringIO()


@contextmanager
def together(comm: Any | None = None) -> Iterator[None]:
    """Let an exception that one rank raises in the block be raised on every rank; collective."""
    club = open_club(comm)
    try:
        with club.sharing():
            yield
            club.exchange("together")
    finally:
        club.leave()


def _root(root: Any, size: int) -> int:
    if isinstance(root, bool) or not hasattr(type(root), "__index__"):
        raise TypeError(f"root must be the number of a rank, not {root!r}")
    rank = operator.index(root)
    if not 0 <= rank < size:
        raise BackendError(f"root={rank} is no rank of this job, which has {size}: pass root=0 ... {size - 1}")
    return rank


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"root_only must be True or False, not {value!r}")
    return value


def _same_everywhere(club: Club, settings: dict[str, Any]) -> None:
    """Refuse settings that differ between ranks, naming the first one."""
    told = [unpack(one) for one in club.exchange("settings", pack(settings))]
    for rank, other in enumerate(told):
        for name, value in told[0].items():
            if other[name] != value:
                raise BackendError(
                    f"ranks of one MPI job must pass the same {name}: rank 0 passes {value}, rank {rank} {other[name]}"
                )


def _roots(club: Club, policy: Policy) -> Policy:
    """Return a copy of a policy that draws the root's numbers, and records on the root only."""
    mine = copy.copy(policy)
    if getattr(mine, "rng", None) is not None:
        mine.rng = club.decide("rng", lambda: mine.rng)  # type: ignore[attr-defined]
    if getattr(mine, "telemetry", None) is not None and not club.is_root:
        mine.telemetry = None  # type: ignore[attr-defined]
    return mine
