"""Arguments of a fit, checked before any work."""

from __future__ import annotations

import math
import numbers
import operator
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from mixle.stats.refusals import shown
from mixle.utils.parallel.folding.inputs import check_precision, random_state

__all__ = ["as_estimator", "check_callable", "check_cap", "check_delta", "check_positive", "choose_objective", "one_of"]
__all__ += ["penalty_of", "refuse_unbuilt", "stream", "validate_keys"]

_OBJECTIVES = ("auto", "mle", "map", "vb")


def as_estimator(estimator: Any, previous: Any = None) -> Any:
    """Return an estimator: `estimator` itself, or that of the distribution given in its place.

    Raises
    ------
    ValueError
        If there is neither an estimator nor a previous model.
    TypeError
        If `estimator` is neither.
    """
    if estimator is None:
        estimator = previous
    if estimator is None:
        raise ValueError(
            "an estimator is required; pass for example MixtureEstimator([GaussianEstimator()] * 3), "
            "for a table mixle.schema(data).estimator(components=3), or mixle.inference.infer(rows).estimator"
        )
    if isinstance(estimator, type):
        raise TypeError(f"estimator is the class {estimator.__name__}; pass an instance: {estimator.__name__}()")
    if callable(getattr(estimator, "accumulator_factory", None)):
        return estimator
    if callable(getattr(estimator, "estimator", None)):
        return estimator.estimator()
    raise TypeError(
        f"{type(estimator).__name__} is neither an estimator nor a distribution; pass for example GaussianEstimator()"
    )


def validate_keys(estimator: Any) -> None:
    """Refuse tying keys that cannot be honoured, by KeyValidationError."""
    from mixle.stats.keys import validate_estimator_keys

    validate_estimator_keys(estimator)


def check_cap(name: str, value: Any, least: int) -> int:
    """Return `value` as an int ≥ `least`, or raise ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)) or number < least:
        bound = f"an integer of at least {least}" if least > -(2**63) else "an integer"
        raise ValueError(f"{name} must be {bound}, not {shown(value)}; pass for example {name}={max(least, 1)}")
    return number


def check_callable(name: str, value: Any, what: str) -> Any:
    """Return `value` if it is None or can be called, or raise TypeError."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} is {shown(value)}, which cannot be called; pass {what}")
    return value


def check_positive(name: str, value: Any) -> float | None:
    """Return `value` as a finite float > 0, or None; else raise ValueError."""
    if value is None:
        return None
    good = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    if not good or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be None or a finite number above 0, not {shown(value)}")
    return float(value)


def check_delta(delta: Any) -> float | None:
    """Return the threshold of convergence; 0 is refused, None means that only the cap stops the loop."""
    return check_positive("delta", delta)


def one_of(name: str, value: Any, choices: tuple[Any, ...]) -> str:
    """Return `value` if it is one of `choices`, or raise ValueError."""
    if not isinstance(value, (str, type(None))) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}; not {shown(value)}")
    return str(value)


def refuse_unbuilt(engine: Any, precision: Any, strategy: Any, structure: Any, schedule: Any, fused: Any) -> None:
    """Check the arguments that choose how a fit is computed; there is one way, so most are refused by name."""
    name = getattr(engine, "name", engine)
    if engine is not None and name != "numpy":
        raise ValueError(f"engine {name!r} is not available; fits run on numpy (engine=None or 'numpy')")
    check_precision("a fit", precision)
    one_of("strategy", strategy, (None, "em", "squarem"))
    one_of("structure", structure, ("auto", "off"))
    one_of("schedule", schedule, ("auto", "full"))
    if fused is not None and not isinstance(fused, Mapping):
        raise TypeError(f"fused_options must be a mapping or None, not {type(fused).__name__}")
    if fused:
        warnings.warn(f"fused_options {sorted(map(str, fused))} have no effect: there is one loop", stacklevel=3)


def choose_objective(objective: Any, estimator: Any) -> str:
    """Return ``"mle"``, ``"map"`` or ``"vb"``; ``"auto"`` is ``"map"`` where the estimator has a prior."""
    chosen = one_of("objective", objective, _OBJECTIVES)
    if chosen != "auto":
        return chosen
    prior = getattr(estimator, "get_prior", None)
    return "map" if callable(prior) and prior() is not None else "mle"


def penalty_of(objective: str, estimator: Any) -> Any:
    """Return the function of a model that is added to its log-likelihood."""
    density = getattr(estimator, "model_log_density", None)
    if objective == "mle" or not callable(density):
        return _nothing
    return lambda model: float(density(model))


def _nothing(_: Any) -> float:
    """Add nothing."""
    return 0.0


def stream(rng: Any, seed: Any) -> Any:
    """Return the ``RandomState`` that `rng` or `seed` mean; neither means 0.

    Raises
    ------
    TypeError
        For both at once, and for anything that is no source of randomness.
    """
    if rng is not None and seed is not None:
        raise TypeError("rng and seed are two names for one choice; pass one of them")
    chosen = seed if rng is None else rng
    return random_state(0 if chosen is None else chosen, "seed" if rng is None else "rng")
