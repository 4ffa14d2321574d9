"""Why a rank is slow, from what its records say beside the time, and what to do about it."""

from __future__ import annotations

import numpy as np

from mixle.utils.parallel.observing.grid import Grid

__all__ = ["advise", "cause_of", "uneven"]

#: Share of the E-step that throttling must take, or that the CPU share must have fallen by, to be the cause.
NOTICEABLE = 0.15
#: Largest share of work over the mean that is not worth a word.
EVEN = 1.25

THROTTLED = "its CPU quota is used up (cgroup throttling)"
STARVED = "it waits for a core (busy neighbours, or a process that is stopped now and then)"
PAGING = "it waits for memory pages from disk (major page faults)"
HOST = "its host is slow: all slow ranks run on"
SLOW = "it computes all the time and gets less done (clock, memory bandwidth or an older machine)"
UNKNOWN = "no CPU times in the records, so the cause is open"

_ADVICE = {
    THROTTLED: "Raise the CPU quota, or start as many workers as it pays for.",
    STARVED: "Start fewer workers than cores, or move the neighbours.",
    PAGING: "Use more memory or smaller shards, or fewer workers per machine.",
    HOST: "Look at that host, or leave it out.",
    SLOW: "Give it less: use several shards per worker and rebalance, or plan with plan_rebalance_weights.",
    UNKNOWN: "Use several shards per worker and rebalance, or plan with plan_rebalance_weights.",
}


def cause_of(table: Grid, row: int, length: int, slow: np.ndarray) -> str:
    """Return the likely cause of a slow rank: the last `length` rounds against its past and the healthy ranks.

    Parameters
    ----------
    table : Grid
        The records.
    row : int
        Row of the rank.
    length : int
        Rounds of the window that shows it.
    slow : ndarray of bool, shape (P,)
        Which ranks are slow.
    """
    start = len(table.rounds) - length

    def contrast(values: np.ndarray) -> tuple[float, float]:
        now = values[row, start:]
        rest = np.concatenate([values[row, :start], values[~slow].ravel()])
        return _median(now), _median(rest)

    seconds = np.where(table.seconds > 0.0, table.seconds, np.nan)
    now, before = contrast(table.fact("throttled_seconds") / seconds)
    if now > NOTICEABLE and now > 2.0 * before:
        return THROTTLED
    now, before = contrast(table.fact("major_faults"))
    if now >= 10.0 and now > 4.0 * before:
        return PAGING
    share, usual = contrast(table.fact("cpu_seconds") / seconds)
    if share < (1.0 - NOTICEABLE) * (usual if usual > 0.0 else 1.0):
        return STARVED
    host = _host(table, row, slow)
    if host is not None:
        return f"{HOST} {host}"
    return SLOW if np.isfinite(share) else UNKNOWN


def _median(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else np.nan


def _host(table: Grid, row: int, slow: np.ndarray) -> str | None:
    """Return the host that two or more slow ranks share and no healthy rank runs on."""
    hosts: dict[int, object] = {}
    for (place, _), record in table.cells.items():
        hosts[place] = record.extra.get("host")
    mine = hosts.get(row)
    together = [place for place, host in hosts.items() if host == mine]
    if mine is None or len(together) < 2 or not all(slow[place] for place in together):
        return None
    return str(mine) if not slow.all() else None


def uneven(table: Grid) -> tuple[int, float] | None:
    """Return the rank with the most work in the last round and its share over the mean, if that is worth a word."""
    work = table.work[:, -1]
    known = np.where(np.isfinite(work), work, 0.0)
    mean = float(known.mean())
    if mean <= 0.0 or table.unit == "rounds":
        return None
    row = int(known.argmax())
    ratio = float(known[row]) / mean
    return (table.ranks[row], ratio) if ratio > EVEN else None


def advise(causes: dict[int, str], skew: tuple[int, float] | None) -> str:
    """Return what to do."""
    wanted = [text for cause, text in _ADVICE.items() if any(found.startswith(cause) for found in causes.values())]
    if skew is not None:
        wanted.append("Cut the rows into several shards per worker, so that they can be spread evenly.")
    return " ".join(wanted) or "Nothing to do."
