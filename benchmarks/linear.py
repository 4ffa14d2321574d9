"""What an E-step costs as rows and components grow: ``python benchmarks/linear.py``.

Processor seconds of the E-step on one shard, one thread, of a mixed table of 40 columns (like W6) and of rows of 8
numbers under diagonal Gaussians. All sizes are measured in turns. Printed are the medians, the slope of a straight line
through the logarithms of all sizes and of the last two (1 is linear, less has a part that does not grow), and the line
``fixed + each * size`` with the smallest relative errors. ``--draw`` writes docs/pictures/linear.svg.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.planner import encoded_data
from processes import table
from workloads import own_vectors, own_wide

Make = Callable[[int, int], tuple[Any, Any]]
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "linear.svg"
TABLES: dict[str, Make] = {"mixed table, 40 columns": own_wide, "Gaussians, 8 columns": own_vectors}
ROWS, COMPONENTS = (10_000, 31_623, 100_000, 316_228, 1_000_000), (4, 8, 16, 32, 64)
FIXED_ROWS, FIXED_COMPONENTS = 100_000, 16
LEAST = 0.1
COLOURS, GREY, AXIS = ("#3b82c4", "#d9772b"), "#7d858d", "#9aa0a6"
WIDTH, HEIGHT = 370, 250

Line = dict[int, float]


def handle_of(make: Make, n: int, k: int) -> tuple[Any, Accumulate]:
    """Return encoded rows and the task of an E-step."""
    rows, model = make(n, k)
    estimator = model.estimator()
    return encoded_data(rows, estimator, num_shards=1), Accumulate(estimator, model)


def once(handle: Any, task: Accumulate) -> float:
    """Return the processor seconds of one E-step, the mean of as many as take a tenth of a second."""
    count, start = 0, time.process_time()
    while (took := time.process_time() - start) < LEAST:
        list(handle.transport.map(task))
        count += 1
    return took / count


def measured(make: Make, sizes: list[tuple[int, int]], turns: int) -> list[float]:
    """Return the median seconds of an E-step for each (rows, components), measured in turns."""
    cases = [handle_of(make, n, k) for n, k in sizes]
    try:
        for handle, task in cases:
            list(handle.transport.map(task))
        found = [[once(*case) for case in cases] for _ in range(turns)]
    finally:
        for handle, _ in cases:
            handle.close()
    return [statistics.median(times) for times in zip(*found, strict=True)]


def slope(line: Line, last: int = 0) -> float:
    """Return the slope through the logarithms of the last (0: of all) sizes and seconds."""
    sizes, seconds = np.log(list(line)), np.log(list(line.values()))
    return float(np.polyfit(sizes[-last:], seconds[-last:], 1)[0])


def straight(line: Line) -> tuple[float, float, float]:
    """Return (fixed, each, largest relative error) of ``fixed + each * size``."""
    sizes, seconds = np.array(list(line), float), np.array(list(line.values()))
    terms = np.stack([np.ones(len(sizes)), sizes], axis=1)
    fixed, each = np.linalg.lstsq(terms / seconds[:, None], np.ones(len(sizes)))[0]
    return float(fixed), float(each), float(np.abs((fixed + each * sizes) / seconds - 1.0).max())


def report(title: str, lines: dict[str, Line]) -> None:
    """Print the seconds of each size, the slopes and the straight line."""
    sizes = list(next(iter(lines.values())))
    head = ("ms", *(f"{size:,}" for size in sizes), "slope", "of the last two", "fixed + each", "errors up to")
    rows = []
    for name, line in lines.items():
        shown = [f"{1000 * seconds:.3g}" for seconds in line.values()]
        fixed, each, error = straight(line)
        fit = f"{1000 * fixed:.2g} + {1000 * each:.2g}"
        rows.append((name, *shown, f"{slope(line):.2f}", f"{slope(line, 2):.2f}", fit, f"{error:.0%}"))
    table(title, head, rows)


def panel(title: str, lines: dict[str, Line]) -> list[str]:
    """Draw seconds against sizes, both logarithmic, and the straight line of each, which is bent on such axes."""
    sizes = list(next(iter(lines.values())))
    seconds = [s for line in lines.values() for s in line.values()]
    low, high = np.floor(np.log10(min(seconds))), np.ceil(np.log10(max(seconds)))
    left, right, top, bottom = 58.0, WIDTH - 30.0, 30.0, HEIGHT - 40.0
    across = np.log(sizes[-1] / sizes[0])

    def x(size: float) -> float:
        return round(left + (right - left) * float(np.log(size / sizes[0]) / across), 1)

    def y(second: float) -> float:
        return round(bottom - (bottom - top) * float((np.log10(second) - low) / (high - low)), 1)

    parts = [f'<text x="{(left + right) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{title}</text>']
    for power in range(int(low), int(high) + 1):
        level, shown = y(10.0**power), f"{10.0 ** (power + 3):g} ms" if power < 0 else f"{10.0**power:g} s"
        parts.append(f'<line x1="{left}" y1="{level}" x2="{right}" y2="{level}" stroke="{AXIS}" stroke-opacity="0.4"/>')
        parts.append(f'<text x="{left - 6}" y="{level + 4}" font-size="10" text-anchor="end">{shown}</text>')
    named = [size for size in sizes if sizes[-1] < 1000 or str(size).strip("0") == "1"]
    place = f'y="{bottom + 17}" font-size="10" text-anchor="middle"'
    parts += [f'<text x="{x(size)}" {place}>{size:,}</text>' for size in named]
    for i, (name, line) in enumerate(lines.items()):
        fixed, each, _ = straight(line)
        grid = np.geomspace(sizes[0], sizes[-1], 60)
        joined = " ".join(f"{x(size)},{y(fixed + each * size)}" for size in grid)
        parts.append(f'<polyline points="{joined}" fill="none" stroke="{COLOURS[i]}" stroke-width="1.6"/>')
        parts += [f'<circle cx="{x(n)}" cy="{y(s)}" r="3.2" fill="{COLOURS[i]}"/>' for n, s in line.items()]
        parts.append(f'<text x="{left + 160 * i}" y="14" fill="{COLOURS[i]}">{name}</text>')
    return parts


def drawing(panels: dict[str, dict[str, Line]]) -> str:
    """Return the panels side by side as SVG, readable on white and on black."""
    size = f'viewBox="0 0 {WIDTH * len(panels)} {HEIGHT}" width="{WIDTH * len(panels)}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" fill="{GREY}">',
        "<title>Processor time of an E-step against rows and against components, both axes logarithmic</title>",
    ]
    for i, (title, lines) in enumerate(panels.items()):
        parts += [f'<g transform="translate({i * WIDTH} 0)">', *panel(title, lines), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Measure, print, and draw on demand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, help="measurements of each size (default: 5)")
    parser.add_argument("--draw", action="store_true", help="write docs/pictures/linear.svg")
    arguments = parser.parse_args()
    by_rows: dict[str, Line] = {}
    by_components: dict[str, Line] = {}
    for name, make in TABLES.items():
        rows = [(n, FIXED_COMPONENTS) for n in ROWS]
        by_rows[name] = dict(zip(ROWS, measured(make, rows, arguments.turns), strict=True))
        components = [(FIXED_ROWS, k) for k in COMPONENTS]
        by_components[name] = dict(zip(COMPONENTS, measured(make, components, arguments.turns), strict=True))
    report(f"Rows, {FIXED_COMPONENTS} components", by_rows)
    report(f"Components, {FIXED_ROWS:,} rows", by_components)
    if arguments.draw:
        panels = {f"rows, {FIXED_COMPONENTS} components": by_rows, f"components, {FIXED_ROWS:,} rows": by_components}
        PICTURE.write_text(drawing(panels), encoding="utf-8")


if __name__ == "__main__":
    main()
