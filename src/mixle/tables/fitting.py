"""`mixle.fit`: a mixture fitted to a table, in one call."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterable
from typing import Any

from mixle.errors import EmptyDataError, SchemaError
from mixle.stats.counting import free_parameters
from mixle.tables.results import Candidate, Fit
from mixle.tables.schemas import Schema
from mixle.tables.schemas import schema as schema_of

__all__ = ["fit", "shards_for"]

#: Shards of a fit: their number depends on the rows alone, not on the backend or its workers, and so do the bits.
MOST_SHARDS, SHARD_ROWS = 16, 1000
#: A start reads all rows of a table up to this size, a tenth of a larger one.
START_ROWS = 20_000


def fit(
    data: Any,
    components: int | Iterable[int] = range(1, 9),
    schema: Schema | None = None,
    backend: str = "local",
    trials: int = 3,
    max_its: int = 200,
    seed: int = 0,
    **options: Any,
) -> Fit:
    """Fit a mixture to the rows of a table.

    Parameters
    ----------
    data : table or path
        As for `mixle.schema`.
    components : int or iterable of int
        Number of clusters; of several the one with the least BIC is kept (Schwarz 1978).
    schema : Schema, optional
        Families of the columns; ``mixle.schema(data)`` by default.
    backend : str
        Where the E-steps run: ``"local"``, ``"mp"``, or any other that is registered. The model has the same bits on
        each of them.
    trials : int
        Starts for each number of components; the best fit is kept.
    max_its : int
        Most EM iterations of each trial.
    seed : int
        Seed of the starts.
    **options
        ``delta`` (the gain, in log-likelihood, below which a fit has settled; 1e-5 for each row by default),
        ``init_p``, and what `encoded_data` takes: ``num_workers``, ``num_shards``, ``policies``, ``weights``, ...

    Returns
    -------
    Fit
        The model with its clusters, summary, predictions and files.

    Raises
    ------
    SchemaError
        If the columns cannot be given families, or `components` is no number of clusters.
    EmptyDataError
        Without rows, or with fewer rows than components.

    Warns
    -----
    UserWarning
        If the fit that is kept had not settled after `max_its` iterations.

    Examples
    --------
    >>> import mixle
    >>> table = {"drink": ["tea", "coffee"] * 20, "grams": [2.0, 9.5, 2.25, 9.0] * 10}
    >>> fitted = mixle.fit(table, components=2)
    >>> sorted(fitted.clusters[:4].tolist())
    [0, 0, 1, 1]
    """
    from mixle.utils.parallel.planner import encoded_data

    counts = _counts(components)
    chosen = schema_of(data) if schema is None else schema
    rows = chosen.read(data)
    if max(counts) > len(rows):
        raise EmptyDataError(
            f"{len(rows)} rows cannot make {max(counts)} clusters; pass components={len(rows)} or less"
        )
    delta = options.pop("delta", 1e-5 * len(rows))
    init_p = options.pop("init_p", 1.0 if len(rows) <= START_ROWS else 0.1)
    options.setdefault("num_shards", shards_for(len(rows)))
    fits, tried = [], []
    with encoded_data(rows, chosen.estimator(max(counts)), backend=backend, **options) as handle:
        for count in counts:
            how = (trials, max_its, init_p, delta)
            model, messages = _fitted(chosen.estimator(count), how, seed, handle)
            candidate = _candidate(model, count, len(rows))
            tried.append(candidate)
            fits.append((candidate.bic, model, messages))
    _, model, messages = min(fits, key=lambda item: (item[0], free_parameters(item[1])))
    for message in messages:
        warnings.warn(message, stacklevel=2)
    return Fit(model, chosen, tuple(tried), backend, rows)


def shards_for(rows: int) -> int:
    """Return the number of shards of a fit of so many rows.

    Parameters
    ----------
    rows : int
        Number of rows.
    """
    return min(MOST_SHARDS, -(-rows // SHARD_ROWS))


def _counts(components: Any) -> list[int]:
    given = (
        components if isinstance(components, Iterable) and not isinstance(components, (str, bytes)) else [components]
    )
    try:
        counts = sorted({operator.index(count) for count in given})
    except TypeError:
        counts = []
    if not counts or counts[0] < 1 or isinstance(components, bool):
        raise SchemaError(f"components is a number of clusters, or several as range(2, 6); not {components!r}")
    return counts


def _fitted(estimator: Any, how: tuple[int, int, float, float], seed: int, handle: Any) -> tuple[Any, list[str]]:
    from mixle.inference import best_of

    trials, max_its, init_p, delta = how
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        _, model = best_of(None, None, estimator, trials, max_its, init_p, delta, seed=seed, enc_data=handle)
    return model, [str(item.message) for item in caught]


def _candidate(model: Any, count: int, rows: int) -> Candidate:
    told = model.fit_provenance()
    settled = told.stopped == "converged"
    likelihood = float(told.final_objective)
    free = free_parameters(model)
    return Candidate(count, likelihood, free, -2.0 * likelihood + free * math.log(rows), told.iterations, settled)
