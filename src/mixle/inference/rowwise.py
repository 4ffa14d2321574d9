"""One pass of a fit, row by row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mixle.errors import RowError
from mixle.inference.options import as_estimator, validate_keys
from mixle.inference.rows import as_rows
from mixle.utils.parallel.folding.inputs import check_probability, random_state

__all__ = ["estimate", "initialize"]


def initialize(data: Iterable[Any], estimator: Any, rng: Any, p: float = 0.1) -> Any:
    """Return a start drawn row by row; see `seq_initialize` for the form that fits use.

    Each row is kept with probability `p`; the accumulator starts on the kept rows. If none is kept the first row is.

    Parameters
    ----------
    data : iterable
        Rows, in any form that `optimize` takes.
    estimator : ParameterEstimator or distribution
        Family of the model.
    rng : RandomState, Generator or int
        Source of the start.
    p : float
        Share of the rows that is read, in (0, 1].

    Raises
    ------
    ValueError
        Without rows, and for `p` outside (0, 1].

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> initialize([1.0, 2.0, 3.0], GaussianEstimator(), rng=0, p=1.0).mu
    2.0
    """
    from numpy.random import RandomState

    p = check_probability(p)
    state = random_state(rng)
    estimator = as_estimator(estimator)
    validate_keys(estimator)
    rows = as_rows(data)
    keep = RandomState(state.randint(2**31 - 1)).binomial(1, p, size=len(rows)).astype(float)
    if not keep.any():
        keep[0] = 1.0
    accumulator = estimator.accumulator_factory().make()
    kept = np.flatnonzero(keep).tolist()
    try:  # components are told apart by looking at the kept rows together
        payload = accumulator.acc_to_encoder().seq_encode([rows[i] for i in kept])
    except RowError as error:
        raise (error if error.row is None else error.at(kept[error.row])) from None
    accumulator.seq_initialize(payload, np.ones(len(kept)), state)
    return _finish(estimator, accumulator, float(keep.sum()))


def estimate(data: Iterable[Any], estimator: Any, prev_estimate: Any = None) -> Any:
    """Return the model after one EM step taken row by row; see `seq_estimate` for the form that fits use.

    Parameters
    ----------
    data : iterable
        Rows, in any form that `optimize` takes.
    estimator : ParameterEstimator or distribution
        The M-step.
    prev_estimate : distribution, optional
        Model of the E-step; leaves need none.

    Raises
    ------
    ValueError
        Without rows, and for a row that the family cannot read.

    Examples
    --------
    >>> from mixle.inference import estimate
    >>> from mixle.stats import PoissonEstimator
    >>> estimate([1, 2, 3], PoissonEstimator()).lam
    2.0
    """
    estimator = as_estimator(estimator, prev_estimate)
    validate_keys(estimator)
    rows = as_rows(data)
    accumulator = estimator.accumulator_factory().make()
    for row in rows:
        accumulator.update(row, 1.0, prev_estimate)
    return _finish(estimator, accumulator, float(len(rows)))


def _finish(estimator: Any, accumulator: Any, nobs: float) -> Any:
    from mixle.stats.keys import tie

    tie(accumulator)
    return estimator.estimate(nobs, accumulator.value())
