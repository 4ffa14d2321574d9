"""EM iterations here and in other libraries, each in a virtual environment of its own, written to a page of the docs.

    python benchmarks/peers.py --make FOLDER          # makes the environments there, then measures
    python benchmarks/peers.py --sklearn PYTHON --hmmlearn PYTHON --pomegranate PYTHON --published PYTHON

A figure is CPU seconds of one EM iteration from the same start: the time of a long fit less that of a short one, by
their iterations, one BLAS thread, the best of the rounds; sides take turns. A peer without a Python is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
PAGE = HERE.parents[1] / "docs" / "explanation" / "peers.md"
MARKS = "<!-- made by benchmarks/peers.py -->\n", "<!-- end -->\n"
#: What --make installs; pomegranate needs PyTorch, which is not fetched unasked.
PACKAGES = {"sklearn": ["scikit-learn"], "hmmlearn": ["hmmlearn"], "published": ["mixle"]}
#: Workload → what it is, and who can fit it.
WORKLOADS = {
    "diagonal": (
        "mixture of 16 diagonal normal laws, 50,000 rows of 8 numbers",
        ("ours", "sklearn", "pomegranate", "published"),
    ),
    "full": (
        "mixture of 8 full normal laws, 30,000 rows of 6 numbers",
        ("ours", "sklearn", "pomegranate", "published"),
    ),
    "table": ("mixture of 8 products: a number, a label, a count; 20,000 rows", ("ours", "published")),
    "hmm numbers": (
        "8 states, normal emissions, 500 sequences of 100",
        ("ours", "hmmlearn", "pomegranate", "published"),
    ),
    "hmm labels": ("8 states, 16 labels, 500 sequences of 100", ("ours", "hmmlearn", "pomegranate", "published")),
}
NAMES = {
    "ours": "this library",
    "sklearn": "scikit-learn",
    "hmmlearn": "hmmlearn",
    "pomegranate": "pomegranate",
    "published": "the published package",
}
PEERS = [who for who in NAMES if who != "ours"]
SHORT, LONG = 1, 11


def data(name: str) -> tuple[Any, dict[str, Any]]:
    """Return rows and start of a workload."""
    import numpy as np

    rng = np.random.default_rng(11)
    if name in ("diagonal", "full"):
        n, d, k = (50_000, 8, 16) if name == "diagonal" else (30_000, 6, 8)
        means = rng.normal(0.0, 3.0, (k, d))
        rows = means[rng.integers(k, size=n)] + rng.normal(size=(n, d))
        return rows, {"mu": means + 0.5, "w": np.full(k, 1.0 / k), "k": k, "d": d}
    if name == "table":
        kinds = rng.integers(8, size=20_000)
        numbers = rng.normal(3.0 * kinds, 1.0).tolist()
        labels = [chr(97 + int(c)) for c in (kinds + rng.integers(3, size=len(kinds))) % 8]
        counts = rng.poisson(1.0 + 2.0 * kinds).tolist()
        return list(zip(numbers, labels, counts, strict=True)), {"k": 8}
    states = rng.integers(8, size=(500, 100))
    start = {"pi": np.full(8, 0.125), "A": 0.5 * np.eye(8) + 0.0625}
    if name == "hmm numbers":
        return 3.0 * states + rng.normal(size=states.shape), start | {"mu": np.arange(8) * 3.0 + 0.5}
    emissions = rng.dirichlet(np.ones(16), 8)
    return (2 * states + rng.integers(5, size=states.shape)) % 16, start | {"E": emissions}


def mixle_fit(name: str, rows: Any, start: dict[str, Any]) -> Callable[[int], float]:
    """Return a fit of so many iterations, here or in the published package, that returns the log-likelihood."""
    import numpy as np

    from mixle import stats
    from mixle.inference import optimize

    if name in ("diagonal", "full"):
        family: Any = (
            stats.DiagonalGaussianDistribution if name == "diagonal" else stats.MultivariateGaussianDistribution
        )
        spread = np.ones(start["d"]) if name == "diagonal" else np.eye(start["d"])
        model = stats.MixtureDistribution([family(m, spread) for m in start["mu"]], start["w"])
    elif name == "table":
        labels = {chr(97 + i): 0.125 for i in range(8)}
        parts = [
            stats.CompositeDistribution(
                (
                    stats.GaussianDistribution(3.0 * k + 0.5, 1.0),
                    stats.CategoricalDistribution(dict(labels)),
                    stats.PoissonDistribution(1.5 + 2.0 * k),
                )
            )
            for k in range(8)
        ]
        model = stats.MixtureDistribution(parts, np.full(8, 0.125))
    else:
        if "E" in start:
            topics: list[Any] = [stats.CategoricalDistribution(dict(enumerate(map(float, p)))) for p in start["E"]]
        else:
            topics = [stats.GaussianDistribution(float(m), 1.0) for m in start["mu"]]
        model = stats.HiddenMarkovModelDistribution(topics, start["pi"], start["A"])
        rows = rows.tolist()
    estimator = model.estimator()

    def fit(iterations: int) -> float:
        fitted = optimize(rows, estimator, prev_estimate=model, max_its=iterations, delta=None)
        return float(fitted.fit_provenance().final_objective)

    return fit


def sklearn_fit(name: str, rows: Any, start: dict[str, Any]) -> Callable[[int], float]:
    """Return the same of scikit-learn."""
    import numpy as np
    from sklearn.mixture import GaussianMixture

    precisions = (
        np.ones((start["k"], start["d"])) if name == "diagonal" else np.tile(np.eye(start["d"]), (start["k"], 1, 1))
    )
    kind = "diag" if name == "diagonal" else "full"

    def fit(iterations: int) -> float:
        peer = GaussianMixture(
            start["k"], covariance_type=kind, tol=0.0, reg_covar=0.0, max_iter=iterations,
            weights_init=start["w"], means_init=start["mu"], precisions_init=precisions,
        ).fit(rows)  # fmt: skip
        return float(peer.score(rows) * len(rows))

    return fit


def hmmlearn_fit(_: str, rows: Any, start: dict[str, Any]) -> Callable[[int], float]:
    """Return the same of hmmlearn, with scaling."""
    import numpy as np
    from hmmlearn import hmm

    values, sizes = rows.reshape(-1, 1), [rows.shape[1]] * len(rows)

    def fit(iterations: int) -> float:
        options = {"n_iter": iterations, "tol": -np.inf, "init_params": "", "implementation": "scaling"}
        if "E" in start:
            peer: Any = hmm.CategoricalHMM(8, **options)
            peer.emissionprob_ = start["E"]
        else:
            peer = hmm.GaussianHMM(8, covariance_type="diag", min_covar=0.0, covars_prior=0.0, **options)
            peer.means_, peer.covars_ = start["mu"][:, None], np.ones((8, 1))
        peer.startprob_, peer.transmat_ = start["pi"], start["A"]
        return float(peer.fit(values, sizes).score(values, sizes))

    return fit


def pomegranate_fit(name: str, rows: Any, start: dict[str, Any]) -> Callable[[int], float]:
    """Return the same of pomegranate, whose hidden Markov models compute in single precision and have an end state."""
    import torch
    from pomegranate.distributions import Categorical, Normal
    from pomegranate.gmm import GeneralMixtureModel
    from pomegranate.hmm import DenseHMM

    torch.set_num_threads(1)
    hidden = name.startswith("hmm")
    kind, values = ("full", torch.tensor(rows)) if name == "full" else ("diag", torch.tensor(rows))
    if hidden:
        values = values[:, :, None] if "E" in start else values[:, :, None].float()

    def model() -> Any:
        if not hidden:
            spread = torch.ones(start["d"]).double() if kind == "diag" else torch.eye(start["d"]).double()
            parts = [Normal(torch.tensor(m), spread, covariance_type=kind, min_cov=0.0) for m in start["mu"]]
            return GeneralMixtureModel(parts, priors=torch.tensor(start["w"]))
        if "E" in start:
            laws: list[Any] = [Categorical(torch.tensor(p)[None].float()) for p in start["E"]]
        else:
            laws = [Normal([float(m)], [1.0], covariance_type="diag", min_cov=0.0) for m in start["mu"]]
        edges, starts = torch.tensor(start["A"]).float(), torch.tensor(start["pi"]).float()
        return DenseHMM(laws, edges=edges, starts=starts)

    def fit(iterations: int) -> float:
        peer = model()
        for _ in range(iterations):
            peer.summarize(values)
            peer.from_summaries()
        return float(peer.log_probability(values).sum())

    return fit


FITS = {
    "ours": mixle_fit,
    "published": mixle_fit,
    "sklearn": sklearn_fit,
    "hmmlearn": hmmlearn_fit,
    "pomegranate": pomegranate_fit,
}


def child(name: str, who: str) -> None:
    """Print CPU seconds of an iteration and the log-likelihood after the long fit."""
    import warnings

    warnings.simplefilter("ignore")
    rows, start = data(name)
    fit = FITS[who](name, rows, start)
    fit(SHORT)
    times = []
    for iterations in (SHORT, LONG):
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            score = fit(iterations)
            best = min(best, time.process_time() - began)
        times.append(best)
    print(json.dumps({"cpu": (times[1] - times[0]) / (LONG - SHORT), "score": score}))


def environment(who: str) -> dict[str, str]:
    """Return the environment of a measurement: one BLAS thread; the source of this library only for itself."""
    base = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "OPENBLAS_CORETYPE"))}
    base |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return base | ({"PYTHONPATH": str(HERE.parents[1] / "src")} if who == "ours" else {})


def measure(pythons: dict[str, str], rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return the figures of each workload and peer, the least of several rounds in turns."""
    found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in WORKLOADS}
    for _ in range(rounds):
        for name, (_, peers) in WORKLOADS.items():
            for who in peers:
                if who not in pythons:
                    continue
                command = [pythons[who], str(HERE), "--child", name, who]
                done = subprocess.run(command, env=environment(who), capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"{name}, {who}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                    continue
                figure = json.loads(done.stdout.strip().splitlines()[-1])
                known = found[name].get(who)
                found[name][who] = figure if known is None or figure["cpu"] < known["cpu"] else known
    return found


def table(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "| workload | library | CPU per iteration | against this library | log-likelihood |",
        "|---|---|---|---|---|",
    ]
    for name, (what, _) in WORKLOADS.items():
        own = found[name].get("ours", {}).get("cpu")
        for who, figure in found[name].items():
            ratio = f"{figure['cpu'] / own:.1f} ×" if own else "–"
            cpu, score = f"{1000 * figure['cpu']:.1f} ms", f"{figure['score']:.4f}"
            lines.append(f"| {what} | {NAMES[who]} | {cpu} | {ratio} | {score} |")
    return "\n".join(lines) + "\n"


def chart(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return the ratios as a small SVG: one bar per library, the scale logarithmic from 1 to 100."""
    import math

    bars, y = [], 24
    for name, figures in found.items():
        own = figures.get("ours", {}).get("cpu")
        if not own:
            continue
        bars.append(f'<text x="8" y="{y}" font-weight="bold">{name}</text>')
        for who, figure in figures.items():
            ratio = figure["cpu"] / own
            width = 4 + 150 * max(0.0, math.log10(max(ratio, 0.1)))
            fill = "#2a6f97" if who == "ours" else "#b0b0b0"
            y += 18
            bars.append(f'<text x="20" y="{y}">{NAMES[who]}</text>')
            bars.append(f'<rect x="190" y="{y - 11}" width="{width:.0f}" height="12" fill="{fill}"/>')
            bars.append(f'<text x="{196 + width:.0f}" y="{y}">{ratio:.1f} ×</text>')
        y += 28
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="620" height="{y}" font-family="sans-serif" font-size="12">'
    title = "<title>CPU time of an EM iteration, this library = 1, logarithmic scale</title>"
    return "\n".join([head, title, *bars, "</svg>"]) + "\n"


def made(folder: Path) -> dict[str, str]:
    """Make the peers' environments under `folder` and return their Pythons; one that cannot be made is left out."""
    pythons = {}
    for who, packages in PACKAGES.items():
        home = folder / who
        python = home / "bin" / "python"
        if not python.exists():
            venv.create(home, with_pip=True)
        done = subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=False)
        if done.returncode == 0:
            pythons[who] = str(python)
    return pythons


def main() -> None:
    """Measure and write the page, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", nargs=2, metavar=("WORKLOAD", "WHO"))
    parser.add_argument("--make", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--print", action="store_true", help="print the table and leave the page alone")
    for who in PEERS:
        parser.add_argument(f"--{who}", metavar="PYTHON")
    arguments = parser.parse_args()
    if arguments.child:
        child(*arguments.child)
        return
    pythons = {} if arguments.make is None else made(arguments.make)
    pythons |= {who: value for who in PEERS if (value := getattr(arguments, who))}
    found = measure({"ours": sys.executable, **pythons}, arguments.rounds)
    text = table(found)
    print(text)
    if not arguments.print:
        page = PAGE.read_text(encoding="utf-8")
        before, after = page.split(MARKS[0])[0], page.split(MARKS[1])[1]
        PAGE.write_text(before + MARKS[0] + text + MARKS[1] + after, encoding="utf-8")
        (PAGE.parent / "peers.svg").write_text(chart(found), encoding="utf-8")


if __name__ == "__main__":
    main()
