"""Tells the log when a rank becomes slow while a fit runs, if somebody listens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mixle._log import listening, note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixle.utils.parallel.observing.records import RankRecord

__all__ = ["Watchman"]

#: Rounds that are looked at.
RECENT = 64
#: Share of the time that looking may take.
SHARE = 0.005


class Watchman:
    """Looks at the records now and then, and logs each change of the ranks that `diagnose` names.

    Parameters
    ----------
    run_id : str, optional
        Of the log records.
    """

    def __init__(self, run_id: str | None = None) -> None:
        self.run_id = run_id
        self._slow: frozenset[int] = frozenset()
        self._due = 0.0

    def look(self, records: Sequence[RankRecord], *, last: bool = False) -> None:
        """Look at the last rounds of `records`, unless that would take more than a two-hundredth of the time.

        Parameters
        ----------
        records : sequence of RankRecord
            Of one run, by round.
        last : bool
            There will be no later look.
        """
        start = time.monotonic()
        if not records or (start < self._due and not last) or not listening("rounds"):
            return
        from mixle.utils.parallel.observing.diagnose import diagnose

        newest = records[-1].round
        found = diagnose([record for record in records if record.round > newest - RECENT])
        now = frozenset(found.slow_ranks)
        facts = {"round": newest, "run_id": self.run_id}
        for rank in sorted(now - self._slow):
            told = f"rank {rank} is slow: {1.0 / found.speeds[rank]:.2g} times the others' time for equal work since"
            text = f"{told} round {found.since[rank]}; {found.causes[rank]}"
            note("warning", "rounds", text, worker=rank, since=found.since[rank], **facts)
        for rank in sorted(self._slow - now):
            note("info", "rounds", f"rank {rank} keeps pace again", worker=rank, **facts)
        self._slow = now
        self._due = start + (time.monotonic() - start) / SHARE
