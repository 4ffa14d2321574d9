"""The yardstick's workloads as models of this library, with the same start."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from mixle import stats
from mixle.stats.table import Table


def common(folder: Path) -> Any:
    """Load the yardstick's own module of data and clocks."""
    spec = importlib.util.spec_from_file_location("common", folder / "common.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def diagonal(source: Any) -> tuple[Any, Any]:
    """W1: diagonal Gaussian mixture."""
    rows, start = source.w1()
    parts = [stats.DiagonalGaussianDistribution(mu, var) for mu, var in zip(start["mu"], start["var"], strict=True)]
    return rows, stats.MixtureDistribution(parts, start["w"])


def full(source: Any) -> tuple[Any, Any]:
    """W2: full-covariance Gaussian mixture."""
    rows, start = source.w2()
    parts = [stats.MultivariateGaussianDistribution(mu, cov) for mu, cov in zip(start["mu"], start["cov"], strict=True)]
    return rows, stats.MixtureDistribution(parts, start["w"])


def mixed(source: Any) -> tuple[Any, Any]:
    """W3: rows of a real number, a category and a count."""
    rows, _, start = source.w3()
    return rows, mixed_model(start, source.LEVELS)


def mixed_model(start: dict[str, Any], levels: list[str]) -> Any:
    """Return the model of W3 for given parameters."""
    parts = [
        stats.CompositeDistribution(
            (
                stats.GaussianDistribution(float(mu), float(var)),
                stats.CategoricalDistribution(dict(zip(levels, map(float, p), strict=True))),
                stats.PoissonDistribution(float(lam)),
            )
        )
        for mu, var, p, lam in zip(start["mu"], start["var"], start["p"], start["lam"], strict=True)
    ]
    return stats.MixtureDistribution(parts, start["w"])


def wide(source: Any) -> tuple[Any, Any]:
    """W6: 25 real columns, 10 categorical ones of 3 to 1000 levels, 5 counts."""
    (real, codes, counts), start = source.w6()
    columns = [*real.T, *codes, *counts.T]
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    return rows, wide_model(start)


def wide_model(start: dict[str, Any]) -> Any:
    """Return the model of W6 for given parameters."""
    parts = [
        stats.CompositeDistribution(
            [
                *(stats.GaussianDistribution(m, v) for m, v in zip(start["mu"][k], start["var"][k], strict=True)),
                *(stats.CategoricalDistribution(dict(enumerate(p[k].tolist()))) for p in start["p"]),
                *(stats.PoissonDistribution(lam) for lam in start["lam"][k]),
            ]
        )
        for k in range(len(start["w"]))
    ]
    return stats.MixtureDistribution(parts, start["w"])


def own_mixed(n: int = 200_000, k: int = 8) -> tuple[list[Any], Any]:
    """Return a table like W3 made here, for runs without a yardstick."""
    rng = np.random.default_rng(3)
    levels = [f"level {i}" for i in range(20)]
    p = rng.dirichlet(np.full(20, 0.5), k)
    lam, mu = rng.uniform(1, 20, k), rng.normal(0, 5, k)
    z = rng.integers(0, k, n)
    codes = (rng.random(n)[:, None] > p.cumsum(1)[z]).sum(1).clip(0, 19)
    rows = list(
        zip(
            (mu[z] + rng.standard_normal(n)).tolist(),
            [levels[c] for c in codes],
            rng.poisson(lam[z]).tolist(),
            strict=True,
        )
    )
    start = {"mu": mu + 1, "var": np.full(k, 4.0), "p": rng.dirichlet(np.full(20, 20.0), k), "lam": lam + 1}
    return rows, mixed_model({**start, "w": np.full(k, 1 / k)}, levels)


def own_wide(n: int, k: int) -> tuple[Table, Any]:
    """Return a table like W6 made here, as columns, and a model of `k` components near its rows."""
    rng = np.random.default_rng(6)
    levels = (3, 4, 5, 8, 10, 20, 50, 100, 300, 1000)
    z = rng.integers(0, k, n)
    mu, lam = rng.normal(0, 2, (k, 25)), rng.uniform(1, 15, (k, 5))
    real = mu[z] + rng.standard_normal((n, 25))
    codes = [rng.integers(0, size, n) * (z % 2 + 1) % size for size in levels]
    counts = rng.poisson(lam[z])
    start = {"w": np.full(k, 1 / k), "mu": mu + 0.3, "var": np.full((k, 25), 2.0), "lam": lam + 0.5}
    start["p"] = [rng.dirichlet(np.full(size, 20.0), k) for size in levels]
    columns = [*real.T, *(column.tolist() for column in codes), *counts.T]
    return Table(columns, [f"column {i}" for i in range(len(columns))]), wide_model(start)


def own_vectors(n: int, k: int) -> tuple[np.ndarray, Any]:
    """Return rows of 8 numbers, and a mixture of `k` diagonal Gaussians near them."""
    rng = np.random.default_rng(1)
    mu = rng.normal(0, 4, (k, 8))
    rows = mu[rng.integers(0, k, n)] + rng.standard_normal((n, 8))
    parts = [stats.DiagonalGaussianDistribution(m + 0.5, np.full(8, 2.0)) for m in mu]
    return rows, stats.MixtureDistribution(parts, np.full(k, 1 / k))


WORKLOADS = {"W1": diagonal, "W2": full, "W3": mixed, "W6": wide}
