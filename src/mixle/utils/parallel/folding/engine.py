"""What transports over a cluster engine share on the driver's side: which parts became which shards."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError, RoundLosses, WorkerLost
from mixle.utils.parallel.folding.faults import RemoteFault, load_error
from mixle.utils.parallel.folding.inputs import (
    check_count,
    check_rows,
    check_weights,
    choose_map,
    make_source,
)
from mixle.utils.parallel.folding.remote import Encoding, Order
from mixle.utils.parallel.folding.transport import Source, Transport
from mixle.utils.parallel.folding.travel import pack, rows_of, unpack_results

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.shards import ShardMap
    from mixle.utils.parallel.folding.tasks import Result, Task

__all__ = ["EngineTransport", "PartitionSource", "losses_of", "parcels", "partition_source", "rows_source"]

Summary = tuple[int, int, bytes, Any]


@dataclass(frozen=True, eq=False)
class PartitionSource(Source):
    """A collection whose rows the engine holds; its partitions are the shards, their sizes are told by `load`.

    Attributes
    ----------
    collection : object
        The engine's own collection.
    sub_chunks : int
        Encoded pieces of each partition.
    chunks : bool
        The collection holds pairs (count, payload) already.
    """

    collection: Any = None
    sub_chunks: int = 1
    chunks: bool = False

    @property
    def counted(self) -> int | None:
        """None: it is not known before the rows are counted."""
        return None


def partition_source(
    title: str, collection: Any, encoder: Any, estimator: Any, sub_chunks: Any, **refused: Any
) -> PartitionSource:
    """Return the source of an engine's own collection.

    Raises
    ------
    BackendError
        If `refused` names something that only rows of the driver can have.
    """
    given = [name for name, value in refused.items() if value is not None]
    if given:
        raise BackendError(
            f"{title}: the shards of a collection are its partitions, so it takes no {' and no '.join(given)}; "
            "repartition the collection, or pass rows of this process"
        )
    pieces = check_count(sub_chunks, "sub_chunks") or 1
    return PartitionSource(None, None, encoder, (), (), estimator, collection, pieces)


def rows_source(
    title: str,
    data: Any,
    encoder: Any,
    estimator: Any,
    sub_chunks: Any,
    *,
    default: ShardMap,
    num_shards: Any,
    weights: Any,
) -> Source:
    """Return the source of rows that the driver holds, checked and cut as by every other handle."""
    rows = check_rows(data, title)
    shard_map = choose_map(default, len(rows), num_shards=num_shards) or default
    pieces = check_count(sub_chunks, "sub_chunks") or 1
    return make_source(rows, encoder, shard_map, pieces, check_weights(weights, len(rows)), estimator)


class EngineTransport(Transport):
    """A transport whose shards an engine computes, moves and, when it lost them, computes again.

    A subclass encodes the parts in `encode` and runs orders in `map`.

    Attributes
    ----------
    partitions : int
        Number of parts, those without rows included.
    """

    partitions: int = 0

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self._places: dict[int, tuple[int, int, bytes]] = {}
        self._names: dict[str, int] = {}

    @abstractmethod
    def encode(self, source: Source, encoding: bytes) -> Iterable[Summary]:
        """Encode all parts where they will live and return the summary of each."""

    def load(self, source: Source) -> None:
        """Encode all parts where they will live; partitions without rows are dropped.

        Raises
        ------
        RowError
            For the first part with a row that cannot be read, named by its position in the data.
        TaskError
            If the source of a partition fails; it is named.
        """
        native = isinstance(source, PartitionSource)
        encoding = Encoding(source.encoder)
        if isinstance(source, PartitionSource):
            encoding = Encoding(source.encoder, source.sub_chunks, source.chunks)
        summaries = sorted(self.encode(source, pack(encoding, definitions=True)), key=lambda one: one[0])
        self.partitions = len(summaries)
        start = 0
        for index, rows, mark, fault in summaries:
            if fault is not None:
                raise _unreadable(RemoteFault(*fault), index, start if native else 0)
            if rows:
                shard = len(self.sizes)
                self.sizes[shard] = rows
                self._places[index] = (shard, start if native else 0, mark)
            start += rows

    def order(self, task: Task) -> bytes:
        """Return a task as it travels, once per round."""
        return pack(Order(task, self._places), definitions=True)

    def read(self, frame: bytes) -> list[Result]:
        """Return the results of a frame, their workers numbered."""
        results = unpack_results(frame)
        for result in results:
            name = result.receipt.pop("name", None)
            if name is not None:
                result.receipt["worker"] = self.number(name)
        return results

    def number(self, name: str) -> int:
        """Return the number of a worker; one not seen before gets the next."""
        return self._names.setdefault(name, len(self._names))


def parcels(source: Source) -> list[bytes]:
    """Return the rows of each shard as they travel."""
    return [pack(rows_of(source, shard), definitions=True) for shard in range(len(source.shards))]


def losses_of(cause: str, shards: Sequence[int], error: BaseException | None = None, worker: int = -1) -> RoundLosses:
    """Return the error of a round in which the engine gave shards up.

    Parameters
    ----------
    cause : str
        What the engine said.
    shards : sequence of int
        What is missing.
    error : BaseException, optional
        The engine's own exception.
    worker : int
        Number of the worker, if one is to blame.
    """
    lost = WorkerLost(f"{cause}; shards {list(shards)} are missing" if shards else cause)
    lost.worker, lost.shards, lost.cause = worker, tuple(shards), cause
    lost.__cause__ = error
    group = RoundLosses(str(lost))
    group.losses = (lost,)
    group.__cause__ = error
    return group


def _unreadable(fault: RemoteFault, index: int, start: int) -> Exception:
    told = replace(fault, message=f"{fault.message} (while partition {index} was read and encoded)")
    return load_error(told, index, first=start)
