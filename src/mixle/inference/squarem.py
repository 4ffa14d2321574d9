"""SQUAREM: EM whose every third statistic is extrapolated from the last three."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mixle.inference.loop import FusedSteps
from mixle.inference.stopping import Score, rounding

__all__ = ["SquaremSteps", "extrapolated"]

#: The longest step of the first extrapolation, what it grows by when it was reached, and the longest of all.
FIRST, GROWTH, LONGEST = 4.0, 4.0, 1024.0
#: Ratio of two gains from which on EM counts as slow; where gains shrink faster it is left alone.
SLOW = 0.75


class Seen(NamedTuple):
    """An E-step and the score it gave."""

    estep: Any
    score: Score


def extrapolated(estimator: Any, values: tuple[Any, Any, Any], alpha: float) -> Any:
    """Return the statistic ``(1 + α)² s₀ − 2 α (1 + α) s₁ + α² s₂``.

    Weights of all three add up to one, so that the total weight stays; those of s₁ are negative for α < −1, and what
    comes out need not be the statistic of any rows.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> extrapolated(PoissonEstimator(), ((4.0, 8.0), (4.0, 6.0), (4.0, 5.0)), -2.0)
    (4.0, 4.0)
    """
    from mixle.stats.sums import signed_suff_stat

    first, middle, last = values
    accumulator = estimator.accumulator_factory().make().from_value(signed_suff_stat(last, alpha * alpha))
    accumulator.combine(signed_suff_stat(first, (1.0 + alpha) ** 2))
    return accumulator.combine(signed_suff_stat(middle, -2.0 * alpha * (1.0 + alpha))).value()


class SquaremSteps(FusedSteps):
    """One pass per iteration; a model that is extrapolated and gains less than EM would is taken back.

    Parameters
    ----------
    handle, estimator, penalty
        As `FusedSteps`.

    Notes
    -----
    The scheme is that of R. Varadhan and C. Roland, "Simple and globally convergent methods for accelerating the
    convergence of any EM algorithm", Scand. J. Stat. 35 (2008), on statistics instead of parameters: weights stay
    weights, probabilities sum to one, and ties hold. Its step is −1 / (1 − ρ); the rate ρ is the square root of the
    ratio of the last two gains, which near a maximum shrink by ρ² each. An extrapolation whose gain does not reach what
    that ratio promises for a plain step is taken back: one E-step is lost, and the next tries wait for 1, 2, 4, ...
    cycles, so that a fit of N E-steps loses about log₂ N of them at worst.
    """

    algorithm = "squarem"

    def __init__(self, handle: Any, estimator: Any, penalty: Any) -> None:
        super().__init__(handle, estimator, penalty)
        self._past: list[Seen] = []
        self._ahead: tuple[Any, Seen, int] | None = None
        self._longest, self._wait, self._pause = FIRST, 0, 1
        self.taken, self.returned = 0, 0

    def score(self, model: Any, *, last: bool = False) -> Score:
        """Return the score of `model`; keeps the statistic of the pass for `step`."""
        if self._ahead is not None and self._ahead[0] is model:
            (_, seen, self._left_out), self._ahead = self._ahead, None
            self._estep = seen.estep
            self._past = [seen]
            return seen.score
        self._ahead = None
        score = super().score(model, last=last)
        if self._estep is not None:
            self._past.append(Seen(self._estep, score))
        return score

    def step(self, model: Any) -> Any:
        """Return the next model after `model`: extrapolated at the end of a cycle, else plain."""
        if len(self._past) < 3:
            return super().step(model)
        past, self._past = tuple(self._past[-3:]), []
        if self._wait:
            self._wait -= 1
            return super().step(model)
        found = self._extrapolate(past, model)
        if found is None:
            return super().step(model)
        self._estep = None
        return found

    def _extrapolate(self, past: tuple[Seen, ...], model: Any) -> Any:
        """Return a model that gains at least what a plain step promises, or None."""
        alpha, promised = _step(past, getattr(self._handle, "precision", "float64"))
        if alpha is None:
            return None
        bounded = max(alpha, -self._longest)
        values = (past[0].estep.value, past[1].estep.value, past[2].estep.value)
        try:
            with np.errstate(all="ignore"):
                value = extrapolated(self._estimator, values, bounded)
                found = self._handle.m_step(self._estimator, past[2].estep._replace(value=value), model)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            found = None
        plain, left_out = self._estep, self._left_out
        score = super().score(found) if found is not None else Score(-math.inf)
        enough = score.finite and score.left_out == past[2].score.left_out
        if enough and score.objective - past[2].score.objective >= promised:
            self.taken += 1
            self._pause = 1
            if bounded > alpha:
                self._longest = min(self._longest * GROWTH, LONGEST)
            self._ahead = (found, Seen(self._estep, score), self._left_out)
            return found
        self.returned += found is not None
        self._longest = max(self._longest / 2.0, FIRST)
        self._wait, self._pause = self._pause, 2 * self._pause
        self._estep, self._left_out = plain, left_out
        return None


def _step(past: tuple[Seen, ...], precision: str) -> tuple[float | None, float]:
    """Return the step α and the gain that a plain step promises; None where the gains tell no rate."""
    a, b, c = (seen.score for seen in past)
    if not (a.finite and b.finite and c.finite) or not a.left_out == b.left_out == c.left_out:
        return None, 0.0
    before, after = b.objective - a.objective, c.objective - b.objective
    if after <= 64.0 * rounding(c.objective, precision) or before <= after:
        return None, 0.0
    ratio = after / before
    if ratio < SLOW:
        return None, 0.0
    rate = math.sqrt(ratio)
    return min(-1.0 / (1.0 - rate), -1.0), ratio * after
