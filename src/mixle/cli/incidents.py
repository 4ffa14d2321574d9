"""What the demo lets happen to its pool in the middle of the fit, and how it tells of it.

An incident opens the pool that it needs, is told of every iteration, and reports. A new one is a class with an entry in
`INCIDENTS`.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Protocol

from mixle.cli.screen import Screen, counted

__all__ = ["INCIDENTS", "Incident", "Kill"]


class Incident(Protocol):
    """Something that happens to a pool while it fits."""

    least_iterations: int

    def open(self, rows: Any, estimator: Any, workers: int, shards: int) -> Any:
        """Return the handle to fit on."""

    def step(self, iteration: int, most: int) -> None:
        """Take note of an iteration; `most` is the cap."""

    def report(self, out: Screen) -> None:
        """Say what happened."""


class Kill:
    """A worker is killed (SIGKILL) when it has its part of the third iteration, and has computed nothing of it."""

    least_iterations = 3

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


#: By the word on the command line.
INCIDENTS: dict[str, type[Incident]] = {"kill": Kill}
