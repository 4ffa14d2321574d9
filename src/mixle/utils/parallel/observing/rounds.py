"""What each round of a handle took, from the stamps that tasks leave and the clock of the driver."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mixle._log import ROUND, listening
from mixle.utils.parallel.observing.grid import number
from mixle.utils.parallel.observing.records import RankRecord, send_records
from mixle.utils.parallel.observing.watchman import Watchman

if TYPE_CHECKING:
    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.folding.tasks import Result, Task

__all__ = ["RoundLog"]

#: Clocks of two processes of a machine may differ by this much; beyond it a worker's stamps are not used.
SLACK = 1e-3
#: Seconds between two sendings: a write for each short round would cost more than its records do.
PAUSE = 0.25
_CPU_STAT = Path("/sys/fs/cgroup/cpu.stat")


class _Arrival(NamedTuple):
    """A result without its value: when it arrived, and what it says of itself."""

    at: float
    shard: int
    rows: int
    log_density: float | None
    receipt: dict[str, Any]


@dataclass
class _Round:
    """A round while it runs: when it started, what arrived when, when it ended, and what came after."""

    number: int
    started: float
    clock: float
    arrived: list[_Arrival] = field(default_factory=list)
    ended: float = 0.0
    folded: float | None = None
    estimated: float = 0.0
    throttled: float | None = None


class RoundLog:
    """Keeps one receipt per rank and round, and sends it to telemetry if there is one.

    Records are made when they are asked for, and sent while a later round's tasks run, a quarter of a second or more
    after the last time; what is left is sent when somebody reads the recorder, and at `close`. The wall time of a round
    is that of its tasks, its fold and its M-step; what a caller does between these is not counted. Each record's phases
    add up to it. A round that raised leaves no records.

    Parameters
    ----------
    telemetry : Telemetry, optional
        Where records go; those of before it was set go there too.
    run_id : str, optional
        Tags them.
    """

    def __init__(self, telemetry: Telemetry | None = None, run_id: str | None = None) -> None:
        self.telemetry, self.run_id = telemetry, run_id
        self._rounds: list[_Round] = []
        self._records: list[RankRecord] = []
        self._open: _Round | None = None
        self._lock = threading.RLock()  # a handle may be closed while another thread runs a round
        self._count = self._sent = 0
        self._expected: Telemetry | None = None  # who was told that records are kept here
        self._due, self._pid = 0.0, os.getpid()
        self._throttled = _throttled()
        self._watchman = Watchman()

    def watch(self, run: Callable[[Task], Iterable[Result]], task: Task) -> Iterator[Result]:
        """Yield the results of ``run(task)``, noting when the round began and when each arrived."""
        self.finish()
        current = self._open = _Round(self._count, time.perf_counter(), time.time())
        ROUND.set((current.number, self.run_id))
        try:
            results = run(task)
            told = getattr(getattr(run, "__self__", None), "eager", False)
            if told:
                self.tell()  # workers are busy with the task meanwhile
            for result in results:
                stamp = time.perf_counter()
                current.arrived.append(_Arrival(stamp, result.shard, result.rows, result.log_density, result.receipt))
                if not told:
                    self.tell()  # workers have begun, and most are busy still
                    told = True
                yield result
        finally:
            current.ended = time.perf_counter()
            ROUND.set((None, None))

    def folded(self) -> None:
        """Note that the results of the round are folded."""
        if self._open is not None:
            self._open.folded = time.perf_counter()

    def estimated(self, seconds: float) -> None:
        """Note the seconds of the round's M-step; the round is over."""
        if self._open is not None:
            self._open.estimated += max(seconds, 0.0)
            self.finish()

    def finish(self) -> None:
        """End the round, if one is open."""
        current, self._open = self._open, None
        if current is None or current.folded is None:
            return
        self._count += 1
        if self._throttled is not None:
            now = _throttled()
            if now is not None:
                current.throttled, self._throttled = now - self._throttled, now
        self._rounds.append(current)
        if self.telemetry is not None and self.telemetry is not self._expected:
            self._expected = self.telemetry
            self.telemetry.expect(self)

    def send(self) -> None:
        """Send what telemetry has not got yet; the child of a fork leaves that to its parent."""
        if self.telemetry is None or self._pid != os.getpid():
            return
        with self._lock:
            self._expected = None
            self._make()
            fresh, self._sent = self._records[self._sent :], len(self._records)
            if fresh:
                send_records(self.telemetry, fresh, self.run_id)
                self._due = time.perf_counter() + PAUSE

    def close(self) -> None:
        """End the round, and send what is left; a later round goes on."""
        self.finish()
        self.tell(last=True)

    def tell(self, *, last: bool = False) -> None:
        """Send what telemetry has not got yet, if it is time; name slow ranks to the log, if somebody listens."""
        if last or time.perf_counter() >= self._due:
            self.send()
        if listening("rounds"):
            self._make()
            self._watchman.run_id = self.run_id
            self._watchman.look(self._records, last=last)

    def __del__(self) -> None:
        if getattr(self, "telemetry", None) is not None:
            self.close()

    @property
    def records(self) -> list[RankRecord]:
        """All records so far, by round and rank; an open round that is folded counts."""
        self._make()
        fresh = self._open is not None and self._open.folded is not None
        return [*self._records, *(_records(self._open, self.run_id) if fresh and self._open is not None else [])]

    def _make(self) -> None:
        """Make the records of the rounds that ended since the last time: late, so that rounds do not wait for it."""
        with self._lock:
            self._records += [record for ended in self._rounds for record in _records(ended, self.run_id)]
            self._rounds.clear()


