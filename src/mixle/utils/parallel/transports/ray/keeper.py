"""What an actor does: it encodes a shard when it first needs it, keeps it, and runs tasks on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from mixle._limits import one_blas_thread
from mixle.utils.parallel.folding.faults import fault_of
from mixle.utils.parallel.folding.fold import fold_groups
from mixle.utils.parallel.folding.shards import Shard, encode_shard
from mixle.utils.parallel.folding.tasks import Result, execute
from mixle.utils.parallel.folding.travel import pack_results, unpack

__all__ = ["Keeper", "block_rows"]


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
    """

    def __init__(self, worker: int, fetch: Callable[[Any], Any], paths: list[str]) -> None:
        self.worker, self.fetch = worker, fetch
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
            Shard id, positions and pieces and weights as a frame, and the references of encoder and rows.
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

    def process(self) -> int:
        """Return the id of this process."""
        return os.getpid()

    def _one(self, number: int, task: list[Any], shard: int, place: Any, refs: list[Any]) -> Result:
        if self.told[0] != number:
            self.told = number, unpack(self.fetch(task[0]))
        if shard not in self.resident:
            positions, pieces, weights = unpack(place).value
            encoder, rows = unpack(self.fetch(refs[0])), self.fetch(refs[1])
            rows = unpack(rows).value if isinstance(rows, bytes) else block_rows(rows, encoder)
            self.resident[shard] = encode_shard(shard, rows, positions, encoder, pieces, weights)
        wanted = self.told[1]
        if wanted is None:
            return Result(shard, self.resident[shard].rows, 0.0, None, None, {"worker": self.worker})
        return execute(wanted, self.resident[shard], self.worker)


def block_rows(block: Any, encoder: Any) -> Any:
    """Return a block of a Ray Dataset (an Arrow table or a data frame) as rows that `encoder` reads.

    Mappings where it reads mappings; the values of a single column; a matrix where all columns are float64; else tuples
    in the order of the columns.
    """
    names = [str(name) for name in (block.column_names if hasattr(block, "column_names") else block.columns)]
    columns = [_values(block, name) for name in names]
    if getattr(encoder, "row_form", "value") == "mapping":
        lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]
    if len(columns) == 1:
        return columns[0]
    if all(isinstance(column, np.ndarray) and column.dtype == np.float64 and column.ndim == 1 for column in columns):
        return np.column_stack(columns)
    return list(
        zip(*[column.tolist() if isinstance(column, np.ndarray) else column for column in columns], strict=True)
    )


def _values(block: Any, name: str) -> Any:
    """Return a column as an array of numbers where all are there, else as a list with None for what is missing."""
    column = block[name]
    if hasattr(column, "to_pylist"):
        kind = str(column.type)
        if column.null_count or not (kind in {"double", "float", "bool"} or kind.startswith(("int", "uint"))):
            return _stacked(column) if "tensor" in kind else column.to_pylist()
    array = column.to_numpy()
    if array.dtype.kind == "f":
        return np.asarray(array, dtype=np.float64)
    return array if array.dtype.kind in "biu" else array.tolist()


def _stacked(column: Any) -> np.ndarray:
    """Return a column of tensors as one array."""
    parts = [np.asarray(chunk.to_numpy()) for chunk in column.chunks] if hasattr(column, "chunks") else []
    whole = np.concatenate(parts) if parts else np.asarray(column.to_numpy(zero_copy_only=False))
    return whole if whole.dtype != object else np.stack(list(whole))
