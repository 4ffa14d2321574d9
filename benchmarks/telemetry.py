"""Write 100,000 telemetry records to a file and read them back: wall seconds of each, and whether the cost grows."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from mixle.telemetry import Telemetry

COUNT = 100_000
FEATURES = {"rank": 1, "round": 3, "e_step_seconds": 0.5, "n_obs": 1000, "bytes_processed": 8000}


def main() -> None:
    """Print the figures."""
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


if __name__ == "__main__":
    main()
