"""Wall time of rounds on a pool, in one process; prints one JSON line."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from mixle.stats import GaussianDistribution, MixtureDistribution
from mixle.utils.parallel.planner import encoded_data
from workloads import common, mixed, own_mixed


def rounds(rows: list[Any], model: Any, workers: int, count: int) -> list[float]:
    """Return the wall time of each of `count` EM iterations on a pool."""
    estimator, times = model.estimator(), []
    with encoded_data(rows, estimator, backend="mp", num_workers=workers, num_shards=2) as data:
        for _ in range(count):
            began = time.perf_counter()
            model = data.pysp_seq_estimate(estimator, model)
            times.append(time.perf_counter() - began)
    return times


def main() -> None:
    """Measure tiny rounds on two workers, then large ones on one and on two."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--yardstick", type=Path)
    folder = parser.parse_args().yardstick
    tiny = MixtureDistribution([GaussianDistribution(0.0, 1.0), GaussianDistribution(5.0, 1.0)], [0.5, 0.5])
    latency = rounds([float(i % 7) for i in range(100)], tiny, 2, 300)[20:]
    rows, model = mixed(common(folder)) if folder else own_mixed()
    large = {workers: statistics.median(rounds(rows, model, workers, 15)[3:]) for workers in (1, 2)}
    tail = statistics.quantiles(latency, n=100)[98]
    print(json.dumps({"tiny": statistics.median(latency), "tiny_p99": tail, "one": large[1], "two": large[2]}))


if __name__ == "__main__":
    main()
