"""How many components: one fit for each number, compared by a criterion."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixle.errors import EmptyDataError, InterruptWarning, SchemaError
from mixle.inference.inferring import inferred_for
from mixle.inference.options import as_estimator, one_of
from mixle.inference.resident import rows_for
from mixle.stats.counting import free_parameters
from mixle.stats.table import Table

__all__ = ["CRITERIA", "Candidate", "Search", "Selection", "counts_of", "select"]

#: Criteria by which numbers of components are compared.
CRITERIA = ("bic", "aic", "icl", "held-out")
#: Shards of a fit: their number depends on the rows alone, not on the backend or its workers, and so do the bits.
MOST_SHARDS, SHARD_ROWS = 16, 1000
#: A start reads all rows of a table up to this size, a tenth of a larger one.
START_ROWS = 20_000


def shards_for(rows: int) -> int:
    """Return the number of shards of a fit of so many rows.

    Parameters
    ----------
    rows : int
        Number of rows.
    """
    return min(MOST_SHARDS, -(-rows // SHARD_ROWS))


@dataclass(frozen=True)
class Candidate:
    """One number of components that was tried.

    Attributes
    ----------
    components : int
        Number of clusters.
    log_likelihood : float
        Of the fitted rows, in nats.
    parameters : int
        Free parameters of the model.
    bic : float
        −2 × log-likelihood + parameters × log(rows); less is better.
    iterations : int
        EM iterations of the best trial.
    settled : bool
        Whether it converged.
    icl : float or None
        `bic` plus twice the entropy of the components, where it was asked for; less is better.
    held_out : float or None
        Mean log-density of the rows that were held out, in nats, where it was asked for; more is better.

    Examples
    --------
    >>> Candidate(3, -100.0, 5, 216.0, 12, True).bic
    216.0
    """

    components: int
    log_likelihood: float
    parameters: int
    bic: float
    iterations: int
    settled: bool
    icl: float | None = None
    held_out: float | None = None

    @property
    def aic(self) -> float:
        """Akaike's criterion; less is better."""
        return 2.0 * self.parameters - 2.0 * self.log_likelihood

    def cost(self, criterion: str) -> float:
        """Return what is compared: the least is the best.

        Parameters
        ----------
        criterion : {"bic", "aic", "icl", "held-out"}
            The criterion.
        """
        value = -self.held_out if self.held_out is not None and criterion == "held-out" else None
        value = getattr(self, criterion) if value is None else value
        return math.inf if math.isnan(value) else float(value)


@dataclass(frozen=True)
class Search:
    """How each number of components is fitted.

    Attributes
    ----------
    trials, max_its : int
        Starts, and the cap on the iterations of each.
    init_p : float
        Share of the rows that a start reads.
    delta : float or None
        Gain below which a fit has settled.
    seed : int
        Seed of the starts.
    progress : bool, str, callable or None
        As for `optimize`.
    """

    trials: int
    max_its: int
    init_p: float
    delta: float | None
    seed: int
    progress: Any = None

    @classmethod
    def of(cls, rows: int, trials: int, max_its: int, seed: int, options: dict[str, Any]) -> Search:
        """Return the search for so many rows; takes what is its own out of `options`, adds ``num_shards``."""
        delta = options.pop("delta", 1e-5 * rows)
        init_p = options.pop("init_p", 1.0 if rows <= START_ROWS else 0.1)
        options.setdefault("num_shards", shards_for(rows))
        return cls(trials, max_its, init_p, delta, seed, options.pop("progress", None))

    def fitted(self, count: int, estimator: Any, handle: Any) -> tuple[Candidate, Any, list[Warning]]:
        """Return one number of components: what it scored, its model, and what a caller is to be warned of.

        Parameters
        ----------
        count : int
            Number of components.
        estimator : ParameterEstimator
            Of the mixture.
        handle : EncodedDataHandle
            The rows, encoded.
        """
        from mixle.inference.best import best_of
        from mixle.inference.search_updates import Named
        from mixle.inference.sinks import choose

        how = (self.trials, self.max_its, self.init_p, self.delta)
        sink = choose(self.progress)
        named = None if sink is None else Named(sink, count)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            _, model = best_of(None, None, estimator, *how, seed=self.seed, enc_data=handle, progress=named)
        told, free = model.fit_provenance(), free_parameters(model)
        likelihood, settled = float(told.final_objective), told.stopped == "converged"
        cost = -2.0 * likelihood + free * math.log(len(handle))
        candidate = Candidate(count, likelihood, free, cost, told.iterations, settled)
        return candidate, model, [item.message for item in caught if isinstance(item.message, Warning)]

    def each(self, counts: list[int], estimator: Callable[[int], Any], handle: Any) -> tuple[list[Any], list[Warning]]:
        """Return what `fitted` returns for each number of components, and what a caller is to be warned of beside it.

        An interrupt ends the search, not one of its fits alone; before the first fit has a model it is raised.

        Parameters
        ----------
        counts : list of int
            Numbers of components.
        estimator : callable
            Of a number of components, the estimator of the mixture.
        handle : EncodedDataHandle
            The rows, encoded.
        """
        fits: list[Any] = []
        for count in counts:
            try:
                fits.append(self.fitted(count, estimator(count), handle))
            except KeyboardInterrupt:
                if not fits:
                    raise
            else:
                if not any(isinstance(message, InterruptWarning) for message in fits[-1][2]):
                    continue
            tried = ", ".join(str(candidate.components) for candidate, _, _ in fits)
            told = f"the search was interrupted at {count} components; the best so far (tried: {tried}) is returned"
            return fits, [InterruptWarning(told)] if len(counts) > 1 else []
        return fits, []


