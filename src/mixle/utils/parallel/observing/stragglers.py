"""The documented straggler test: median and median absolute deviation over one round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from mixle.utils.parallel.observing.records import RankRecord, of_round

__all__ = ["StragglerReport", "detect_stragglers"]

#: Turns the MAD of a normal sample into its standard deviation (Rousseeuw and Croux 1993, J. Amer. Statist. Assoc. 88).
MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class StragglerReport:
    """Straggler verdict for one EM round, from a robust median/MAD outlier test.

    Parameters
    ----------
    round : int
        The round.
    rank_seconds : dict of int to float
        Seconds of each rank.
    median_seconds : float
        Their median.
    mad_seconds : float
        Their median absolute deviation from it, not scaled.
    ratios : dict of int to float
        Seconds over the median; infinite if the median is 0 and the rank's time is not.
    z_scores : dict of int to float
        Robust z: deviation over 1.4826 MAD; infinite above a median without spread.
    threshold_ratio, z_threshold : float
        What was asked for.
    slow_ranks : tuple of int
        The flagged ranks, sorted.

    Examples
    --------
    >>> from mixle.utils.parallel.observing.records import RankRecord
    >>> detect_stragglers([RankRecord(r, 0, t) for r, t in enumerate([1.0, 1.1, 0.9, 1.0, 5.0])]).slow_ranks
    (4,)
    """

    round: int
    rank_seconds: dict[int, float]
    median_seconds: float
    mad_seconds: float
    ratios: dict[int, float]
    z_scores: dict[int, float]
    threshold_ratio: float
    z_threshold: float
    slow_ranks: tuple[int, ...]

    @property
    def has_stragglers(self) -> bool:
        """Whether a rank was flagged."""
        return bool(self.slow_ranks)

    @property
    def max_ratio(self) -> float:
        """Largest ratio; 0 without ranks."""
        return max(self.ratios.values(), default=0.0)


def check_thresholds(threshold_ratio: float, z_threshold: float) -> None:
    """Refuse thresholds under which the test means nothing."""
    if not threshold_ratio >= 1.0:
        raise ValueError(f"threshold_ratio must be at least 1, got {threshold_ratio!r}")
    if math.isnan(z_threshold):
        raise ValueError("z_threshold must be a number, got nan")


def detect_stragglers(
    records: Sequence[RankRecord],
    *,
    round: int | None = None,  # noqa: A002 - the documented name
    threshold_ratio: float = 1.5,
    z_threshold: float = 3.0,
) -> StragglerReport:
    """Flag ranks that are meaningfully slower than the rest for one round.

    A rank is flagged when it is both `threshold_ratio` times slower than the median rank and, when the round has a MAD
    other than 0, `z_threshold` robust standard deviations above it. With two ranks the z of either is 0.67, and when
    half of the ranks are slow they make the spread: neither can be flagged here; `diagnose` can tell them.

    Parameters
    ----------
    records : sequence of RankRecord
        Of one run; several records of a rank and round are added up.
    round : int, optional
        The round to look at, by default the last one.
    threshold_ratio : float
        Least ratio to the median, at least 1.
    z_threshold : float
        Least robust z.

    Returns
    -------
    StragglerReport
        Of zeros and empty dicts if the round has no records.

    Raises
    ------
    TypeError, ValueError
        If `records` holds something else, or records of several runs, or a threshold is out of range.

    Examples
    --------
    >>> times = [1.0, 1.1, 0.9, 1.0, 5.0]
    >>> records = [RankRecord(rank=r, round=0, e_step_seconds=t) for r, t in enumerate(times)]
    >>> detect_stragglers(records).slow_ranks
    (4,)
    """
    check_thresholds(threshold_ratio, z_threshold)
    number, present = of_round(records, round)
    seconds = {record.rank: record.total_seconds for record in present}
    median = statistics.median(seconds.values()) if seconds else 0.0
    mad = statistics.median(abs(t - median) for t in seconds.values()) if seconds else 0.0
    scale = MAD_TO_SIGMA * mad
    ratios = {rank: _ratio(t, median) for rank, t in seconds.items()}
    z_scores = {rank: _z(t - median, scale) for rank, t in seconds.items()}
    slow = tuple(
        rank
        for rank in sorted(seconds)
        if ratios[rank] >= threshold_ratio and (scale == 0.0 or z_scores[rank] >= z_threshold)
    )
    return StragglerReport(number, seconds, median, mad, ratios, z_scores, threshold_ratio, z_threshold, slow)


def _ratio(seconds: float, median: float) -> float:
    if median == 0.0:
        return 0.0 if seconds == 0.0 else math.inf
    return seconds / median


def _z(deviation: float, scale: float) -> float:
    if scale == 0.0:
        return math.inf if deviation > 0.0 else 0.0
    return deviation / scale
