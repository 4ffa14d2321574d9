"""The number of free parameters of a model, for AIC and BIC."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mixle.stats.label_table import held

__all__ = ["free_parameters"]

#: Arguments that are given, not fitted.
_GIVEN = {"Binomial": {"n"}, "DirichletMultinomial": {"n"}, "PointMass": {"value"}}
_GIVEN |= {"IntegerCategorical": {"min_val"}}
#: Arguments that sum to one, or have length one: one entry is not free.
_BOUND = {"IntegerCategorical": {"p_vec"}}
_BOUND |= {"VonMisesFisher": {"mu"}}
#: Symmetric matrices.
_SYMMETRIC = {"MultivariateGaussian": {"covar"}, "MultivariateStudentT": {"shape"}}


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
    name = type(model).__name__.removesuffix("Distribution")
    rule = _RULES.get(name)
    if rule is not None:
        return int(rule(model))
    if hasattr(model, "dists"):
        return _all(model.dists)
    given, bound = _GIVEN.get(name, set()), _BOUND.get(name, set())
    sizes = {field: _size(getattr(model, field)) for field in model._fields if field not in given}
    half = sum(_triangle(sizes[field]) - sizes[field] for field in _SYMMETRIC.get(name, set()))
    return int(sum(sizes.values()) - sum(sizes[field] > 0 for field in bound) + half)


def _all(parts: Iterable[Any]) -> int:
    return sum(map(free_parameters, parts))


def _mixture(model: Any) -> int:
    return len(model.components) - 1 + _all(model.components)


def _chain(model: Any) -> int:
    rows = sum(max(0, len(row) - 1) for row in model.transition_map.values())
    return max(0, len(model.init_prob_map) - 1) + rows + _length(model)


def _integer_chain(model: Any) -> int:
    start = 0 if model.init_dist is None else free_parameters(model.init_dist)
    return _size(model.cond_dist) - len(model.cond_dist) + start + _length(model)


def _joint(model: Any) -> int:
    return _size(model.joint_weights) - 1 + _all(model.components1) + _all(model.components2)


def _hierarchical(model: Any) -> int:
    shares = _size(model.topic_weights) - len(model.topic_weights)
    return len(model.mixture_weights) - 1 + shares + _all(model.topics) + _length(model)


def _factors(model: Any) -> int:
    """Count the covariance of principal components: factors that a rotation turns are the same."""
    d, q = np.shape(model.w)
    return int(d * q - q * (q - 1) // 2 + d + 1)


_RULES: dict[str, Callable[[Any], int]] = {
    "Categorical": lambda m: max(0, len(held(m)) - 1),
    "Null": lambda _: 0,
    "Ignored": lambda _: 0,
    "StudentT": lambda _: 3,
    "Logistic": lambda _: 2,
    "Gumbel": lambda _: 2,
    "Optional": lambda m: free_parameters(m.dist) + (m.p is not None),
    "Hurdle": lambda m: free_parameters(m.base) + 1,
    "Censored": lambda m: free_parameters(m.base),
    "Truncated": lambda m: free_parameters(m.base),
    "Transform": lambda m: free_parameters(m.dist),
    "Weighted": lambda m: free_parameters(m.dist),
    "ZeroInflated": lambda m: free_parameters(m.base) + 1,
    "Mixture": _mixture,
    "GaussianMixture": _mixture,
    "HeterogeneousMixture": _mixture,
    "SemiSupervisedMixture": _mixture,
    "JointMixture": _joint,
    "HierarchicalMixture": _hierarchical,
    "HiddenMarkovModel": lambda m: len(m.w) ** 2 - 1 + _all(m.topics) + _length(m),
    "Sequence": lambda m: free_parameters(m.dist) + _length(m),
    "Multinomial": lambda m: free_parameters(m.dist) + _length(m),
    "IntegerMultinomial": lambda m: free_parameters(m.dist) + _length(m),
    "MarkovChain": _chain,
    "IntegerMarkovChain": _integer_chain,
    "ProbabilisticPCA": _factors,
}


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