@dataclass(frozen=True)
class Selection:
    """What `select` found; printing it shows every number of components with its criterion.

    Attributes
    ----------
    model : MixtureDistribution
        The best model, carrying its provenance.
    chosen : Candidate
        What it scored.
    tried : tuple of Candidate
        All of them.
    criterion : str
        By what they were compared.
    """

    model: Any
    chosen: Candidate
    tried: tuple[Candidate, ...]
    criterion: str

    def __str__(self) -> str:
        lines = [f"{'components':>10}  {'parameters':>10}  {'log-likelihood':>15}  {self.criterion:>12}"]
        for one in self.tried:
            value = f"{-one.cost('held-out'):.5f}" if one.held_out is not None else f"{one.cost(self.criterion):,.2f}"
            mark = "  <- chosen" if one == self.chosen else "" if one.settled else "  not settled"
            lines.append(f"{one.components:>10}  {one.parameters:>10}  {one.log_likelihood:>15,.2f}  {value:>12}{mark}")
        return "\n".join(lines)

    __repr__ = __str__


def counts_of(components: Any) -> list[int]:
    """Return the numbers of components that are to be tried, in order.

    Parameters
    ----------
    components : int or iterable of int
        One number, or several.

    Raises
    ------
    SchemaError
        For what is no such number.
    """
    several = isinstance(components, Iterable) and not isinstance(components, (str, bytes))
    try:
        counts = sorted({operator.index(count) for count in (components if several else [components])})
    except TypeError:
        counts = []
    if not counts or counts[0] < 1 or isinstance(components, bool):
        raise SchemaError(f"components is a number of clusters, or several as range(2, 6); not {components!r}")
    return counts


