"""What each round of a handle took, from the stamps that tasks leave and the clock of the driver."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mixle._log import ROUND, listening
from mixle.utils.parallel.observing.grid import number
from mixle.utils.parallel.observing.records import RankRecord, send_record
from mixle.utils.parallel.observing.watchman import Watchman

if TYPE_CHECKING:
    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.folding.tasks import Result, Task

__all__ = ["RoundLog"]

#: Clocks of two processes of a machine may differ by this much; beyond it a worker's stamps are not used.
SLACK = 1e-3
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

    Records are made when they are asked for, and sent while the next round's tasks run, or at `close`. The wall time
    of a round is that of its tasks, its fold and its M-step; what a caller does between these is not counted. Each
    record's phases add up to it. A round that raised leaves no records.

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
        self._throttled = _throttled()
        self._watchman = Watchman()

    def watch(self, run: Callable[[Task], Iterable[Result]], task: Task) -> Iterator[Result]:
        """Yield the results of ``run(task)``, noting when the round began and when each arrived."""
        self.finish()
        current = self._open = _Round(self._count, time.perf_counter(), time.time())
        ROUND.set((current.number, self.run_id))
        try:
            results = run(task)
            self.send()  # workers are busy with the task meanwhile
            self._look()
            for result in results:
                stamp = time.perf_counter()
                current.arrived.append(_Arrival(stamp, result.shard, result.rows, result.log_density, result.receipt))
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
            self._open.estimated += seconds
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

    def send(self) -> None:
        """Send what telemetry has not got yet."""
        if self.telemetry is None:
            return
        with self._lock:
            self._make()
            for record in self._records[self._sent :]:
                send_record(self.telemetry, record, self.run_id)
            self._sent = len(self._records)

    def close(self) -> None:
        """End the round, and send what is left; a later round goes on."""
        self.finish()
        self.send()
        self._look(last=True)

    def _look(self, *, last: bool = False) -> None:
        """Let the log know which ranks are slow, if somebody listens."""
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
    for result in of.arrived:
        by_rank.setdefault(int(result.receipt.get("worker") or 0), []).append(result)
    scores = [result.log_density for result in of.arrived if result.log_density is not None]
    common: dict[str, Any] = {"started": of.clock}
    if scores and len(scores) == len(of.arrived):
        common["log_density"] = float(sum(scores))
    if of.throttled is not None:
        common["throttled_seconds"] = of.throttled / len(by_rank)
    return [_record(of, rank, by_rank[rank], common, run_id) for rank in sorted(by_rank)]


def _record(of: _Round, rank: int, arrived: list[_Arrival], common: dict[str, Any], run_id: str | None) -> RankRecord:
    receipts = [result.receipt for result in arrived]
    last = max(result.at for result in arrived)
    queue, busy = _queue_and_busy(of.started, last, receipts)
    told = {name: _total(receipts, f"{name}_seconds") for name in ("decode", "encode")}
    decode = min(told["decode"], queue)
    encode = min(told["encode"], max(last - of.started - queue - busy, 0.0))
    phases = {
        "queue": queue - decode,
        "decode": decode,
        "E-step": busy,
        "encode": encode,
        "wire": max(last - of.started - queue - busy - encode, 0.0),
        "wait": max(of.ended - last, 0.0),
        "fold": max((of.folded or of.ended) - of.ended, 0.0),
        "M-step": of.estimated,
    }
    extra: dict[str, Any] = {"shards": sorted(result.shard for result in arrived), "phases": phases, **common}
    extra["cpu_seconds"] = _total(receipts, "cpu_seconds")
    if all("predicted_seconds" in receipt for receipt in receipts):
        extra["predicted_seconds"] = _total(receipts, "predicted_seconds")
    for name in ("minor_faults", "major_faults"):
        if any(name in receipt for receipt in receipts):
            extra[name] = int(_total(receipts, name))
    peaks = [number(receipt.get("peak_memory_bytes")) for receipt in receipts]
    if any(peak == peak for peak in peaks):
        extra["peak_memory_bytes"] = int(max(peak for peak in peaks if peak == peak))
    extra["host"] = next((receipt["host"] for receipt in receipts if "host" in receipt), _host())
    builds = sorted({str(receipt["build"]) for receipt in receipts if "build" in receipt})
    if builds:
        extra["build"] = ", ".join(builds)
    record = RankRecord(
        rank,
        of.number,
        busy,
        bytes_processed=int(_total(receipts, "bytes")),
        accumulator_bytes=int(_total(receipts, "payload_bytes")),
        n_obs=sum(result.rows for result in arrived),
        extra=extra,
    )
    object.__setattr__(record, "run_id", run_id)
    return record


def _queue_and_busy(start: float, last: float, receipts: list[dict[str, Any]]) -> tuple[float, float]:
    """Return seconds before the first task began, and seconds during which at least one ran.

    Stamps are those of the system's monotonic clock, which processes of a machine share. Stamps of another machine lie
    outside the round: then only durations are used.
    """
    spans = sorted((number(receipt.get("started")), number(receipt.get("seconds"))) for receipt in receipts)
    window = last - start
    if not all(start - SLACK <= begin and begin + length <= last + SLACK for begin, length in spans):
        return 0.0, min(_total(receipts, "seconds"), window)
    busy, end = 0.0, start
    for begin, length in spans:
        busy += max(min(begin + length, last) - max(begin, end), 0.0)
        end = max(end, min(begin + length, last))
    return min(max(spans[0][0] - start, 0.0), window - busy), busy


def _total(receipts: list[dict[str, Any]], name: str) -> float:
    values = [number(receipt.get(name)) for receipt in receipts]
    return float(sum(value for value in values if value > 0.0))


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
