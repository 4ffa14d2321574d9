"""The M-step, here or on a worker."""

from __future__ import annotations

from typing import Any

from mixle._limits import one_blas_thread
from mixle._trust import trusted

__all__ = ["estimated", "m_step", "m_step_beside"]


def m_step(estimator: Any, nobs: float, value: Any, previous: Any = None) -> Any:
    """Return the model that fits a folded statistic, one BLAS thread at work.

    Parameters
    ----------
    estimator : ParameterEstimator
        If it has ``keep_empty(model, previous, value)``, components without weight keep their previous parameters.
    nobs, value
        Total weight and statistic.
    previous : distribution, optional
        Model of the E-step.
    """
    with one_blas_thread():
        model = estimated(estimator, nobs, value)
        keep_empty = getattr(estimator, "keep_empty", None)
        if keep_empty is not None and previous is not None:
            model = keep_empty(model, previous, value)
    return model


def estimated(estimator: Any, nobs: float, value: Any) -> Any:
    """Return what an estimator makes of a statistic; TypeError naming it if that is no model."""
    with trusted():
        model = estimator.estimate(nobs, value)
    if model is None:
        raise TypeError(f"{type(estimator).__name__}.estimate returned None; it has to return the fitted distribution")
    return model


def m_step_beside(_: Any, *args: Any) -> Any:
    """Return `m_step` of the arguments: what an `Apply` runs on a worker, which looks at no shard for it."""
    return m_step(*args)