def select(
    data: Any,
    estimator: Any = None,
    components: int | Iterable[int] = range(1, 9),
    criterion: str = "bic",
    backend: str = "local",
    trials: int = 3,
    seed: int = 0,
    **options: Any,
) -> Selection:
    """Fit a mixture for each number of components, and choose one by a criterion.

    Rows are encoded once; every E-step is spread over the pool, and the model has the same bits on each backend.

    Parameters
    ----------
    data : rows or table
        As for `optimize`.
    estimator : ParameterEstimator or distribution, optional
        Estimator of one component; inferred by `infer` without one.
    components : int or iterable of int
        Numbers of components to try.
    criterion : {"bic", "aic", "icl", "held-out"}
        ``"held-out"`` fits a part of the rows and compares the mean log-density of the others.
    backend : str
        Where the E-steps run.
    trials : int
        Starts for each number of components; the best fit is kept.
    seed : int
        Seed of the starts, and of the rows that are held out.
    **options
        ``max_its`` (200), ``delta`` (1e-5 nats for each row), ``init_p``, ``held_out`` (share of the rows, 0.2),
        ``progress`` (as for `optimize`), and what `encoded_data` takes: ``num_workers``, ``num_shards``, ...

    Returns
    -------
    Selection
        ``model``, ``chosen``, ``tried``; it prints as a table.

    Raises
    ------
    ValueError
        For another criterion, numbers that are none, ``held_out`` outside (0, 1), and what a fit refuses.
    EmptyDataError
        (a ValueError) with fewer rows than components.

    Warns
    -----
    ConvergenceWarning
        (a UserWarning) if the fit that is chosen had not settled; an InterruptWarning if Ctrl-C ended the search.

    Examples
    --------
    >>> from mixle.inference import select
    >>> from mixle.stats import GaussianEstimator
    >>> rows = [1.0, 1.2, 0.8, 1.1, 5.0, 5.2, 4.8, 5.1] * 5
    >>> found = select(rows, GaussianEstimator(), components=range(1, 3))
    >>> found.chosen.components, len(found.tried)
    (2, 2)
    """
    from mixle.stats import MixtureEstimator
    from mixle.utils.parallel.planner import encoded_data

    counts = counts_of(components)
    one_of("criterion", criterion, CRITERIA)
    share, cap = options.pop("held_out", 0.2), options.pop("max_its", 200)
    data, inferred = inferred_for(data, {"estimator": estimator})
    single = as_estimator(estimator if inferred is None else inferred.estimator)
    rows = rows_for(data, single.accumulator_factory().make().acc_to_encoder())
    rows, others = _apart(rows, share, seed) if criterion == "held-out" else (rows, None)
    if max(counts) > len(rows):
        raise EmptyDataError(
            f"{len(rows)} rows cannot make {max(counts)} components; pass components={len(rows)} or less"
        )
    how = Search.of(len(rows), trials, cap, seed, options)
    add = _added(criterion, rows, others)
    with encoded_data(rows, MixtureEstimator([single] * max(counts)), backend=backend, **options) as handle:
        found, told = how.each(counts, lambda count: MixtureEstimator([single] * count), handle)
    fits = [(add(candidate, model), model, messages) for candidate, model, messages in found]
    chosen, model, messages = min(fits, key=lambda item: (item[0].cost(criterion), item[0].parameters))
    for message in [*messages, *told]:
        warnings.warn(message, stacklevel=2)
    return Selection(model, chosen, tuple(item[0] for item in fits), criterion)


def _added(criterion: str, rows: Any, others: Any) -> Callable[[Candidate, Any], Candidate]:
    """Return the function that adds to a candidate what the criterion needs beside its likelihood."""
    from dataclasses import replace

    from mixle.inference.using import entropy, posterior, score

    if criterion == "icl":
        return lambda one, model: replace(one, icl=one.bic + 2.0 * entropy(posterior(model, rows)))
    if criterion == "held-out":
        return lambda one, model: replace(one, held_out=score(model, others))
    return lambda one, _: one


def _apart(rows: Any, share: Any, seed: int) -> tuple[Any, Any]:
    """Return the rows to fit and those held out, drawn without order and kept in order."""
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0.0 < share < 1.0:
        raise ValueError(f"held_out is the share of rows to hold out, between 0 and 1; not {share!r}")
    out = min(len(rows) - 1, max(1, round(share * len(rows))))
    if out < 1:
        raise EmptyDataError("one row cannot be both fitted and held out; pass more rows, or criterion='bic'")
    chosen = np.zeros(len(rows), bool)
    chosen[np.random.RandomState(seed).permutation(len(rows))[:out]] = True
    return _taken(rows, np.flatnonzero(~chosen)), _taken(rows, np.flatnonzero(chosen))


def _taken(rows: Any, index: np.ndarray) -> Any:
    if isinstance(rows, Table):
        return Table([_taken(column, index) for column in rows.columns], rows.names, mappings=rows.mappings)
    if isinstance(rows, np.ndarray):
        return rows[index]
    return [rows[i] for i in index.tolist()]
