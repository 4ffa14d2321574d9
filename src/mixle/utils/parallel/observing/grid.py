"""Records as a table of ranks by rounds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from mixle.utils.parallel.observing.records import RankRecord, checked, merged

__all__ = ["PHASES", "Grid", "grid", "number", "phase_sums", "phases_of", "wall"]

#: Where the wall time of a round goes, in the order in which a shard goes through it.
PHASES = ("queue", "decode", "E-step", "encode", "wire", "wait", "fold", "M-step")


class Grid(NamedTuple):
    """Ranks by rounds; numbers are NaN where a rank has no record of a round.

    Attributes
    ----------
    ranks, rounds : tuple of int
        Sorted labels of the rows (P) and the columns (T).
    seconds : ndarray of float64, shape (P, T)
        E-step seconds.
    work : ndarray of float64, shape (P, T)
        Work behind them, in `unit`.
    unit : str
        ``"flops"``, ``"rows"``, ``"bytes"`` or ``"rounds"``.
    cells : dict of (int, int) to RankRecord
        The record at (row, column).
    """

    ranks: tuple[int, ...]
    rounds: tuple[int, ...]
    seconds: np.ndarray
    work: np.ndarray
    unit: str
    cells: dict[tuple[int, int], RankRecord]

    @property
    def pace(self) -> np.ndarray:
        """Logarithm of seconds per unit of work; NaN where there was no work, or the clock saw no time."""
        usable = (self.seconds > 0.0) & (self.work > 0.0)
        both = np.where(usable, self.seconds, 1.0), np.where(usable, self.work, 1.0)
        return np.asarray(np.where(usable, np.log(both[0]) - np.log(both[1]), np.nan))

    def relative(self, slow: Collection[int] = ()) -> np.ndarray:
        """Return pace minus the median pace of the ranks that are not slow: 0.69 is half as fast as these."""
        pace = self.pace
        typical = pace[[rank not in slow for rank in self.ranks]] if len(slow) < len(self.ranks) else pace
        known = [column[np.isfinite(column)] for column in typical.T]
        middle = [float(np.median(column)) if column.size else 0.0 for column in known]
        return np.asarray(pace - np.array(middle).reshape(1, -1))

    def fact(self, name: str) -> np.ndarray:
        """Return a number of `extra` as an array like `seconds`; NaN where it is missing or no number."""
        values = np.full(self.seconds.shape, np.nan)
        for place, record in self.cells.items():
            values[place] = number(record.extra.get(name))
        return values


def number(value: Any) -> float:
    """Return a value as a float; NaN if it is not a finite number.

    Examples
    --------
    >>> number(3), number("3"), number(None)
    (3.0, nan, nan)
    """
    if type(value) is float:
        return value if math.isfinite(value) else math.nan
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        return math.nan
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def grid(records: Iterable[RankRecord]) -> Grid:
    """Return the table of records of one run; several records of a rank and round are added up.

    Work is the ``flops`` in `extra` if every record has some, else rows, else bytes, else one per round.
    """
    found = merged(checked(records))
    ranks = tuple(sorted({record.rank for record in found}))
    rounds = tuple(sorted({record.round for record in found}))
    row, column = {rank: i for i, rank in enumerate(ranks)}, {value: i for i, value in enumerate(rounds)}
    cells = {(row[record.rank], column[record.round]): record for record in found}
    unit, amounts = _work(found)
    seconds, work = np.full((len(ranks), len(rounds)), np.nan), np.full((len(ranks), len(rounds)), np.nan)
    for (place, record), amount in zip(cells.items(), amounts, strict=True):
        seconds[place], work[place] = record.e_step_seconds, amount
    return Grid(ranks, rounds, seconds, work, unit, cells)


def _work(records: list[RankRecord]) -> tuple[str, list[float]]:
    flops = [number(record.extra.get("flops")) for record in records]
    if records and all(value > 0.0 for value in flops):
        return "flops", flops
    for unit, name in (("rows", "n_obs"), ("bytes", "bytes_processed")):
        counts = [float(getattr(record, name)) for record in records]
        if any(counts):
            return unit, counts
    return "rounds", [1.0] * len(records)


def phases_of(record: RankRecord) -> dict[str, float]:
    """Return the phases of a record, in order; E-step and M-step alone if `extra` has none."""
    given = record.extra.get("phases")
    if isinstance(given, dict):
        known = {name: number(given.get(name)) for name in PHASES}
        return {name: seconds for name, seconds in known.items() if seconds >= 0.0}
    return {"E-step": record.e_step_seconds, "M-step": record.m_step_seconds}


def phase_sums(table: Grid) -> dict[str, float]:
    """Return the seconds of each phase over all ranks and rounds."""
    sums = dict.fromkeys(PHASES, 0.0)
    for record in table.cells.values():
        for phase, seconds in phases_of(record).items():
            sums[phase] += seconds
    return sums


def wall(table: Grid) -> np.ndarray:
    """Return the wall seconds of each round (T,): the longest sum of phases of a rank."""
    longest = np.zeros(len(table.rounds))
    for (_, column), record in table.cells.items():
        longest[column] = max(longest[column], sum(phases_of(record).values()))
    return longest
