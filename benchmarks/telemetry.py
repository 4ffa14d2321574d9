"""What telemetry costs: records written and read back, the driver's time per round, and how long real rounds last."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from mixle import stats
from mixle.telemetry import Telemetry
from mixle.utils.parallel.folding.tasks import Result, Task
from mixle.utils.parallel.observing.rounds import RoundLog
from mixle.utils.parallel.planner import encoded_data

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


def per_round(ranks: int, shards: int, telemetry: Telemetry | None, count: int = 100) -> tuple[float, float]:
    """Return the mean CPU seconds of this thread per round: while workers compute, and from the first reply on.

    Records of several short rounds are written at once: such a round pays for the others.
    """
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
        time.sleep(ROUND)
    log.close()
    return statistics.fmean(meanwhile), statistics.fmean(after)


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


class Mute(RoundLog):
    """A log that notes nothing: what a round takes without records."""

    def watch(self, run: Callable[[Task], Iterable[Result]], task: Task) -> Iterator[Result]:
        """Yield the results as they come."""
        yield from run(task)

    def folded(self) -> None:
        """Note nothing."""

    def estimated(self, seconds: float) -> None:
        """Note nothing."""


def middle(values: np.ndarray) -> float:
    """Return the mean without the highest and the lowest two in a hundred: other processes hold some rounds up.

    A median would not see what a write costs, since one round in many pays for it.
    """
    cut = values.size // 50
    return float(np.sort(values)[cut : values.size - cut].mean())


def lengthening(workers: int, rows: int, count: int) -> None:
    """Print by how much records lengthen the rounds of a pool: three logs take turns on the rounds of one fit."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(rows, 8)) + rng.integers(0, 4, size=(rows, 1))
    start = [stats.DiagonalGaussianDistribution(np.full(8, float(k % 4)), np.ones(8)) for k in range(16)]
    model = stats.MixtureDistribution(start, np.full(16, 1 / 16))
    estimator = model.estimator()
    with (
        tempfile.TemporaryDirectory() as folder,
        Telemetry(Path(folder) / "run.jsonl") as telemetry,
        encoded_data(data, model=model, backend="mp", num_workers=workers) as handle,
    ):
        logs = {"none": Mute(), "records": RoundLog(), "file": RoundLog(telemetry, "a")}
        took: dict[str, list[tuple[float, float, float]]] = {name: [] for name in logs}
        for turn in range(-10, count):
            for name in sorted(logs, key=lambda name: (turn * 7 + len(name)) % 3):
                handle._log = logs[name]  # noqa: SLF001 - no public way to note nothing
                marks = time.perf_counter(), time.process_time()
                model = handle.pysp_seq_estimate(estimator, model)
                if turn >= 0:
                    took[name].append((time.perf_counter() - marks[0], time.process_time() - marks[1], turn))
        pairs = {name: np.array(took[name])[:, :2] - np.array(took["none"])[:, :2] for name in ("records", "file")}
    usual = statistics.median(wall for wall, _, _ in took["none"])
    spent = usual * min(workers, (os.cpu_count() or 1))
    for name, found in pairs.items():
        wall, cpu = middle(found[:, 0]), np.mean(found[:, 1])
        again = [middle(rng.choice(found[:, 0], count)) for _ in range(500)]
        low, high = np.quantile(again, [0.025, 0.975]) / usual
        print(
            f"{workers} workers, rounds of {usual * 1e3:.1f} ms, {name:7s}: {wall / usual:+.2%} wall (95 %: {low:+.2%} "
            f"to {high:+.2%}), {cpu * 1e6:+.0f} µs of the driver's CPU ({cpu / spent:+.2%} of what a round takes)"
        )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["records", "rounds", "fits"])
    parser.add_argument("--count", type=int, default=1000, help="rounds of each kind in fits")
    options = parser.parse_args()
    if options.only in (None, "records"):
        records()
    if options.only in (None, "rounds"):
        rounds()
    if options.only in (None, "fits"):
        for workers, rows in ((1, 256_000), (2, 512_000), (8, 512_000)):
            lengthening(workers, rows, options.count)


if __name__ == "__main__":
    main()
