"""`mixle.fit`: a mixture fitted to a table, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from mixle.errors import EmptyDataError, SchemaError
from mixle.inference.selecting import Search, counts_of
from mixle.tables.results import Fit
from mixle.tables.schemas import Schema
from mixle.tables.schemas import schema as schema_of

__all__ = ["fit"]


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
        ``init_p``, ``progress`` (as for `optimize`), and what `encoded_data` takes: ``num_workers``, ``num_shards``,
        ``precision``, ``policies``, ``weights``, ...

    Returns
    -------
    Fit
        The model with its clusters, summary, predictions and files.

    Raises
    ------
    SchemaError
        If the columns cannot be given families, `components` is no number of clusters, or `schema` is no `Schema`.
    EmptyDataError
        Without rows, or with fewer rows than components.

    Warns
    -----
    ConvergenceWarning
        (a UserWarning) if the fit that is kept had not settled after `max_its` iterations; an InterruptWarning if
        Ctrl-C ended the search: the best fit so far is returned.

    Examples
    --------
    >>> import mixle
    >>> table = {"drink": ["tea", "coffee"] * 20, "grams": [2.0, 9.5, 2.25, 9.0] * 10}
    >>> fitted = mixle.fit(table, components=2)
    >>> sorted(fitted.clusters[:4].tolist())
    [0, 0, 1, 1]
    """
    from mixle.utils.parallel.planner import encoded_data

    counts = counts_of(components)
    if schema is not None and not isinstance(schema, Schema):
        raise SchemaError(
            f"schema is {schema!r:.80}, no Schema; pass mixle.schema(data), or mixle.schema(data).replace(...) with "
            "the families that you choose"
        )
    chosen = schema_of(data) if schema is None else schema
    largest = chosen.estimator(max(counts))
    rows = chosen.read(data)
    if max(counts) > len(rows):
        raise EmptyDataError(
            f"{len(rows)} rows cannot make {max(counts)} clusters; pass components={len(rows)} or less"
        )
    how = Search.of(len(rows), trials, max_its, seed, options)
    with encoded_data(rows, largest, backend=backend, **options) as handle:
        fits, told = how.each(counts, chosen.estimator, handle)
    _, model, messages = min(fits, key=lambda item: (item[0].bic, item[0].parameters))
    for message in [*messages, *told]:
        warnings.warn(message, stacklevel=2)
    return Fit(model, chosen, tuple(candidate for candidate, _, _ in fits), backend, rows)
