"""Shards as partitions of an RDD that Spark keeps, moves and computes again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError, HandleClosed, TaskError
from mixle.utils.parallel.folding.engine import EngineTransport, PartitionSource, losses_of, parcels
from mixle.utils.parallel.folding.fold import GROUP
from mixle.utils.parallel.folding.remote import by_value
from mixle.utils.parallel.folding.travel import pack
from mixle.utils.parallel.transports.spark import batches, steps
from mixle.utils.parallel.transports.spark.context import (
    ANYWHERE,
    arrow_batches,
    context_of,
    failed_partition,
    own_context,
    stop_own,
)

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.folding.transport import Source

__all__ = ["SparkTransport"]

_LOST = re.compile(r"ExecutorLostFailure|Slave lost|worker lost|executor .* exited", re.IGNORECASE)
_TASK = re.compile(r"[Tt]ask (\d+)(?:\.\d+)? in stage")


class SparkTransport(EngineTransport):
    """Encoded shards are elements of an RDD; a round is a job, the task a broadcast.

    Parameters
    ----------
    client : SparkContext or SparkSession, optional
        Where rows of the driver go; the active context if there is one, else one of our own on this machine that
        `close` stops. A collection brings its own.
    materialize : bool
        Keep encoded shards in the executors' memory, and on their disks where that does not suffice; without it every
        round reads and encodes again.

    Notes
    -----
    Spark chooses who computes, so that there is no `run`: an audit checks invariants.
    """

    name = "spark"

    def __init__(self, client: Any = None, *, materialize: bool = True) -> None:
        super().__init__()
        self.context: Any = None
        self.owned, self._closed = False, False
        self.materialize = materialize
        self._tag = f"mixle-{os.urandom(6).hex()}"
        self._given = client = None if client is ANYWHERE else client
        if client is not None and context_of(client) is None:
            raise TypeError(f"client must be a SparkContext or a SparkSession, not {type(client).__name__}")
        self._encoded: Any = None
        self._frames: Callable[[Any], Any] | None = None

    def connect(self, collection: Any = None) -> Any:
        """Return the context, that of the collection if it has one."""
        if self.context is None:
            self.context = context_of(collection)
        if self.context is None:
            self.context = context_of(self._given)
        if self.context is None:
            self.context, self.owned = own_context()
        if self._stopped:
            raise BackendError("the Spark context of this client or collection is stopped: make a new session")
        return self.context

    def encode(self, source: Source, encoding: bytes) -> Iterable[Any]:
        """Encode the partitions in the executors."""
        collection = source.collection if isinstance(source, PartitionSource) else None
        frame = collection if hasattr(collection, "mapInArrow") else None
        self.connect(collection)
        self._check_open()
        direct = None if frame is None else arrow_batches(frame)
        if frame is None:
            encoded = self._parts(source, collection, encoding)
        else:
            encoded = self._frame_parts(frame, encoding) if direct is None else self._batch_parts(*direct, encoding)
        self._encoded, found = self._kept(encoded) if self.materialize else (encoded, self._summaries(encoded))
        if frame is not None and direct is None and not self.materialize:
            self._frames = self._frame_runner(frame, encoding)
        else:
            self._frames = self._runner(self._encoded)
        return found

    def _summaries(self, encoded: Any) -> list[Any]:
        found: list[Any] = self._job(encoded.map(lambda part: part[:4]).collect)
        return found

    def _kept(self, encoded: Any) -> tuple[Any, list[Any]]:
        """Have the executors keep encoded parts; their summaries come by an accumulator, not out of what is kept.

        Read from there they would cost a way of all encoded bytes back to Python, and from the disk.
        """
        from pyspark import StorageLevel
        from pyspark.accumulators import AddingAccumulatorParam

        told, tell = self.context.accumulator((), AddingAccumulatorParam(())), by_value(steps.tell)
        kept = encoded.mapPartitions(lambda parts: tell(told, parts)).persist(StorageLevel.MEMORY_AND_DISK)
        self._encoded = kept
        self._job(kept._jrdd.count)  # noqa: SLF001 - counted in Python the parts would travel
        return kept, list({summary[0]: summary for summary in told.value}.values())

    def _parts(self, source: Source, collection: Any, encoding: bytes) -> Any:
        if hasattr(collection, "mapPartitionsWithIndex"):
            rows, encode = collection, by_value(steps.encode_rows)
        else:
            pieces = parcels(source) if collection is None else [pack(part, definitions=True) for part in collection]
            rows, encode = self.context.parallelize(pieces, max(1, len(pieces))), by_value(steps.encode_parcel)
        return rows.mapPartitionsWithIndex(lambda index, part: encode(encoding, index, part))

    @staticmethod
    def _batch_parts(held: Any, schema: bytes, encoding: bytes) -> Any:
        encode = by_value(batches.encode_arrow)
        return held.mapPartitionsWithIndex(lambda index, part: encode(encoding, schema, index, part))

    @staticmethod
    def _frame_parts(frame: Any, encoding: bytes) -> Any:
        encode = by_value(batches.encode_batches)
        parts = frame.mapInArrow(lambda part: encode(encoding, part), batches.COLUMNS).rdd
        return parts.mapPartitions(by_value(batches.plain))

    @staticmethod
    def _runner(encoded: Any) -> Callable[[Any], Any]:
        run = by_value(steps.run)
        return lambda order: encoded.mapPartitions(lambda parts: run(order.value, parts))

    @staticmethod
    def _frame_runner(frame: Any, encoding: bytes) -> Callable[[Any], Any]:
        run = by_value(batches.run_batches)

        def frames(order: Any) -> Any:
            found = frame.mapInArrow(lambda part: run(encoding, order.value, part), batches.FRAMES).rdd
            return found.mapPartitions(by_value(batches.plain_frames))

        return frames

    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard as one job.

        Raises
        ------
        RoundLosses
            If Spark gave the job up: executors were lost again and again.
        """
        yield from self._round(task, lambda frames, _: frames.values())

    def map_groups(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard and add up groups of 256 consecutive shards in the executors."""
        add, size, groups = by_value(steps.add), GROUP, -(-len(self.sizes) // GROUP)

        def added(frames: Any, order: Any) -> Any:
            keyed = frames.map(lambda one: (one[0] // size, one[1]))
            return keyed.groupByKey(groups, lambda key: key).values().map(lambda group: add(order.value, group))

        yield from self._round(task, added)

    def collection(self, task: Task) -> Any:
        """Return the output of `task` for each row as a lazy RDD with the partitions of the encoded rows."""
        self._check_open()
        if self._frames is None:
            return self.context.emptyRDD()
        frames = self._frames(SimpleNamespace(value=self.order(task)))
        return frames.values().flatMap(by_value(steps.rows))

    def _round(self, task: Task, finish: Callable[[Any, Any], Any]) -> Iterator[Result]:
        self._check_open()
        if not self.sizes or self._frames is None:
            return
        order = self.context.broadcast(self.order(task))
        try:
            frames = self._job(finish(self._frames(order), order).collect)
        finally:
            if not self._stopped:
                order.destroy()
        for frame in frames:
            yield from self.read(frame)

    def _job(self, action: Callable[[], Any]) -> Any:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        tagged = hasattr(self.context, "addJobTag")  # Spark 3.5
        if tagged:
            self.context.addJobTag(self._tag)
        try:
            return action()
        except (Py4JError, PySparkException) as error:
            self._check_open()
            raise _told(error, sorted(self.sizes), failed_partition(self.context)) from error
        finally:
            if tagged and not self._stopped:
                self.context.removeJobTag(self._tag)

    @property
    def _stopped(self) -> bool:
        return self.context is None or self.context._jsc is None  # noqa: SLF001 - how pyspark itself asks

    def _check_open(self) -> None:
        if self._closed or self._stopped:
            raise HandleClosed(
                "the Spark context of this handle is stopped: make a new session, and a new handle over its data"
            )

    def close(self) -> None:
        """Unpersist the encoded RDD, and stop a context of our own; further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        encoded, self._encoded, self._frames = self._encoded, None, None
        if self._stopped:
            return
        if hasattr(self.context, "cancelJobsWithTag"):
            self.context.cancelJobsWithTag(self._tag)
        if encoded is not None and self.materialize:
            encoded.unpersist(blocking=True)
        if self.owned:
            stop_own(self.context)


def _told(error: Any, shards: list[int], failed: int | None) -> Exception:
    """Return the error of a job that Spark gave up, in words: which partition, and why.

    Spark 4 raises an error of a source without telling its task; `failed` is then what its records say.
    """
    text = str(error)
    if "PYTHON_VERSION_MISMATCH" in text or "different version" in text:
        return BackendError(
            "Spark's workers run another Python than this process. Before the session is made, set "
            "os.environ['PYSPARK_PYTHON'] = sys.executable"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    place = _TASK.search(text)
    number = place.group(1) if place else failed
    where = "a partition" if number is None else f"partition {number}"
    if _LOST.search(text):
        return losses_of(
            f"Spark gave {where} up: an executor, or its Python worker, ended again and again (often out of memory: "
            "take more and smaller partitions, or raise spark.executor.memoryOverhead)",
            shards,
            error,
        )
    cause = next((line for line in lines if "Caused by" in line or _is_python(line)), lines[0] if lines else text)
    return TaskError(f"Spark could not compute {where}: {cause:.500}; start from the executor's log")


def _is_python(line: str) -> bool:
    """Return whether a line ends a Python traceback."""
    head = line.partition(":")[0]
    return head.replace(".", "").isidentifier() and head.endswith(("Error", "Exception", "Interrupt"))
