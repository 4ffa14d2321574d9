"""Planned configurations against an exhaustive sweep; predicted round times against measured ones.

``python benchmarks/planner.py sweep`` draws 40 cases (family × rows × components). For each, rounds are measured for
workers 1 to 4, as many shards as workers or four times as many, one piece or four per shard, on threads and on
processes. The seconds of a configuration are those of the driver and the busiest worker (its path), and those of all
(its cost), in processor time, so that four workers can be measured on two cores. Threads share an interpreter, so that
a thread's seconds are those of the clock without those in which it could run and had no core. A yardstick beside every
round tells how fast the machine was. The planned configuration meets the two best of the sweep once more, in turns.
"""

import json
import statistics
import threading
import time
from contextlib import ExitStack, closing
from itertools import product
from pathlib import Path

import numpy as np

from mixle import stats
from mixle.utils.parallel.folding.tasks import execute
from mixle.utils.parallel.planner import Resources, configure, encoded_data, measure_costs
from mixle.utils.parallel.planning import overheads
from mixle.utils.parallel.planning.discover import usable_cpus
from mixle.utils.parallel.planning.overheads import clocks_of, seconds_of_round, spent_in_turn
from mixle.utils.parallel.transports import local

CASES = 40
#: Turns of the sweep, and of the last comparison; the least disturbed one counts.
TURNS, DUEL = 2, 4
#: Rounds and seconds of a turn at least, and rounds at most. The first is not counted.
TURN = (6, 0.02, 9)
#: Seconds of a yardstick, whatever they are now: all that is measured is told in such seconds.
YARD = 5e-4
AWAKE = {}
HEAD = """\
| family | rows | K | time: planned | best | ratio | cpu: planned | best | ratio | error: path, cost |
|---|---|---|---|---|---|---|---|---|---|"""
LABEL = stats.CategoricalEstimator(pseudo_count=1.0)


def numbers(rng, n):
    """Numbers, Gaussians."""
    return rng.normal(size=n) + rng.randint(4, size=n), stats.GaussianEstimator()


def vectors(rng, n):
    """Vectors of eight, diagonal Gaussians."""
    return rng.normal(size=(n, 8)) + rng.randint(4, size=(n, 1)), stats.DiagonalGaussianEstimator()


def correlated(rng, n):
    """Vectors of four, full Gaussians."""
    return rng.normal(size=(n, 4)) + rng.randint(4, size=(n, 1)), stats.MultivariateGaussianEstimator()


def counts(rng, n):
    """Whole numbers, Poissons."""
    return rng.poisson(1 + 3 * rng.randint(4, size=n)), stats.PoissonEstimator()


def lengths(rng, n):
    """Positive numbers, gammas."""
    return rng.gamma(1.0 + rng.randint(4, size=n)), stats.GammaEstimator()


def records(rng, n):
    """Tuples of a number, a count and a label; products."""
    columns = rng.normal(size=n), rng.poisson(3.0, n), rng.choice(list("abc"), n)
    parts = stats.CompositeEstimator((stats.GaussianEstimator(), stats.PoissonEstimator(), LABEL))
    return list(zip(*(c.tolist() for c in columns), strict=True)), parts


FAMILIES = (numbers, vectors, correlated, counts, lengths, records)


def draw(count, seed):
    """Return cases: (family, rows, components)."""
    rng = np.random.RandomState(seed)
    sizes = np.exp(rng.uniform(np.log(2000), np.log(200_000), count)).astype(int)
    return [(FAMILIES[i % len(FAMILIES)], int(n), int(rng.randint(2, 17))) for i, n in enumerate(sizes)]


def grid():
    """Return configurations: (backend, workers, shards, sub_chunks)."""
    found = {}
    for backend, workers, share, pieces in product(("threads", "mp"), (1, 2, 3, 4), (1, 4), (1, 4)):
        name = "local" if backend == "threads" and workers == 1 else backend
        found[name, workers, share * workers, pieces] = None
    return list(found)


def options(of):
    """Return the keywords of `encoded_data`."""
    backend, workers, shards, pieces = of
    split = {"num_chunks": shards, "sub_chunks": pieces}
    more = {"local": {}, "threads": {"chunk_workers": workers}, "mp": {"backend": "mp", "num_workers": workers}}
    return split | more[backend]


