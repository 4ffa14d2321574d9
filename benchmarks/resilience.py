"""What resilience costs: memory, deaths seen, stops told, a lost worker, the price without faults, pools in turn.

Run ``python benchmarks/resilience.py [--yardstick FOLDER] [--cycles N] [--only NAME]``; prints Markdown tables.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from mixle.stats import (
    CategoricalEstimator,
    CompositeEstimator,
    DiagonalGaussianEstimator,
    GaussianEstimator,
    MixtureEstimator,
    PoissonEstimator,
)
from mixle.testing import ChaosPlan
from mixle.utils.parallel.folding.tasks import Apply
from mixle.utils.parallel.multiprocessing import MPEncodedData
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData
from processes import table
from workloads import common, mixed, own_mixed

MS = 1e3


def nap(shard: Any, seconds: float) -> int:
    """Sleep; a death is then seen while the worker is at work."""
    time.sleep(seconds)
    return int(shard.id)


def spread(times: list[float]) -> tuple[str, str, str]:
    """Return median, 99th percentile and maximum in milliseconds."""
    ordered = sorted(times)
    tail = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return tuple(f"{value * MS:.2f}" for value in (statistics.median(ordered), tail, ordered[-1]))  # type: ignore[return-value]  # three of them


def seen(handle: Any, number: int, count: int) -> list[float]:
    """Return the times from a signal to a busy worker until the driver gives its shard away."""
    times = []
    for turn in range(count):
        policy, worker = handle.transport, turn % handle.num_workers
        transport, process = policy.inner, policy.processes()[worker]
        exchange = transport.begin(Apply(nap, (3.0 if number == signal.SIGSTOP else 0.05,)), policy.residence())
        time.sleep(0.01)
        began = time.perf_counter()
        os.kill(process.pid, number)
        while not hasattr(event := exchange.next(), "told"):
            assert event is not None
        times.append(time.perf_counter() - began)
        event.told()
        exchange.close()
        transport.start(range(handle.num_workers))
    return times


def deaths(_: argparse.Namespace) -> None:
    """Measure how soon deaths and stops are told."""
    rows = [float(i % 7) for i in range(100)]
    with ResilientMPEncodedData(rows, GaussianEstimator(), num_workers=2) as handle:
        killed = seen(handle, signal.SIGKILL, 300)
        stopped = seen(handle, signal.SIGSTOP, 5)
    head = ("event", "n", "median ms", "p99 ms", "max ms")
    table(
        "From the signal until the shard is given away",
        head,
        [("SIGKILL", "300", *spread(killed)), ("SIGSTOP", "5", *spread(stopped))],
    )


def workload(options: argparse.Namespace) -> tuple[list[Any], Any]:
    """Return rows and model of W3, or a table like it."""
    return mixed(common(options.yardstick)) if options.yardstick else own_mixed()


def timed(call: Callable[[], Any]) -> float:
    """Return the wall time of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def recovery(options: argparse.Namespace) -> None:
    """Measure a round that loses one of four workers against one that loses none."""
    rows, model = workload(options)
    estimator = model.estimator()
    clean, lossy, after, own = [], [], [], []
    handle: Any
    with ResilientMPEncodedData(rows, estimator, num_workers=4, max_retries=10**6) as handle:
        handle.pysp_seq_estimate(estimator, model)
        wanted = handle.pysp_seq_estimate(estimator, model).digest()
        for turn in range(12):
            clean.append(timed(lambda: handle.pysp_seq_estimate(estimator, model)))
            victim = turn % 4
            handle.arm_kill(partial(end, victim))
            began = time.perf_counter()
            digest = handle.pysp_seq_estimate(estimator, model).digest()
            lossy.append(time.perf_counter() - began)
            assert digest == wanted
            assert handle.last_round_failed_workers == {victim}
            after.append(timed(lambda: handle.pysp_seq_estimate(estimator, model)))
            # a worker encodes a shard that lives elsewhere for this once
            own.append(timed(partial(handle.transport.run, Apply(rows_of), (victim + 1) % 4, victim)))
    head = ("round", "median ms", "p99 ms", "max ms")
    pairs = [one - other for one, other in zip(lossy, clean, strict=True)]
    lines = [("clean", clean), ("one of four lost", lossy), ("difference", pairs), ("the round after", after)]
    lines.append(("encoding a shard alone", own))
    table("A lost worker", head, [(name, *spread(times)) for name, times in lines])


