"""Measure this library: see README.md in this folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from estep import IMPLEMENTATIONS, estep, precisions
from processes import HERE, median, run_json, table
from startup import imports, pools


def rounds(yardstick: Path | None, repeats: int) -> None:
    """Print the latency of a round and the gain from a second worker."""
    words = ("--yardstick", yardstick) if yardstick else ()
    runs = [run_json(HERE / "rounds_child.py", *words) for _ in range(repeats)]
    tiny, tail, one, two = (median([r[key] for r in runs]) for key in ("tiny", "tiny_p99", "one", "two"))
    rows = [
        ("round on 100 rows, two workers", f"{1000 * tiny:.2f} ms (p99 {1000 * tail:.2f})", ""),
        ("EM iteration on 200,000 rows, one worker", f"{1000 * one:.1f} ms", "1.00"),
        ("the same, two workers", f"{1000 * two:.1f} ms", f"{two / one:.2f}"),
    ]
    table("Rounds (wall time)", ("", "median", "ratio"), rows)


def main() -> None:
    """Run the measurements that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ("estep", "imports", "pools", "rounds")
    parser.add_argument("what", nargs="*", help=f"any of {', '.join(names)} (default: all)")
    parser.add_argument("--yardstick", type=Path, help="folder with bench_limit.py and common.py")
    parser.add_argument("--workload", choices=IMPLEMENTATIONS, action="append", help="W1, W2, W3, W6 (default: all)")
    parser.add_argument("--precision", choices=("float32",), help="compare E-steps in it with those of float64 (estep)")
    parser.add_argument("--repeats", type=int, default=3, help="alternations of both sides (default: 3)")
    arguments = parser.parse_args()
    wanted = arguments.what or list(names)
    if unknown := set(wanted) - set(names):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    if "estep" in arguments.what and not arguments.yardstick:
        parser.error("estep compares with a yardstick: add --yardstick FOLDER")
    folder = arguments.yardstick.resolve() if arguments.yardstick else None
    if "estep" in wanted:
        if folder:
            measure = precisions if arguments.precision else estep
            measure(folder, arguments.workload or list(IMPLEMENTATIONS), arguments.repeats)
        else:
            print("estep: not measured, it needs --yardstick FOLDER")
    if "imports" in wanted:
        imports(5 * arguments.repeats)
    if "pools" in wanted:
        pools(3 * arguments.repeats)
    if "rounds" in wanted:
        rounds(folder, arguments.repeats)


if __name__ == "__main__":
    main()
