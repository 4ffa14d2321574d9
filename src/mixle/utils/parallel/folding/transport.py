"""The verbs of a transport: load the shards, map a task over them, close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.utils.parallel.folding.shards import Shard, encode_shard, pick

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result, Task

__all__ = ["GLANCE_S", "Source", "Transport"]

#: Seconds after which a wait for shards looks up and waits again: a signal that arrives just as a thread begins to wait
#: for a lock does not wake it.
GLANCE_S = 0.5


@dataclass(frozen=True, eq=False)
class Source:
    """Everything a transport needs to encode the shards where they will live.

    Attributes
    ----------
    rows : sequence or ndarray
        All rows, held by the driver.
    weights : ndarray of float64, shape (n,), or None
        Row weights.
    encoder : DataSequenceEncoder
        Encoder of the model.
    shards : tuple of range
        Row positions of each shard, by shard id.
    pieces : tuple of tuple of range
        Row positions of the sub-chunks of each shard.
    estimator : Any
        For hints at what a worker will import; may be None.
    """

    rows: Any
    weights: np.ndarray | None
    encoder: Any
    shards: tuple[range, ...]
    pieces: tuple[tuple[range, ...], ...]
    estimator: Any = None

    @property
    def counted(self) -> int | None:
        """Number of rows of positive weight; None if it is the number of rows, which is not known yet."""
        return len(self.rows) if self.weights is None else int(np.count_nonzero(self.weights))

    @property
    def first_counted(self) -> int:
        """Position of the first row of positive weight."""
        return 0 if self.weights is None else int(np.flatnonzero(self.weights)[0])

    @property
    def width(self) -> int | None:
        """Columns of a row where the rows are a matrix, else None."""
        shape: tuple[int, ...] = tuple(getattr(self.rows, "shape", ()))
        return int(shape[1]) if len(shape) == 2 else None

    def shard_rows(self, shard: int) -> Any:
        """Return the rows of one shard in shard order (a view of an array)."""
        return pick(self.rows, self.shards[shard])

    def shard_weights(self, shard: int) -> np.ndarray | None:
        """Return the row weights of one shard in shard order, or None."""
        return None if self.weights is None else np.ascontiguousarray(pick(self.weights, self.shards[shard]))

    def encode(self, shard: int) -> Shard:
        """Encode one shard in this process; RowError names a bad row by its position in the data."""
        rows, weights = self.shard_rows(shard), self.shard_weights(shard)
        return encode_shard(shard, rows, self.shards[shard], self.encoder, self.pieces[shard], weights)


class Transport(ABC):
    """How a task reaches the shards and the results come back.

    A subclass defines `load`, `map` and `close`. Where a worker can be chosen it also defines
    ``run(task, shard, worker) -> Result`` and ``move(shard, worker)``, which audits and rebalancing ask for.

    Attributes
    ----------
    name : str
        Word used in messages.
    sizes : dict of int to int
        Rows of each shard, set by `load`.
    closable : bool
        False if the transport stays usable after `close` (nothing to release).
    eager : bool
        Whether the work is given out already when `map` returns.
    """

    name: str = "transport"
    closable: bool = True
    eager: bool = False
    sizes: dict[int, int]

    @abstractmethod
    def load(self, source: Source) -> None:
        """Encode all shards where they will live.

        Raises
        ------
        RowError
            Naming the position in the data of a row that cannot be read, before any work starts.
        """

    @abstractmethod
    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard and yield each result once, in any order.

        Raises
        ------
        RoundLosses
            After everything that arrived was yielded, if workers were lost.
        """

    @abstractmethod
    def close(self) -> None:
        """Release workers and memory; further calls do nothing.

        It may come from another thread while `map` runs there, which it ends at once.
        """
