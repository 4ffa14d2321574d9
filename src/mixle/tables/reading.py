"""Tables of every kind as columns: frames, mappings, arrays, rows, and files."""

from __future__ import annotations

import datetime as dt
import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from mixle.errors import EmptyDataError, SchemaError
from mixle.inference.rows import named_column, table_readers
from mixle.stats.label_column import LabelColumn
from mixle.stats.reading import is_missing
from mixle.stats.table import Table
from mixle.tables.files import read_file

__all__ = ["Conversion", "read_file", "table_columns"]

#: How the values of a column became numbers.
Conversion = Literal["", "days"]
_DAY = 86400.0
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - naive on purpose: dates of a time zone are refused


def table_columns(data: Any, names: Sequence[Any] | None = None) -> dict[Any, tuple[Any, Conversion]]:
    """Return the columns of a table by name, each with how its values became numbers.

    Parameters
    ----------
    data : table or path
        A data frame (pandas, polars, or any that narwhals knows), an Arrow table, a mapping of columns, a structured
        or two-dimensional array, a list of mappings or tuples, or the path of a CSV or Parquet file.
    names : sequence, optional
        The columns to read; names that are not there are left out.

    Raises
    ------
    SchemaError
        For what is no table, for two columns of one name, and for dates of a time zone.
    EmptyDataError
        Without rows or columns.
    """
    if isinstance(data, (str, os.PathLike)):
        data = read_file(data)
    if isinstance(data, Table):
        data = dict(zip(data.names, data.columns, strict=True))
    readers = _readers(data)
    found = [name for name, _ in readers]
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise SchemaError(f"two columns are named {twice!r}; give every column a name of its own")
    if not found:
        raise EmptyDataError("the table has no columns; pass one with a named column per measurement")
    wanted = [(name, read) for name, read in readers if names is None or name in set(names)]
    columns = {name: _numbers(name, read()) for name, read in wanted}
    lengths = {len(values) for values, _ in columns.values()}
    if len(lengths) > 1:
        sizes = ", ".join(f"{name!r}: {len(values)}" for name, (values, _) in columns.items())
        raise SchemaError(f"columns differ in length ({sizes}); every column has one value per row")
    if lengths == {0}:
        raise EmptyDataError("the table has no rows; pass at least two")
    return columns


def _readers(data: Any) -> list[tuple[Any, Any]]:
    readers = table_readers(data)
    if readers is not None:
        return readers
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return [(j, lambda j=j: data[:, j]) for j in range(data.shape[1])]
    if isinstance(data, (list, tuple)):
        return _of_rows(data)
    try:
        import narwhals

        frame = narwhals.from_native(data, eager_only=True)
    except (ImportError, TypeError):
        raise SchemaError(
            f"a {type(data).__name__} is no table; pass {_way(data)}a data frame, a mapping of columns, a list of "
            "mappings, a two-dimensional array, or the path of a CSV or Parquet file"
        ) from None
    return [(name, lambda name=name: frame[name].to_list()) for name in frame.columns]


def _way(data: Any) -> str:
    """Return how what is nearly a table becomes one, for a message."""
    if callable(getattr(data, "to_frame", None)):
        return "data.to_frame(), "
    if callable(getattr(data, "collect", None)):
        return "data.collect(), "
    return "list(data), " if hasattr(data, "__next__") else ""


def _of_rows(rows: Sequence[Any]) -> list[tuple[Any, Any]]:
    if not rows:
        raise EmptyDataError("the table has no rows; pass at least two")
    first = rows[0]
    if not isinstance(first, (Mapping, tuple, list)):
        raise SchemaError(
            f"row 0 ({first!r:.60}) is no mapping or tuple but a single value; pass a column, {{'x': values}}, or fit "
            "the values with mixle.inference.optimize"
        )
    if isinstance(first, Mapping):
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping) or set(row) != set(first):
                raise SchemaError(f"row {i} has other fields than row 0, which has {list(first)}; make them one")
        return [(name, lambda name=name: [row[name] for row in rows]) for name in first]
    for i, row in enumerate(rows):
        if not isinstance(row, (tuple, list)) or len(row) != len(first):
            raise SchemaError(f"row {i} ({row!r:.60}) is no mapping or tuple like row 0; pass rows of one form")
    return [(j, lambda j=j: [row[j] for row in rows]) for j in range(len(first))]


def _numbers(name: Any, values: Any) -> tuple[Any, Conversion]:
    """Return one column as an array or list, dates and durations as days."""
    dtype = getattr(values, "dtype", None)
    zone = getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)
    if zone is not None:
        raise _zoned(name, zone)
    if isinstance(dtype, np.dtype) and dtype.kind in "Mm":
        array = np.asarray(values)
        unit = "datetime64[us]" if dtype.kind == "M" else "timedelta64[us]"
        whole = array.astype(unit).astype(np.int64) / (1e6 * _DAY)
        return np.where(np.isnat(array), math.nan, whole), "days"
    if isinstance(dtype, np.dtype) and dtype.kind in "iub" and isinstance(values, np.ndarray):
        return values, ""
    fast = _pandas(values)
    if fast is not None:
        return fast, ""
    try:
        column = named_column(name, values)
    except ValueError as error:
        raise SchemaError(str(error)) from None
    if isinstance(column, np.ndarray):
        return column, ""
    first = next((value for value in column if not is_missing(value)), None)
    if isinstance(first, (dt.date, dt.timedelta)):
        return np.array([_days(name, i, value) for i, value in enumerate(column)]), "days"
    return column, ""


def _pandas(values: Any) -> Any:
    """Return a pandas column of text as codes, one of nullable numbers as an array; None for any other."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(values, pandas.Series):
        return None
    dtype = values.dtype
    if not isinstance(dtype, np.dtype) and getattr(dtype, "kind", "") in {"i", "u", "f"}:
        return values.to_numpy(dtype=float, na_value=math.nan)
    if getattr(dtype, "kind", "") != "O":
        return None
    try:
        codes, labels = pandas.factorize(values)
    except TypeError:  # lists and other values without a hash: their column is named later
        return None
    labels = labels.tolist()
    return LabelColumn(codes, labels) if labels and set(map(type, labels)) == {str} else None


def _zoned(name: Any, zone: Any) -> SchemaError:
    return SchemaError(
        f"column {name!r} has dates of the time zone {zone}; say which clock counts, for example "
        f"df[{name!r}].dt.tz_convert('UTC').dt.tz_localize(None)"
    )


def _days(name: Any, row: int, value: Any) -> float:
    if is_missing(value):
        return math.nan
    if isinstance(value, dt.timedelta):
        return value.total_seconds() / _DAY
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            raise _zoned(name, value.tzinfo)
        return (value - _EPOCH).total_seconds() / _DAY
    if isinstance(value, dt.date):
        return float(value.toordinal() - _EPOCH.toordinal())
    raise SchemaError(f"column {name!r} mixes dates with other values (row {row}: {value!r:.60}); make it one kind")
