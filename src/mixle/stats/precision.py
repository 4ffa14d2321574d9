"""In which floating-point numbers the E-step of stacked components computes: a choice of the thread.

Everything that is kept stays float64: encoded rows, parameters, sums over blocks of rows. In float32 are the blocks
of features (their centres are taken off in float64 first), the coefficients, log-densities and responsibilities, and
the products of one block.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

__all__ = ["FLOAT32", "FLOAT64", "PRECISIONS", "Working", "computing", "working"]


class Working(NamedTuple):
    """A precision, and the thresholds that depend on it.

    Attributes
    ----------
    name : str
        What users call it.
    dtype : dtype
        Of features, log-densities and responsibilities.
    unit : float
        Largest relative error of one rounding.
    log_zero : float
        Stands for log 0 inside products, where an infinity would make NaN.
    pair_loss : float
        A quadratic component whose pair features lose more than this in log-density is scored by substitution.
    loss : float
        A second moment about the centre this much larger than the scatter has lost too many digits.
    """

    name: str
    dtype: np.dtype[Any]
    unit: float
    log_zero: float
    pair_loss: float
    loss: float


FLOAT64 = Working("float64", np.dtype(np.float64), 2.0**-53, -1e300, 1e-10, 1e5)
FLOAT32 = Working("float32", np.dtype(np.float32), 2.0**-24, -1e30, 1e-3, 1e3)
PRECISIONS = {"float64": FLOAT64, "float32": FLOAT32}

_state = threading.local()


def working() -> Working:
    """Return the precision that this thread asked for; float64 if it asked for none."""
    return getattr(_state, "working", FLOAT64)


@contextmanager
def computing(precision: Working) -> Iterator[None]:
    """Let mixtures of stacked components compute in `precision` in this thread meanwhile.

    Examples
    --------
    >>> with computing(FLOAT32):
    ...     working().name
    'float32'
    >>> working().name
    'float64'
    """
    before = working()
    _state.working = precision
    try:
        yield
    finally:
        _state.working = before
