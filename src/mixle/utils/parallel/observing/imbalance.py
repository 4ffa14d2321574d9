"""How unevenly the data of a round lay on the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mixle.utils.parallel.observing.records import RankRecord, of_round

__all__ = ["ImbalanceReceipt", "imbalance_receipt"]


@dataclass(frozen=True)
class ImbalanceReceipt:
    """Quantitative data-volume skew across ranks for one round.

    Parameters
    ----------
    round : int
        The round.
    bytes_per_rank, n_obs_per_rank : dict of int to int
        Encoded bytes and rows of each rank.
    mean_bytes : float
        Mean bytes over the ranks.
    max_bytes_ratio : float
        Largest over mean; 0 if there were no bytes.
    skew_by_rank : dict of int to float
        Bytes of each rank over the mean; 0 if there were no bytes.

    Examples
    --------
    >>> from mixle.utils.parallel.observing.records import RankRecord
    >>> imbalance_receipt([RankRecord(0, 0, 1.0, n_obs=30), RankRecord(1, 0, 1.0, n_obs=10)]).round
    0
    """

    round: int
    bytes_per_rank: dict[int, int]
    n_obs_per_rank: dict[int, int]
    mean_bytes: float
    max_bytes_ratio: float
    skew_by_rank: dict[int, float]


def imbalance_receipt(
    records: Sequence[RankRecord],
    *,
    round: int | None = None,  # noqa: A002 - the documented name
) -> ImbalanceReceipt:
    """Measure how unevenly data volume was spread across ranks for one round.

    With P ranks, one of which has k times the data of each other, that rank's skew is k P / (P - 1 + k), and each
    other's is P / (P - 1 + k).

    Parameters
    ----------
    records, round
        As for `detect_stragglers`.

    Returns
    -------
    ImbalanceReceipt

    Raises
    ------
    TypeError, ValueError
        If `records` holds something else, or records of several runs.

    Examples
    --------
    >>> sizes = [1000, 100, 100, 100]
    >>> records = [RankRecord(r, 0, 1.0, bytes_processed=size) for r, size in enumerate(sizes)]
    >>> imbalance_receipt(records).max_bytes_ratio == 10 * 4 / (4 - 1 + 10)
    True
    """
    number, present = of_round(records, round)
    sizes = {record.rank: record.bytes_processed for record in present}
    rows = {record.rank: record.n_obs for record in present}
    total = sum(sizes.values())
    skew = {rank: size * len(sizes) / total if total else 0.0 for rank, size in sizes.items()}
    mean = total / len(sizes) if sizes else 0.0
    return ImbalanceReceipt(number, sizes, rows, mean, max(skew.values(), default=0.0), skew)
