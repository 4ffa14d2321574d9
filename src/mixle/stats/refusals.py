"""Refusals that several models share: a statistic, a model or a weight that is not of this estimator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

__all__ = ["LEAVE_OUT", "check_mass", "refuse_model", "refuse_statistic", "shown", "supports"]

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


def shown(value: Any) -> str:
    """Return a value as it is told in a message, whatever its own text does.

    Examples
    --------
    >>> shown([1, 2]), shown(10**5000)
    ('[1, 2]', 'a value of the type int')
    """
    try:
        return f"{value!r:.80}"
    except Exception:  # noqa: BLE001 - an integer of very many digits, or a class of a user's own
        return f"a value of the type {type(value).__name__}"


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


def supports(model: Any) -> str:
    """Return in words which values the parts of a model take, for a refusal of rows that it does not.

    Parts that take every value of their kind are passed over; the text is empty if there are no others.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, MixtureDistribution, PoissonDistribution, RecordDistribution
    >>> part = RecordDistribution({"guests": PoissonDistribution(2.0), "grams": GaussianDistribution(0.0, 1.0)})
    >>> supports(MixtureDistribution([part, part], [0.5, 0.5]))
    "field 'guests' (Poisson) takes the integers 0, 1, 2, ..."
    """
    return "; ".join(dict.fromkeys(_supports(model, "")))


def _supports(model: Any, where: str) -> Iterator[str]:
    support = getattr(getattr(model, "leaf", None), "support", None)
    if callable(support):
        words, name = str(support()), type(model).__name__.removesuffix("Distribution")
        if words != "its support":
            yield f"{where} ({name}) takes {words}" if where else f"{name} takes {words}"
        return
    for attribute in ("components", "topics", "dist", "base"):
        parts = getattr(model, attribute, None)
        for part in parts if isinstance(parts, (list, tuple)) else () if parts is None else (parts,):
            yield from _supports(part, where)
    names = getattr(model, "fields", None) or range(len(getattr(model, "dists", ())))
    for name, part in zip(names, getattr(model, "dists", ()), strict=False):
        yield from _supports(part, f"{where}, {name!r}" if where else f"field {name!r}")
