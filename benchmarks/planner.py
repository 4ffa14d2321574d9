"""Peak memory of workers, predicted against measured; and planned configurations against a sweep.

``python benchmarks/planner.py memory`` runs 96 cases (family × precision × rows × workers × sub_chunks) and prints
one line each, then the errors. The peak is that of the proportional set size of each worker: the largest reading of
``/proc/<pid>/smaps_rollup``, or the last one and what the kernel's mark of the largest resident set lies above the last
resident set, whichever is more.

``python benchmarks/planner.py sweep`` is described in `sweep`; ``merge`` puts together what either wrote in pieces.

``python benchmarks/planner.py lanes`` measures what an E-step on two threads gains: processor seconds of the busier
thread and of both, and the clock, beside one thread, in turns.
"""

import argparse
import json
import statistics
import sys
import threading
import time
from itertools import product
from pathlib import Path

import numpy as np

import sweep
from mixle import stats
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.planning.forecast import Baseline, forecast, measure_footprint
from mixle.utils.parallel.transports.process import ProcessTransport

RNG = np.random.RandomState(0)


def numbers(n):
    """Numbers, eight Gaussians."""
    return RNG.normal(size=n), stats.MixtureEstimator([stats.GaussianEstimator()] * 8)


def vectors(n):
    """Vectors of eight, sixteen diagonal Gaussians."""
    return RNG.normal(size=(n, 8)), stats.MixtureEstimator([stats.DiagonalGaussianEstimator()] * 16)


def correlated(n):
    """Vectors of four, six full Gaussians."""
    return RNG.normal(size=(n, 4)), stats.MixtureEstimator([stats.MultivariateGaussianEstimator()] * 6)


def counts(n):
    """Whole numbers, four Poissons."""
    return RNG.poisson(4.0, n), stats.MixtureEstimator([stats.PoissonEstimator()] * 4)


def labels(n):
    """Labels as a list of text, four categoricals."""
    rows = RNG.choice(list("abcdefghij"), n).tolist()
    return rows, stats.MixtureEstimator([stats.CategoricalEstimator(pseudo_count=1.0)] * 4)


def records(n):
    """Tuples of a number, a count and a label; four products."""
    columns = RNG.normal(size=n), RNG.poisson(3.0, n), RNG.choice(list("abc"), n)
    label = stats.CategoricalEstimator(pseudo_count=1.0)
    parts = stats.CompositeEstimator((stats.GaussianEstimator(), stats.PoissonEstimator(), label))
    return list(zip(*(c.tolist() for c in columns), strict=True)), stats.MixtureEstimator([parts] * 4)


def single(n):
    """Numbers in single precision, eight Gaussians."""
    rows, estimator = numbers(n)
    return rows.astype(np.float32), estimator


def singles(n):
    """Vectors of eight in single precision, sixteen diagonal Gaussians."""
    rows, estimator = vectors(n)
    return rows.astype(np.float32), estimator


FAMILIES = {f.__name__: f for f in (numbers, single, vectors, singles, correlated, counts, labels, records)}


def smaps(pid):
    """Return the sizes of a process in bytes, by name; empty when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return {}
    return {line.split()[0].rstrip(":"): int(line.split()[1]) * 1024 for line in lines}


def high_water(pid):
    """Return the largest resident set of a process so far, in bytes, as the kernel keeps it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


