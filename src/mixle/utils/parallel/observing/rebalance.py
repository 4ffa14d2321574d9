"""Observed speeds as capacities for the next plan."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mixle.utils.parallel.observing.records import RankRecord, of_round

__all__ = ["plan_rebalance_weights"]


def plan_rebalance_weights(
    records: Sequence[RankRecord],
    *,
    round: int | None = None,  # noqa: A002 - the documented name
) -> dict[int, float]:
    """Turn one round's rank timings into a feedback signal for the next static plan.

    The weights are capacities: inversely proportional to each rank's seconds, they say how large a share of the work
    the rank should get, relative to 1. They sum to the rank count. They are right if the ranks had equal work; where
    they had not, divide by the rows or let ``diagnose(records).speeds`` do it. A rank whose clock saw no time at all
    gets the largest weight of the others; if none saw any, all get 1.

    Parameters
    ----------
    records, round
        As for `detect_stragglers`.

    Returns
    -------
    dict of int to float
        Weight of each rank; empty without records.

    Raises
    ------
    TypeError, ValueError
        If `records` holds something else, or records of several runs.

    Examples
    --------
    >>> records = [RankRecord(0, 0, 1.0), RankRecord(1, 0, 2.0), RankRecord(2, 0, 1.0)]
    >>> plan_rebalance_weights(records)
    {0: 1.2, 1: 0.6, 2: 1.2}
    """
    _, present = of_round(records, round)
    seconds = {record.rank: record.total_seconds for record in present}
    fastest = min((t for t in seconds.values() if t > 0.0), default=0.0)
    inverse = {rank: fastest / t if t > 0.0 else 1.0 for rank, t in seconds.items()}
    total = math.fsum(inverse.values())
    return {rank: len(inverse) * value / total for rank, value in inverse.items()}
