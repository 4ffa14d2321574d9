"""Refusals that several models share: a statistic, a model or a weight that is not of this estimator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from mixle.errors import ContractError

__all__ = [
    "LEAVE_OUT",
    "check_mass",
    "check_models",
    "check_shape",
    "refuse_model",
    "refuse_rows",
    "refuse_statistic",
    "scores_of",
    "shown",
    "supports",
    "told",
    "walkable",
]

#: What to do about a row that a model gives no probability.
LEAVE_OUT = "leave the row out, or use a model that supports it"


def refuse_statistic(found: Any, expected: Any, what: str) -> NoReturn:
    """Raise ContractError: a statistic has `found` of what there are `expected` of here.

    Examples
    --------
    >>> refuse_statistic(3, 2, "components")
    Traceback (most recent call last):
        ...
    mixle.errors.ContractError: the statistic has 3 components, 2 are expected; make it with \
estimator.accumulator_factory().make()
    """
    raise ContractError(
        f"the statistic has {found} {what}, {expected} are expected; "
        "make it with estimator.accumulator_factory().make()"
    )


def check_shape(found: Any, shape: tuple[int, ...], what: str) -> None:
    """Raise ContractError if an array of a statistic is not of the shape that it has here.

    Examples
    --------
    >>> check_shape([1.0, 2.0], (2,), "components")
    """
    here = np.shape(found)
    if here != shape:
        plain = len(here) == len(shape) == 1
        refuse_statistic(here[0] if plain else here, shape[0] if plain else shape, what)


def check_models(models: Iterable[Any]) -> None:
    """Raise TypeError for what cannot score rows.

    Examples
    --------
    >>> check_models([None])
    Traceback (most recent call last):
    TypeError: a NoneType has no seq_log_density: pass the model to score
    """
    for model in models:
        if isinstance(model, type):
            raise TypeError(f"the model is the class {model.__name__}; pass an instance: {model.__name__}(...)")
        if not hasattr(model, "seq_log_density"):
            raise TypeError(f"a {type(model).__name__} has no seq_log_density: pass the model to score")


def scores_of(model: Any, payload: Any, count: int) -> np.ndarray:
    """Return the log-densities (n,) of a chunk of n rows; ContractError if there are not as many.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> scores_of(PoissonDistribution(2.0), PoissonDistribution(2.0).dist_to_encoder().seq_encode([0]), 1)
    array([-2.])
    """
    scores = np.asarray(model.seq_log_density(payload), dtype=np.float64)
    if scores.shape != (count,):
        kind = type(model).__name__
        raise ContractError(
            f"{kind}.seq_log_density returned shape {scores.shape} for {count} rows; expected ({count},): "
            "pass chunks as seq_encode(rows, model=model) returns them"
        )
    return scores


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


def told(value: Any) -> str:
    """Return what a value is, for a message: short things as they are, others by their type and size.

    Examples
    --------
    >>> from mixle.stats import BinomialEstimator
    >>> told(None), told((1.0, 2.0)), told(np.zeros((2, 3)))
    ('None', 'a tuple of 2', 'an array of shape (2, 3)')
    >>> told(BinomialEstimator().accumulator_factory().make().value())
    'BinomialStatistic(count, total, min_val, max_val)'
    """
    kind = type(value).__name__
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{kind}({', '.join(value._fields)})"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, (tuple, list, dict, set)):
        return f"a {kind} of {len(value)}"
    return shown(value) if value is None or isinstance(value, (str, bytes, int, float)) else f"a value of type {kind}"


def walkable(data: Any) -> bool:
    """Return whether something can be a sequence of rows: a text, a dict, a class and a 0-d array are none."""
    walked = hasattr(data, "__iter__") or hasattr(data, "__getitem__")
    return walked and not isinstance(data, (str, bytes, dict, type)) and getattr(data, "ndim", 1) != 0


def refuse_rows(where: str, data: Any) -> NoReturn:
    """Raise TypeError: what stands where rows belong is no sequence of them.

    Examples
    --------
    >>> refuse_rows("seq_encode", None)
    Traceback (most recent call last):
    TypeError: seq_encode takes a sequence of rows, not None; pass a list of rows, [row] for one alone
    """
    raise TypeError(f"{where} takes a sequence of rows, not {told(data)}; pass a list of rows, [row] for one alone")


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
