"""One summary of a whole fit's records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mixle.utils.parallel.observing.imbalance import ImbalanceReceipt, imbalance_receipt
from mixle.utils.parallel.observing.records import RankRecord, checked
from mixle.utils.parallel.observing.stragglers import StragglerReport, check_thresholds, detect_stragglers

if TYPE_CHECKING:
    import os

    from mixle.utils.parallel.observing.diagnose import Diagnosis

__all__ = ["FitReport", "fit_report"]


@dataclass(frozen=True)
class FitReport:
    """A whole-fit summary rolled up from per-rank, per-round records.

    Parameters
    ----------
    n_rounds, n_ranks : int
        How many there were.
    total_seconds : float
        Seconds of all ranks and rounds together.
    total_bytes, total_obs : int
        Bytes and rows that were processed, each time they were.
    rounds : tuple of int
        Rounds with records, sorted.
    stragglers_by_round : dict of int to StragglerReport
        Verdict of each round.
    imbalance_by_round : dict of int to ImbalanceReceipt
        Skew of each round.
    worst_straggler_ratio, worst_imbalance_ratio : float
        Largest ratio over all rounds; a straggler ratio is infinite where the median rank took no time.
    records : tuple of RankRecord
        What the report was made from; `diagnose` and the page need them.
    notes : tuple of str
        What the policies of the fit have to say about themselves.

    Examples
    --------
    >>> from mixle.utils.parallel.observing.records import RankRecord
    >>> fit_report([RankRecord(rank, 0, 0.5, n_obs=100) for rank in range(2)]).n_ranks
    2
    """

    n_rounds: int
    n_ranks: int
    total_seconds: float
    total_bytes: int
    total_obs: int
    rounds: tuple[int, ...]
    stragglers_by_round: dict[int, StragglerReport]
    imbalance_by_round: dict[int, ImbalanceReceipt]
    worst_straggler_ratio: float
    worst_imbalance_ratio: float
    records: tuple[RankRecord, ...] = field(default=(), kw_only=True, repr=False, compare=False)
    notes: tuple[str, ...] = field(default=(), kw_only=True, repr=False, compare=False)

    @property
    def any_stragglers(self) -> bool:
        """Whether a rank was flagged in any round."""
        return any(verdict.slow_ranks for verdict in self.stragglers_by_round.values())

    def render(self) -> str:
        """Return a short human-readable summary, for example for a log: one line, and one per round."""
        size = f"{self.n_ranks} ranks x {self.n_rounds} rounds"
        lines = [f"fit_report: {size}, {self.total_seconds:.3f}s total, {self.total_bytes} bytes, {self.total_obs} obs"]
        for number in self.rounds:
            verdict, skew = self.stragglers_by_round[number], self.imbalance_by_round[number]
            flag = f"STRAGGLERS={verdict.slow_ranks}" if verdict.slow_ranks else "ok"
            lines.append(
                f"  round {number}: median={verdict.median_seconds:.4f}s max_ratio={verdict.max_ratio:.2f}x "
                f"imbalance_ratio={skew.max_bytes_ratio:.2f}x [{flag}]"
            )
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def as_dict(self) -> dict[str, Any]:
        """Return the machine-readable form in the types of JSON; an infinite ratio is None."""
        from mixle.telemetry.plain import plain

        by_round = {
            number: {
                "slow_ranks": list(self.stragglers_by_round[number].slow_ranks),
                "rank_seconds": self.stragglers_by_round[number].rank_seconds,
                "imbalance_max_ratio": self.imbalance_by_round[number].max_bytes_ratio,
                "skew_by_rank": self.imbalance_by_round[number].skew_by_rank,
            }
            for number in self.rounds
        }
        summary = {
            "n_rounds": self.n_rounds,
            "n_ranks": self.n_ranks,
            "total_seconds": self.total_seconds,
            "total_bytes": self.total_bytes,
            "total_obs": self.total_obs,
            "rounds": list(self.rounds),
            "worst_straggler_ratio": self.worst_straggler_ratio,
            "worst_imbalance_ratio": self.worst_imbalance_ratio,
            "any_stragglers": self.any_stragglers,
            "by_round": by_round,
        }
        return dict(plain(summary))

    def diagnose(self) -> Diagnosis:
        """Return the verdict of `diagnose` on the records behind this report."""
        from mixle.utils.parallel.observing.diagnose import diagnose

        return diagnose(self.records)

    def to_html(self, path: str | os.PathLike[str] | None = None, title: str = "Fit report") -> str:
        """Return the report as one offline HTML page, and write it to `path` if given.

        Parameters
        ----------
        path : str or path-like, optional
            File to write.
        title : str
            Title of the page.
        """
        from mixle.utils.parallel.observing.page import page

        text = page(self.records, title)
        if path is not None:
            from pathlib import Path

            Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_html_(self) -> str:
        from mixle.utils.parallel.observing.page import fragment

        return fragment(self.records)


def fit_report(records: Sequence[RankRecord], *, threshold_ratio: float = 1.5, z_threshold: float = 3.0) -> FitReport:
    """Build one summary report from a completed (or in-progress) distributed EM fit's records.

    Parameters
    ----------
    records : sequence of RankRecord
        Of one run, of any rounds, in any order; none give a report of zeros.
    threshold_ratio, z_threshold : float
        As for `detect_stragglers`.

    Returns
    -------
    FitReport

    Raises
    ------
    TypeError, ValueError
        If `records` holds something else, or records of several runs, or a threshold is out of range.

    Examples
    --------
    >>> records = [RankRecord(rank, 0, 0.5, bytes_processed=800, n_obs=100) for rank in range(2)]
    >>> print(fit_report(records).render())
    fit_report: 2 ranks x 1 rounds, 1.000s total, 1600 bytes, 200 obs
      round 0: median=0.5000s max_ratio=1.00x imbalance_ratio=1.00x [ok]
    """
    check_thresholds(threshold_ratio, z_threshold)
    found = checked(records)
    by_round: dict[int, list[RankRecord]] = {}
    for record in found:
        by_round.setdefault(record.round, []).append(record)
    rounds = tuple(sorted(by_round))
    stragglers = {
        number: detect_stragglers(
            by_round[number], round=number, threshold_ratio=threshold_ratio, z_threshold=z_threshold
        )
        for number in rounds
    }
    imbalance = {number: imbalance_receipt(by_round[number], round=number) for number in rounds}
    return FitReport(
        n_rounds=len(rounds),
        n_ranks=len({record.rank for record in found}),
        total_seconds=math.fsum(record.total_seconds for record in found),
        total_bytes=sum(record.bytes_processed for record in found),
        total_obs=sum(record.n_obs for record in found),
        rounds=rounds,
        stragglers_by_round=stragglers,
        imbalance_by_round=imbalance,
        worst_straggler_ratio=max((verdict.max_ratio for verdict in stragglers.values()), default=0.0),
        worst_imbalance_ratio=max((receipt.max_bytes_ratio for receipt in imbalance.values()), default=0.0),
        records=tuple(found),
    )
