"""EM iterations of hidden Markov models: ours, the yardstick's, and hmmlearn's where a Python with it is named.

    python benchmarks/hmm.py --yardstick FOLDER [--peer PYTHON] [--repeats 3]

Every figure is CPU seconds per iteration in a process of its own, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
WORKLOADS = ("W4", "W5", "ragged", "equal", "one long")
STATES = 8


def numbers(name: str, np: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return sequences of numbers and a start; "equal" and "ragged" have the same number of steps."""
    rng = np.random.default_rng(7)
    sizes = {"ragged": rng.integers(1, 401, 1000), "equal": np.full(1000, 200), "one long": np.array([1_000_000])}[name]
    start = {
        "pi": np.full(STATES, 1 / STATES), "A": 0.5 * np.eye(STATES) + 0.5 / STATES,
        "mu": np.arange(STATES) * 3.0, "var": np.ones(STATES),
    }  # fmt: skip
    values = rng.uniform(-3.0, 3.0 * STATES, int(sizes.sum()))
    return np.split(values, np.cumsum(sizes)[:-1]), start


def workload(name: str, yardstick: Path) -> tuple[list[Any], dict[str, Any]]:
    """Return the sequences of a workload and its start."""
    import numpy as np

    if name not in ("W4", "W5"):
        return numbers(name, np)
    sys.path.insert(0, str(yardstick))
    import common

    rows, start = getattr(common, name.lower())()
    return list(rows), start


def ours(rows: list[Any], start: dict[str, Any]) -> Any:
    """Return a function that makes one EM iteration and returns the log-likelihood before it."""
    from mixle import stats
    from mixle.utils.parallel.planner import LocalEncodedData

    if "E" in start:
        topics: list[Any] = [stats.CategoricalDistribution(dict(enumerate(map(float, p)))) for p in start["E"]]
    else:
        topics = [
            stats.GaussianDistribution(float(m), float(v)) for m, v in zip(start["mu"], start["var"], strict=True)
        ]
    model = [stats.HiddenMarkovModelDistribution(topics, start["pi"], start["A"])]
    estimator = model[0].estimator()
    handle = LocalEncodedData([row.tolist() for row in rows], estimator=estimator)

    def step() -> float:
        found = handle.estep(estimator, model[0])
        model[0] = handle.m_step(estimator, found, model[0])
        return float(found.log_density)

    return step


def theirs(rows: list[Any], start: dict[str, Any]) -> Any:
    """Return the same for hmmlearn, with scaling."""
    import numpy as np
    from hmmlearn import hmm

    options = {"n_iter": 1, "tol": -np.inf, "init_params": "", "implementation": "scaling"}
    if "E" in start:
        peer: Any = hmm.CategoricalHMM(len(start["pi"]), **options)
        peer.emissionprob_ = start["E"]
    else:
        peer = hmm.GaussianHMM(len(start["pi"]), covariance_type="diag", min_covar=0.0, covars_prior=0.0, **options)
        peer.means_, peer.covars_ = start["mu"][:, None], start["var"][:, None]
    peer.startprob_, peer.transmat_ = start["pi"], start["A"]
    values, sizes = np.concatenate(rows)[:, None], [len(row) for row in rows]

    def step() -> float:
        peer.fit(values, sizes)
        return float(peer.monitor_.history[-1])

    return step


def child(name: str, who: str, yardstick: Path) -> None:
    """Print one JSON line: CPU seconds of an iteration, the first log-likelihoods, peak memory beyond the start."""
    import resource

    rows, start = workload(name, yardstick)
    step = {"ours": ours, "hmmlearn": theirs}[who](rows, start)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    scores = [step(), step()]
    times = []
    for _ in range(5):
        began = time.process_time()
        step()
        times.append(time.process_time() - began)
    beyond = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    print(json.dumps({"cpu": sorted(times)[2], "lls": scores, "beyond_mb": beyond}))


def run(*command: Any) -> dict[str, Any]:
    """Run a process and return the last JSON line it prints; one BLAS thread."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    """Measure, or be one of the processes that do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yardstick", type=Path, required=True)
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=2)
    arguments = parser.parse_args()
    if arguments.child:
        child(*arguments.child, arguments.yardstick)
        return
    print(f"{'':10s} {'ours':>8s} {'numpy':>8s} {'ratio':>6s} {'hmmlearn':>9s} {'ratio':>6s} {'MiB':>6s} {'apart':>8s}")
    for name in WORKLOADS:
        cpu: dict[str, list[float]] = {"ours": [], "numpy": [], "hmmlearn": []}
        common = ("--yardstick", arguments.yardstick, "--child", name)
        mine: dict[str, Any] = {}
        peer: dict[str, Any] = {}
        for _ in range(arguments.repeats):
            mine = run(sys.executable, HERE, *common, "ours")
            cpu["ours"].append(mine["cpu"])
            if name in ("W4", "W5"):
                limit = arguments.yardstick / "bench_limit.py"
                found = run(sys.executable, limit, "--workload", name, "--impl", "np1", "--reps", 5)
                cpu["numpy"].append(found["iter"]["cpu"])
            if arguments.peer:
                peer = run(arguments.peer, HERE, *common, "hmmlearn")
                cpu["hmmlearn"].append(peer["cpu"])
        best = {who: sorted(times)[len(times) // 2] if times else float("nan") for who, times in cpu.items()}
        apart = max(abs(a / b - 1.0) for a, b in zip(mine["lls"], peer.get("lls", mine["lls"]), strict=True))
        print(
            f"{name:10s} {best['ours']:8.4f} {best['numpy']:8.4f} {best['ours'] / best['numpy']:6.2f} "
            f"{best['hmmlearn']:9.4f} {best['ours'] / best['hmmlearn']:6.2f} {mine['beyond_mb']:6.1f} {apart:8.0e}"
        )


if __name__ == "__main__":
    main()
