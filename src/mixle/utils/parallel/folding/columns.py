"""Columns of tables and pieces of collections as rows; no table package is imported for it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixle.stats.label_column import LabelColumn
from mixle.stats.table import Table

__all__ = ["column_values", "is_series", "partition_rows"]


def is_series(data: Any) -> bool:
    """Return whether `data` is one column of a table package."""
    return callable(getattr(data, "to_list", None)) and callable(getattr(data, "to_numpy", None))


def column_values(values: Any) -> Any:
    """Return a one-dimensional thing as a float64 array or a list of Python values."""
    if is_series(values):
        kind = getattr(values.dtype, "kind", None)
        if isinstance(values.dtype, np.dtype) and kind in {"b", "f", "i", "u"}:
            column = values.to_numpy()
            return np.asarray(column, dtype=np.float64) if kind == "f" else column
        return [_present(value) for value in values.to_list()]
    if isinstance(values, np.ndarray):
        if values.ndim == 1 and values.dtype.kind == "f":
            return np.asarray(values, dtype=np.float64)
        return values.tolist() if values.ndim == 1 else list(values)
    return list(values)


def _present(value: Any) -> Any:
    """Return `value`; the missing marks of a table package that are not equal to anything become NaN."""
    return math.nan if type(value).__name__ in {"NAType", "NaTType"} else value


def partition_rows(part: Any, form: str) -> Any:
    """Return a partition of a collection as an indexable sequence of rows.

    Parameters
    ----------
    part : object
        A pandas or Arrow table, a series, an array, or anything that yields rows.
    form : {"tuple", "mapping", "value"}
        What the encoder reads as a row of a table; "value" takes the only column of a table as it is.

    Returns
    -------
    sequence or ndarray
        A table whose columns are all float64 is a matrix, one column of tensors an array, any other a `Table`.
    """
    if isinstance(part, np.ndarray):
        return part if part.dtype.kind not in "fOUS" else _plain_array(part)
    if hasattr(part, "itertuples"):
        names = [str(name) for name in part.columns]
        return _rows_of([column_values(part.iloc[:, j]) for j in range(len(names))], names, form)
    if hasattr(part, "to_batches") and hasattr(part, "column_names"):
        return _rows_of([_arrow_values(column) for column in part.columns], part.column_names, form)
    if is_series(part):
        return column_values(part)
    return part if isinstance(part, (list, tuple)) else list(part)


def _plain_array(part: np.ndarray) -> Any:
    if part.dtype.kind == "f":
        return np.asarray(part, dtype=np.float64)
    rows = part.tolist()
    return [tuple(row) for row in rows] if part.ndim == 2 else rows


def _rows_of(columns: list[Any], names: list[str], form: str) -> Any:
    if len(columns) == 1 and (form == "value" or getattr(columns[0], "ndim", 1) > 1):
        return columns[0]
    if form != "mapping" and columns and all(isinstance(c, np.ndarray) and c.dtype == np.float64 for c in columns):
        return np.column_stack(columns)
    return Table(columns, names, mappings=form == "mapping")


def _arrow_values(column: Any) -> Any:
    """Return an Arrow column as numbers, or as Python values where some are missing or are no numbers."""
    kind = str(column.type)
    if column.null_count == 0 and (kind in {"float", "double", "bool"} or kind.startswith(("int", "uint"))):
        values: np.ndarray = column.to_numpy()
        return np.asarray(values, dtype=np.float64) if kind in {"float", "double"} else values
    if "tensor" in kind.lower():
        return _stacked(column)
    labels = _labels(column, kind) if "string" in kind else None
    return column.to_pylist() if labels is None else labels


def _labels(column: Any, kind: str) -> LabelColumn | None:
    """Return a column of text by its labels, which Arrow finds without a value for each row; None for others."""
    if kind in {"string", "large_string"}:
        column = column.dictionary_encode()
    elif not kind.startswith("dictionary<values=string,"):
        return None
    chunks = column.unify_dictionaries().chunks
    labels = chunks[-1].dictionary.to_pylist() if chunks else []
    if not labels or set(map(type, labels)) != {str} or len(set(labels)) < len(labels):
        return None
    return LabelColumn(np.concatenate([chunk.indices.fill_null(-1).to_numpy() for chunk in chunks]), labels)


def _stacked(column: Any) -> np.ndarray:
    """Return a column of tensors, Arrow's own or those of an extension, as one array."""
    if not column.num_chunks:
        return np.empty((0, *getattr(column.type, "shape", ())))
    whole = np.concatenate([_tensors(chunk) for chunk in column.chunks])
    return whole if whole.dtype != object else np.stack(list(whole))


def _tensors(chunk: Any) -> np.ndarray:
    read = getattr(chunk, "to_numpy_ndarray", chunk.to_numpy)
    return np.asarray(read())