def end(victim: int, worker: int, process: Any) -> None:
    """Kill one worker."""
    if worker == victim:
        process.kill()


def rows_of(shard: Any) -> int:
    """Return the number of rows of a shard."""
    return int(shard.rows)


def cpu_of_tree() -> float:
    """Return the CPU seconds of this process and its children."""
    total = time.process_time()
    for child in psutil.Process().children(recursive=True):
        for task in Path(f"/proc/{child.pid}/task").glob("*/schedstat"):
            total += int(task.read_text().split()[0]) / 1e9
    return total


def overhead(options: argparse.Namespace) -> None:
    """Measure rounds of the plain pool and of the resilient one in turn."""
    rows, model = workload(options)
    estimator = model.estimator()
    walls: dict[str, list[float]] = {}
    cpus: dict[str, list[float]] = {}
    with (
        MPEncodedData(rows, estimator, num_workers=2) as plain,
        ResilientMPEncodedData(rows, estimator, num_workers=2) as resilient,
    ):
        pairs = [("plain", plain), ("resilient", resilient)]
        for turn in range(options.rounds + 3):
            for name, handle in pairs if turn % 2 else pairs[::-1]:
                cpu, wall = cpu_of_tree(), time.perf_counter()
                handle.pysp_seq_estimate(estimator, model)
                wall, cpu = time.perf_counter() - wall, cpu_of_tree() - cpu
                if turn >= 3:
                    walls.setdefault(name, []).append(wall)
                    cpus.setdefault(name, []).append(cpu)
    lines = []
    for word, found in (("wall", walls), ("CPU", cpus)):
        ratios = [one / other for one, other in zip(found["resilient"], found["plain"], strict=True)]
        medians = [statistics.median(found[name]) for name in ("plain", "resilient")]
        lines.append(
            (
                word,
                *(f"{m * MS:.2f}" for m in medians),
                f"{statistics.median(ratios):.4f}",
                f"{medians[1] / medians[0]:.4f}",
            )
        )
    head = ("W3, two workers", "plain ms", "resilient ms", "median of ratios", "ratio of medians")
    table(f"The price without faults ({options.rounds} rounds in turn)", head, lines)


def cycles(options: argparse.Namespace) -> None:
    """Open and close pools, a worker killed in every fifth, and look at what grows."""
    rows, estimator = [float(i) for i in range(20)], GaussianEstimator()

    def facts() -> tuple[int, ...]:
        gc.collect()
        own = psutil.Process()
        shm = len(list(Path("/dev/shm").iterdir()))
        return (
            own.num_fds(),
            threading.active_count(),
            len(own.children(recursive=True)),
            shm,
            own.memory_info().rss >> 10,
        )

    times, first = [], facts()
    for turn in range(options.cycles):
        began = time.perf_counter()
        with ResilientMPEncodedData(rows, estimator, num_workers=2) as handle:
            if turn % 5 == 0:
                handle.arm_kill(lambda worker, process: process.kill() if worker else None)
            assert handle.pysp_seq_estimate(estimator, None).mu == 9.5
        times.append(time.perf_counter() - began)
        if turn == 20:
            first = facts()
    last = facts()
    head = ("", "descriptors", "threads", "processes", "segments", "RSS KiB")
    lines = [("after 20", *map(str, first)), (f"after {options.cycles}", *map(str, last))]
    table(f"Pools opened and closed ({spread(times)[0]} ms each)", head, lines)


