"""What audits cost: CPU seconds of a round without checks, with them, and with recomputations at several rates.

Run ``python benchmarks/audit.py --yardstick FOLDER [--only W1] [--turns N]``; prints a Markdown table.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from mixle.utils.parallel.sdc_audit import AuditedMPEncodedData
from processes import table
from resilience import cpu_of_tree
from workloads import common, diagonal, mixed

RATES = {"without checks": 0.0, "invariants and digests": 0.0, "rate 0.1": 0.1, "rate 0.5": 0.5, "rate 1": 1.0}
ROUNDS = 10


def opened(rows: Any, estimator: Any) -> dict[str, Any]:
    """Return a pool per kind, all of 20 shards on two workers."""
    handles = {}
    for name, rate in RATES.items():
        handles[name] = AuditedMPEncodedData(rows, estimator, num_workers=2, num_shards=20, audit_rate=rate)
        handles[name].transport.invariants = name != "without checks"
    return handles


def measure(name: str, rows: Any, model: Any, turns: int) -> None:
    """Print the table of one workload: medians over turns, ratios within a turn."""
    estimator = model.estimator()
    handles = opened(rows, estimator)
    found: dict[str, list[float]] = {kind: [] for kind in handles}
    try:
        for kind, handle in handles.items():  # second workers encode what they audit once
            for _ in range(30 if "0.1" in kind else 3):
                handle.pysp_seq_estimate(estimator, model)
        for _ in range(turns):
            for kind, handle in handles.items():
                before = cpu_of_tree()
                for _ in range(ROUNDS):
                    handle.pysp_seq_estimate(estimator, model)
                found[kind].append((cpu_of_tree() - before) / ROUNDS)
    finally:
        for handle in handles.values():
            handle.close()
    base = found["without checks"]
    lines = []
    for kind, times in found.items():
        ratios = [one / other for one, other in zip(times, base, strict=True)]
        lines.append(
            (
                kind,
                f"{statistics.median(times) * 1e3:.1f}",
                f"{statistics.median(ratios):.3f}",
                f"{min(times) / min(base):.3f}",
            )
        )
    table(f"{name}, 20 shards, two workers", ("kind", "CPU ms per round", "median of ratios", "ratio of minima"), lines)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--yardstick", type=Path, required=True)
    parser.add_argument("--only", choices=["W1", "W3"])
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    yardstick = common(options.yardstick)
    for name, make in {"W1": diagonal, "W3": mixed}.items():
        if options.only in {None, name}:
            measure(name, *make(yardstick), options.turns)


if __name__ == "__main__":
    main()