def _records(of: _Round, run_id: str | None) -> list[RankRecord]:
    by_rank: dict[int, list[_Arrival]] = {}
    score, scored = 0.0, 0
    for result in of.arrived:
        by_rank.setdefault(int(result.receipt.get("worker") or 0), []).append(result)
        if result.log_density is not None:
            score, scored = score + result.log_density, scored + 1
    common: dict[str, Any] = {"started": of.clock}
    if scored and scored == len(of.arrived):
        common["log_density"] = float(score)
    if of.throttled is not None:
        common["throttled_seconds"] = of.throttled / len(by_rank)
    return [_record(of, rank, by_rank[rank], common, run_id) for rank in sorted(by_rank)]


#: Numbers of a receipt that add up over the shards of a rank.
_SUMMED = (
    "decode_seconds",
    "encode_seconds",
    "cpu_seconds",
    "predicted_seconds",
    "bytes",
    "payload_bytes",
    "minor_faults",
    "major_faults",
)


def _record(of: _Round, rank: int, arrived: list[_Arrival], common: dict[str, Any], run_id: str | None) -> RankRecord:
    receipts = [result.receipt for result in arrived]
    told = receipts[0]
    sums = {name: _sum(receipts, name) for name in _SUMMED if name in told or any(name in one for one in receipts)}
    last = max(of.started, *[result.at for result in arrived])  # a clock that goes back leaves no negative time
    phases, busy = _phases(of, last, receipts, sums)
    extra: dict[str, Any] = {"shards": sorted([result.shard for result in arrived]), "phases": phases, **common}
    extra["cpu_seconds"] = sums.get("cpu_seconds", 0.0)
    if "predicted_seconds" in sums and all("predicted_seconds" in receipt for receipt in receipts):
        extra["predicted_seconds"] = sums["predicted_seconds"]
    for name in ("minor_faults", "major_faults"):
        if name in sums:
            extra[name] = int(sums[name])
    peak = max([_positive(receipt.get("peak_memory_bytes", 0.0)) for receipt in receipts])
    if peak:
        extra["peak_memory_bytes"] = int(peak)
    extra["host"] = told["host"] if "host" in told else _host()
    builds = {str(receipt["build"]) for receipt in receipts if "build" in receipt}
    if builds:
        extra["build"] = ", ".join(sorted(builds))
    sizes = int(sums.get("bytes", 0)), int(sums.get("payload_bytes", 0))
    rows = sum([result.rows for result in arrived])
    return RankRecord.trusted(rank, of.number, busy, sizes, rows, extra, run_id)


def _sum(receipts: list[dict[str, Any]], name: str) -> float:
    """Return the sum of a number over receipts, as far as they have it."""
    total = 0.0
    for receipt in receipts:
        value = receipt.get(name, 0.0)
        total += value if type(value) is float and value >= 0.0 else _positive(value)
    return total


def _phases(
    of: _Round, last: float, receipts: list[dict[str, Any]], sums: dict[str, float]
) -> tuple[dict[str, float], float]:
    """Return the phases of a rank, which add up to the wall time of the round, and its E-step seconds.

    What a worker took to read the task, and rows it had not encoded, and to write its replies, it tells itself; it is
    taken out of the time in which it ran no task.
    """
    queue, busy = _queue_and_busy(of.started, last, receipts)
    free = last - of.started - busy
    decode = min(sums.get("decode_seconds", 0.0), free)
    queue = max(queue - decode, 0.0)
    encode = min(sums.get("encode_seconds", 0.0), max(free - queue - decode, 0.0))
    folded = of.ended if of.folded is None else of.folded
    phases = {
        "queue": queue,
        "decode": decode,
        "E-step": busy,
        "encode": encode,
        "wire": max(free - queue - decode - encode, 0.0),
        "wait": max(of.ended - last, 0.0),
        "fold": max(folded - of.ended, 0.0),
        "M-step": of.estimated,
    }
    return phases, busy


def _queue_and_busy(start: float, last: float, receipts: list[dict[str, Any]]) -> tuple[float, float]:
    """Return seconds before the first task began, and seconds during which at least one ran.

    Stamps are those of the system's monotonic clock, which processes of a machine share. Stamps of another machine lie
    outside the round: then only durations are used.
    """
    window = last - start
    spans = [(number(receipt.get("started")), number(receipt.get("seconds"))) for receipt in receipts]
    spans.sort()
    for begin, length in spans:
        if not (start - SLACK <= begin and begin + length <= last + SLACK):
            return 0.0, min(sum([length for _, length in spans if length > 0.0]), window)
    busy, end = 0.0, start
    for begin, length in spans:
        stop = min(begin + length, last)
        if stop > end:
            busy, end = busy + stop - max(begin, end), stop
    return min(max(spans[0][0] - start, 0.0), window - busy), busy


def _positive(value: Any) -> float:
    """Return a number of a receipt; 0 if it is none or negative."""
    value = value if type(value) is float or type(value) is int else number(value)
    return max(value, 0.0) if value == value else 0.0


@cache
def _host() -> str:
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def _throttled() -> float | None:
    """Return the seconds that this control group was kept from running so far; None if it does not count them."""
    try:
        text = _CPU_STAT.read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "throttled_usec":
            return float(value) / 1e6
    return None
