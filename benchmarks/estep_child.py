"""One process of ours: encode a workload, run EM iterations, print one JSON line."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from mixle.utils.parallel.planner import LocalEncodedData
from workloads import WORKLOADS, common


def main() -> None:
    """Measure one workload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--yardstick", type=Path, required=True)
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--precision", choices=("float64", "float32"), default="float64")
    arguments = parser.parse_args()
    source = common(arguments.yardstick)
    rows, model = WORKLOADS[arguments.workload](source)
    estimator = model.estimator()
    encoder = model.dist_to_encoder()
    began = time.perf_counter()
    payload = encoder.seq_encode(rows)
    encode = time.perf_counter() - began
    encoded = encoder.nbytes(payload)
    del payload
    warm = LocalEncodedData(rows[:64], estimator=estimator)  # modules are loaded before memory is measured
    warm.pysp_seq_estimate(estimator, model)
    handle = LocalEncodedData(rows, estimator=estimator, precision=arguments.precision)
    resident = source.rss_mb()
    source.reset_peak()
    scores = [handle.pysp_seq_log_density_sum(model)[1]]
    current = [handle.pysp_seq_estimate(estimator, model)]
    scores.append(handle.pysp_seq_log_density_sum(current[0])[1])
    beyond = source.peak_mb() - resident

    def step() -> None:
        current[0] = handle.pysp_seq_estimate(estimator, current[0])

    source.wait_quiet()
    times = source.summ(source.timeit(step, arguments.reps, 1))
    print(
        json.dumps(
            {
                "cpu": times["cpu"],
                "encode": encode,
                "row_bytes": encoded / len(rows),
                "beyond_mb": beyond,
                "lls": scores,
            }
        )
    )


if __name__ == "__main__":
    main()
