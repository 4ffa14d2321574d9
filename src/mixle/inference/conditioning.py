"""Parts of a model: the law of some fields, and the law of the others once some are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mixle.errors import ContractError, ImpossibleEvidenceError

__all__ = ["components_of", "conditional", "fields_of", "marginal"]


def components_of(model: Any) -> tuple[list[Any], np.ndarray]:
    """Return the components of a model and the logarithms of their weights; a model without any is its own."""
    if not (hasattr(model, "components") and hasattr(model, "log_w")) or hasattr(model, "transitions"):
        return [model], np.zeros(1)
    return list(model.components), np.asarray(model.log_w, float)


def fields_of(law: Any) -> list[Any]:
    """Return the fields of a composite or record, or the places of a multivariate normal law.

    Parameters
    ----------
    law : distribution
        One component.

    Raises
    ------
    ContractError
        For any other law.
    """
    kind = _kind(law)
    if kind == "Record":
        return list(law.fields)
    if kind == "Composite":
        return list(range(len(law.dists)))
    if kind in {"DiagonalGaussian", "MultivariateGaussian"}:
        return list(range(len(law.mu)))
    raise ContractError(
        f"a {kind} has no fields to tell apart; pass a composite, a record, a multivariate normal law, or a mixture of"
        " one of them"
    )


def marginal(model: Any, fields: Any) -> Any:
    """Return the law of some fields, the others left open.

    Parameters
    ----------
    model : distribution
        A composite, a record, a multivariate normal law (full or diagonal), or a mixture of one of them.
    fields : field or list of fields
        Names of a record, positions of anything else. A list gives a law of rows with these fields in this order; one
        field gives the law of its value.

    Returns
    -------
    distribution
        It scores and samples as any other.

    Raises
    ------
    ContractError
        (a ValueError) for a field that is not there, or a model without fields.

    Examples
    --------
    >>> from mixle.inference import marginal
    >>> from mixle.stats import CompositeDistribution, MixtureDistribution, PoissonDistribution
    >>> rows = [CompositeDistribution((PoissonDistribution(k), PoissonDistribution(2 * k))) for k in (1.0, 5.0)]
    >>> marginal(MixtureDistribution(rows, [0.5, 0.5]), 1)
    MixtureDistribution([PoissonDistribution(2.0, name=None, keys=None), PoissonDistribution(10.0, name=None, keys=None)], [0.5, 0.5], name=None, keys=(None, None))
    """  # noqa: E501 - a repr
    from mixle.stats import MixtureDistribution

    laws, _ = components_of(model)
    if laws[0] is not model:
        return MixtureDistribution([marginal(law, fields) for law in laws], model.w)
    wanted, known = list(fields) if isinstance(fields, (list, np.ndarray)) else [fields], fields_of(model)
    absent = [field for field in wanted if field not in known]
    if absent or not wanted:
        raise ContractError(f"the model has no fields {absent}; it has {known}")
    return _part(model, wanted, isinstance(fields, (list, np.ndarray)))


def conditional(model: Any, observed: Mapping[Any, Any]) -> Any:
    """Return the law of the other fields once some are known.

    Parameters
    ----------
    model : distribution
        As for `marginal`.
    observed : mapping
        Value of each known field: by name of a record, by position of anything else.

    Returns
    -------
    distribution
        Law of rows with the other fields; of a mixture with the weights that the observed fields leave. Draw from it
        by ``conditional(...).sampler(seed).sample(n)``.

    Raises
    ------
    ContractError
        (a ValueError) for a field that is not there, if no field is left, or a model without fields.
    ImpossibleEvidenceError
        (a ValueError) for values that no component supports.

    Examples
    --------
    >>> from mixle.inference import conditional
    >>> from mixle.stats import CategoricalDistribution, GaussianDistribution, MixtureDistribution, RecordDistribution
    >>> def drink(tea, grams):
    ...     kind = CategoricalDistribution({"tea": tea, "coffee": 1.0 - tea})
    ...     return RecordDistribution({"drink": kind, "grams": GaussianDistribution(grams, 1.0)})
    >>> model = MixtureDistribution([drink(0.9, 2.0), drink(0.1, 9.0)], [0.5, 0.5])
    >>> conditional(model, {"grams": 9.5}).w.round(3).tolist()
    [0.0, 1.0]
    >>> list(conditional(model, {"drink": "tea"}).sampler(1).sample(2)[0])
    ['grams']
    """
    from mixle.stats import MixtureDistribution

    laws, log_w = components_of(model)
    known = fields_of(laws[0])
    absent = [field for field in observed if field not in known]
    if absent or not observed:
        raise ContractError(f"the model has no fields {absent}; pass some of {known} with their values")
    order = [field for field in known if field in observed]
    rest = [field for field in known if field not in observed]
    if not rest:
        raise ContractError("every field is observed: none is left to have a law; leave at least one out")
    values = [observed[field] for field in order]
    scores = log_w + np.array([_scored(law, order, values) for law in laws])
    if not np.isfinite(scores).any():
        raise ImpossibleEvidenceError(f"no component supports {dict(observed)!r:.200}; its density is zero")
    others = [_given(law, order, values, rest) for law in laws]
    if laws[0] is model:
        return others[0]
    weights = np.exp(scores - scores.max())
    return MixtureDistribution(others, weights / weights.sum())


def _kind(law: Any) -> str:
    return type(law).__name__.removesuffix("Distribution")


def _part(law: Any, fields: Sequence[Any], rows: bool) -> Any:
    """Return the law of `fields`: of rows of them, or of the value of the only one."""
    from mixle import stats

    kind = _kind(law)
    if kind == "Record":
        return stats.RecordDistribution({f: law.fields[f] for f in fields}) if rows else law.fields[fields[0]]
    if kind == "Composite":
        return stats.CompositeDistribution(tuple(law.dists[j] for j in fields)) if rows else law.dists[fields[0]]
    mean, spread = np.asarray(law.mu, float), np.asarray(law.covar, float)
    if not rows:
        j = fields[0]
        return stats.GaussianDistribution(float(mean[j]), float(spread[j] if spread.ndim == 1 else spread[j, j]))
    if kind == "DiagonalGaussian":
        return stats.DiagonalGaussianDistribution(mean[list(fields)], spread[list(fields)])
    return stats.MultivariateGaussianDistribution(mean[list(fields)], spread[np.ix_(fields, fields)])


def _scored(law: Any, order: Sequence[Any], values: Sequence[Any]) -> float:
    row: Any = tuple(values)
    if _kind(law) == "Record":
        row = dict(zip(order, values, strict=True))
    elif _kind(law) != "Composite":
        row = np.array(values, float)
    return float(_part(law, order, True).log_density(row))


def _given(law: Any, order: Sequence[Any], values: Sequence[Any], rest: Sequence[Any]) -> Any:
    """Return the law of `rest` within a component: fields are independent there, places of a full normal law are not.

    For those see C. M. Bishop, Pattern Recognition and Machine Learning (2006).
    """
    if _kind(law) != "MultivariateGaussian":
        return _part(law, rest, True)
    from scipy.linalg import cho_factor, cho_solve

    from mixle.stats import MultivariateGaussianDistribution

    mean, covar = np.asarray(law.mu, float), np.asarray(law.covar, float)
    factor = cho_factor(covar[np.ix_(order, order)], lower=True)
    cross = covar[np.ix_(rest, order)]
    moved = mean[list(rest)] + cross @ cho_solve(factor, np.array(values, float) - mean[list(order)])
    left = covar[np.ix_(rest, rest)] - cross @ cho_solve(factor, cross.T)
    return MultivariateGaussianDistribution(moved, 0.5 * (left + left.T))
