"""A verdict on slow ranks that also holds for two ranks, for half of the ranks and under ordinary jitter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixle.utils.parallel.observing.causes import advise, cause_of, uneven
from mixle.utils.parallel.observing.evidence import HISTORY, level, onset, weigh
from mixle.utils.parallel.observing.grid import Grid, grid
from mixle.utils.parallel.observing.records import RankRecord

__all__ = ["Diagnosis", "diagnose"]


@dataclass(frozen=True)
class Diagnosis:
    """Which ranks are slow at the last round, since when, why, and what to do.

    Parameters
    ----------
    round : int
        Last round; 0 without records.
    n_rounds : int
        Rounds that were looked at.
    unit : str
        Unit of work: ``"flops"``, ``"rows"``, ``"bytes"`` or ``"rounds"``.
    slow_ranks : tuple of int
        Ranks that need more time per unit of work, sorted.
    speeds : dict of int to float
        Work per second of each rank, relative to the ranks that are not slow. These may serve as capacities.
    since : dict of int to int
        For each slow rank, the round at which it most likely became slow.
    p_values : dict of int to float
        Strength of the evidence for each rank, adjusted for the windows that were tried.
    causes : dict of int to str
        For each slow rank, the likely cause.
    cause, advice : str
        The same in one sentence each.

    Examples
    --------
    >>> from mixle.utils.parallel.observing.records import RankRecord
    >>> diagnose([RankRecord(rank, 0, 1.0, n_obs=10) for rank in range(3)]).slow_ranks
    ()
    """

    round: int
    n_rounds: int
    unit: str
    slow_ranks: tuple[int, ...]
    speeds: dict[int, float]
    since: dict[int, int]
    p_values: dict[int, float]
    causes: dict[int, str]
    cause: str
    advice: str

    def __bool__(self) -> bool:
        return bool(self.slow_ranks)

    def render(self) -> str:
        """Return the verdict as a few lines of text."""
        lines = [self.headline()]
        lines += [f"  {line}" for line in self.reasons()]
        return "\n".join([*lines, f"  {self.advice}"])

    def reasons(self) -> list[str]:
        """Return one sentence for each cause, the ranks that share it named."""
        by_cause: dict[str, list[str]] = {}
        for rank in self.slow_ranks:
            by_cause.setdefault(self.causes[rank], []).append(str(rank))
        return [
            f"{'Rank' if len(ranks) == 1 else 'Ranks'} {_listed(ranks)}: {cause}" for cause, ranks in by_cause.items()
        ]

    def headline(self) -> str:
        """Return the verdict in one sentence."""
        if not self.slow_ranks:
            return self.cause
        named = [f"{rank} ({1.0 / self.speeds[rank]:.2g}× since round {self.since[rank]})" for rank in self.slow_ranks]
        verb = "Rank" if len(named) == 1 else "Ranks"
        return f"{verb} {_listed(named)}: slower than the others at equal work."

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict in the types of JSON."""
        from dataclasses import asdict

        from mixle.telemetry.plain import plain

        return dict(plain(asdict(self)))


def _listed(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def diagnose(records: Sequence[RankRecord]) -> Diagnosis:
    """Tell which ranks are slow at the last round of `records`.

    Times are divided by work (flops in `extra`, else rows, else bytes), so that a large shard is not mistaken for a
    slow rank. Each rank is compared with its own past and with the others; it is left out of its own reference, and so
    is every rank that looks slow itself. A round that is slow for all is not held against any. Windows from one round
    to all of them are tried, so that a factor of two is named at once and one of 1.2 after some rounds: see
    `mixle.utils.parallel.observing.evidence` for the test and its sources.

    A verdict wants some six rounds of history; before that only strong evidence counts. Among healthy ranks about one
    rank in 10,000 is named per round at most.

    Parameters
    ----------
    records : sequence of RankRecord
        Of one run, of any number of rounds; several records of a rank and round are added up. Records without time
        or without work say nothing.

    Returns
    -------
    Diagnosis

    Raises
    ------
    TypeError, ValueError
        If `records` holds something else, or records of several runs.

    Examples
    --------
    >>> records = []
    >>> for t in range(8):
    ...     for rank in range(2):
    ...         seconds = (0.100 + 0.001 * ((3 * t + 5 * rank) % 7)) * (2.0 if rank == 1 and t >= 6 else 1.0)
    ...         records.append(RankRecord(rank, t, seconds, n_obs=1000))
    >>> found = diagnose(records)
    >>> found.slow_ranks, round(found.speeds[1], 1), found.since
    ((1,), 0.5, {1: 6})
    """
    table = grid(records)
    if not table.ranks:
        return Diagnosis(0, 0, "rounds", (), {}, {}, {}, {}, "There are no records.", "Nothing to do.")
    evidence = weigh(table.pace)
    rounds = len(table.rounds)
    slow = evidence.p < level(rounds, len(table.ranks))
    rows = np.flatnonzero(slow).tolist()
    named = tuple(table.ranks[row] for row in rows)
    length = {row: rounds - onset(table.relative(named)[row], rounds - int(evidence.window[row])) for row in rows}
    speeds = _speeds(table, length)
    causes = {table.ranks[row]: cause_of(table, row, length[row], slow) for row in rows}
    skew = uneven(table)
    return Diagnosis(
        round=table.rounds[-1],
        n_rounds=rounds,
        unit=table.unit,
        slow_ranks=named,
        speeds=speeds,
        since={table.ranks[row]: table.rounds[rounds - length[row]] for row in rows},
        p_values=dict(zip(table.ranks, evidence.p.tolist(), strict=True)),
        causes=causes,
        cause=_sentence(table, causes, skew, rounds),
        advice=advise(causes, skew),
    )


def _speeds(table: Grid, length: dict[int, int]) -> dict[int, float]:
    """Return speeds relative to the ranks that are not slow: a slow rank's since its onset, the others' recent ones."""
    pace, rounds = table.pace, len(table.rounds)
    spans = [length.get(row, min(HISTORY, rounds)) for row in range(len(table.ranks))]
    means = np.array([_mean(row[rounds - span :]) for row, span in zip(pace, spans, strict=True)])
    healthy = np.array([row not in length for row in range(len(table.ranks))])
    others = means[healthy & np.isfinite(means)]
    typical = float(others.mean()) if others.size else _mean(means)
    relative = np.exp(np.where(np.isfinite(means), typical - means, 0.0))
    return dict(zip(table.ranks, relative.tolist(), strict=True))


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else np.nan


def _sentence(table: Grid, causes: dict[int, str], skew: tuple[int, float] | None, rounds: int) -> str:
    if causes:
        kinds = list(dict.fromkeys(causes.values()))
        return kinds[0] if len(kinds) == 1 else "; ".join(kinds[:3])
    if len(table.ranks) == 1:
        return "There is one rank: nothing to compare it with but its own past, and that is as it was."
    if skew is not None:
        return f"No rank is slow, but rank {skew[0]} has {skew[1]:.2g} times the mean work, and the others wait for it."
    early = "" if rounds > HISTORY else f" so far ({rounds} of {HISTORY} rounds of history)"
    everyone = "Both ranks" if len(table.ranks) == 2 else f"All {len(table.ranks)} ranks"
    return f"{everyone} keep pace{early}."