def has_cores(of):
    """Return whether each thread has a core: a thread that waits for one that has none looks busy."""
    return of[0] != "threads" or of[1] <= usable_cpus()


def yardstick():
    """Return the seconds of a fixed piece of work, part of it arithmetic and part of it interpreter."""
    x, start = np.linspace(0.0, 1.0, 2048), time.thread_time()
    for _ in range(60):
        np.exp(x).sum()
    sum(i * i for i in range(8000))
    return time.thread_time() - start


class Runner:
    """A handle whose rounds are measured."""

    def __init__(self, of, rows, estimator, model):
        self.of, self.estimator, self.model = of, estimator, model
        self.handle = encoded_data(rows, estimator, **options(of))
        self.clocks = clocks_of(self.handle)
        self.seen = []

    def turn(self):
        """Run rounds, of which the first is not counted: rounds of a fit follow each other."""
        local.execute = watched if self.of[0] == "threads" else execute
        few, seconds, many = TURN
        start, found, yards = time.perf_counter(), [], []
        while len(found) <= few or (time.perf_counter() - start < seconds and len(found) <= many):
            yards.append(yardstick())
            found.append(self.round())
        local.execute = execute
        speed = YARD / statistics.median(yards)
        self.seen.append(tuple(speed * statistics.median(values) for values in zip(*found[1:], strict=True)))

    def round(self):
        """Run one round; return path and cost."""
        AWAKE.clear()
        own = time.thread_time()
        driver, worker, everyone = seconds_of_round(self.handle, self.estimator, self.model, self.clocks)
        own = time.thread_time() - own
        path = own + max(AWAKE.values(), default=0.0) if self.of[0] == "threads" else driver + worker
        return path, driver + everyone

    def quietest(self):
        """Return path and cost of the least disturbed turn."""
        return min(self.seen, key=sum)

    def close(self):
        """Close the handle."""
        self.handle.close()


def watched(task, shard, _worker=None):
    """Run a task, and note by the clock how long its thread was not without a core; the driver's own tasks are not."""
    delayed, start = delay(), time.perf_counter()
    result = execute(task, shard)
    seconds = max(result.receipt["cpu_seconds"], time.perf_counter() - start - (delay() - delayed))
    if threading.current_thread() is not threading.main_thread():
        AWAKE[threading.get_ident()] = AWAKE.get(threading.get_ident(), 0.0) + seconds
    return result


