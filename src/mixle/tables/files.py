"""Tables in files: CSV by the standard library, Parquet by pyarrow."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mixle.errors import EmptyDataError, MissingPackage, SchemaError

__all__ = ["count_rows", "read_file"]

_ABSENT = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "-"})
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_CODE = re.compile(r"[+-]?0\d")
_SPAN = re.compile(r"([+-]?\d{1,8}) days?,? (\d{1,2}):(\d{2}):(\d{2}(?:\.\d{1,9})?)")
_PARQUET = {".parquet", ".pq"}


def read_file(path: str | os.PathLike[str], most: int | None = None) -> Any:
    """Return the table in a CSV or Parquet file.

    Parameters
    ----------
    path : path
        ``.parquet`` is read by pyarrow; anything else as CSV in UTF-8 with a header line. Empty cells and NA, NaN,
        null, None are missing; a column is numbers, truth values, ISO dates or durations (``2 days 03:25:00``) if all
        its cells are, else text. Codes with leading zeros stay text.
    most : int, optional
        Read the first rows only, so many.

    Raises
    ------
    SchemaError
        If the file is no such table.
    MissingPackage
        For Parquet without pyarrow.
    """
    place = _place(path)
    if place.suffix.lower() in _PARQUET:
        return _parquet(place, most)
    with _csv_rows(place) as (header, lines):
        rows = list(itertools.islice(lines, most))
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


def count_rows(path: str | os.PathLike[str]) -> int:
    """Return the number of rows in a CSV or Parquet file, which is never in memory as a whole.

    Parameters
    ----------
    path : path
        As for `read_file`, as are the errors.
    """
    place = _place(path)
    if place.suffix.lower() in _PARQUET:
        with _opened(place) as file:
            return int(file.metadata.num_rows)
    with _csv_rows(place) as (_, lines):
        return sum(1 for _ in lines)


def _place(path: str | os.PathLike[str]) -> Path:
    place = Path(path)
    if not place.is_file():
        raise SchemaError(f"{os.fspath(path)!r} is no file here; pass the path of a CSV or Parquet file")
    return place


@contextmanager
def _csv_rows(place: Path) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
    """Yield the header and the rows below it, empty lines left out."""
    import csv

    try:
        with place.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, dialect=_dialect(lines, csv))
            yield next(reader, []), (row for row in reader if row)
    except (UnicodeDecodeError, csv.Error) as error:
        told = f"{place} is no CSV file in UTF-8 ({error}); save it as UTF-8, or pass a data frame"
        raise SchemaError(told) from None


def _dialect(lines: Any, csv: Any) -> Any:
    head = lines.read(65536).partition("\n")[0]
    lines.seek(0)
    dialect: type[Any] = type("Dialect", (csv.excel,), {})
    dialect.delimiter = max(",;\t|", key=lambda mark: (head.count(mark), mark == ","))
    return dialect


@contextmanager
def _opened(place: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise MissingPackage(f"{place} is Parquet, read by pyarrow. Install: pip install 'mixle[tables]'") from None
    try:
        with parquet.ParquetFile(place) as file:
            yield file
    except ArrowInvalid as error:
        raise SchemaError(f"{place} is no Parquet file ({error}); give a text file the ending .csv") from None


def _parquet(place: Path, most: int | None) -> Any:
    with _opened(place) as file:
        if most is None:
            return file.read()
        from pyarrow import Table

        batches, found = [], 0
        for batch in file.iter_batches(batch_size=most):
            batches.append(batch)
            found += batch.num_rows
            if found >= most:
                break
        return Table.from_batches(batches, file.schema_arrow).slice(0, most)


def _typed(cells: Sequence[str]) -> Any:
    known = [cell.strip() for cell in cells]
    there = {cell for cell in known if cell not in _ABSENT}
    for read in (_integers, _floats, _truths, _dates, _durations):
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


def _durations(there: set[str]) -> dict[str, Any] | None:
    found = {cell: _SPAN.fullmatch(cell) for cell in sorted(there)}
    if not all(found.values()):
        return None
    parts = {cell: match.groups() for cell, match in found.items() if match}
    return {
        cell: dt.timedelta(int(days), hours=int(hours), minutes=int(minutes), seconds=float(seconds))
        for cell, (days, hours, minutes, seconds) in parts.items()
    }
