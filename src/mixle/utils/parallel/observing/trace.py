"""Records as a trace that opens in Perfetto or chrome://tracing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mixle.utils.parallel.observing.grid import PHASES, number, phases_of
from mixle.utils.parallel.observing.records import RankRecord, checked, merged

if TYPE_CHECKING:
    import os

__all__ = ["chrome_trace", "spans", "write_chrome_trace"]

#: Phases during which a rank does nothing for the fit; drawn as gaps.
IDLE = frozenset({"queue", "wait"})


def spans(records: Iterable[RankRecord]) -> list[tuple[RankRecord, str, float, float]]:
    """Return ``(record, phase, start, seconds)`` of every phase, starts in seconds from the first round.

    A round starts when its records say (``started`` in `extra`, seconds of any clock). A round that does not say, or
    whose clock went back, starts when the one before it ends.

    Examples
    --------
    >>> records = [RankRecord(0, 0, 1.0, 0.5), RankRecord(0, 1, 2.0)]
    >>> [(phase, start, seconds) for _, phase, start, seconds in spans(records)]
    [('E-step', 0.0, 1.0), ('M-step', 1.0, 0.5), ('E-step', 1.5, 2.0)]
    """
    found = merged(checked(records))
    by_round: dict[int, list[RankRecord]] = {}
    for record in found:
        by_round.setdefault(record.round, []).append(record)
    placed: list[tuple[RankRecord, str, float, float]] = []
    first, end = None, 0.0
    for members in by_round.values():
        told = min((at for at in (number(record.extra.get("started")) for record in members) if at == at), default=None)
        if told is not None and first is None:
            first = told - end
        start = end if told is None or first is None else max(end, told - first)
        for record in members:
            at = start
            for phase in PHASES:
                seconds = phases_of(record).get(phase, 0.0)
                if seconds > 0.0:
                    placed.append((record, phase, at, seconds))
                    at += seconds
            end = max(end, at)
    return placed


def chrome_trace(records: Iterable[RankRecord], name: str = "fit") -> dict[str, Any]:
    """Return the records in the JSON object format of Chrome's trace events.

    Parameters
    ----------
    records : iterable of RankRecord
        Of one run.
    name : str
        Name of the process that the ranks appear under.

    Returns
    -------
    dict
        In the types of JSON: ``traceEvents`` with one complete event (``"ph": "X"``) per rank, round and phase, times
        in microseconds, and names of the rows.

    Examples
    --------
    >>> trace = chrome_trace([RankRecord(3, 0, 0.25)])
    >>> [event["name"] for event in trace["traceEvents"]], trace["traceEvents"][-1]["dur"]
    (['process_name', 'thread_name', 'thread_sort_index', 'E-step'], 250000.0)
    """
    from mixle.telemetry.plain import plain

    placed = spans(records)
    events: list[dict[str, Any]] = [{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": name}}]
    for rank, host in sorted({record.rank: record.extra.get("host") for record, *_ in placed}.items()):
        label = f"rank {rank}" if host is None else f"rank {rank} on {host}"
        events.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": rank, "args": {"name": label}})
        events.append({"name": "thread_sort_index", "ph": "M", "pid": 0, "tid": rank, "args": {"sort_index": rank}})
    for record, phase, start, seconds in placed:
        if phase in IDLE:
            continue
        facts = {"round": record.round, "rows": record.n_obs, "bytes": record.bytes_processed}
        if phase == "E-step":
            facts.update({key: value for key, value in record.extra.items() if key not in {"phases", "started"}})
        events.append(
            {
                "name": phase,
                "cat": "em",
                "ph": "X",
                "pid": 0,
                "tid": record.rank,
                "ts": start * 1e6,
                "dur": seconds * 1e6,
                "args": plain(facts),
            }
        )
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def write_chrome_trace(path: str | os.PathLike[str], records: Iterable[RankRecord], name: str = "fit") -> None:
    """Write `chrome_trace` to a file that ui.perfetto.dev opens.

    Parameters
    ----------
    path : str or path-like
        File to write.
    records, name
        As for `chrome_trace`.
    """
    import json
    from pathlib import Path

    Path(path).write_text(json.dumps(chrome_trace(records, name), allow_nan=False), encoding="utf-8")
