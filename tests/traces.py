"""Everything a fit says, as bits, and the reference that every transport is held to."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import mixle.stats as st
from bits import bits
from mixle.utils.parallel.planner import encoded_data
from models import MODELS

NAMES = [*MODELS, *(f"mixture of {name}" for name in MODELS)]


@cache
def problem(name: str) -> tuple[list[Any], Any]:
    """Return (rows, estimator) of a model of the table, as it is or as a mixture."""
    model = MODELS[name if name in MODELS else name.removeprefix("mixture of ")]()
    rows, estimator = list(model.rows), model.estimator
    return rows, estimator if name in MODELS else st.MixtureEstimator([estimator] * 2)


def trace(handle: Any, estimator: Any) -> tuple[Any, ...]:
    """Return everything a fit says, as bits: the start, three rounds of statistics and scores, and the model."""
    model = handle.pysp_seq_initialize(estimator, np.random.RandomState(5), 0.5)
    said = [bits(model.to_dict())]
    for _ in range(3):
        step = handle.estep(estimator, model)
        said.append((step.nobs, step.log_density.hex(), step.left_out, bits(step.value)))
        said.append(bits(handle.pysp_seq_log_density_sum(model)))
        model = handle.m_step(estimator, step, model)
    return said, bits(handle.pysp_stream_accumulate(estimator, model)), bits(model.to_dict()), model.digest()


@cache
def reference(name: str, shard_map: Any, sub_chunks: int = 1) -> tuple[Any, ...]:
    """Return the trace of a model on one thread of this process."""
    rows, estimator = problem(name)
    with encoded_data(rows, estimator, num_shards=shard_map, sub_chunks=sub_chunks) as handle:
        return trace(handle, estimator)
