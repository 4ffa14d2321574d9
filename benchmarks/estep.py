"""EM iterations against the yardstick, in alternating fresh processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from processes import HERE, median, run_json, table

IMPLEMENTATIONS = {"W1": "np1", "W2": "npq1", "W3": "np1", "W6": "np1"}


def estep(yardstick: Path, workloads: list[str], repeats: int) -> None:
    """Print the ratios of each workload."""
    rows: list[tuple[str, ...]] = []
    encodes: list[tuple[str, ...]] = []
    for name in workloads:
        theirs: list[dict[str, Any]] = []
        ours: list[dict[str, Any]] = []
        limit = (yardstick / "bench_limit.py", "--workload", name, "--impl", IMPLEMENTATIONS[name], "--reps", 5)
        child = (HERE / "estep_child.py", "--yardstick", yardstick, "--workload", name)
        for _ in range(repeats):
            theirs.append(run_json(*limit))
            ours.append(run_json(*child))
        cpu, limit_cpu = median([o["cpu"] for o in ours]), median([t["iter"]["cpu"] for t in theirs])
        apart = max(abs(a - b) / abs(b) for a, b in zip(ours[0]["lls"], theirs[0]["lls"], strict=True))
        rows.append(
            (
                name,
                f"{cpu:.4f}",
                f"{limit_cpu:.4f} ({IMPLEMENTATIONS[name]})",
                f"{cpu / limit_cpu:.2f}",
                f"{median([o['row_bytes'] for o in ours]):.1f}",
                f"{median([o['beyond_mb'] for o in ours]):.1f}",
                f"{apart:.0e}",
            )
        )
        if "encode" in theirs[0]:
            ours_s, theirs_s = median([o["encode"] for o in ours]), median([t["encode"] for t in theirs])
            encodes.append((name, f"{ours_s:.3f}", f"{theirs_s:.3f}", f"{ours_s / theirs_s:.2f}"))
    head = ("", "ours, CPU s", "yardstick, CPU s", "ratio", "bytes/row", "MiB beyond data", "log-lik. apart (rel.)")
    table("One EM iteration", head, rows)
    if encodes:
        table("Encoding of tuples", ("", "ours, s", "yardstick, s", "ratio"), encodes)


def precisions(yardstick: Path, workloads: list[str], repeats: int) -> None:
    """Print CPU seconds of an EM iteration in float32 and in float64, and how far the log-likelihoods are apart."""
    rows: list[tuple[str, ...]] = []
    for name in workloads:
        found: dict[str, list[dict[str, Any]]] = {"float64": [], "float32": []}
        child = (HERE / "estep_child.py", "--yardstick", yardstick, "--workload", name)
        for _ in range(repeats):
            for precision, runs in found.items():
                runs.append(run_json(*child, "--precision", precision))
        wide, narrow = (median([run["cpu"] for run in found[precision]]) for precision in found)
        scores = zip(found["float32"][0]["lls"], found["float64"][0]["lls"], strict=True)
        apart = max(abs(a - b) / abs(b) for a, b in scores)
        rows.append((name, f"{narrow:.4f}", f"{wide:.4f}", f"{narrow / wide:.2f}", f"{apart:.0e}"))
    table("One EM iteration", ("", "float32, CPU s", "float64, CPU s", "ratio", "log-lik. apart (rel.)"), rows)