def proportional(pid: int) -> int:
    """Return the proportional set size of a process in bytes."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return 0


def held_by_all() -> int:
    """Return the proportional memory of this process and all workers."""
    gc.collect()
    own = psutil.Process()
    return sum(proportional(pid) for pid in (own.pid, *(child.pid for child in own.children(recursive=True))))


def encoded_bytes(shard: Any) -> int:
    """Return the bytes of a shard as its encoder counts them."""
    return int(shard.nbytes)


def kept(rows: Any, estimator: Any, workers: int, shards: int | None) -> tuple[Any, int]:
    """Return a pool that has drawn a start and made two steps, and the bytes that its rows take raw and encoded."""
    handle: Any = ResilientMPEncodedData(rows, estimator, num_workers=workers, num_shards=shards)
    model = handle.pysp_seq_initialize(estimator, 1, 0.01)
    for _ in range(2):
        model = handle.pysp_seq_estimate(estimator, model)
    raw = os.fstat(handle.transport.inner._pool.spool.fd).st_size  # noqa: SLF001 - the file has no name
    return handle, raw + sum(handle.apply(encoded_bytes))


def rows_of_kind(kind: str, count: int) -> tuple[Any, Any]:
    """Return rows and an estimator: a matrix of eight columns, or tuples of mixed types."""
    rng = np.random.RandomState(0)
    if kind == "matrix":
        return rng.normal(size=(count, 8)), MixtureEstimator([DiagonalGaussianEstimator(8)] * 4)
    columns = rng.normal(size=count), rng.randint(6, size=count), rng.poisson(4, size=count)
    rows = [(float(x), "abcdef"[label], int(number)) for x, label, number in zip(*columns, strict=True)]
    families = (GaussianEstimator(), CategoricalEstimator(), PoissonEstimator())
    return rows, MixtureEstimator([CompositeEstimator(families)] * 4)


def memory(_: argparse.Namespace) -> None:
    """Measure the memory of all processes, less what they take without rows, against the rows raw and encoded."""
    lines = []
    cases = (("matrix", 2_000_000, 2), ("matrix", 2_000_000, 4), ("tuples", 2_000_000, 2), ("tuples", 2_000_000, 4))
    for kind, count, workers in cases:
        for shards in (None, 16):
            handle, _ = kept(*rows_of_kind(kind, 1000), workers, shards)
            idle = held_by_all()
            handle.close()
            rows, estimator = rows_of_kind(kind, count)
            handle, need = kept(rows, estimator, workers, shards)
            del rows
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)  # the driver's own rows are the user's
            more = held_by_all() - idle
            handle.close()
            lines.append((kind, f"{count:,}", workers, shards or workers, need >> 20, more >> 20, f"{more / need:.3f}"))
    head = ("rows", "n", "workers", "shards", "raw + encoded MiB", "PSS less idle MiB", "ratio")
    table("Shared rows (at most 1.3)", head, [tuple(map(str, line)) for line in lines])


def stragglers(options: argparse.Namespace) -> None:
    """Measure rounds with one of four workers ten times slower, backed up by the others, against their ideal."""
    rows, estimator = [float(i % 7) for i in range(160)], GaussianEstimator()
    lines = []
    for shards in (4, 8, 16):
        plan = ChaosPlan().delay(0.05).delay(0.45, worker=1)
        with ResilientMPEncodedData(
            rows, estimator, num_workers=4, num_shards=shards, speculate=True, policies=[plan]
        ) as handle:
            model = handle.pysp_seq_estimate(estimator, None)
            times = [timed(partial(handle.pysp_seq_estimate, estimator, model)) for _ in range(options.rounds)]
        ideal = 0.05 * -(-shards // 3)
        middle = statistics.median(times)
        lines.append((str(shards), f"{middle * 1e3:.0f} ms", f"{ideal * 1e3:.0f} ms", f"{middle / ideal:.2f}"))
    table(
        "One of four workers ten times slower, backed up (at most 1.3)",
        ("shards", "median round", "ideal of the other three", "ratio"),
        lines,
    )


PARTS = {
    "stragglers": stragglers,
    "memory": memory,
    "deaths": deaths,
    "recovery": recovery,
    "overhead": overhead,
    "cycles": cycles,
}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--yardstick", type=Path)
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    for name, part in PARTS.items():
        if options.only in {None, name}:
            part(options)


if __name__ == "__main__":
    main()
