"""The models and splits of data that a backend is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mixle.errors import RowError

__all__ = ["CASES", "PAIRS", "SPLITS", "Limit"]


class Case(NamedTuple):
    """Rows and an estimator."""

    rows: Any
    estimator: Any


def _numbers(size: int = 61) -> np.ndarray:
    rng = np.random.RandomState(11)
    return np.where(rng.uniform(size=size) < 0.4, rng.normal(size=size), rng.normal(6.0, 2.0, size=size))


def _leaf() -> Case:
    from mixle.stats import PoissonEstimator

    return Case([int(x) for x in np.random.RandomState(1).poisson(3.0, size=61)], PoissonEstimator())


def _mixture() -> Case:
    from mixle.stats import GaussianEstimator, MixtureEstimator

    return Case(_numbers(), MixtureEstimator([GaussianEstimator()] * 3))


def _vectors() -> Case:
    from mixle.stats import MixtureEstimator, MultivariateGaussianEstimator

    rows = np.stack([_numbers(), _numbers()[::-1]], axis=1) + 1.0e6
    return Case(rows, MixtureEstimator([MultivariateGaussianEstimator(dim=2)] * 2))


def _records() -> Case:
    from mixle.stats import (
        CategoricalEstimator,
        CompositeEstimator,
        GaussianEstimator,
        MixtureEstimator,
        OptionalEstimator,
        PoissonEstimator,
    )

    rows = [("ab"[x > 3.0], abs(int(x)), float(x) if i % 5 else None) for i, x in enumerate(_numbers().tolist())]
    kind = CompositeEstimator([CategoricalEstimator(), PoissonEstimator(), OptionalEstimator(GaussianEstimator())])
    return Case(rows, MixtureEstimator([kind] * 2))


def _sequences() -> Case:
    from mixle.stats import GaussianEstimator, HiddenMarkovEstimator

    numbers, ends = _numbers(160).tolist(), range(0, 160, 5)
    return Case([numbers[a : a + 3 + a % 3] for a in ends], HiddenMarkovEstimator([GaussianEstimator()] * 2))


CASES: dict[str, Callable[[], Case]] = {
    "leaf": _leaf,
    "mixture": _mixture,
    "vectors": _vectors,
    "records": _records,
    "sequences": _sequences,
}


def _contiguous() -> Any:
    from mixle.utils.parallel.folding.shards import Contiguous

    return Contiguous(3)


#: Options of the handle: how rows are split.
SPLITS: dict[str, Callable[[], dict[str, Any]]] = {
    "one shard": lambda: {"num_shards": 1},
    "seven shards": lambda: {"num_shards": 7},
    "contiguous": lambda: {"num_shards": _contiguous()},
    "sub-chunks": lambda: {"num_shards": 3, "sub_chunks": 4},
    "more shards than rows": lambda: {"num_shards": 1000},
}


#: One model on every split, the others on two.
PAIRS = [
    (case, split) for case in CASES for split in SPLITS if case == "mixture" or split in {"seven shards", "sub-chunks"}
]


@dataclass(frozen=True)
class Limit:
    """A model of numbers that fails at a row above a limit."""

    inner: Any
    limit: float

    def seq_log_density(self, enc: Any) -> np.ndarray:
        """Return the log-densities, if no row is above the limit."""
        scores: np.ndarray = self.inner.seq_log_density(enc)
        low = np.flatnonzero(scores < self.limit)
        if len(low):
            raise RowError("its density is below the limit", "Limit", int(low[0]))
        return scores
