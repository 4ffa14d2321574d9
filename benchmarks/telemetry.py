"""What telemetry costs: 100,000 records written and read back, and the driver's time per round of a fit."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from mixle.telemetry import Telemetry
from mixle.utils.parallel.folding.tasks import Result, Task
from mixle.utils.parallel.observing.rounds import RoundLog

COUNT = 100_000
#: Seconds of the round that the cost is held against.
ROUND = 0.02
FEATURES = {"rank": 1, "round": 3, "e_step_seconds": 0.5, "n_obs": 1000, "bytes_processed": 8000}


def records() -> None:
    """Print what writing and reading take, and whether the cost grows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        tenths = []
        with Telemetry(path) as telemetry:
            for _ in range(10):
                start = time.perf_counter()
                for _ in range(COUNT // 10):
                    telemetry.record("em_round", features=FEATURES, choice="rank=1", tags={"run_id": "a"})
                tenths.append(time.perf_counter() - start)
        start = time.perf_counter()
        found = len(Telemetry(path))
        read = time.perf_counter() - start
    print(f"written: {sum(tenths):.2f} s (first tenth {tenths[0]:.3f} s, last {tenths[-1]:.3f} s)")
    print(f"read:    {read:.2f} s, {found} records")


def results(ranks: int, shards: int) -> list[Result]:
    """Return the results of a round as workers send them."""
    now = time.perf_counter()
    facts = {"left_out": 0, "seconds": 0.02, "cpu_seconds": 0.019, "build": "x86-64", "host": "node-1", "bytes": 8000}
    usage = {"minor_faults": 3, "major_faults": 0, "peak_memory_bytes": 10**8, "payload_bytes": 500}
    told = {**facts, **usage, "started": now, "decode_seconds": 1e-4, "encode_seconds": 1e-4}
    return [Result(shard, 1000, 1000.0, None, -1.0, {**told, "worker": shard % ranks}) for shard in range(shards)]


class Busy:
    """A transport whose workers compute while the driver goes on: it sends the tasks at once, replies come later."""

    eager = True

    def __init__(self, ranks: int, shards: int) -> None:
        self.ranks, self.shards = ranks, shards
        self.first = 0.0

    def map(self, _: Task) -> Iterator[Result]:
        """Yield the replies of a round, noting when the driver asked for the first."""
        made = results(self.ranks, self.shards)
        self.first = time.thread_time()
        yield from made


def per_round(ranks: int, shards: int, telemetry: Telemetry | None, count: int = 200) -> tuple[float, float]:
    """Return the median CPU seconds of this thread per round: while workers compute, and from the first reply on."""
    log, transport = RoundLog(telemetry, "a"), Busy(ranks, shards)
    meanwhile, after = [], []
    for _ in range(count):
        plain = time.thread_time()
        results(ranks, shards)  # what making the replies takes, which no driver does
        start = time.thread_time()
        plain = start - plain
        for _ in log.watch(transport.map, None):  # type: ignore[arg-type] # nothing runs
            pass
        log.folded()
        log.estimated(1e-3)
        meanwhile.append(max(transport.first - start - plain, 0.0))
        after.append(time.thread_time() - transport.first)
    return statistics.median(meanwhile), statistics.median(after)


def rounds() -> None:
    """Print the driver's CPU time per round, and its shares of a round of 20 ms."""
    for ranks, shards in ((1, 1), (2, 8), (8, 16), (64, 64)):
        with tempfile.TemporaryDirectory() as folder:
            before, kept = per_round(ranks, shards, None)
            meanwhile, after = per_round(ranks, shards, Telemetry(Path(folder) / "run.jsonl"))
        total = meanwhile + after
        print(
            f"{ranks:3d} ranks, no file: {(before + kept) * 1e6:4.0f} µs a round; with a file: {after * 1e6:3.0f} µs "
            f"once replies arrive ({after / ROUND:.2%} of 20 ms), {meanwhile * 1e6:5.0f} µs while workers compute "
            f"({total / ROUND:.2%} of a core in all, {total / ROUND / ranks:.2%} of what the ranks compute)"
        )


def main() -> None:
    """Print the figures."""
    records()
    rounds()


if __name__ == "__main__":
    main()
