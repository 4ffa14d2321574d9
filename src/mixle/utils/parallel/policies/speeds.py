"""How fast each worker is, from the seconds of its shards, and which moves would make the slowest one faster."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

__all__ = ["Speeds", "moves"]

#: A difference of speeds counts from this many standard errors on.
ERRORS = 4.0
#: Rounds that the assumed jitter weighs as much as, against what was seen.
PRIOR_ROUNDS = 4.0
#: How fast the work of a shard follows what its worker took for it, relative to the worker's other shards.
FOLLOW = 0.5


class Speeds:
    """Speeds of workers and work of shards, learned from rounds.

    The seconds of shard `s` on worker `w` are taken to be ``work[s] / speed[w]`` times a jitter. Work is in encoded
    bytes at first (rows where these are not told) and then follows the shares that shards have of their worker's time.
    Speeds are means of logarithms over a window of rounds.

    Parameters
    ----------
    jitter : float
        Standard deviation of a worker's log-seconds from round to round that is assumed before it is seen.
    window : int
        Rounds that count.

    Examples
    --------
    >>> speeds = Speeds()
    >>> speeds.note([(0, 0, 2.0, 100.0), (1, 1, 1.0, 100.0)])
    >>> round(speeds.speed(1) / speeds.speed(0), 9)
    2.0
    """

    def __init__(self, jitter: float = 0.1, window: int = 20) -> None:
        self.jitter, self.window = jitter, window
        self.work: dict[int, float] = {}
        self.rounds: dict[int, deque[float]] = {}
        self.round_effects: deque[float] = deque(maxlen=window)

    def note(self, measured: Iterable[tuple[int, int, float, float]]) -> None:
        """Learn from one round: (worker, shard, seconds, size in bytes or rows) of every shard."""
        by_worker: dict[int, list[tuple[int, float]]] = {}
        for worker, shard, seconds, size in measured:
            self.work.setdefault(shard, max(size, 1.0))
            if seconds > 0.0 and math.isfinite(seconds):
                by_worker.setdefault(worker, []).append((shard, seconds))
        for worker, shards in by_worker.items():
            seconds, work = sum(s for _, s in shards), sum(self.work[shard] for shard, _ in shards)
            self.rounds.setdefault(worker, deque(maxlen=self.window)).append(math.log(work / seconds))
            for shard, own in shards:
                self.work[shard] += FOLLOW * (work * own / seconds - self.work[shard])

    def known(self, worker: int) -> bool:
        """Return whether the worker was seen at work."""
        return bool(self.rounds.get(worker))

    def speed(self, worker: int) -> float:
        """Return the work per second of a worker; of one that was never seen, the mean of the others."""
        logs = self.rounds.get(worker)
        if not logs:
            means = [sum(seen) / len(seen) for seen in self.rounds.values() if seen]
            return math.exp(sum(means) / len(means)) if means else 1.0
        return math.exp(sum(logs) / len(logs))

    def seconds(self, shard: int, worker: int) -> float:
        """Return the seconds that a shard should take on a worker."""
        return self.work.get(shard, 1.0) / self.speed(worker)

    def doubt(self, workers: Iterable[int]) -> float:
        """Return the relative difference of two speeds that jitter alone may show."""
        seen = [self.rounds[worker] for worker in workers if self.rounds.get(worker)]
        if not seen:
            return math.inf
        spread, freedom = PRIOR_ROUNDS * self.jitter**2, PRIOR_ROUNDS
        for logs in seen:
            mean = sum(logs) / len(logs)
            spread += sum((value - mean) ** 2 for value in logs)
            freedom += len(logs) - 1
        return ERRORS * math.sqrt(2.0 * spread / freedom / min(len(logs) for logs in seen))


def moves(
    owner: Mapping[int, int], workers: Collection[int], seconds: Mapping[int, Mapping[int, float]]
) -> tuple[dict[int, int], float]:
    """Return few moves that shorten the busiest worker's time, and by what part of it.

    Each step moves the shard from the busiest worker that leaves the two workers concerned done soonest.

    Parameters
    ----------
    owner : mapping of int to int
        Worker of each shard.
    workers : collection of int
        Who may hold shards.
    seconds : mapping of int to mapping of int to float
        Seconds of each shard on each worker.

    Returns
    -------
    (dict of int to int, float)
        New worker of each shard that moves, and the gain in [0, 1).

    Examples
    --------
    >>> moves({0: 0, 1: 0, 2: 1}, [0, 1], {s: {0: 2.0, 1: 1.0} for s in range(3)})
    ({0: 1}, 0.5)
    """
    where = {shard: worker for shard, worker in owner.items() if worker in workers}
    loads = dict.fromkeys(sorted(workers), 0.0)
    for shard, worker in where.items():
        loads[worker] += seconds[shard][worker]
    before = max(loads.values(), default=0.0)
    for _ in range(2 * len(where)):
        busiest = max(loads, key=lambda worker: (loads[worker], -worker))
        best: tuple[float, int, int] | None = None
        for shard in sorted(shard for shard, worker in where.items() if worker == busiest):
            for worker in loads:
                if worker != busiest:
                    after = max(loads[busiest] - seconds[shard][busiest], loads[worker] + seconds[shard][worker])
                    if after < loads[busiest] * (1.0 - 1e-9) and (best is None or after < best[0]):
                        best = (after, shard, worker)
        if best is None:
            break
        _, shard, worker = best
        loads[busiest] -= seconds[shard][busiest]
        loads[worker] += seconds[shard][worker]
        where[shard] = worker
    gain = 0.0 if before <= 0.0 else 1.0 - max(loads.values()) / before
    return {shard: worker for shard, worker in sorted(where.items()) if owner[shard] != worker}, gain
