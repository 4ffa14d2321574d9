"""Lines of a file of telemetry: events, and amendments of events."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from mixle.telemetry.event import EVENT_KINDS, Event
from mixle.telemetry.plain import encode

__all__ = ["amend", "amendment", "event_of"]

_ROW = frozenset({"kind", "features", "choice", "outcome", "tags", "ts"})


def event_of(row: Any) -> Event | None:
    """Return the event of a row of a file, or None if the row is none."""
    if type(row) is not dict or not row.keys() >= _ROW:
        return None
    ts, kind = row["ts"], row["kind"]
    if type(kind) is not str or kind not in EVENT_KINDS or type(ts) not in {int, float} or not isfinite(ts):
        return None
    for name in ("features", "outcome", "tags"):
        if type(row[name]) is not dict:
            return None
    event = Event.__new__(Event)
    event.__dict__.update(row if len(row) == len(_ROW) else {name: row[name] for name in _ROW})
    event.__dict__["ts"] = float(ts)
    return event


def amendment(event: Event, names: set[str]) -> bytes:
    """Return the line that sets attributes of an event whose row is in the file."""
    offset, check = event.__dict__["_row"]
    row = event.row()
    return encode({"amends": offset, "crc": check, "set": {name: row[name] for name in sorted(names)}})


def amend(rows: Mapping[int, Event], row: Any) -> bool:
    """Apply an amendment to the row it names; return False if it is none, or names another row."""
    if not isinstance(row, dict) or not row.keys() >= {"amends", "crc", "set"}:
        return False
    try:
        event = rows.get(row["amends"])
        if event is None or event.__dict__["_row"] != (row["amends"], row["crc"]):
            return False
        for name, value in row["set"].items():
            if name not in _ROW:
                return False
            setattr(event, name, value)
    except (AttributeError, TypeError, ValueError):
        return False
    return True
