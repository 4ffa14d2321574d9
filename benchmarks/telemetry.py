"""What telemetry costs: 100,000 records written and read back, and the driver's time per round of a fit."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from mixle.telemetry import Telemetry
from mixle.utils.parallel.folding.tasks import Result
from mixle.utils.parallel.observing.rounds import RoundLog

COUNT = 100_000
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


def per_round(ranks: int, shards: int, telemetry: Telemetry | None, rounds: int = 200) -> float:
    """Return the median CPU seconds of this thread that the log of one round takes."""
    log, spent = RoundLog(telemetry, "a"), []
    for _ in range(rounds):
        made = results(ranks, shards)
        start = time.thread_time()
        for _ in log.watch(lambda _, made=made: made, None):  # type: ignore[misc,arg-type] # nothing runs
            pass
        log.folded()
        log.estimated(1e-3)
        spent.append(time.thread_time() - start)
    return statistics.median(spent)


def rounds() -> None:
    """Print the driver's CPU time per round, without and with a file, and its share of a round of 20 ms."""
    for ranks, shards in ((1, 1), (2, 8), (8, 16), (64, 64)):
        with tempfile.TemporaryDirectory() as folder:
            kept, sent = per_round(ranks, shards, None), per_round(ranks, shards, Telemetry(Path(folder) / "run.jsonl"))
        print(
            f"{ranks:3d} ranks: {kept * 1e6:6.0f} µs a round, {sent * 1e6:6.0f} µs with a file "
            f"({sent / 0.02:.2%} of 20 ms of one core; most of it while workers compute)"
        )


def main() -> None:
    """Print the figures."""
    records()
    rounds()


if __name__ == "__main__":
    main()
