"""Files that a command writes: refused before any work if they cannot be, and the page of a fit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mixle.cli.screen import Screen
from mixle.errors import RecordsError

if TYPE_CHECKING:
    from mixle.utils.parallel.observing.records import RankRecord

__all__ = ["refuse_place", "refuse_standing", "write_page"]


def refuse_place(path: str | os.PathLike[str], source: str | os.PathLike[str] | None = None) -> None:
    """Refuse a file that could not be written, before any work.

    Parameters
    ----------
    path : path
        The file; one that stands there will be replaced.
    source : path, optional
        What the command reads, which must stay.

    Raises
    ------
    RecordsError
        If it is a folder, a device or `source`, or its folder is not there or takes no file.
    """
    place = Path(path)
    if place.is_dir():
        raise RecordsError(f"{path} is a folder: name a file in it")
    if place.exists() and not place.is_file():
        raise RecordsError(f"{path} is no regular file, and would be replaced by one: name another")
    if not place.parent.is_dir():
        raise RecordsError(f"{path} cannot be written: there is no folder {place.parent}; make it first")
    if source is not None and place.exists() and Path(source).exists() and place.samefile(source):
        raise RecordsError(f"{path} is what the command reads: write to another file")
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise RecordsError(f"{path} cannot be written: its folder takes no new file; name another")


def refuse_standing(path: Path | None) -> None:
    """Refuse a file that exists, or whose folder does not, before any work."""
    if path is not None and path.exists():
        raise RecordsError(f"{path} exists: name a new file with --report")
    if path is not None:
        refuse_place(path)


def write_page(records: Sequence[RankRecord], title: str, path: Path | None, out: Screen) -> None:
    """Write the page of a fit and name its path.

    Parameters
    ----------
    records : sequence of RankRecord
        Of one run.
    title : str
        Title of the page.
    path : Path or None
        A new file; None makes one in the folder for temporary files, which only its owner can read, and does without
        a page if that is not possible.
    out : Screen
        Where the path is named.

    Raises
    ------
    RecordsError
        If `path` exists or cannot be written.
    """
    from mixle.utils.parallel.observing.page import page

    try:
        fd, name = _made(path)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(page(records, title))
    except OSError as error:
        if path is not None:
            raise RecordsError(f"{path} cannot be written: {error.strerror or error}; name another") from error
        out.say(f"No page was written: {error.strerror or error}.")
        return
    out.say(f"Where the time of the first fit went, as a page: {name}")


def _made(path: Path | None) -> tuple[int, str]:
    if path is None:
        import tempfile

        return tempfile.mkstemp(prefix="mixle-demo-", suffix=".html")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), str(path)
