"""Evidence about workers over rounds: one that is wrong now and then is named."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["Evidence"]

SOUND = 1e-9  # wrong statistics of a sound worker, as a fraction
UNSOUND = 1e-5  # of one that should be named
RISK = 1e-6  # that a sound worker is named
BOUND = math.log(1.0 / RISK)


class Evidence:
    """A sequential test for each worker, of being wrong more often than chance makes a sound one wrong.

    Each statistic that was compared is a trial; it is a fault if two other computations agree that it is wrong. The
    log-likelihood ratio of the two rates (A. Wald, Ann. Math. Statist. 16, 1945) is added up and never falls below zero
    (E. S. Page, Biometrika 41, 1954), so that a worker that was sound for long is no better protected. A worker whose
    sum reaches ``log(1 / risk)`` is named: two faults within some 460,000 trials do it, one alone never.

    Attributes
    ----------
    named : dict of int to str
        The workers that reached the bound, and by what.

    Examples
    --------
    >>> evidence = Evidence()
    >>> evidence.add([0, 1, 0, 1], wrong=[1]), evidence.add([0, 1], wrong=[1])
    ([], [1])
    >>> evidence.named[1]
    '2 of 3 compared statistics were wrong'
    """

    def __init__(self) -> None:
        self.score: dict[int, float] = {}
        self.trials: dict[int, int] = {}
        self.faults: dict[int, int] = {}
        self.named: dict[int, str] = {}

    def add(self, heard: Iterable[int], wrong: Iterable[int]) -> list[int]:
        """Note which workers were compared, and which of them were found to be wrong; return those named anew."""
        for worker in heard:
            self.trials[worker] = self.trials.get(worker, 0) + 1
            self.score[worker] = max(0.0, self.score.get(worker, 0.0) + math.log1p(-UNSOUND) - math.log1p(-SOUND))
        for worker in wrong:
            self.faults[worker] = self.faults.get(worker, 0) + 1
            self.score[worker] = self.score.get(worker, 0.0) + math.log(UNSOUND / SOUND)
        fresh = sorted(worker for worker, score in self.score.items() if score >= BOUND and worker not in self.named)
        for worker, score in self.score.items():
            if score >= BOUND:
                self.named[worker] = (
                    f"{self.faults[worker]} of {self.trials.get(worker, 0)} compared statistics were wrong"
                )
        return fresh
