"""The number of free parameters of a model, for AIC and BIC."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["free_parameters"]

#: Arguments that are given, not fitted.
_GIVEN = {"BinomialDistribution": {"n"}, "DirichletMultinomialDistribution": {"n"}, "PointMassDistribution": {"value"}}
_GIVEN |= {"IntegerCategoricalDistribution": {"min_val"}}
#: Arguments that sum to one, or have length one: one entry is not free.
_BOUND = {"CategoricalDistribution": {"pmap"}, "IntegerCategoricalDistribution": {"p_vec"}}
_BOUND |= {"VonMisesFisherDistribution": {"mu"}}
#: Symmetric matrices.
_SYMMETRIC = {"MultivariateGaussianDistribution": {"covar"}, "MultivariateStudentTDistribution": {"shape"}}


def free_parameters(model: Any) -> int:
    """Return the number of free parameters of a model.

    Tied parameters are counted once for each place where they stand; laws that are not fitted (Null, Ignored) have
    none. A family of your own may say it with a method ``free_parameters()``.

    Parameters
    ----------
    model : distribution
        A family, a combinator, a mixture or a hidden Markov model.

    Raises
    ------
    TypeError
        For a law whose parameters are no numbers, and that does not say.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, MixtureDistribution
    >>> free_parameters(MixtureDistribution([GaussianDistribution(0.0, 1.0)] * 3, [0.2, 0.3, 0.5]))
    8
    """
    own = getattr(model, "free_parameters", None)
    if callable(own):
        return int(own())
    name = type(model).__name__
    if name in {"NullDistribution", "IgnoredDistribution"}:
        return 0
    if name == "StudentTDistribution":
        return 3
    if name == "OptionalDistribution":
        return free_parameters(model.dist) + (model.p is not None)
    if name == "MixtureDistribution":
        return len(model.components) - 1 + sum(map(free_parameters, model.components))
    if name == "HiddenMarkovModelDistribution":
        return len(model.w) ** 2 - 1 + sum(map(free_parameters, model.topics)) + _length(model)
    if name == "SequenceDistribution":
        return free_parameters(model.dist) + _length(model)
    if hasattr(model, "dists"):
        return sum(map(free_parameters, model.dists))
    given, bound = _GIVEN.get(name, set()), _BOUND.get(name, set())
    sizes = {field: _size(getattr(model, field)) for field in model._fields if field not in given}
    half = sum(_triangle(sizes[field]) - sizes[field] for field in _SYMMETRIC.get(name, set()))
    return int(sum(sizes.values()) - sum(sizes[field] > 0 for field in bound) + half)


def _length(model: Any) -> int:
    law = getattr(model, "len_dist", None)
    return 0 if law is None else free_parameters(law)


def _size(value: Any) -> int:
    array = np.asarray(list(value.values()) if isinstance(value, dict) else value)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"free parameters are not known for a law with {value!r:.60}; give it a method free_parameters()"
        )
    return int(array.size)


def _triangle(size: int) -> int:
    side = math.isqrt(size)
    return side * (side + 1) // 2