class Watch(threading.Thread):
    """Reads the proportional set size of processes until told to stop."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.peaks, self.done = pids, dict.fromkeys(pids, 0), threading.Event()

    def run(self):
        """Look until told to stop."""
        while not self.done.is_set():
            self.look()
            self.done.wait(0.001)

    def look(self):
        """Look once."""
        for pid in self.pids:
            self.peaks[pid] = max(self.peaks[pid], smaps(pid).get("Pss", 0))


def measured_peak(rows, estimator, workers, sub_chunks):
    """Return the largest peak of a worker while a pool encodes, starts and takes two steps."""
    transport = ProcessTransport(workers)
    encoder = estimator.accumulator_factory().make().acc_to_encoder()
    transport.open(make_source(rows, encoder, Strided(workers), sub_chunks, None, estimator))
    watch = Watch([transport.process(w).pid for w in transport.workers()])
    watch.start()
    transport.loaded(transport.dispatch(None, {w: [w] for w in transport.workers()}))
    fresh = [smaps(pid) for pid in watch.pids]
    handle = Handle(transport)
    model = handle.pysp_seq_initialize(estimator, np.random.RandomState(1), 0.1)
    for _ in range(2):
        model = handle.pysp_seq_estimate(estimator, model)
    watch.look()
    watch.done.set()
    watch.join()
    sizes = [smaps(pid) for pid in watch.pids]
    marks = [size["Pss"] + max(0, high_water(pid) - size["Rss"]) for pid, size in zip(watch.pids, sizes, strict=True)]
    handle.close()
    return max(*watch.peaks.values(), *marks), sizes, fresh


def measured_baseline(workers=2):
    """Return a worker without rows, from a pool with almost none."""
    rows, estimator = numbers(64)
    _, sizes, fresh = measured_peak(rows, estimator, workers, 1)
    return Baseline(*split_of(sizes), *split_of(fresh))


def split_of(sizes):
    """Return the mean private bytes of processes, and the bytes that they share with their launcher."""
    private = [size["Private_Dirty"] + size["Private_Clean"] for size in sizes]
    shared = [(size["Pss"] - own) * (len(sizes) + 1) for size, own in zip(sizes, private, strict=True)]
    return round(statistics.mean(private)), round(statistics.mean(shared))


def memory(cases, out, kinds=FAMILIES):
    """Run all cases and print what was predicted beside what was measured."""
    table = []
    for name, n in product(kinds, cases):
        rows, estimator = FAMILIES[name](n)
        found = measure_footprint(rows, estimator)
        baseline = measured_baseline()  # each time: other programs share its pages and come and go
        for workers, pieces in product((1, 2, 3), (1, 4)):
            told = forecast(found, n, workers, sub_chunks=pieces, baseline=baseline)
            peak, *_ = measured_peak(rows, estimator, workers, pieces)
            case = {"family": name, "rows": n, "workers": workers, "sub_chunks": pieces}
            case |= {"predicted": told.estimate_bytes, "bound": told.bound_bytes, "measured": peak, "parts": told.parts}
            table.append(case)
            print(line_of(case), flush=True)
    print(*summary(table), sep="\n")
    if out:
        Path(out).write_text(json.dumps(table, indent=1), encoding="utf-8")


def summary(table):
    """Return the errors by family, and of all cases."""
    lines = ["| rows | errors: median, largest | bound / peak: least, most |", "|---|---|---|"]
    groups = {name: [case for case in table if case["family"] == name] for name in FAMILIES} | {"all": table}
    for name, cases in ((name, cases) for name, cases in groups.items() if cases):
        errors = [case["predicted"] / case["measured"] - 1.0 for case in cases]
        bounds = [case["bound"] / case["measured"] for case in cases]
        doc = "all" if name == "all" else FAMILIES[name].__doc__.rstrip(".")
        worst = max(errors, key=abs)
        median = statistics.median(map(abs, errors))
        lines.append(f"| {doc} | {median:.1%}, {worst:+.1%} | {min(bounds):.2f}, {max(bounds):.2f} |")
    errors = sorted(abs(case["predicted"] / case["measured"] - 1.0) for case in table)
    bounds = [case["bound"] / case["measured"] for case in table]
    lines.append("")
    lines.append(
        f"{len(table)} cases: median error {statistics.median(errors):.1%}, "
        f"95th percentile {errors[int(0.95 * len(errors))]:.1%}, largest {errors[-1]:.1%}; "
        f"bound exceeded {sum(b < 1 for b in bounds)} times, "
        f"at most 1.25 times the peak in {sum(b <= 1.25 for b in bounds) / len(bounds):.0%}"
    )
    return lines


def merge(files):
    """Print the table of cases that were run in pieces."""
    table = [case for name in files for case in json.loads(Path(name).read_text(encoding="utf-8"))]
    print(*(summary(table) if "bound" in table[0] else sweep.lines_of(table)), sep="\n")


def line_of(case):
    """Return a case as a line of the table."""
    predicted, measured = case["predicted"], case["measured"]
    return (
        f"| {case['family']} | {case['rows']} | {case['workers']} | {case['sub_chunks']} | {predicted / 1e6:.1f} "
        f"| {measured / 1e6:.1f} | {predicted / measured - 1.0:+.1%} | {case['bound'] / measured:.2f} |"
    )


LANES = (
    (stats.DiagonalGaussianEstimator(), 8, 64, 20_000),
    (stats.DiagonalGaussianEstimator(), 8, 256, 5000),
    (stats.MultivariateGaussianEstimator(), 8, 64, 5000),
    (stats.MultivariateGaussianEstimator(), 16, 128, 2500),
    (stats.GammaEstimator(), 0, 64, 20_000),
)


def split_step(handle, estimator, model):
    """Return processor seconds of the busier thread, of both, and the clock, of one E-step."""
    own, both, clock = time.thread_time(), time.process_time(), time.perf_counter()
    handle.pysp_stream_accumulate(estimator, model)
    clock, both, own = time.perf_counter() - clock, time.process_time() - both, time.thread_time() - own
    return max(own, both - own), both, clock


def lanes(turns=15):
    """Print what two threads along the component axis gain."""
    print("| model | rows | busier of two threads / one | both / one | clock: one / two |\n|---|---|---|---|---|")
    for leaf, width, components, n in LANES:
        rows = RNG.normal(size=(n, width)) if width else RNG.gamma(2.0, size=n)
        estimator = stats.MixtureEstimator([leaf] * components)
        handles = [encoded_data(rows, estimator, backend="model_parallel", num_workers=w) for w in (1, 2)]
        model = handles[0].pysp_seq_initialize(estimator, np.random.RandomState(1), 0.5)
        seen = [[split_step(handle, estimator, model) for handle in handles] for _ in range(turns)]
        one, two = (list(zip(*side, strict=True)) for side in zip(*seen, strict=True))
        busier, both = (statistics.median(two[i]) / statistics.median(one[1]) for i in (0, 1))
        name = f"{components} × {type(leaf).__name__.removesuffix('Estimator')}, width {max(width, 1)}"
        print(f"| {name} | {n} | {busier:.2f} | {both:.2f} | {min(one[2]) / min(two[2]):.2f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["memory", "sweep", "merge", "lanes"])
    parser.add_argument("files", nargs="*", help="of merge: what was written with --json")
    parser.add_argument("--rows", default="20000,200000", help="of memory")
    parser.add_argument("--kinds", default=",".join(FAMILIES), help="of memory")
    parser.add_argument("--cases", type=int, default=40, help="of sweep")
    parser.add_argument("--skip", type=int, default=0, help="of sweep: cases to pass over")
    parser.add_argument("--seed", type=int, default=6, help="of sweep: which cases are drawn")
    parser.add_argument("--json")
    given = parser.parse_args()
    if given.what == "memory":
        memory([int(n) for n in given.rows.split(",")], given.json, given.kinds.split(","))
    elif given.what == "merge":
        merge(given.files)
    elif given.what == "lanes":
        lanes()
    else:
        sweep.sweep(given.cases, given.json, given.skip, given.seed)
    sys.exit(0)
