"""Bootstrap intervals of a fit, the replicates spread over a pool."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mixle.errors import BackendError, ContractError, MixleWarning
from mixle.inference.options import as_estimator, check_callable, check_cap
from mixle.inference.resident import rows_for
from mixle.utils.parallel.folding.inputs import check_precision

__all__ = ["Bootstrap", "bootstrap", "parameters_of"]


@dataclass(frozen=True)
class Bootstrap:
    """Percentile intervals; printing it shows them.

    Attributes
    ----------
    model : distribution
        Fitted to all rows.
    names : tuple of str
        What was measured, P of them.
    estimate : ndarray, shape (P,)
        Of `model`.
    replicates : ndarray, shape (B, P)
        Of the models of the resamples; NaN where a resample could not be fitted.
    level : float
        Share of the replicates that lie inside an interval.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> found = bootstrap(PoissonEstimator(), [1, 2, 3, 2, 4, 1, 0, 2], B=5)
    >>> found.names, found.replicates.shape
    (('lam',), (5, 1))
    """

    model: Any
    names: tuple[str, ...]
    estimate: np.ndarray
    replicates: np.ndarray
    level: float

    @property
    def lower(self) -> np.ndarray:
        """Lower ends of the intervals, shape (P,)."""
        return self._quantile(0.5 - 0.5 * self.level)

    @property
    def upper(self) -> np.ndarray:
        """Upper ends of the intervals, shape (P,)."""
        return self._quantile(0.5 + 0.5 * self.level)

    @property
    def standard_error(self) -> np.ndarray:
        """Standard deviation of the replicates, shape (P,)."""
        return np.asarray(self._fitted().std(axis=0, ddof=1))

    @property
    def failed(self) -> int:
        """Number of resamples that could not be fitted."""
        return len(self.replicates) - len(self._fitted())

    def interval(self, name: str) -> tuple[float, float]:
        """Return the interval of one measure.

        Parameters
        ----------
        name : str
            One of `names`.

        Raises
        ------
        KeyError
            For another name.
        """
        if name not in self.names:
            raise KeyError(f"no parameter {name!r}; there are {', '.join(self.names)}")
        place = self.names.index(name)
        return float(self.lower[place]), float(self.upper[place])

    def _fitted(self) -> np.ndarray:
        return np.asarray(self.replicates[~np.isnan(self.replicates).all(axis=1)])

    def _quantile(self, q: float) -> np.ndarray:
        return np.asarray(np.quantile(self._fitted(), q, axis=0))

    def __str__(self) -> str:
        width = max(map(len, self.names))
        ends = f"{100 * self.level:g} % of {len(self.replicates)} replicates"
        lines = [f"{'':<{width}}  {'estimate':>12}  {ends}"]
        rows = zip(self.names, self.estimate, self.lower, self.upper, strict=True)
        lines += [f"{name:<{width}}  {value:>12.6g}  {low:.6g} to {high:.6g}" for name, value, low, high in rows]
        return "\n".join(lines + ([f"({self.failed} resamples could not be fitted)"] if self.failed else []))

    __repr__ = __str__


def bootstrap(
    estimator: Any,
    data: Any,
    B: int = 200,
    backend: str = "local",
    statistic: Callable[[Any], Mapping[str, float]] | None = None,
    level: float = 0.95,
    seed: int = 0,
    **options: Any,
) -> Bootstrap:
    """Return percentile intervals of what is fitted, from `B` resamples of the rows.

    A resample is a weight for each row: how often it was drawn. Each is fitted from the model of all rows, so that
    components keep their names. Replicate b depends on the rows, the model and b alone: the intervals are the same on
    every backend, whatever the workers.

    Parameters
    ----------
    estimator : ParameterEstimator or distribution
        What to fit.
    data : rows or table
        As for `optimize`.
    B : int
        Number of resamples.
    backend : str
        Where they are fitted: each worker of the pool fits whole resamples.
    statistic : callable, optional
        Takes a model and returns ``{name: number}``; all numbers that a model holds by default. It must be picklable
        where workers are other processes.
    level : float
        Share of the replicates inside an interval, in (0, 1).
    seed : int
        Seed of the resamples.
    **options
        ``model``, fitted already; ``max_its`` (200), ``delta`` (1e-6 nats for each row), ``precision`` and
        ``prev_estimate`` of the fits; and what `encoded_data` takes: ``num_workers``, ``policies``, ...

    Returns
    -------
    Bootstrap
        ``interval(name)``, ``lower``, ``upper``, ``standard_error``; it prints as a table.

    Raises
    ------
    ValueError
        For `B` below 2 and `level` outside (0, 1).
    BackendError
        (a ValueError) for a foreign backend whose handles have no ``apply``.
    ContractError
        (a ValueError) if `statistic` returns no numbers, or no resample could be fitted.

    Notes
    -----
    Efron and Tibshirani (1993), An Introduction to the Bootstrap. A label that a resample lacks has the
    share 0 there.

    Examples
    --------
    >>> from mixle.inference import bootstrap
    >>> from mixle.stats import PoissonEstimator
    >>> found = bootstrap(PoissonEstimator(), [1, 2, 3, 2, 4, 1, 0, 2] * 5, B=100)
    >>> low, high = found.interval("lam")
    >>> bool(low < found.estimate[0] < high)
    True
    """
    from mixle.inference.em import optimize
    from mixle.stats import NullEstimator
    from mixle.utils.parallel.planner import encoded_data

    count = check_cap("B", B, 2)
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0.0 < level < 1.0:
        raise ValueError(f"level is the share of replicates inside an interval, between 0 and 1; not {level!r}")
    chosen = as_estimator(estimator)
    rows = rows_for(data, chosen.accumulator_factory().make().acc_to_encoder())
    how = {"max_its": options.pop("max_its", 200), "delta": options.pop("delta", 1e-6 * len(rows))}
    how["precision"] = check_precision("bootstrap", options.pop("precision", None))
    model, start = options.pop("model", None), options.pop("prev_estimate", None)
    if model is None:
        model = _whole(optimize(rows, chosen, prev_estimate=start, **how))
    measure = partial(_measured, check_callable("statistic", statistic, "a function of a model") or parameters_of)
    named = measure(model)
    if not named:
        raise ContractError("the statistic of the model has no numbers; return a mapping from names to numbers")
    replicate = partial(_replicate, chosen, rows, model, how, seed, measure)
    with encoded_data([None] * count, NullEstimator(), backend=backend, num_shards=count, **options) as handle:
        found = _applied(handle, replicate, backend)
    values = np.array([[one.get(name, 0.0) if one else np.nan for name in named] for one in found])
    if np.isnan(values).all():
        raise ContractError("no resample could be fitted; look at one with optimize(rows, estimator, weights=...)")
    return Bootstrap(model, tuple(named), np.array(list(named.values())), values, float(level))


def _applied(handle: Any, function: Callable[[Any], Any], backend: str) -> list[Any]:
    if not callable(getattr(handle, "apply", None)):
        raise BackendError(f"backend {backend!r} does not run functions of shards; use backend='local' or 'mp'")
    return list(handle.apply(function))


def _replicate(
    estimator: Any, rows: Any, model: Any, how: dict[str, Any], seed: int, measure: Callable[[Any], Any], shard: Any
) -> dict[str, float]:
    """Return what is measured of the resample that the shard stands for, nothing where it cannot be fitted."""
    from numpy.random import RandomState

    from mixle.inference.em import optimize

    state = RandomState([seed, shard.id])
    weights = np.bincount(state.randint(len(rows), size=len(rows)), minlength=len(rows)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixleWarning)
        try:
            fitted = optimize(rows, estimator, weights=weights, prev_estimate=model, **how)
        except ValueError:
            return {}
    return dict(measure(_whole(fitted)))


def _whole(model: Any) -> Any:
    """Return a fitted model; half a one, which an interrupt left, interrupts the bootstrap."""
    if model.fit_provenance().stopped == "interrupted":
        raise KeyboardInterrupt
    return model


def _measured(statistic: Callable[[Any], Any], model: Any) -> dict[str, float]:
    return {str(name): float(value) for name, value in dict(statistic(model)).items()}


def parameters_of(model: Any) -> dict[str, float]:
    """Return all numbers that a model holds, named by the path that leads to them.

    Parameters
    ----------
    model : distribution
        Any model.

    Examples
    --------
    >>> from mixle.stats import MixtureDistribution, PoissonDistribution
    >>> parameters_of(MixtureDistribution([PoissonDistribution(1.0), PoissonDistribution(9.0)], [0.25, 0.75]))
    {'components[0].lam': 1.0, 'components[1].lam': 9.0, 'w[0]': 0.25, 'w[1]': 0.75}
    """
    return dict(_walk("", model))


def _walk(path: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, (bool, np.bool_)):
        return
    if isinstance(value, (int, float, np.number)):
        yield path, float(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(f"{path}[{key!r}]", item)
    elif isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        for i, item in enumerate(value):
            yield from _walk(f"{path}[{i}]", item)
    elif hasattr(value, "_fields"):
        inside = [*value._fields, *(name for name in getattr(value, "_keyword_fields", ()) if name not in _NO_NUMBERS)]
        for name in inside:
            yield from _walk(f"{path}.{name}" if path else name, getattr(value, name))


#: Arguments that are not fitted.
_NO_NUMBERS = {"name", "keys", "missing_value", "default_value", "terminal_states", "len_normalized"}
