"""The log-density of a model's parameters under the priors of its estimator, part by part."""

from __future__ import annotations

from typing import Any

from mixle.stats.contract import ParameterEstimator, parts_of
from mixle.stats.keys import own_keys

__all__ = ["log_density_of"]


def log_density_of(estimator: Any, model: Any, counted: set[Any]) -> float:
    """Return the summed log-density of a model and its parts.

    Parameters
    ----------
    estimator : ParameterEstimator
        Its ``_laws`` name the attributes of the model that hold the parts, in the order of its own parts.
    model : distribution
        The model.
    counted : set
        Keys whose prior was counted; it is added to.
    """
    keys = own_keys(estimator)
    roles = keys if isinstance(keys, tuple) else (keys,)
    names = [None if key is None else (type(estimator).__name__, role, key) for role, key in enumerate(roles)]
    again = [name in counted for name in names]
    counted.update(name for name in names if name is not None)
    total = 0.0 if again and again[0] else float(estimator.own_log_density(model))
    if len(again) > 1 and again[-1]:
        return total  # the parts are tied as a whole
    for part, law in zip((part for _, part in parts_of(estimator)), _laws(estimator, model), strict=False):
        method = getattr(type(part), "model_log_density", None)
        if method is ParameterEstimator.model_log_density:
            total += log_density_of(part, law, counted)
        elif callable(method):
            total += float(part.model_log_density(law))
    return total


def _laws(estimator: Any, model: Any) -> list[Any]:
    """Return the parts of a model that belong to the parts of its estimator."""
    found: list[Any] = []
    for name in getattr(estimator, "_laws", ()):
        value = getattr(model, name, None)
        found.extend(value if isinstance(value, (list, tuple)) else [value])
    return found
