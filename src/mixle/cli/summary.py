"""A fit's records as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mixle.cli.screen import counted
from mixle.utils.parallel.observing import units
from mixle.utils.parallel.observing.diagnose import diagnose
from mixle.utils.parallel.observing.grid import Grid, grid, phase_sums, wall
from mixle.utils.parallel.observing.records import RankRecord

__all__ = ["summary"]

#: Rounds and ranks that a terminal shows; of more, the last rounds, and the slow and first ranks.
ROUNDS, RANKS = 12, 24


def summary(records: list[RankRecord]) -> Iterator[str]:
    """Yield lines: how large the fit was, where the time went, who was slow and why, the last rounds, the ranks.

    Parameters
    ----------
    records : list of RankRecord
        Of one run, at least one.
    """
    table, found = grid(records), diagnose(records)
    ranks, rounds = counted(len(table.ranks), "ranks"), counted(len(table.rounds), "rounds")
    yield f"{ranks}, {rounds}, {units.seconds(float(wall(table).sum()))} wall time"
    yield from ("", *found.render().splitlines())
    yield from _phases(table)
    yield from _rounds(table)
    yield from _ranks(table, found.slow_ranks, found.speeds)


def _phases(table: Grid) -> Iterator[str]:
    sums = phase_sums(table)
    total = sum(sums.values())
    if total > 0.0:
        yield from ("", "Where the time went (mean over ranks, all rounds)")
        for phase, value in sums.items():
            if value > 0.0:
                yield f"  {phase:<8} {100.0 * value / total:5.1f} %  {units.seconds(value / len(table.ranks)):>9}"


def _rounds(table: Grid) -> Iterator[str]:
    yield from ("", f"{'Round':>7} {'wall':>10} {'median rank':>12} {'slowest rank':>13} {'log-density':>18}")
    spent, scores = wall(table), table.fact("log_density")
    if len(table.rounds) > ROUNDS:
        yield f"{'...':>7}  ({len(table.rounds) - ROUNDS} earlier rounds)"
    for column in range(max(0, len(table.rounds) - ROUNDS), len(table.rounds)):
        seconds = table.seconds[:, column]
        known, score = seconds[np.isfinite(seconds)], scores[np.isfinite(scores[:, column]), column]
        told = f"{score[0]:18,.2f}" if score.size else ""
        yield (
            f"{table.rounds[column]:7d} {units.seconds(float(spent[column])):>10} "
            f"{units.seconds(float(np.median(known))):>12} {units.seconds(float(known.max())):>13} {told}".rstrip()
        )


def _ranks(table: Grid, slow: tuple[int, ...], speeds: dict[int, float]) -> Iterator[str]:
    yield from ("", f"{'Rank':>7} {'speed':>6} {'E-step':>10} {table.unit + ' a round':>15}  host")
    order = sorted(range(len(table.ranks)), key=lambda row: (table.ranks[row] not in slow, table.ranks[row]))
    hosts = {row: str(record.extra.get("host", "")) for (row, _), record in sorted(table.cells.items())}
    for row in order[:RANKS]:
        rank = table.ranks[row]
        spent, work = float(np.nansum(table.seconds[row])), float(np.nanmean(table.work[row]))
        mark = "  slow" if rank in slow else ""
        line = f"{rank:7d} {speeds[rank]:6.2f} {units.seconds(spent):>10} {units.count(work):>15}"
        yield f"{line}  {hosts[row][:24]}{mark}".rstrip()
    if len(order) > RANKS:
        yield f"{'...':>7}  ({len(order) - RANKS} more)"
