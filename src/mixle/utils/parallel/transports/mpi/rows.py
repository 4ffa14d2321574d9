"""The rows of an MPI job: the same on every rank, scattered from the root, or each rank's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.errors import BackendError
from mixle.utils.parallel.folding.fold import GROUP
from mixle.utils.parallel.folding.inputs import check_rows, check_weights, make_source
from mixle.utils.parallel.folding.refusals import no_rows
from mixle.utils.parallel.folding.shards import Partitions, pick, split_range
from mixle.utils.parallel.folding.transport import Source
from mixle.utils.parallel.folding.travel import Parcel, pack, unpack

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.shards import ShardMap
    from mixle.utils.parallel.transports.mpi.club import Club

__all__ = ["RankFiles", "RankRows", "RankSource", "read_rows"]

TITLE = "MPIEncodedData"
PIECE = 4096  # rows per step of the digest


@dataclass(frozen=True, eq=False)
class RankRows:
    """The rows that this rank holds; those of all ranks, in the order of ranks, are the data.

    Parameters
    ----------
    rows : sequence or ndarray
        Rows of this rank; a rank may have none.
    shards : int
        Number of consecutive shards that this rank cuts them into.

    Examples
    --------
    >>> RankRows([1.0, 2.0, 3.0], shards=2).rank_parts(rank=0, size=1)
    [(0, 0, [1.0]), (0, 1, [2.0, 3.0])]
    """

    rows: Any
    shards: int = 1

    def rank_parts(self, rank: int, size: int) -> list[tuple[int, int, Any]]:
        """Return the shards of this rank with their order: ``(rank, number, rows)``."""
        if not len(self.rows):
            return []
        rows = check_rows(self.rows, TITLE)
        pieces = split_range(range(len(rows)), self.shards)
        return [(rank, number, pick(rows, piece)) for number, piece in enumerate(pieces)]


@dataclass(frozen=True, eq=False)
class RankFiles:
    """Files that ranks read on their own; each file is a shard, in the order given, read by rank ``i % size``.

    Parameters
    ----------
    paths : sequence of path-like
        All files, the same list on every rank.
    read : callable, optional
        Returns the rows of a path. By default ``.npy`` files are arrays (never pickles) and ``.parquet`` files become
        tuples of their columns, by pyarrow.

    Examples
    --------
    >>> RankFiles(["a.npy", "b.npy"]).paths
    ['a.npy', 'b.npy']
    """

    paths: Sequence[Any]
    read: Callable[[Any], Any] | None = None

    def rank_parts(self, rank: int, size: int) -> list[tuple[int, int, Any]]:
        """Return what this rank reads, with its order: ``(number of the file, 0, rows)``."""
        read = read_file if self.read is None else self.read
        found = []
        for number, path in enumerate(self.paths):
            if number % size == rank:
                rows = read(path)
                if len(rows):
                    found.append((number, 0, check_rows(rows, f"{TITLE}: {path}")))
        return found


def read_file(path: Any) -> Any:
    """Return the rows of a ``.npy`` or ``.parquet`` file."""
    from pathlib import Path

    suffix = Path(path).suffix.lower()
    if suffix == ".npy":
        return np.load(path, allow_pickle=False)
    if suffix == ".parquet":
        import importlib

        table = importlib.import_module("pyarrow.parquet").read_table(path)
        columns = [column.to_pylist() for column in table.columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    raise BackendError(f"{path} is no .npy or .parquet file: pass RankFiles(paths, read=a function that returns rows)")


@dataclass(frozen=True, eq=False)
class RankSource(Source):
    """What one rank knows of the data.

    Attributes
    ----------
    count : int
        Rows of all ranks.
    home : tuple of int
        Rank that has the rows of each shard.
    held : dict of int to rows, or None
        Rows of the shards that are here; None if `rows` holds everything.
    columns : int or None
        Columns of a row where the rows are a matrix.
    """

    count: int = 0
    home: tuple[int, ...] = ()
    held: dict[int, Any] | None = None
    columns: int | None = None

    @property
    def counted(self) -> int:
        """Number of rows of positive weight."""
        return self.count if self.weights is None else int(np.count_nonzero(self.weights))

    @property
    def width(self) -> int | None:
        """Columns of a row where the rows are a matrix, else None."""
        return self.columns

    def has(self, shard: int) -> bool:
        """Return whether the rows of a shard are here."""
        return self.held is None or shard in self.held

    def shard_rows(self, shard: int) -> Any:
        """Return the rows of one shard in shard order."""
        return pick(self.rows, self.shards[shard]) if self.held is None else self.held[shard]


def residence(shards: int, size: int) -> tuple[int, ...]:
    """Return the rank of each shard: dealt out in turn, or in whole groups of the fold where every rank gets one."""
    groups = -(-shards // GROUP)
    if groups < size:
        return tuple(shard % size for shard in range(shards))
    return tuple(shard // GROUP * size // groups for shard in range(shards))


def read_rows(
    club: Club, data: Any, shard_map: ShardMap | None, pieces: int, weights: Any, root_only: bool, encoder: Any
) -> RankSource:
    """Return what this rank has to encode; collective.

    Parameters
    ----------
    club : Club
        The ranks.
    data : rows, RankRows or RankFiles
        The same rows on every rank; with `root_only` the root's.
    shard_map : ShardMap or callable, optional
        Called with the number of rows if it is not a map yet.
    pieces : int
        Sub-chunks per shard.
    weights : array_like, optional
        One per row of `data` as it is here.
    root_only : bool
        Scatter the root's rows.
    encoder : Any
        Encoder of the rows; with `root_only` the root's is used.

    Raises
    ------
    BackendError
        (a ValueError) on every rank, if ranks hold different rows.
    """
    if isinstance(data, (RankRows, RankFiles)):
        if shard_map is not None:
            raise BackendError("rows that each rank holds are cut where they are; pass RankRows(rows, shards=K)")
        return _own(club, data, pieces, weights, encoder)
    if root_only:
        return _scattered(club, data, shard_map, pieces, weights, encoder)
    rows = check_rows(data, TITLE)
    _compare(club, rows, weights)
    source = make_source(rows, encoder, _map(club, shard_map), pieces, check_weights(weights, len(rows)), None)
    home = residence(len(source.shards), club.size)
    return RankSource(
        rows,
        source.weights,
        encoder,
        source.shards,
        source.pieces,
        count=len(rows),
        home=home,
        columns=source.width,
    )


def _map(club: Club, shard_map: ShardMap | None) -> ShardMap:
    from mixle.utils.parallel.folding.shards import Strided

    return Strided(club.size) if shard_map is None else shard_map


def _compare(club: Club, rows: Any, weights: Any) -> None:
    """Refuse rows that differ between ranks."""
    if club.size == 1:
        return
    unlike, facts = _unlike(club, rows, weights, _digest)
    if unlike and {fact[0] for fact in facts} == {len(rows)}:  # sets have no order: look again, with one
        unlike, facts = _unlike(club, rows, weights, _plain_digest)
    if not unlike:
        return
    rank = unlike[0]
    raise BackendError(
        f"{TITLE}: ranks pass different data: those of rank {rank} are not those of rank 0 ({facts[0][0]} rows on rank "
        f"0, {facts[rank][0]} on rank {rank}). Pass the same rows on every rank, RankRows(rows) if each rank has its "
        "own part, or root_only=True"
    )


def _unlike(club: Club, rows: Any, weights: Any, digest: Callable[[Any], str]) -> tuple[list[int], list[Any]]:
    """Return the ranks whose rows are not those of rank 0, and what each rank says of its rows."""
    mine = (len(rows), digest(rows), None if weights is None else digest(weights))
    facts = [unpack(one) for one in club.exchange("rows", pack(mine))]
    return [rank for rank, fact in enumerate(facts) if fact != facts[0]], facts


def _digest(rows: Any) -> str:
    """Return a digest of values; equal values of other identity give the same, sets may not."""
    import hashlib
    import io
    import pickle

    found = hashlib.blake2b(digest_size=16)
    if isinstance(rows, np.ndarray) and not rows.dtype.hasobject:
        found.update(f"{rows.dtype.str}{rows.shape}".encode())
        for start in range(0, len(rows), PIECE):
            found.update(np.ascontiguousarray(rows[start : start + PIECE]).data)
        return found.hexdigest()
    try:
        for start in range(0, len(rows), PIECE):
            text = io.BytesIO()
            pickler = pickle.Pickler(text, 5)
            pickler.fast = True  # no references to what was written before: identity leaves no trace
            pickler.dump([rows[i] for i in range(start, min(start + PIECE, len(rows)))])
            found.update(text.getbuffer())
    except Exception:  # noqa: BLE001 - rows that cannot be pickled are told by their number alone
        return ""
    return found.hexdigest()


def _plain_digest(rows: Any) -> str:
    """Return a digest in which sets have an order."""
    import hashlib

    found = hashlib.blake2b(digest_size=16)
    for row in rows:
        found.update(_text(row).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def _text(value: Any) -> str:
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}({sorted(map(_text, value))})"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({[_text(one) for one in value]})"
    if isinstance(value, dict):
        return f"dict({[(_text(key), _text(one)) for key, one in value.items()]})"
    return repr(value)


def _own(club: Club, data: RankRows | RankFiles, pieces: int, weights: Any, encoder: Any) -> RankSource:
    """Let every rank keep what it has."""
    parts = data.rank_parts(club.rank, club.size)
    count = sum(len(rows) for _, _, rows in parts)
    if weights is not None and isinstance(data, RankFiles):
        raise BackendError("weights of files are not taken: pass RankRows(rows) and the weights of those rows")
    mine = [] if weights is None else [float(weight) for weight in weights]
    if weights is not None and len(mine) != count:
        raise ValueError(f"weights must have shape ({count},), one per row of this rank, not ({len(mine)},)")
    shape = next((rows.shape[1] for _, _, rows in parts if getattr(rows, "ndim", 1) == 2), None)
    told = [(rank, number, len(rows)) for rank, number, rows in parts]
    facts = [unpack(one) for one in club.exchange("rows", pack((told, weights is None, mine, shape)))]
    if len({without for _, without, _, _ in facts}) > 1:
        raise BackendError(f"{TITLE}: weights were given on some ranks only: give them on every rank, or on none")
    order = sorted((*key, size, rank) for rank, (told, *_) in enumerate(facts) for *key, size in told)
    if not order:
        raise no_rows(TITLE)
    total = sum(size for _, _, size, _ in order)
    everything = None if weights is None else check_weights([w for fact in facts for w in fact[2]], total)
    blank = range(total)
    cut = make_source(blank, encoder, Partitions(tuple(size for _, _, size, _ in order)), pieces, everything, None)
    own = {(first, second): rows for first, second, rows in parts}
    held = {i: own[a, b] for i, (a, b, _, rank) in enumerate(order) if rank == club.rank}
    home = tuple(rank for *_, rank in order)
    columns = next((fact[3] for fact in facts if fact[3] is not None), None)
    return RankSource(
        None, everything, encoder, cut.shards, cut.pieces, count=total, home=home, held=held, columns=columns
    )


def _scattered(club: Club, data: Any, shard_map: Any, pieces: int, weights: Any, encoder: Any) -> RankSource:
    """Cut the root's rows, and give each rank its shards and the root's encoder."""

    def prepare() -> tuple[Any, ...]:
        rows = check_rows(data, TITLE)
        source = make_source(rows, encoder, _map(club, shard_map), pieces, check_weights(weights, len(rows)), None)
        return len(rows), source.weights, source.shards, source.pieces, source.width, source.encoder

    count, row_weights, shards, cuts, columns, encoder = club.decide("rows", prepare)
    home = residence(len(shards), club.size)
    held: dict[int, Any] = {}
    for rank in range(club.size):
        wanted = [shard for shard, owner in enumerate(home) if owner == rank]

        def part(wanted: list[int] = wanted) -> Parcel:
            return Parcel({shard: pick(data, shards[shard]) for shard in wanted})

        received = club.send("scatter", part, rank)
        if received is not None:
            held = received.value
    return RankSource(None, row_weights, encoder, shards, cuts, count=count, home=home, held=held, columns=columns)
