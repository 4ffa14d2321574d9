"""The driver's side: calls are submitted, answers come back in any order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError, HandleClosed, RoundLosses, WorkerLost
from mixle.utils.parallel.folding.faults import load_error
from mixle.utils.parallel.folding.tasks import Result
from mixle.utils.parallel.folding.transport import GLANCE_S, Source, Transport
from mixle.utils.parallel.folding.travel import pack, rows_of, unpack_results
from mixle.utils.parallel.transports.futures.remote import HOMES, Home, Job, home_of, is_driver, work

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Task

__all__ = ["FuturesTransport"]

HINT = "client=concurrent.futures.ProcessPoolExecutor(4), or client=a function that makes one"
KEEP_BYTES = 1 << 30
#: A task up to this size goes along with each call, which costs less than a file written, read and removed.
SMALL_TASK = 1 << 14


class FuturesTransport(Transport):
    """One worker, number 0: the executor.

    Parameters
    ----------
    client : executor or callable
        An executor, which is never shut down here, or a function that makes one: that one is shut down by `close`, and
        made again by `Retry` when it breaks.
    keep_bytes : int
        Encoded bytes of this handle that a process of the executor keeps, 1 GiB by default. What does not fit is
        encoded again in every round.
    """

    name = "futures"

    def __init__(self, client: Any, *, keep_bytes: int = KEEP_BYTES) -> None:
        self.make: Callable[[], Any] | None = None
        if not hasattr(client, "submit"):
            if not callable(client):
                raise BackendError(f"backend 'futures' needs an executor: pass {HINT}; not {client!r}")
            self.make = client
        self.keep_bytes = keep_bytes
        self.executor: Any = client if self.make is None else None
        self.sizes: dict[int, int] = {}
        self.job: Job | None = None
        self.source: Source | None = None
        self.shared = False
        self._far = False
        self._number = 0
        self._inboxes: list[SimpleQueue[Any]] = []

    def load(self, source: Source) -> None:
        """Encode all shards in the executor; RowError names a bad row by its position in the data."""
        import tempfile

        self.job = Job(tempfile.mkdtemp(prefix="mixle-"), self.keep_bytes)  # 0700
        self.source = source
        HOMES[self.job.folder] = Home(source)
        self.start([0])
        self.shared = self._first(is_driver, self.job.folder)
        if not self.shared:
            for shard in range(len(source.shards)):
                self._write(f"shard{shard}", self._rows(shard))
        self.sizes = {shard: len(positions) for shard, positions in enumerate(source.shards)}
        for result in sorted(self._run(None, self.sizes), key=lambda one: one.shard):
            if result.error is not None:
                raise load_error(result.error, result.shard)

    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard and yield each result as it arrives."""
        return self._run(task, self.sizes)

    def dispatch(self, task: Task, assignment: Mapping[int, Sequence[int]]) -> Iterator[Result]:
        """Run `task` on chosen shards; there is one worker."""
        return self._run(task, [shard for shards in assignment.values() for shard in shards])

    def run(self, task: Task, shard: int, worker: int) -> Result:
        """Run `task` on one shard; there is one worker."""
        (result,) = self._run(task, [shard])
        return result

    def workers(self) -> list[int]:
        """Return the only worker."""
        return [0]

    def live(self) -> list[int]:
        """Return the only worker, if it lives."""
        return [] if self.executor is None else [0]

    def spawn(self, workers: Iterable[int]) -> None:
        """Make the executor again if it broke and a function that makes it was given."""
        self.start(workers)

    def start(self, workers: Iterable[int]) -> None:
        """Make the executor if there is none.

        Raises
        ------
        RuntimeError
            If it broke and no function that makes it was given.
        """
        if self.executor is None:
            if self.make is None:
                raise RuntimeError(f"the executor is broken: pass a new one, or a function that makes one ({HINT})")
            self.executor = self.make()

    def close(self) -> None:
        """End calls that wait, remove the files, shut down an executor that was made here; further calls do nothing."""
        import shutil

        job, self.job = self.job, None
        for inbox in list(self._inboxes):
            inbox.put(None)
        if self.make is not None:
            executor, self.executor = self.executor, None
            if executor is not None:
                executor.shutdown(wait=True, cancel_futures=True)
        if job is not None:
            shutil.rmtree(job.folder, ignore_errors=True)
            HOMES.pop(job.folder, None)
        self.source = None

    def _rows(self, shard: int) -> bytes:
        source = self._loaded()
        return pack((source.encoder, rows_of(source, shard)), definitions=True)

    def _loaded(self) -> Source:
        if self.source is None or self.job is None:
            raise _closed()
        return self.source

    def _write(self, name: str, data: bytes) -> None:
        file = os.open(Path(self._job.folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(data)

    def _first(self, function: Callable[..., Any], *words: Any) -> Any:
        """Return what the first call returns; if the executor breaks, say what most often keeps it from working."""
        try:
            return self._submit(function, *words).result()
        except Exception as error:
            if not _is_broken(error):
                raise
            raise BackendError(
                f"the executor broke at its first call ({type(error).__name__}: {error}): its processes could not "
                'start, or not import this package; in a script make the executor under if __name__ == "__main__":'
            ) from error

    def _submit(self, function: Callable[..., Any], *words: Any) -> Any:
        if self.executor is None:
            self.start([0])
        try:
            return self.executor.submit(function, *words)
        except RuntimeError as error:
            if _is_broken(error) or "bootstrapping" in str(error):  # of a script without a guard: its words say it
                raise
            raise BackendError(f"the executor takes no more work ({error}): pass a live one, {HINT}") from error

    def _run(self, task: Task | None, shards: Iterable[int]) -> Iterator[Result]:
        """Submit a call per shard, and yield results as they arrive.

        Raises
        ------
        RoundLosses
            After everything that arrived was yielded, if the executor broke.
        """
        self._loaded()
        self._number += 1
        number, data = self._number, b""
        if self.shared:
            home_of(self._job.folder).told = number, task
        else:
            data = pack(task, definitions=True)
        written = len(data) > SMALL_TASK and not self._far
        if written:
            self._write(f"task{number}", data)
        missing, broken = list(shards), None
        try:
            for result in self._results(number, missing, data, written=written):
                missing.remove(result.shard)
                yield result
        except Exception as error:
            if not _is_broken(error):
                raise
            broken = error
        finally:
            if written and self.job is not None:
                Path(self.job.folder, f"task{number}").unlink(missing_ok=True)
        if broken is not None:
            raise self._loss(missing, broken)

    @property
    def _job(self) -> Job:
        if self.job is None:
            raise _closed()
        return self.job

    def _results(self, number: int, shards: Sequence[int], data: bytes, *, written: bool) -> Iterator[Result]:
        inbox: SimpleQueue[Any] = SimpleQueue()
        self._inboxes.append(inbox)
        waiting: dict[Any, int] = {}

        def ask(shard: int, *words: Any) -> None:
            future = self._submit(work, self._job, number, shard, *words)
            waiting[future] = shard
            future.add_done_callback(inbox.put)

        try:
            for shard in shards:
                ask(shard, None if written or self.shared else data)
            while waiting:
                future = _next(inbox)
                self._loaded()  # None, from `close`
                shard = waiting.pop(future)
                answer = future.result()
                if answer is None:  # another machine: send what it cannot read
                    self._far = True
                    ask(shard, data, self._rows(shard))
                    continue
                yield answer if isinstance(answer, Result) else unpack_results(answer)[0]
        finally:
            self._inboxes.remove(inbox)
            for future in waiting:
                future.cancel()

    def _loss(self, shards: Sequence[int], error: BaseException) -> RoundLosses:
        """Give the broken executor up, and return the error that says so."""
        executor, self.executor = self.executor, None
        if executor is not None and self.make is not None:
            executor.shutdown(wait=True)
        cause = f"the executor broke ({type(error).__name__}: {error})"
        lost = WorkerLost(f"{cause}; shards {list(shards)} were lost with it")
        lost.worker, lost.shards, lost.cause = 0, tuple(shards), cause
        group = RoundLosses(
            f"{lost}. To recover within the round pass a function that makes the executor, and a policy: "
            "client=lambda: ProcessPoolExecutor(4), policies=[Retry(2)]"
        )
        group.losses = (lost,)
        group.__cause__ = error
        return group


def _next(inbox: SimpleQueue[Any]) -> Any:
    while True:
        with suppress(Empty):
            return inbox.get(timeout=GLANCE_S)


def _closed() -> HandleClosed:
    return HandleClosed("this handle over an executor is closed: make a new one")


def _is_broken(error: BaseException) -> bool:
    from concurrent.futures import BrokenExecutor

    return isinstance(error, BrokenExecutor)
