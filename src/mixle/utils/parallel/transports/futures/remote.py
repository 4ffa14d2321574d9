"""What runs where the executor runs it: shards that a process keeps, and the task of a round."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mixle._limits import one_blas_thread
from mixle.utils.parallel.folding.faults import fault_of
from mixle.utils.parallel.folding.tasks import Result, execute
from mixle.utils.parallel.folding.travel import pack_results, unpack

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.shards import Shard
    from mixle.utils.parallel.folding.transport import Source

__all__ = ["HOMES", "Home", "Job", "home_of", "is_driver", "work"]


class Job(NamedTuple):
    """What a call carries: where the driver's files are, and how many encoded bytes a process keeps."""

    folder: str
    keep_bytes: int


@dataclass(eq=False)
class Home:
    """What one process keeps of one handle.

    Attributes
    ----------
    source : Source or None
        The rows, in the driver's process.
    resident : dict of int to Shard
        Encoded shards.
    told : tuple
        Number of the last task, and the task.
    """

    source: Source | None = None
    resident: dict[int, Shard] = field(default_factory=dict)
    told: tuple[int, Any] = (-1, None)
    pid: int = field(default_factory=os.getpid)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def is_driver(self) -> bool:
        """Whether this process, and not the one it was forked from, made the handle."""
        return self.source is not None and self.pid == os.getpid()


HOMES: dict[str, Home] = {}
_LOCK = threading.Lock()


def home_of(folder: str) -> Home:
    """Return what this process keeps of a handle; what belongs to closed handles is dropped."""
    with _LOCK:
        home = HOMES.get(folder)
        if home is None or home.pid != os.getpid():  # a fork has the driver's rows, and its locks as they were
            home = HOMES[folder] = Home()
            for other in [key for key in HOMES if key != folder and not Path(key).is_dir()]:
                del HOMES[other]
        return home


def is_driver(folder: str) -> bool:
    """Return whether this is the process that made the handle."""
    home = HOMES.get(folder)
    return home is not None and home.is_driver


def _read(folder: str, name: str) -> bytes:
    path = Path(folder, name)
    if hasattr(os, "getuid") and path.stat().st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user, and is not read")
    return path.read_bytes()


def _task(home: Home, job: Job, number: int, data: bytes | None) -> Any:
    with home.lock:
        if home.told[0] != number:
            home.told = number, unpack(_read(job.folder, f"task{number}") if data is None else data)
        return home.told[1]


def _shard(home: Home, job: Job, number: int, data: bytes | None) -> Shard:
    found = home.resident.get(number)
    if found is not None:
        return found
    if home.source is not None:
        found = home.source.encode(number)
    else:
        encoder, rows = unpack(_read(job.folder, f"shard{number}") if data is None else data)
        found = rows.encode(number, encoder)
    with home.lock:
        if home.is_driver or sum(one.nbytes for one in home.resident.values()) + found.nbytes <= job.keep_bytes:
            home.resident[number] = found
    return found


def work(job: Job, number: int, shard: int, task: bytes | None = None, rows: bytes | None = None) -> Any:
    """Run a task on one shard where the executor runs it.

    Returns the packed result, the result itself in the driver's process, or None where the driver's files cannot be
    seen and what is needed was not sent.
    """
    home = home_of(job.folder)
    try:
        with one_blas_thread():
            wanted = _task(home, job, number, task)
            encoded = _shard(home, job, shard, rows)
            result = execute(wanted, encoded) if wanted else Result(shard, encoded.rows, 0.0, None, None)
    except FileNotFoundError as error:
        if rows is None:
            return None
        result = Result(shard, 0, 0.0, None, None, {}, fault_of(error))
    except Exception as error:  # noqa: BLE001 - the encoder is the user's, and so is what a task brings
        result = Result(shard, 0, 0.0, None, None, {}, fault_of(error))
    return result if home.is_driver else pack_results([result])
