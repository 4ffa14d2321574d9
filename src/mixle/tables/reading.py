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

__all__ = ["KINDS", "Conversion", "as_told", "column_names", "read_file", "table_columns"]

#: How the values of a column became numbers: dates and durations as days.
Conversion = Literal["", "days", "durations"]
#: What a column of each conversion held.
KINDS = {"": "no dates", "days": "dates", "durations": "durations"}
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
    _check_names([name for name, _ in readers])
    wanted = [(name, read) for name, read in readers if names is None or name in set(names)]
    columns = {name: _numbers(name, read()) for name, read in wanted}
    lengths = {len(values) for values, _ in columns.values()}
    if len(lengths) > 1:
        sizes = ", ".join(f"{name!r}: {len(values)}" for name, (values, _) in columns.items())
        raise SchemaError(f"columns differ in length ({sizes}); every column has one value per row")
    if lengths == {0}:
        raise EmptyDataError("the table has no rows; pass at least one, and at least two to fit them")
    return columns


def column_names(data: Any) -> list[Any]:
    """Return the names of the columns of a table, or of the file of one, none of which is read but a file's."""
    if isinstance(data, Table):
        return list(data.names)
    return [name for name, _ in _readers(read_file(data) if isinstance(data, (str, os.PathLike)) else data)]


def as_told(values: Any, how: Conversion) -> Any:
    """Return numbers of days as the dates or durations that they stand for; other columns as they are.

    Parameters
    ----------
    values : sequence
        A column of numbers, some of them perhaps missing.
    how : {"", "days", "durations"}
        How the column became numbers.

    Returns
    -------
    sequence
        For dates and durations a list, with None for what is missing; beyond the calendar its first or last day.

    Examples
    --------
    >>> as_told([1.5, None], "days"), as_told([0.25], "durations")
    ([datetime.datetime(1970, 1, 2, 12, 0), None], [datetime.timedelta(seconds=21600)])
    """
    if not how:
        return values
    lowest, highest = (-719162.0, 2932896.0) if how == "days" else (-1e8, 1e8)
    spans = [None if is_missing(one) else dt.timedelta(days=min(max(float(one), lowest), highest)) for one in values]
    return [one if one is None or how == "durations" else _EPOCH + one for one in spans]


def _check_names(names: list[Any]) -> None:
    if not names:
        raise EmptyDataError("the table has no columns; pass one with a named column per measurement")
    for j, name in enumerate(names):
        if is_missing(name):
            raise SchemaError(
                f"column {j} has no name but {name!r}; give it one, for example "
                f"df.columns = ['column {j}' if i == {j} else name for i, name in enumerate(df.columns)]"
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"two columns are named {twice!r}; give every column a name of its own")


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
        raise EmptyDataError("the table has no rows; pass at least one, and at least two to fit them")
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
        return np.where(np.isnat(array), math.nan, whole), "days" if dtype.kind == "M" else "durations"
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
        how: Conversion = "durations" if isinstance(first, dt.timedelta) else "days"
        return np.array([_days(name, i, value, how) for i, value in enumerate(column)]), how
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
    except (TypeError, NotImplementedError):  # without a hash, or without a kernel of Arrow: named later
        return None
    labels = labels.tolist()
    return LabelColumn(codes, labels) if labels and set(map(type, labels)) == {str} else None


def _zoned(name: Any, zone: Any) -> SchemaError:
    return SchemaError(
        f"column {name!r} has dates of the time zone {zone}; say which clock counts, for example "
        f"df[{name!r}].dt.tz_convert('UTC').dt.tz_localize(None), or leave the column out"
    )


def _days(name: Any, row: int, value: Any, how: Conversion) -> float:
    if is_missing(value):
        return math.nan
    if isinstance(value, dt.timedelta) and how == "durations":
        return value.total_seconds() / _DAY
    if isinstance(value, dt.datetime) and how == "days":
        if value.tzinfo is not None:
            raise _zoned(name, value.tzinfo)
        return (value - _EPOCH).total_seconds() / _DAY
    if isinstance(value, dt.date) and how == "days":
        return float(value.toordinal() - _EPOCH.toordinal())
    raise SchemaError(
        f"column {name!r} mixes {KINDS[how]} with other values (row {row}: {value!r:.60}); make it one kind"
    )
