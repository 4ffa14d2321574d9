"""Every accepted form of data as a sequence of rows; tables become rows by position.

No table package is imported: its objects are recognised by what is already loaded, or by their methods.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mixle.errors import EmptyDataError, SchemaError
from mixle.stats.table import Table
from mixle.utils.parallel.folding.columns import column_values, is_series
from mixle.utils.parallel.folding.inputs import is_cluster_collection, is_masked

__all__ = ["as_rows", "named_column", "row_width", "table_readers"]


def as_rows(data: Any, fields: Sequence[Any] | None = None, *, mappings: bool = False, scalars: bool = False) -> Any:
    """Return `data` as an indexable sequence of rows.

    Parameters
    ----------
    data : object
        Lists, tuples and arrays are rows already (floats become float64). Iterators are read to their end. Mappings
        of columns, structured arrays, data frames and series become rows by position; an index is ignored.
    fields : sequence, optional
        Names of the columns to take, in this order.
    mappings : bool
        Whether the rows of a table are mappings from field to value instead of tuples.
    scalars : bool
        Whether the rows of a table with one column are its values instead of 1-tuples.

    Returns
    -------
    sequence or ndarray
        Never empty.

    Raises
    ------
    EmptyDataError
        "received no observations" (a ValueError).
    ValueError
        For data that have no rows in a sure order: text, a single value, a matrix, a masked array, a set.

    Examples
    --------
    >>> as_rows({"a": [1, 2], "b": ["x", "y"]})
    [(1, 'x'), (2, 'y')]
    >>> as_rows(x * x for x in range(3))
    [0, 1, 4]
    """
    _refuse(data)
    table = table_readers(data)
    if table is not None:
        rows = _table_rows(table, fields, mappings=mappings, scalars=scalars)
    else:
        rows = _plain(data)
        if fields is not None:
            rows = _select(rows, fields, mappings=mappings)
    if len(rows) == 0:
        raise EmptyDataError(f"received no observations: the data ({_name(data)}) have no rows; pass at least one")
    return rows


def row_width(rows: Any) -> int | None:
    """Return the number of columns of a two-dimensional array of rows, None for anything else."""
    return int(rows.shape[1]) if isinstance(rows, np.ndarray) and rows.ndim == 2 else None


def _name(data: Any) -> str:
    return f"{type(data).__module__}.{type(data).__qualname__}".removeprefix("builtins.")


def _refuse(data: Any) -> None:
    if data is None:
        raise EmptyDataError("received no observations: data is None; pass rows, or encoded rows as enc_data=")
    reason = _why_not_rows(data)
    if reason is not None:
        raise ValueError(f"data is {reason}")


def _why_not_rows(data: Any) -> str | None:
    if isinstance(data, type):
        return f"the class {data.__name__}, not rows; pass a list of rows"
    if isinstance(data, (str, bytes, bytearray, memoryview)):
        return f"one {_name(data)}, not rows; for its items as rows pass list(data)"
    if isinstance(data, (set, frozenset)):
        return "a set, whose order is not defined; pass sorted(data)"
    if isinstance(data, np.matrix):
        return "a numpy.matrix, whose rows stay matrices; pass numpy.asarray(data)"
    if is_masked(data):
        return "a masked array; pass data.filled(numpy.nan) and mark missing values with Optional"
    if isinstance(data, (np.generic, int, float, complex)) or (isinstance(data, np.ndarray) and data.ndim == 0):
        return f"a single value ({data!r}), not rows; pass [value]"
    if is_cluster_collection(data):
        return f"a collection of a cluster ({_name(data)}); pass backend= with the name of its framework"
    return None


def table_readers(data: Any) -> list[tuple[Any, Callable[[], Any]]] | None:
    """Return the columns of a table as (name, reader) in order, None if `data` is no table."""
    if isinstance(data, np.ndarray):
        if data.dtype.names is None:
            return None
        return [(name, lambda name=name: data[name]) for name in data.dtype.names]  # type: ignore[misc]  # lambda defaults
    if isinstance(data, Mapping):
        return [(name, lambda name=name: data[name]) for name in data]  # type: ignore[misc]  # lambda defaults
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return [(name, lambda j=j: data.iloc[:, j]) for j, name in enumerate(data.columns)]  # type: ignore[misc]  # lambda defaults
    if (
        callable(getattr(data, "to_pydict", None))
        and hasattr(data, "schema")
        and callable(getattr(data, "column", None))
    ):
        names = data.schema.names  # of Arrow; two columns of one name are one in a dict
        return [(name, lambda j=j: data.column(j).to_pylist()) for j, name in enumerate(names)]  # type: ignore[misc]  # lambda defaults
    if callable(getattr(data, "to_pydict", None)):
        if callable(getattr(data, "column", None)):  # of Arrow: in a dict, two columns of one name would be one
            names = data.schema.names
            return [(name, lambda j=j: data.column(j).to_pylist()) for j, name in enumerate(names)]  # type: ignore[misc]  # lambda defaults
        columns = data.to_pydict()
        return [(name, lambda name=name: columns[name]) for name in columns]  # type: ignore[misc]  # lambda defaults
    if callable(getattr(data, "iter_rows", None)) and hasattr(data, "columns"):
        return [(name, lambda name=name: data[name]) for name in data.columns]  # type: ignore[misc]  # lambda defaults
    return None


def _table_rows(
    table: list[tuple[Any, Callable[[], Any]]], fields: Sequence[Any] | None, *, mappings: bool, scalars: bool
) -> Any:
    wanted = _wanted(table, fields)
    names = [name for name, _ in wanted]
    columns = [named_column(name, read()) for name, read in wanted]
    if not columns:
        raise EmptyDataError("received no observations: the table has no columns; pass at least one")
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        sizes = ", ".join(f"{name!r}: {len(column)}" for name, column in zip(names, columns, strict=True))
        raise SchemaError(f"columns differ in length ({sizes}); every column has one value per row")
    if scalars and len(columns) == 1 and not mappings:
        return columns[0]
    if not mappings and all(isinstance(c, np.ndarray) and c.dtype == np.float64 for c in columns):
        return np.column_stack(columns)
    if mappings:
        if len(set(names)) < len(names):
            raise SchemaError(f"columns share a name ({names}); rows with fields need distinct names")
        return Table(columns, names, mappings=True)
    values = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
    return list(zip(*values, strict=True))


def _wanted(
    table: list[tuple[Any, Callable[[], Any]]], fields: Sequence[Any] | None
) -> list[tuple[Any, Callable[[], Any]]]:
    if fields is None:
        return table
    if isinstance(fields, str):
        fields = [fields]
    found = dict(reversed(table))
    absent = [name for name in fields if name not in found]
    if absent:
        raise ValueError(f"fields {absent} are not columns of the table; it has {[name for name, _ in table]}")
    return [(name, found[name]) for name in fields]


def named_column(name: Any, values: Any) -> Any:
    """Return one column as an array or a list of Python values."""
    reason = _why_not_rows(values)
    if reason is None and not isinstance(values, Iterable):
        reason = f"one value ({values!r}); a mapping holds one list per column"
    if reason is not None:
        raise ValueError(f"column {name!r} is {reason}")
    return column_values(values)


def _plain(data: Any) -> Any:
    if is_series(data):
        return column_values(data)
    if isinstance(data, np.ndarray):
        return _array(data)
    if isinstance(data, (list, tuple, range)):
        return data
    if hasattr(data, "__array__") and not hasattr(data, "__next__"):
        return as_rows(np.asarray(data))
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return data
    if isinstance(data, Iterable):
        return list(data)
    raise ValueError(f"data is one {_name(data)}, not rows; pass a list of rows")


def _array(data: np.ndarray) -> Any:
    if data.dtype.kind == "f":
        return data if data.dtype == np.float64 else data.astype(np.float64)
    if data.dtype.kind in "OUSMm":
        rows = data.tolist()
        return [tuple(row) for row in rows] if data.ndim == 2 else rows
    return data


def _select(rows: Any, fields: Sequence[Any], *, mappings: bool) -> Any:
    if not all(isinstance(row, Mapping) for row in rows):
        raise ValueError("fields= selects columns of a table or of rows that are mappings; these rows have no names")
    names = [fields] if isinstance(fields, str) else list(fields)
    for position, row in enumerate(rows):
        absent = [name for name in names if name not in row]
        if absent:
            raise ValueError(f"row {position} has no fields {absent}; it has {list(row)}")
    if mappings:
        return [{name: row[name] for name in names} for row in rows]
    return [tuple(row[name] for name in names) for row in rows]
