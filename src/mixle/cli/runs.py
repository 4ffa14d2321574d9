"""The records of one run, from a file of telemetry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mixle.errors import RecordsError

if TYPE_CHECKING:
    import argparse

    from mixle.cli.screen import Screen
    from mixle.telemetry import Event, Telemetry
    from mixle.utils.parallel.observing.records import RankRecord

__all__ = ["Run", "add_source", "read_run", "save", "told_run"]

#: Runs that a message lists.
LISTED = 20


class Run(NamedTuple):
    """One run of a file: its name (None if the file gives none), its records, and remarks on what was read."""

    name: str | None
    records: list[RankRecord]
    remarks: list[str]


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a run."""
    parser.add_argument("file", help="telemetry of a fit: what Telemetry('run.jsonl') wrote")
    parser.add_argument(
        "--run", dest="run_id", metavar="ID", help="the run to take, if the file holds several ('' for records of none)"
    )


def read_run(file: str, run: str | None = None) -> Run:
    """Return the records of a run.

    Parameters
    ----------
    file : str
        JSONL file of a `Telemetry`.
    run : str, optional
        Run to take; ``""`` takes the records that name none. By default the only one.

    Raises
    ------
    RecordsError
        If the file cannot be read, holds no record of a rank, or holds several runs and none was named.
    """
    from mixle.utils.parallel.observing.records import records_from_events

    telemetry = _loaded(Path(file))
    by_run: dict[Any, list[Event]] = {}
    for event in telemetry.events("em_round"):
        by_run.setdefault(event.tags.get("run_id"), []).append(event)
    if not by_run:
        raise RecordsError(_nothing(file, telemetry))
    name = _chosen(file, by_run, run)
    try:
        records = records_from_events(by_run[name])
    except (TypeError, ValueError) as error:
        where = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        raise RecordsError(f"{file}: a record cannot be used: {error}{where}; take that line out") from error
    return Run(None if name is None else str(name), records, _remarks(file, telemetry, records))


def told_run(read: argparse.Namespace, err: Screen) -> Run:
    """Return the run that a command line names, its remarks told to `err`."""
    run = read_run(read.file, read.run_id)
    for remark in run.remarks:
        err.note(f"mixle: {remark}")
    return run


def save(path: Path, text: str, source: str) -> None:
    """Write `text` to a file that is not the one it was made from.

    Raises
    ------
    RecordsError
        If it is, or the file cannot be written.
    """
    try:
        if path.exists() and path.samefile(source):
            raise RecordsError(f"{path} holds the telemetry itself: write to another file")
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordsError(f"{path} cannot be written: {error.strerror or error}; name another") from error


def _loaded(path: Path) -> Telemetry:
    from mixle.telemetry import Telemetry

    try:
        size = path.stat().st_size
        if path.is_dir():
            raise RecordsError(f"{path} is a folder: name the JSONL file in it")
        if not path.is_file():
            raise RecordsError(f"{path} is no regular file; name the JSONL file that telemetry= wrote")
        if not size:
            raise RecordsError(f"{path} is empty: the fit has recorded nothing yet, or must be given telemetry=")
        return Telemetry(path)
    except FileNotFoundError as error:
        raise RecordsError(f"there is no file {path}; name the JSONL file that telemetry= wrote") from error
    except OSError as error:
        raise RecordsError(f"{path} cannot be read: {error.strerror or error}; make it readable") from error


def _nothing(file: str, telemetry: Telemetry) -> str:
    if len(telemetry):
        kinds = ", ".join(sorted({event.kind for event in telemetry.events()}))
        return (
            f"{file} holds {len(telemetry)} events and no record of a rank (kind em_round), only: {kinds}; name another"
        )
    return f"{file} is no telemetry: none of its {telemetry.foreign} lines is an event; name another file"


def _chosen(file: str, by_run: dict[Any, list[Event]], run: str | None) -> Any:
    names = {"" if name is None else str(name): name for name in by_run}
    if run is not None and run in names:
        return names[run]
    if run is None and len(by_run) == 1:
        return next(iter(by_run))
    listed = [
        f"  {'--run ' + repr(text):<24} {len(by_run[name]):,} records" + (" that name no run" if name is None else "")
        for text, name in names.items()
    ]
    if len(listed) > LISTED:
        listed[LISTED:] = [f"  and {len(listed) - LISTED} more"]
    what = f"holds {len(by_run)} runs; take one of" if run is None else f"holds no run {run!r}; it holds"
    raise RecordsError("\n".join([f"{file} {what}:", *listed]))


def _remarks(file: str, telemetry: Telemetry, records: list[RankRecord]) -> list[str]:
    remarks = []
    if telemetry.foreign:
        remarks.append(f"{telemetry.foreign} lines of {file} are torn or no events; they were passed over")
    starts: dict[int, set[Any]] = {}
    for record in records:
        if isinstance(record.extra.get("started"), (int, float)):
            starts.setdefault(record.round, set()).add(record.extra["started"])
    if any(len(at) > 1 for at in starts.values()):
        remarks.append(
            "some rounds began more than once: several fits share this run and are added up; "
            "give each its own run_id= or file"
        )
    return remarks
