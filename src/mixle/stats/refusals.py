"""Refusals that several models share: a statistic, a model or a weight that is not of this estimator."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

__all__ = ["LEAVE_OUT", "check_mass", "refuse_model", "refuse_statistic"]

#: What to do about a row that a model gives no probability.
LEAVE_OUT = "leave the row out, or use a model that supports it"


def refuse_statistic(found: Any, expected: Any, what: str, error: type[Exception] = ValueError) -> NoReturn:
    """Raise `error`: a statistic has `found` of what there are `expected` of here.

    Examples
    --------
    >>> refuse_statistic(3, 2, "components")
    Traceback (most recent call last):
        ...
    ValueError: the statistic has 3 components, 2 are expected; make it with estimator.accumulator_factory().make()
    """
    raise error(
        f"the statistic has {found} {what}, {expected} are expected; "
        "make it with estimator.accumulator_factory().make()"
    )


def refuse_model(found: Any, expected: Any, what: str) -> NoReturn:
    """Raise ValueError: a model has `found` of what its estimator has `expected` of.

    Examples
    --------
    >>> refuse_model(3, 2, "components")
    Traceback (most recent call last):
        ...
    ValueError: the model has 3 components, the estimator 2; pass a model of this estimator, or use model.estimator()
    """
    raise ValueError(
        f"the model has {found} {what}, the estimator {expected}; "
        "pass a model of this estimator, or use model.estimator()"
    )


def check_mass(mass: float, nobs: float | None, tied: bool) -> None:
    """Raise ValueError if components were assigned more weight than the rows have.

    Parameters
    ----------
    mass : float
        Weight that was assigned.
    nobs : float or None
        Weight of the rows; None where it is not known.
    tied : bool
        Whether the weight is pooled with that of other models, so that it may be larger.
    """
    slack = 64 * float(np.finfo(np.float32).eps) * max(1.0, mass)
    if nobs is not None and not tied and mass > nobs + slack:
        raise ValueError(
            f"assigned mass cannot exceed declared mass: {mass!r} of {nobs!r}; "
            "pass nobs=None, or the weight of all rows that were added"
        )
