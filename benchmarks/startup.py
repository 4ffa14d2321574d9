"""What an import and a pool cost, against ``import numpy``."""

from __future__ import annotations

from processes import Used, median, run, table

NUMPY = "import numpy"
PLANNER = "import mixle.utils.parallel.planner"
POOL = """
import time
from mixle.stats import GaussianEstimator
from mixle.utils.parallel.planner import encoded_data
from mixle.stats import GaussianDistribution
model = GaussianDistribution(0.0, 1.0)
began = time.perf_counter()
with encoded_data([float(i) for i in range(64)], GaussianEstimator(), backend="mp", num_workers={n}) as data:
    data.pysp_seq_log_density_sum(model)
    print(time.perf_counter() - began)
"""


def _cpu(samples: list[Used]) -> float:
    return median([sample.cpu for sample in samples])


def imports(repeats: int) -> None:
    """Print the cost of importing the planner."""
    base, ours = [], []
    for _ in range(repeats):
        base.append(run("-c", NUMPY))
        ours.append(run("-c", PLANNER))
    rows = [
        (name, f"{1000 * _cpu(samples):.0f}", f"{_cpu(samples) / _cpu(base):.2f}", f"{samples[0].rss_mb:.0f}")
        for name, samples in ((NUMPY, base), (PLANNER, ours))
    ]
    table("Imports", ("", "CPU ms", "ratio", "MB resident"), rows)


def pools(repeats: int) -> None:
    """Print the time until pools of 2 and 8 workers have answered, from nothing and from a running driver."""
    base = []
    taken: dict[int, list[Used]] = {2: [], 8: []}
    for _ in range(repeats):
        base.append(run("-c", NUMPY))
        for n, samples in taken.items():
            samples.append(run("-c", POOL.format(n=n)))
    numpy_cpu, numpy_wall = _cpu(base), median([sample.wall for sample in base])
    rows = [("import numpy", f"{1000 * numpy_cpu:.0f}", "1.00", f"{1000 * numpy_wall:.0f}", "1.00", "")]
    for n, samples in taken.items():
        wall, inner = median([s.wall for s in samples]), median([float(s.out.split()[-1]) for s in samples])
        rows.append(
            (
                f"{n} workers have answered",
                f"{1000 * _cpu(samples):.0f}",
                f"{_cpu(samples) / numpy_cpu:.2f}",
                f"{1000 * wall:.0f}",
                f"{wall / numpy_wall:.2f}",
                f"{1000 * inner:.0f} ({inner / numpy_cpu:.2f})",
            )
        )
    head = (
        "fresh interpreter until",
        "CPU ms",
        "ratio",
        "wall ms",
        "ratio",
        "of it the pool, ms (against numpy's CPU)",
    )
    table("Pools", head, rows)
