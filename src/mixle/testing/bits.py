"""Everything a fit says, as bits: what is compared where equality means the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["bits", "trace"]


def bits(value: Any) -> Any:
    """Return nested plain data that is equal exactly where `value` has the same types, shapes and bits.

    Parameters
    ----------
    value : Any
        A statistic, a model's dictionary, numbers.

    Examples
    --------
    >>> bits(0.1 + 0.2) == bits(0.3), bits((1, 2.0)) == bits((1, 2.0))
    (False, True)
    """
    if isinstance(value, np.ndarray):
        return ("array", value.shape, value.dtype.str, value.tobytes())
    if isinstance(value, (float, np.floating)):
        return float(value).hex()
    if isinstance(value, dict):
        return ("dict", tuple((repr(key), bits(item)) for key, item in value.items()))
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, tuple(bits(item) for item in value))
    return repr(value)


def trace(handle: Any, estimator: Any, rounds: int = 3) -> tuple[Any, ...]:
    """Return everything a fit says, as bits: the start, rounds of statistics and scores, and the model.

    Parameters
    ----------
    handle : EncodedDataHandle
        Encoded rows.
    estimator : ParameterEstimator
        What is fitted.
    rounds : int
        Number of rounds.
    """
    model = handle.pysp_seq_initialize(estimator, np.random.RandomState(5), 0.5)
    said: list[Any] = [bits(model.to_dict())]
    for _ in range(rounds):
        step = handle.estep(estimator, model)
        said.append((step.nobs, step.log_density.hex(), step.left_out, bits(step.value)))
        said.append(bits(handle.pysp_seq_log_density_sum(model)))
        model = handle.m_step(estimator, step, model)
    return said, bits(handle.pysp_stream_accumulate(estimator, model)), bits(model.to_dict()), model.digest()


def documented_trace(handle: Any, estimator: Any) -> tuple[Any, ...]:
    """Return what the four documented methods say, as bits: for handles that have no more."""
    start = handle.pysp_seq_initialize(estimator, np.random.RandomState(5), 0.5)
    model = handle.pysp_seq_estimate(estimator, start)
    score = handle.pysp_seq_log_density_sum(model)
    return (
        bits(start.to_dict()),
        bits(model.to_dict()),
        bits(tuple(float(x) for x in score)),
        bits(handle.pysp_stream_accumulate(estimator, model)),
    )
