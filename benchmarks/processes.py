"""Run fresh processes and read their CPU time, wall time, memory and JSON lines."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def environment() -> dict[str, str]:
    """Return the environment of both sides: one BLAS thread, the BLAS free to choose its kernels."""
    names = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PERF_WAIT": "3"}


@dataclass(frozen=True)
class Used:
    """What one process and the children it waited for took."""

    cpu: float
    wall: float
    rss_mb: float
    out: str


def run(*words: object) -> Used:
    """Run the interpreter with arguments; fail loudly if it fails."""
    command = [sys.executable, *map(str, words)]
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return Used(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / unit, out)


def run_json(*words: object) -> dict[str, Any]:
    """Run the interpreter and return the JSON object of its last line."""
    line: dict[str, Any] = json.loads(run(*words).out.strip().splitlines()[-1])
    return line


def median(values: list[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a Markdown table."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    print(f"\n## {title}\n")
    for row in (head, tuple("-" * width for width in widths), *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
