"""Missing fields filled in, given those that are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mixle.errors import ContractError
from mixle.inference.conditioning import components_of, fields_of
from mixle.inference.options import one_of
from mixle.inference.resident import rows_for
from mixle.stats.combinators.missing import missing_rows
from mixle.stats.means import label_shares, mean_of
from mixle.stats.table import Table

__all__ = ["impute"]


def impute(model: Any, data: Any, how: str = "mean", seed: int = 0) -> Any:
    """Return rows with their missing fields filled in, given the fields that are there.

    Parameters
    ----------
    model : distribution
        A composite, a record, or a mixture of one of them.
    data : rows or table
        Rows with None or NaN where a field is missing, or what stands for it in its `OptionalDistribution`.
    how : {"mean", "draw"}
        ``"mean"``: the expected value of a number, the likeliest label of anything else. ``"draw"``: a draw of all
        missing fields of a row together; several seeds give several completed tables, as multiple imputation needs.
    seed : int
        Seed of the draws.

    Returns
    -------
    list, ndarray or dict
        Rows in the form that came: mappings, tuples, or a matrix; of a table a mapping from name to column. A field
        whose law is Null stays missing.

    Raises
    ------
    ContractError
        (a ValueError) for a model without fields, and a field whose law has no known mean.
    RowError
        Naming the row and field of a value that a family cannot read.

    Notes
    -----
    The components' weights for a row follow from the fields that are there, and, where `OptionalDistribution` knows how
    often a field is missing in each component, from its being missing. A value that no component supports says nothing.
    Little and Rubin (2002), Statistical Analysis with Missing Data.

    Examples
    --------
    >>> from mixle.inference import impute
    >>> from mixle.stats import CategoricalDistribution, CompositeDistribution, GaussianDistribution
    >>> from mixle.stats import MixtureDistribution
    >>> def drink(tea, grams):
    ...     kind = CategoricalDistribution({"tea": tea, "coffee": 1.0 - tea})
    ...     return CompositeDistribution((kind, GaussianDistribution(grams, 1.0)))
    >>> model = MixtureDistribution([drink(1.0, 2.0), drink(0.0, 9.0)], [0.5, 0.5])
    >>> impute(model, [("tea", None), (None, 9.5)])
    [('tea', 2.0), ('coffee', 9.5)]
    """
    one_of("how", how, ("mean", "draw"))
    laws, log_w = components_of(model)
    fields = fields_of(laws[0])
    if not hasattr(laws[0], "dists"):
        raise ContractError("parts of a vector are not filled in; conditional(model, {position: value}) is their law")
    rows = rows_for(data, laws[0].dist_to_encoder())
    columns = _columns(rows, fields)
    parts = zip(laws[0].dists, columns, strict=True)
    missing = [missing_rows(column, getattr(law, "missing_value", None)) for law, column in parts]
    shares = _responsibilities(laws, log_w, columns, missing)
    filled = _means(laws, columns, missing, shares) if how == "mean" else _draws(laws, columns, missing, shares, seed)
    return _in_form(rows, fields, filled)


def _columns(rows: Any, fields: list[Any]) -> list[Any]:
    if isinstance(rows, Table):
        found = rows.by_name(fields) if rows.mappings else rows.columns
        if found is None or len(found) != len(fields):
            raise ContractError(f"the rows have the fields {list(rows.names)}, the model has {fields}; pass those")
        return list(found)
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2 or rows.shape[1] != len(fields):
            raise ContractError(
                f"the rows are an array of shape {rows.shape}, the model has the fields {fields}; pass those"
            )
        return [rows[:, j] for j in range(rows.shape[1])]
    for i, row in enumerate(rows):
        if len(row) != len(fields) or (isinstance(row, Mapping) and any(field not in row for field in fields)):
            raise ContractError(
                f"row {i} ({row!r:.60}) has other fields than the model, which has {fields}; pass those"
            )
    return [[row[field] for row in rows] for field in fields]


def _chosen(column: Any, index: np.ndarray) -> Any:
    if isinstance(column, list):
        return [column[i] for i in index.tolist()]
    return column[index]


def _responsibilities(laws: list[Any], log_w: np.ndarray, columns: list[Any], missing: list[np.ndarray]) -> np.ndarray:
    """Return the weight of each component for each row, shape (n, K)."""
    scores = np.tile(log_w, (len(missing[0]), 1))
    for j, (column, gone) in enumerate(zip(columns, missing, strict=True)):
        known = np.flatnonzero(~gone)
        told = np.zeros_like(scores)
        if known.size:
            told[known] = _densities([law.dists[j] for law in laws], _chosen(column, known))
        for k, law in enumerate(laws):
            p = getattr(law.dists[j], "p", None) if type(law.dists[j]).__name__ == "OptionalDistribution" else None
            with np.errstate(divide="ignore"):
                told[gone, k] = 0.0 if p is None else np.log(p)
        told[~np.isfinite(told).any(axis=1)] = 0.0
        scores += told
    top = scores.max(axis=1, keepdims=True)
    weights = np.where(np.isfinite(top), np.exp(scores - np.where(np.isfinite(top), top, 0.0)), np.exp(log_w))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _densities(laws: list[Any], values: Any) -> np.ndarray:
    """Return the log-density of values of one field under each law, shape (n, K); equal encoders read them once."""
    read: list[tuple[Any, Any]] = []
    parts = []
    for law in laws:
        encoder = law.dist_to_encoder()
        payload = next((done for other, done in read if other == encoder), None)
        if payload is None:
            payload = encoder.seq_encode(values)
            read.append((encoder, payload))
        parts.append(law.seq_log_density(payload))
    return np.column_stack(parts)


def _there(law: Any) -> Any:
    """Return the law of a value that is there."""
    return law.dist if type(law).__name__ == "OptionalDistribution" else law


def _means(laws: list[Any], columns: list[Any], missing: list[np.ndarray], shares: np.ndarray) -> list[Any]:
    filled = []
    for j, (column, gone) in enumerate(zip(columns, missing, strict=True)):
        parts = [_there(law.dists[j]) for law in laws]
        index = np.flatnonzero(gone)
        if not index.size or type(parts[0]).__name__ == "NullDistribution":
            filled.append(column)
            continue
        tables = [label_shares(part) for part in parts]
        if any(table is None for table in tables):
            values = shares[index] @ np.array([mean_of(part) for part in parts])
            filled.append(_put(column, index, values.tolist() if values.ndim == 1 else list(values)))
            continue
        labels = list(dict.fromkeys(label for table in tables if table for label in table))
        odds = shares[index] @ np.array([[(table or {}).get(label, 0.0) for label in labels] for table in tables])
        filled.append(_put(column, index, [labels[i] for i in odds.argmax(axis=1).tolist()]))
    return filled


def _draws(laws: list[Any], columns: list[Any], missing: list[np.ndarray], shares: np.ndarray, seed: int) -> list[Any]:
    state = np.random.RandomState(seed)
    level = state.random_sample(len(shares))[:, None]
    component = np.minimum((np.cumsum(shares, axis=1) <= level).sum(axis=1), len(laws) - 1)
    filled = list(columns)
    for j, gone in enumerate(missing):
        for k, law in enumerate(laws):
            part, one = _there(law.dists[j]), int(state.randint(2**31 - 1))
            index = np.flatnonzero(gone & (component == k))
            if index.size and type(part).__name__ != "NullDistribution":
                filled[j] = _put(filled[j], index, list(part.sampler(one).sample(int(index.size))))
    return filled


def _put(column: Any, index: np.ndarray, values: list[Any]) -> Any:
    """Return a copy of a column with values at `index`: an array of numbers stays one."""
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    if isinstance(column, np.ndarray) and column.dtype.kind == "f" and np.ndim(plain[0]) == 0:
        result = column.copy()
        result[index] = plain
        return result
    laid: list[Any] = column.tolist() if isinstance(column, np.ndarray) else list(column)
    for i, value in zip(index.tolist(), plain, strict=True):
        laid[i] = value
    return laid


def _in_form(rows: Any, fields: list[Any], columns: list[Any]) -> Any:
    if isinstance(rows, Table):
        if rows.mappings:
            plain = [column if isinstance(column, np.ndarray) else list(column) for column in columns]
            return dict(zip(fields, plain, strict=True))
        return list(zip(*columns, strict=True))
    if isinstance(rows, np.ndarray):
        return np.column_stack(columns)
    if isinstance(rows[0], Mapping):
        return [dict(zip(fields, row, strict=True)) for row in zip(*columns, strict=True)]
    return list(zip(*columns, strict=True))
