"""What the demo lets happen to its pool in the middle of the fit, and how it tells of it.

An incident opens the pool that it needs, is told of every iteration, and reports. A new one is a class with an entry in
`INCIDENTS`.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Protocol

from mixle.cli.screen import Screen, counted

__all__ = ["INCIDENTS", "Flip", "Incident", "Kill"]


class Incident(Protocol):
    """Something that happens to a pool while it fits."""

    least_iterations: int
    least_workers: int  # where the user does not say how many

    def open(self, rows: Any, estimator: Any, workers: int, shards: int) -> Any:
        """Return the handle to fit on."""

    def step(self, iteration: int, most: int) -> None:
        """Take note of an iteration; `most` is the cap."""

    def report(self, out: Screen) -> None:
        """Say what happened."""


class Kill:
    """A worker is killed (SIGKILL) when it has its part of the third iteration, and has computed nothing of it."""

    least_iterations = 3
    least_workers = 1

    def __init__(self) -> None:
        self.handle: Any = None
        self.victim, self.pid, self.iteration = 0, 0, 0
        self.loss: Any = None
        self.recomputed: list[int] = []
        self.reused = 0
        self.times: list[float] = []

    def open(self, rows: Any, estimator: Any, workers: int, shards: int) -> Any:
        """Return a pool that survives the loss of workers."""
        from mixle.utils.parallel.resilient_em import ResilientMPEncodedData

        self.handle = ResilientMPEncodedData(rows, estimator, num_workers=workers, num_shards=shards)
        self.victim = workers // 2
        return self.handle

    def step(self, iteration: int, most: int) -> None:
        """Arm the hook after the second iteration; note what came of it after the third."""
        self.times.append(time.perf_counter())
        if iteration == min(2, most - 2):
            self.handle.arm_kill(self._hook)
        if self.pid and self.loss is None and self.handle.last_round_losses:
            self.iteration, self.loss = iteration, self.handle.last_round_losses[0]
            self.recomputed = sorted(self.handle.last_round_recomputed_shards)
            self.reused = len(self.handle.last_round_reused_shards)

    def _hook(self, worker: int, process: Any) -> None:
        if worker == self.victim:
            self.pid = process.pid
            process.kill()

    def report(self, out: Screen) -> None:
        """Say who was killed, when, how it was told, what was computed again, and what it cost."""
        if self.loss is None:
            out.say("No worker was killed: the fit had settled before.", "")
            return
        taken = [after - before for before, after in zip(self.times, self.times[1:], strict=False)]
        round_s = taken.pop(self.iteration - 2)
        shards = f"{counted(len(self.recomputed), 'shards')} ({', '.join(map(str, self.recomputed))})"
        lines = [
            f"Iteration {self.iteration}: worker {self.victim} (process {self.pid}) was killed when it had its task.",
            f"    told as: {self.loss.cause}",
            f"    computed again: {shards}; used as they came: {self.reused}; worker {self.victim} was started again",
        ]
        if taken:
            usual = statistics.median(taken)
            lines.append(
                f"    the iteration took {round_s:.3f} s, the others {usual:.3f} s (median): "
                f"the loss cost {max(0.0, round_s - usual):.3f} s"
            )
        out.say(*lines, "")


class Flip:
    """A bit of a statistic flips in a worker in the third iteration, of a pool that computes every shard twice."""

    least_iterations = 3
    least_workers = 3  # two that agree against one

    def __init__(self) -> None:
        self.handle: Any = None
        self.victim, self.shard, self.bit, self.iteration = 0, -1, 0, 0
        self.before, self.after = 0.0, 0.0
        self.receipts: list[Any] = []
        self.retired: set[int] = set()

    def open(self, rows: Any, estimator: Any, workers: int, shards: int) -> Any:
        """Return a pool that audits every shard."""
        from mixle.utils.parallel.sdc_audit import AuditedMPEncodedData

        self.handle = AuditedMPEncodedData(
            rows, estimator, num_workers=workers, num_shards=shards, audit_rate=1.0, max_retries=2
        )
        self.victim = workers // 2
        return self.handle

    def step(self, iteration: int, most: int) -> None:
        """Arm the hook after the second iteration; take it away, and note what came of it, after the third."""
        if iteration == min(2, most - 2):
            self.handle.arm_corruption(self._hook)
        elif self.shard >= 0 and not self.iteration:
            self.iteration, self.receipts = iteration, list(self.handle.audit_receipts)
            self.retired = set(self.handle._blacklist)  # noqa: SLF001 - a name that user code relies on
            self.handle.arm_corruption(None)

    def _hook(self, worker: int, shard: int, role: str, data: bytes) -> bytes:
        if worker != self.victim or role != "primary" or self.shard >= 0:
            return data
        import struct

        from mixle.utils.parallel.policies.plainpickle import read_plain_pickle

        weights = read_plain_pickle(data)[1][0]  # of the components
        number = weights[:1].tobytes()
        at = data.find(number)
        if at < 0:
            return data
        self.shard, self.bit = shard, 51
        flipped = struct.pack("<Q", struct.unpack("<Q", number)[0] ^ (1 << self.bit))
        self.before, self.after = (struct.unpack("<d", raw)[0] for raw in (number, flipped))
        return data[:at] + flipped + data[at + len(number) :]

    def report(self, out: Screen) -> None:
        """Say what flipped, how it was found, who is suspected, and what was folded."""
        if not self.receipts:
            out.say("No bit was flipped: the fit had settled before.", "")
            return
        found = self.receipts[0]
        witness = "nobody else could be asked" if found.witness_worker is None else _who(found.witness_worker)
        suspects = ", ".join(f"worker {worker}" for worker in found.suspected_workers) or "nobody, that takes three"
        retired = ", ".join(f"worker {worker}" for worker in sorted(self.retired)) or "nobody"
        out.say(
            f"Iteration {self.iteration}: bit {self.bit} of a number of shard {self.shard} flipped in worker "
            f"{self.victim}: {self.before!r} became {self.after!r}.",
            f"    found by {_who(found.audit_worker)}, who computes the shard too: {found.mismatch_reason}",
            f"    witness: {witness}; suspected: {suspects}; quarantine: {found.quarantine_status}",
            f"    relative error {found.max_rel_error:.3g}; folded: what was confirmed; retired: {retired}",
            "",
        )


def _who(worker: int) -> str:
    return "the driver" if worker < 0 else f"worker {worker}"


#: By the word on the command line.
INCIDENTS: dict[str, type[Incident]] = {"kill": Kill, "flip": Flip}
