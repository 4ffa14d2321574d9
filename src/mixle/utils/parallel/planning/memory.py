"""Bytes of the numbers in a model or a statistic.

Only numeric payload counts: arrays by their buffers, plain numbers by their objects, text by its UTF-8 length. The
estimate is a function of the public parameters, so that it does not change from call to call.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["estimate_estimator_stat_nbytes", "estimate_model_nbytes", "payload_nbytes"]

DEPTH = 8


def payload_nbytes(value: Any) -> int:
    """Return the bytes of the numbers in `value`, to a depth of 8; an object met twice counts once. Never raises.

    Examples
    --------
    >>> import numpy as np
    >>> payload_nbytes({"a": np.zeros(4), "b": "xyz"})
    37
    """
    return _nbytes(value, DEPTH, {})


def _nbytes(value: Any, depth: int, seen: dict[int, Any]) -> int:
    if value is None or depth < 0:
        return 0
    if isinstance(value, (bool, int, float, complex)):
        return sys.getsizeof(value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind != "O":
        known = isinstance(value, np.ndarray) and id(value) in seen
        seen[id(value)] = value
        return 0 if known else int(value.nbytes)
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, (bytes, bytearray)):
        return len(value)
    if id(value) in seen or isinstance(value, type) or callable(value):
        return 0
    seen[id(value)] = value
    return sum(_nbytes(part, depth - 1, seen) for part in _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        yield from value.ravel().tolist()
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield key
            yield part
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
    else:
        yield from _attributes(value)


def _attributes(value: Any) -> Iterator[Any]:
    names = list(getattr(value, "__dict__", ()))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names.extend((slots,) if isinstance(slots, str) else slots)
    for name in names:
        if not name.startswith("_"):
            yield getattr(value, name, None)


def estimate_model_nbytes(model: Any) -> int:
    """Approximate bytes held by a model's public parameter payload.

    Parameters
    ----------
    model : distribution
        Any object; private attributes and callables do not count.

    Returns
    -------
    int

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> estimate_model_nbytes(GaussianDistribution(0.0, 1.0)) > 0
    True
    """
    return payload_nbytes(model)


def estimate_estimator_stat_nbytes(estimator: Any) -> int:
    """Approximate bytes in a zero accumulator value for an estimator.

    Parameters
    ----------
    estimator : ParameterEstimator
        Its accumulator is made once and asked for its value.

    Returns
    -------
    int
        0 if the accumulator has no value before it has seen data.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> estimate_estimator_stat_nbytes(GaussianEstimator()) > 0
    True
    """
    return payload_nbytes(estimator.accumulator_factory().make().value())
