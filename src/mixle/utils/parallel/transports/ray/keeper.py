"""What an actor does: it encodes a shard when it first needs it, keeps it, and runs tasks on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mixle._limits import one_blas_thread
from mixle.utils.parallel.folding.columns import partition_rows
from mixle.utils.parallel.folding.faults import fault_of
from mixle.utils.parallel.folding.fold import fold_groups
from mixle.utils.parallel.folding.shards import Shard
from mixle.utils.parallel.folding.tasks import Result, execute
from mixle.utils.parallel.folding.travel import pack_results, unpack

__all__ = ["Keeper"]


class Keeper:
    """The state of an actor. It is started again empty when its process is lost, and misses nothing.

    Parameters
    ----------
    worker : int
        Its id.
    fetch : callable
        Returns the object that a reference means: ``ray.get``.
    paths : list of str
        Where the driver finds modules.
    keep : bool
        Keep encoded shards; otherwise a shard is encoded for each task.
    """

    def __init__(self, worker: int, fetch: Callable[[Any], Any], paths: list[str], keep: bool = True) -> None:
        self.worker, self.fetch, self.keep = worker, fetch, keep
        sys.path.extend(path for path in paths if path not in sys.path)
        self.resident: dict[int, Shard] = {}
        self.told: tuple[int, Any] = (-1, None)

    def work(self, number: int, task: list[Any], orders: list[tuple[int, Any, list[Any]]], shards: int) -> bytes:
        """Return the packed results of a task on shards; whole groups of the fold are added up if `shards` is given.

        Parameters
        ----------
        number : int
            Number of the task, so that it is fetched once.
        task : list
            The reference of the packed task.
        orders : list of (int, frame, list)
            Shard id, the shard without its rows as a frame, and the references of encoder and rows; with weights the
            frame is empty, and a third reference has it.
        shards : int
            Number of shards of the whole fold; 0 folds nothing.
        """
        done: list[Result] = []
        for shard, place, refs in orders:
            try:
                with one_blas_thread():
                    done.append(self._one(number, task, shard, place, refs))
            except Exception as error:  # noqa: BLE001 - the encoder is the user's, and so is what a task brings
                done.append(Result(shard, 0, 0.0, None, None, {"worker": self.worker}, fault_of(error)))
        wanted = self.told[1]
        if shards and hasattr(wanted, "estimator") and not any(result.error for result in done):
            with one_blas_thread():
                done = fold_groups(wanted.estimator, done, shards)
        return pack_results(done)

    def rows(self, number: int, task: list[Any], order: tuple[int, Any, list[Any]]) -> tuple[bytes, Any]:
        """Return the packed result of a task that says something of each row, and what it says, which stays in Ray."""
        try:
            with one_blas_thread():
                done = self._one(number, task, *order)
        except Exception as error:  # noqa: BLE001 - as in `work`
            done = Result(order[0], 0, 0.0, None, None, {"worker": self.worker}, fault_of(error))
        said = done.value
        if isinstance(said, list):  # rows of unlike shape
            import pyarrow as pa

            said = pa.table({"data": pa.array([row.tolist() for row in said])})
        return pack_results([replace(done, value=isinstance(done.value, list))]), said

    def process(self) -> int:
        """Return the id of this process."""
        return os.getpid()

    def _one(self, number: int, task: list[Any], shard: int, place: Any, refs: list[Any]) -> Result:
        if self.told[0] != number:
            self.told = number, unpack(self.fetch(task[0]))
        encoded = self.resident.get(shard)
        if encoded is None:
            encoded = self._encode(shard, place, refs)
            if self.keep:
                self.resident[shard] = encoded
        wanted = self.told[1]
        if wanted is None:
            return Result(shard, encoded.rows, 0.0, None, None, {"worker": self.worker})
        return execute(wanted, encoded, self.worker)

    def _encode(self, shard: int, place: Any, refs: list[Any]) -> Shard:
        encoder, rows = unpack(self.fetch(refs[0])), self.fetch(refs[1])
        form = getattr(encoder, "row_form", "value")
        rows = unpack(rows).value if isinstance(rows, bytes) else partition_rows(rows, form)
        encoded: Shard = replace(unpack(place or self.fetch(refs[2])), rows=rows).encode(shard, encoder)
        return encoded
