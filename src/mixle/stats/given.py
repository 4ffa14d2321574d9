"""The laws, or estimators, that a combinator is made of: what is none is refused where it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixle.stats.refusals import shown

__all__ = ["either", "estimator_given", "estimators_given", "law_given", "laws_given", "needed"]


def law_given(value: Any, owner: str) -> Any:
    """Return a law that a combinator was made with.

    Raises
    ------
    TypeError
        If it is none; the message names the owner and what to pass.

    Examples
    --------
    >>> law_given(3.0, "Optional")
    Traceback (most recent call last):
    TypeError: a part of an Optional is 3.0, not a distribution; pass for example GaussianDistribution(0.0, 1.0)
    """
    kind = _instance(value, owner)
    if hasattr(value, "seq_log_density") or hasattr(value, "log_density"):
        return value
    if hasattr(value, "accumulator_factory"):
        raise TypeError(f"{_part(owner)} is the estimator {kind}; pass a distribution, as {_twin(kind)}(...)")
    raise TypeError(
        f"{_part(owner)} is {shown(value)}, not a distribution; pass for example GaussianDistribution(0.0, 1.0)"
    )


def estimator_given(value: Any, owner: str) -> Any:
    """Return an estimator that a combinator's estimator was made with.

    Raises
    ------
    TypeError
        If it is none; the message names the owner and what to pass.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> estimator_given(GaussianDistribution(0.0, 1.0), "Optional")
    Traceback (most recent call last):
    TypeError: a part of an Optional's estimator is the law GaussianDistribution; pass ...
    """
    kind = _instance(value, owner)
    if hasattr(value, "accumulator_factory"):
        return value
    if hasattr(value, "seq_log_density"):
        raise TypeError(f"{_part(owner)}'s estimator is the law {kind}; pass {kind}(...).estimator()")
    raise TypeError(f"{_part(owner)}'s estimator is {shown(value)}, no estimator; pass for example GaussianEstimator()")


def laws_given(values: Any, owner: str) -> tuple[Any, ...]:
    """Return the laws that a combinator was made with; TypeError for what is no sequence of laws."""
    return tuple(law_given(part, owner) for part in _sequence(values, owner))


def estimators_given(values: Any, owner: str) -> tuple[Any, ...]:
    """Return the estimators that one was made with; TypeError for what is no sequence of estimators."""
    return tuple(estimator_given(part, owner) for part in _sequence(values, owner))


def either(owner: str, **names: Any) -> Any:
    """Return the argument that goes by several names, under the one that it was given; None where it was not.

    Raises
    ------
    ValueError
        If it was given under more than one.

    Examples
    --------
    >>> either("Mixture", w=None, weights=[1.0])
    [1.0]
    >>> either("Mixture", w=[1.0], weights=[1.0])
    Traceback (most recent call last):
    ValueError: a Mixture was given w and weights, names of one argument; pass one of them
    """
    given = [name for name, value in names.items() if value is not None]
    if len(given) > 1:
        article = "an" if owner[0] in "AEIOU" else "a"
        raise ValueError(f"{article} {owner} was given {' and '.join(given)}, names of one argument; pass one of them")
    return names[given[0]] if given else None


def needed(owner: str, **names: Any) -> Any:
    """Return `either` of the names of an argument that must be given.

    Raises
    ------
    TypeError
        If it was given under none.

    Examples
    --------
    >>> needed("Categorical", pmap=None, prob_map=None)
    Traceback (most recent call last):
    TypeError: pmap of a Categorical is missing; pass pmap=
    """
    given = either(owner, **names)
    if given is None:
        first = next(iter(names))
        raise TypeError(f"{first} of {'an' if owner[0] in 'AEIOU' else 'a'} {owner} is missing; pass {first}=")
    return given


def _sequence(values: Any, owner: str) -> tuple[Any, ...]:
    if not isinstance(values, Sequence) and (not hasattr(values, "__iter__") or np.ndim(values) == 0):
        kind = type(values).__name__
        raise TypeError(f"a {owner} takes its parts as one sequence: pass [{kind}(...), ...]")
    return tuple(values)


def _instance(value: Any, owner: str) -> str:
    """Return the name of the class of a part; TypeError for a class itself."""
    if isinstance(value, type):
        raise TypeError(f"{_part(owner)} is the class {value.__name__}; pass an instance: {value.__name__}(...)")
    return type(value).__name__


def _part(owner: str) -> str:
    return f"a part of {'an' if owner[0] in 'AEIOU' else 'a'} {owner}"


def _twin(kind: str) -> str:
    return f"{kind.removesuffix('Estimator')}Distribution"
