"""Tables of every kind as columns: frames, mappings, arrays, rows, and files."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from mixle.errors import EmptyDataError, MissingPackage, SchemaError
from mixle.inference.rows import named_column, table_readers
from mixle.stats.label_column import LabelColumn
from mixle.stats.reading import is_missing
from mixle.stats.table import Table

__all__ = ["Conversion", "read_file", "table_columns"]

#: How the values of a column became numbers.
Conversion = Literal["", "days"]
_DAY = 86400.0
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - naive on purpose: dates of a time zone are refused
_ABSENT = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "-"})
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_CODE = re.compile(r"[+-]?0\d")


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
            f"a {type(data).__name__} is no table; pass a data frame, a mapping of columns, a list of mappings, a "
            "two-dimensional array, or the path of a CSV or Parquet file"
        ) from None
    return [(name, lambda name=name: frame[name].to_list()) for name in frame.columns]


def _of_rows(rows: Sequence[Any]) -> list[tuple[Any, Any]]:
    if not rows:
        raise EmptyDataError("the table has no rows; pass at least two")
    first = rows[0]
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


def read_file(path: str | os.PathLike[str]) -> Any:
    """Return the table in a CSV or Parquet file.

    Parameters
    ----------
    path : path
        ``.parquet`` is read by pyarrow; anything else as CSV in UTF-8 with a header line. Empty cells and NA, NaN,
        null, None are missing; a column is numbers, truth values or ISO dates if all its cells are, else text. Codes
        with leading zeros stay text.

    Raises
    ------
    SchemaError
        If the file is no such table.
    MissingPackage
        For Parquet without pyarrow.
    """
    from pathlib import Path

    place = Path(path)
    if not place.is_file():
        raise SchemaError(f"{os.fspath(path)!r} is no file here; pass the path of a CSV or Parquet file")
    if place.suffix.lower() in {".parquet", ".pq"}:
        return _parquet(place)
    import csv

    try:
        with place.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, dialect=_dialect(lines, csv))
            header = next(reader, [])
            rows = [row for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise SchemaError(
            f"{place} is no CSV file in UTF-8 ({error}); save it as UTF-8, or pass a data frame"
        ) from None
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise SchemaError(f"{place}: two columns are named {twice!r}; give every column a name of its own")
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise SchemaError(
                f"{place}: row {i} has {len(row)} cells, the header {len(header)}; give every line as many"
            )
    if not rows:
        raise EmptyDataError(f"{place} has no rows; a table needs a line per row below its header")
    return {name: _typed(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)}


def _dialect(lines: Any, csv: Any) -> Any:
    head = lines.read(65536).partition("\n")[0]
    lines.seek(0)
    dialect: type[Any] = type("Dialect", (csv.excel,), {})
    dialect.delimiter = max(",;\t|", key=lambda mark: (head.count(mark), mark == ","))
    return dialect


def _parquet(place: Any) -> Any:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise MissingPackage(f"{place} is Parquet, read by pyarrow. Install: pip install 'mixle[tables]'") from None
    try:
        return parquet.read_table(place)
    except ArrowInvalid as error:
        raise SchemaError(f"{place} is no Parquet file ({error}); give a text file the ending .csv") from None


def _typed(cells: Sequence[str]) -> Any:
    known = [cell.strip() for cell in cells]
    there = {cell for cell in known if cell not in _ABSENT}
    for read in (_integers, _floats, _truths, _dates):
        table = read(there) if there else {}
        if table is not None:
            missing = math.nan if read is _floats else None
            return [table.get(cell, missing) for cell in known]
    return [None if cell in _ABSENT else cell for cell in known]


def _integers(there: set[str]) -> dict[str, Any] | None:
    if any(_CODE.match(cell) for cell in there):
        return None
    try:
        return {cell: int(cell) for cell in sorted(there)}
    except ValueError:
        return None


def _floats(there: set[str]) -> dict[str, Any] | None:
    if any(_CODE.match(cell) for cell in there):
        return None
    try:
        return {cell: float(cell) for cell in sorted(there)}
    except ValueError:
        return None


def _truths(there: set[str]) -> dict[str, Any] | None:
    return {cell: _TRUTH[cell] for cell in sorted(there)} if there <= _TRUTH.keys() else None


def _dates(there: set[str]) -> dict[str, Any] | None:
    try:
        return {cell: dt.datetime.fromisoformat(cell) for cell in sorted(there)} if min(map(len, there)) >= 10 else None
    except ValueError:
        return None
