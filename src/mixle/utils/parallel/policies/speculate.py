"""Backup tasks: idle workers repeat what a slow one still owes; the first reply is used, the late one compared."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixle.utils.parallel.folding import payload
from mixle.utils.parallel.folding.tasks import Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mixle.utils.parallel.policies.exchange import Exchange, Gone

__all__ = ["Backups", "Difference", "Late", "differ"]

SLOW = 1.25  # times the expected duration of a shard, after which a worker counts as slow
FLOOR_S = 0.01  # shorter waits are the scheduler's
TICK_S = 0.005  # how often idle workers are offered the work of slow ones


@dataclass(frozen=True)
class Difference:
    """Two workers made different statistics of one shard: one of them is wrong.

    Attributes
    ----------
    shard : int
        The shard.
    used, late : int or None
        Worker whose reply was used, and the one that came late.
    field : str
        What differs: "value", "weight" or "log_density".
    """

    shard: int
    used: int | None
    late: int | None
    field: str


def _bits(value: Any) -> bytes:
    return b"".join(bytes(part) for part in payload.encode(value, allow_pickle=True))


def differ(used: Result, late: Result) -> Difference | None:
    """Return how two results of one shard differ, bit by bit, or None; an error is not compared."""
    if used.error is not None or late.error is not None:
        return None
    for name in ("value", "weight", "log_density"):
        if _bits(getattr(used, name)) != _bits(getattr(late, name)):
            return Difference(used.shard, used.receipt.get("worker"), late.receipt.get("worker"), name)
    return None


class Backups:
    """Tells whose shards are late in one round.

    Parameters
    ----------
    sizes : mapping of int to int
        Rows of each shard.
    """

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.sizes = sizes
        self.began = time.monotonic()
        self.since: dict[int, float] = {}
        self.rates: list[float] = []
        self.doubled: set[int] = set()

    def given(self, workers: Iterable[int]) -> None:
        """Note that idle workers were given something."""
        now = time.monotonic()
        for worker in workers:
            self.since[worker] = now

    def arrived(self, result: Result, worker: int) -> None:
        """Learn from a result."""
        self.since[worker] = time.monotonic()
        self.rates.append(float(result.receipt.get("seconds", 0.0)) / max(1, self.sizes.get(result.shard, 1)))

    def choose(self, owed: Mapping[int, list[int]], todo: set[int], idle: Iterable[int]) -> dict[int, list[int]]:
        """Return one late shard for each idle worker, the last in line of the slowest workers first."""
        idle = sorted(idle)
        if not idle or not self.rates:
            return {}
        now, rate = time.monotonic(), statistics.median(self.rates)
        late: list[tuple[float, int, list[int]]] = []
        for worker, shards in owed.items():
            waiting = [shard for shard in shards if shard in todo and shard not in self.doubled]
            if not waiting:
                continue
            allowed = max(FLOOR_S, SLOW * rate * self.sizes.get(shards[0], 1))
            over = now - self.since.get(worker, self.began) - allowed
            if over > 0:
                late.append((-over, worker, waiting))
        chosen: dict[int, list[int]] = {}
        queues = [waiting for _, _, waiting in sorted(late)]
        while queues and len(chosen) < len(idle):
            shard = queues[0].pop()
            chosen[idle[len(chosen)]] = [shard]
            self.doubled.add(shard)
            queues = [*queues[1:], queues[0]] if queues[0] else queues[1:]
        return chosen


class Late:
    """Replies that are still to come for shards whose result is known.

    Parameters
    ----------
    exchange : Exchange
        Where they will come from.
    owed : dict of int to list of int
        Shards by worker.
    used : dict of int to Result
        What the round used.
    """

    def __init__(self, exchange: Exchange, owed: dict[int, list[int]], used: dict[int, Result]) -> None:
        self.exchange, self.owed, self.used = exchange, owed, used

    def poll(self) -> tuple[list[Difference], list[Gone]]:
        """Return the differences of what came by now, and the workers that were lost meanwhile."""
        found: list[Difference] = []
        gone: list[Gone] = []
        while self.owed:
            event = self.exchange.next(0)
            if event is None:
                break
            if not isinstance(event, Result):
                self.owed.pop(event.worker, None)
                gone.append(event)
                continue
            worker = next((w for w, shards in self.owed.items() if event.shard in shards), None)
            if worker is not None:
                self.owed[worker].remove(event.shard)
                if not self.owed[worker]:
                    del self.owed[worker]
            difference = differ(self.used[event.shard], event) if event.shard in self.used else None
            if difference is not None:
                found.append(difference)
        if not self.owed:
            self.exchange.close()
        return found, gone