def delay():
    """Return the seconds for which this thread has waited for a core so far; 0 where the system does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def measure(contenders, rows, estimator, model, turns):
    """Return path and cost of configurations that take turns."""
    with ExitStack() as held:
        runners = [held.enter_context(closing(Runner(of, rows, estimator, model))) for of in contenders]
        for runner in runners * turns:
            runner.turn()
        return {runner.of: runner.quietest() for runner in runners}


def clocked(run):
    """Run a turn of the calibration with yardsticks beside its rounds."""
    yards = []

    def beside():
        yards.append(yardstick())
        return run()

    spent = spent_in_turn(beside)
    return overheads.Spent(*(YARD / statistics.median(yards) * seconds for seconds in spent))


def run_case(family, n, components, seed):
    """Return the facts of one case."""
    rows, leaf = family(np.random.RandomState(seed), n)
    estimator = stats.MixtureEstimator([leaf] * components)
    with closing(encoded_data(rows[:4000], estimator)) as start:
        model = start.pysp_seq_initialize(estimator, np.random.RandomState(seed), 0.3)
        model = start.pysp_seq_estimate(estimator, model)
    costs = measure_costs(rows, model, estimator)
    found = measure(grid(), rows, estimator, model, TURNS)
    told = {of: costs.round(n, backend=of[0], workers=of[1], num_shards=of[2], sub_chunks=of[3]) for of in found}
    errors = [
        (of, told[of].seconds / path - 1.0, told[of].cpu_seconds / cost - 1.0) for of, (path, cost) in found.items()
    ]
    case = {"family": family.__name__, "rows": n, "components": components, "errors": errors, "costs": costs.to_dict()}
    case["measured"] = list(found.items())
    plans = {objective: configure(n, costs, Resources.local(4), objective=objective) for objective in ("time", "cpu")}
    planned = {name: (p.backend, p.workers, p.num_shards, p.sub_chunks) for name, p in plans.items()}
    ranked = [sorted(found, key=lambda of, at=place: found[of][at]) for place in (0, 1)]
    near = [of for rank in ranked for of in [*rank[:2], *list(filter(has_cores, rank))[:2]]]
    again = measure(dict.fromkeys([*planned.values(), *near]), rows, estimator, model, DUEL)
    for place, (objective, chosen) in enumerate(planned.items()):
        mine, all_of = again[chosen][place], [both[place] for both in again.values()]
        with_cores = min(both[place] for of, both in again.items() if has_cores(of))
        case[objective] = {"planned": chosen, "best": ranked[place][0], "ratio": mine / min(all_of)}
        case[objective]["ratio_with_cores"] = mine / min(mine, with_cores)
    return case


def sweep(count, out, skip=0, seed=6):
    """Run all cases, print a line each, then how often the plan was near the best and how far predictions were off."""
    table = []
    overheads.spent_in_turn = clocked
    print(HEAD)
    for place, (family, n, components) in list(enumerate(draw(CASES, seed)))[skip : skip + count]:
        case = run_case(family, n, components, place)
        table.append(case)
        print(line_of(case), flush=True)
    print(*summary(table), sep="\n")
    if out:
        Path(out).write_text(json.dumps(table, indent=1), encoding="utf-8")


def lines_of(table):
    """Return the table of cases and the lines behind it."""
    return [HEAD, *map(line_of, table), *summary(table)]


def line_of(case):
    """Return a case as a line of the table."""
    errors = [statistics.median(abs(error[place]) for error in case["errors"]) for place in (1, 2)]
    plans = (f"{word(c['planned'])} | {word(c['best'])} | {c['ratio']:.3f}" for c in (case["time"], case["cpu"]))
    head = f"| {case['family']} | {case['rows']} | {case['components']} | {' | '.join(plans)} "
    return f"{head}| {errors[0]:.1%}, {errors[1]:.1%} |"


def word(of):
    """Return a configuration as a word."""
    return f"{of[0]} {of[1]}/{of[2]}/{of[3]}"


def summary(table):
    """Return the lines behind the table."""
    lines = [""]
    for objective, name in (("time", "path"), ("cpu", "processor seconds")):
        ratios = sorted(case[objective]["ratio"] for case in table)
        near = sum(ratio <= 1.05 for ratio in ratios)
        cores = sum(case[objective]["ratio_with_cores"] <= 1.05 for case in table)
        lines.append(
            f"{name}: planned within 5 % of the best in {near} of {len(ratios)} cases, at worst {ratios[-1]:.2f}; "
            f"of the best without threads that have no core in {cores}"
        )
    for place, name in ((1, "path"), (2, "processor seconds")):
        for kinds in (("local", "threads", "mp"), ("local",), ("threads",), ("mp",)):
            errors = sorted(abs(e[place]) for case in table for e in case["errors"] if e[0][0] in kinds)
            lines.append(
                f"{name}, predicted, {' '.join(kinds)}: {len(errors)} configurations, median error "
                f"{statistics.median(errors):.1%}, 95th percentile {errors[int(0.95 * len(errors))]:.1%}"
            )
    for place, name in ((1, "path"), (2, "processor seconds")):
        errors = sorted(abs(error) for case in table for error in learned(case["errors"], place))
        lines.append(
            f"{name}, predicted, at the pace of the measured round on one core: median error "
            f"{statistics.median(errors):.1%}, 95th percentile {errors[int(0.95 * len(errors))]:.1%}"
        )
    return lines


def learned(errors, place):
    """Return the errors of all other configurations if the pace is scaled such that a round on one core is right."""
    known = {tuple(error[0]): error[place] for error in errors}
    right = 1.0 + known.pop(("local", 1, 1, 1))
    return [(1.0 + error) / right - 1.0 for error in known.values()]
