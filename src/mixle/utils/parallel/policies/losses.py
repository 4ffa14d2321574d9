"""What happened to lost workers: classified, with what the kernel counted and what they last wrote."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mixle.errors import RoundLosses, WorkerLost

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Loss", "OomWatch", "RoundReceipt", "classify", "nobody_left"]

#: Exit code after SIGKILL, on every system that has signals.
_KILLED = -9
#: Words of a cause that say why the driver itself ended a worker, and the kind they mean.
_ENDED_BY_DRIVER = (
    ("launcher", "launcher"),
    ("stopped", "stopped"),
    ("silent for", "silent"),
    ("step_timeout_s", "over its time limit"),
    ("garbage", "garbled reply"),
    ("half a reply", "garbled reply"),
    ("oversized", "garbled reply"),
    ("the driver met", "closed its pipe"),
)


@dataclass(frozen=True)
class Loss:
    """One lost worker.

    Attributes
    ----------
    worker : int
        Its id.
    shards : tuple of int
        Shards that it still owed.
    kind : str
        "signal", "exit", "import error", "out of memory", "stopped", "silent", "over its time limit", "garbled
        reply", "closed its pipe", "launcher" or "unknown".
    cause : str
        How it was told, in words.
    exitcode : int or None
        Exit code, or minus the number of the signal.
    out_of_memory : bool or None
        Whether the kernel's counter of out-of-memory kills grew meanwhile; None where it cannot be read.
    stderr_tail : str
        What it last wrote.
    blacklisted : bool
        Whether its rank is not started again.
    """

    worker: int
    shards: tuple[int, ...]
    kind: str
    cause: str
    exitcode: int | None = None
    out_of_memory: bool | None = None
    stderr_tail: str = ""
    blacklisted: bool = False

    def __str__(self) -> str:
        held = "" if not self.shards else f" with shards {', '.join(map(str, self.shards))}"
        memory = "; the kernel killed for memory meanwhile" if self.out_of_memory else ""
        tail = f"; it last wrote: {self.stderr_tail.splitlines()[-1]}" if self.stderr_tail else ""
        return f"worker {self.worker}{held}: {self.cause}{memory}{tail}"


@dataclass
class RoundReceipt:
    """What one round took.

    Attributes
    ----------
    reused, recomputed : set of int
        Shards done by the worker they were given to first, and by another one after a loss.
    failed, blacklisted : set of int
        Workers lost, and those of them that are not started again.
    backed_up : set of int
        Shards that a second worker was given because the first was slow, and whose result came before the other.
    heirs : dict of int to int
        Who was given each shard of a lost worker last.
    losses : list of Loss
        Every loss, in the order told.
    """

    reused: set[int] = field(default_factory=set)
    recomputed: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    blacklisted: set[int] = field(default_factory=set)
    backed_up: set[int] = field(default_factory=set)
    heirs: dict[int, int] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)


class OomWatch:
    """The kernel's counters of out-of-memory kills: this process's cgroup in both layouts, and the machine's."""

    def __init__(self) -> None:
        self.files = _counter_files()
        self.before = self._read()

    def grew(self) -> bool | None:
        """Return whether a counter grew since the last question; None if there is none."""
        now, before = self._read(), self.before
        self.before = now
        if not now:
            return None
        return any(count > before.get(file, count) for file, count in now.items())

    def _read(self) -> dict[Path, int]:
        found = {}
        for file in self.files:
            with contextlib.suppress(OSError, ValueError):
                for line in file.read_text().splitlines():
                    word, _, count = line.partition(" ")
                    if word == "oom_kill":
                        found[file] = int(count)
        return found


def _counter_files() -> list[Path]:
    files = [Path("/proc/vmstat")]
    root = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kinds, place = line.split(":", 2)
            own = place.lstrip("/")
            if not kinds:
                files += [base / own / "memory.events" for base in (root, root / "unified")]
            elif "memory" in kinds.split(","):
                files.append(root / "memory" / own / "memory.oom_control")
    return [file for file in files if file.is_file()]


def classify(error: WorkerLost, out_of_memory: bool | None, blacklisted: bool = False) -> Loss:
    """Return what is known about a loss.

    Parameters
    ----------
    error : WorkerLost
        As the transport told it.
    out_of_memory : bool or None
        Whether the kernel killed for memory meanwhile.
    blacklisted : bool
        Whether the rank is given up.

    Examples
    --------
    >>> from mixle.errors import WorkerLost
    >>> lost = WorkerLost("worker 1 was lost")
    >>> lost.worker, lost.shards, lost.cause, lost.exitcode = 1, (1,), "killed by SIGSEGV", -11
    >>> classify(lost, None).kind
    'signal'
    """
    cause = error.cause or str(error)
    kind = next((kind for word, kind in _ENDED_BY_DRIVER if word in cause), "")
    if not kind:
        kind = _kind_of_exit(error, out_of_memory)
    return Loss(
        error.worker,
        tuple(error.shards),
        kind,
        cause,
        error.exitcode,
        out_of_memory,
        error.stderr_tail,
        blacklisted,
    )


def _kind_of_exit(error: WorkerLost, out_of_memory: bool | None) -> str:
    code = error.exitcode
    if code is None:
        return "unknown"
    if code < 0:
        return "out of memory" if out_of_memory and code == _KILLED else "signal"
    tail = error.stderr_tail
    return "import error" if "ImportError" in tail or "ModuleNotFoundError" in tail else "exit"


def nobody_left(text: str, max_retries: int, losses: Iterable[Loss]) -> RoundLosses:
    """Return the error of a round that has no worker left, naming each loss.

    Parameters
    ----------
    text : str
        What cannot be done.
    max_retries : int
        Losses after which a rank is given up.
    losses : iterable of Loss
        What happened.
    """
    losses = list(losses)
    told = "".join(f"\n  {loss}" for loss in losses)
    error = RoundLosses(
        f"{text} Ranks are given up after max_retries = {max_retries} losses:{told}\n"
        "The rows are still held: add_worker() opens a new worker for them."
    )
    error.losses = tuple(_as_error(loss) for loss in losses)
    return error


def _as_error(loss: Loss) -> WorkerLost:
    error = WorkerLost(str(loss))
    error.worker, error.shards, error.cause = loss.worker, loss.shards, loss.cause
    error.exitcode, error.stderr_tail = loss.exitcode, loss.stderr_tail
    return error
