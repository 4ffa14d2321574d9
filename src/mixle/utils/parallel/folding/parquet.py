"""Parquet files as partitions that workers read themselves: one shard per row group."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixle.errors import EmptyDataError, MissingPackage

__all__ = ["ParquetPart", "parquet_parts"]


def _parquet() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingPackage('reading Parquet needs pyarrow. Install: pip install "pyarrow>=16"') from error


@dataclass(frozen=True)
class ParquetPart:
    """One row group of a file that every worker can open.

    Attributes
    ----------
    path : str
        Absolute path.
    row_group : int
        Its number in the file.
    """

    path: str
    row_group: int

    def read(self) -> Any:
        """Return the row group as an Arrow table."""
        with _parquet().ParquetFile(self.path) as file:
            return file.read_row_group(self.row_group, use_threads=False)


def parquet_parts(data: Any) -> list[ParquetPart] | None:
    """Return the row groups of Parquet files in the order of file names; None if `data` names none.

    Parameters
    ----------
    data : str, Path, or sequence of them
        A file, a folder (its ``*.parquet`` files, sorted by name), or a pattern.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    EmptyDataError
        If the files hold no row group.
    """
    if isinstance(data, (list, tuple)) and data and all(isinstance(one, os.PathLike) for one in data):
        found = [part for one in data for part in parquet_parts(one) or ()]
    elif isinstance(data, os.PathLike) or (isinstance(data, str) and data.endswith((".parquet", ".parq", "/"))):
        found = [part for path in _files(Path(data)) for part in _groups(path)]
    else:
        return None
    if not found:
        raise EmptyDataError(f"received no observations: the Parquet files {data!s:.80} hold no rows; name others")
    return found


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(path.glob("*.parquet"))
    else:
        files = [path] if path.exists() else sorted(path.parent.glob(path.name))
    if not files:
        raise FileNotFoundError(f"there is no Parquet file {path}")
    return files


def _groups(path: Path) -> list[ParquetPart]:
    with _parquet().ParquetFile(path) as file:
        return [ParquetPart(str(path.absolute()), number) for number in range(file.num_row_groups)]
