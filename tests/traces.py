"""Everything a fit says, as bits, and the reference that every transport is held to."""

from __future__ import annotations

from functools import cache
from typing import Any

import mixle.stats as st
from mixle.testing.bits import trace
from mixle.utils.parallel.planner import encoded_data
from models import MODELS

__all__ = ["NAMES", "problem", "reference", "trace"]

NAMES = [*MODELS, *(f"mixture of {name}" for name in MODELS)]


@cache
def problem(name: str) -> tuple[list[Any], Any]:
    """Return (rows, estimator) of a model of the table, as it is or as a mixture."""
    model = MODELS[name if name in MODELS else name.removeprefix("mixture of ")]()
    rows, estimator = list(model.rows), model.estimator
    return rows, estimator if name in MODELS else st.MixtureEstimator([estimator] * 2)


@cache
def reference(
    name: str, shard_map: Any, sub_chunks: int = 1, rounds: int = 3, precision: str = "float64"
) -> tuple[Any, ...]:
    """Return the trace of a model on one thread of this process."""
    rows, estimator = problem(name)
    options = {"num_shards": shard_map, "sub_chunks": sub_chunks, "precision": precision}
    with encoded_data(rows, estimator, **options) as handle:
        return trace(handle, estimator, rounds)
