"""When a step is accepted, and when the loop has converged."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from mixle.stats.contract import parts_of

__all__ = ["Score", "StopRule", "Verdict", "ascends", "rounding"]


def rounding(objective: float, precision: str = "float64") -> float:
    """Return the rounding of a sum as large as `objective`: 8 ε times its size, of float32 terms 2^-21 times.

    Terms of float32 round at random, but all rows share the rounding of the coefficients.

    Examples
    --------
    >>> rounding(-2.0**52)
    8.0
    >>> rounding(-2.0**21, "float32")
    1.0
    """
    return (2.0**-21 if precision == "float32" else 8.0 * sys.float_info.epsilon) * abs(objective)


def ascends(estimator: Any) -> bool:
    """Return whether no step of an estimator lowers the objective: it and its parts say so, or say nothing."""
    own = bool(getattr(estimator, "ascends", True))
    return own and all(ascends(part) for _, part in parts_of(estimator))


class Score(NamedTuple):
    """Objective of a model and the number of rows it could not be summed over."""

    objective: float
    left_out: int = 0

    @property
    def finite(self) -> bool:
        """Whether the objective is a finite number."""
        return math.isfinite(self.objective)

    @property
    def rank(self) -> tuple[int, float]:
        """Order of models: first by the rows they explain, then by the objective over those rows."""
        return (-self.left_out, self.objective)


class Verdict(NamedTuple):
    """What is done with a step."""

    accepted: bool
    converged: bool
    gain: float


@dataclass(frozen=True)
class StopRule:
    """The standard rule.

    A step is accepted when its objective is finite and its gain is not below ``-max(1e-12, 8 ε |objective|)``: two
    sums of the same terms differ by as much. It has converged when it is accepted and the gain is below
    ``max(delta, 8 ε |objective|)``. An objective that is not finite is neither, whatever came before.

    Objectives over different sets of rows cannot be compared: a step that explains more rows is accepted, one that
    explains fewer is not.

    Parameters
    ----------
    delta : float or None
        Threshold of the gain; None never converges, unless `tol` is given.
    tol : float or None
        Threshold of the gain relative to the size of the objective, beside `delta`.
    monotone : bool
        False accepts every finite step.
    precision : str
        What the objective's terms are computed in.

    Examples
    --------
    >>> rule = StopRule(delta=1e-9)
    >>> rule.judge(Score(-2.624295383725169), Score(-2.6242953837251695))
    Verdict(accepted=True, converged=True, gain=-4.440892098500626e-16)
    >>> rule.judge(Score(-3.0), Score(float("nan"))).accepted
    False
    """

    delta: float | None = 1e-9
    monotone: bool = True
    tol: float | None = None
    precision: str = "float64"

    def judge(self, old: Score, new: Score) -> Verdict:
        """Return what is done with a step from `old` to `new`."""
        gain = self._gain(old, new)
        if not new.finite:
            return Verdict(accepted=False, converged=False, gain=gain)
        if old.left_out != new.left_out:
            return Verdict(not self.monotone or new.left_out < old.left_out, converged=False, gain=gain)
        slack = rounding(new.objective, self.precision)
        level = gain >= -max(1e-12, slack)
        converged = level and self.settles and gain < max(self.threshold(new.objective), slack)
        return Verdict(level or not self.monotone, converged, gain)

    @property
    def settles(self) -> bool:
        """Whether a small gain ends the loop."""
        return self.delta is not None or self.tol is not None

    def threshold(self, objective: float) -> float:
        """Return the gain below which a model of this objective has converged."""
        return max(self.delta or 0.0, (self.tol or 0.0) * abs(objective))

    @staticmethod
    def _gain(old: Score, new: Score) -> float:
        if old.finite or not new.finite:
            return new.objective - old.objective
        return math.inf
