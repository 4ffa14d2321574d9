"""Step sizes of streaming fits: how much of what was seen a new batch replaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from mixle.stats.domains import finite, positive

__all__ = ["Forgetting", "Schedule", "constant", "forgetting", "harmonic", "posterior_carry"]

Schedule = Callable[[int], float]


def _share(rho: Any, what: str) -> float:
    number = finite(rho, what)
    if not 0.0 < number <= 1.0:
        raise ValueError(f"{what} must lie in (0, 1], is {rho!r}")
    return number


def constant(rho: float) -> Schedule:
    """Return the schedule in which each batch replaces the share `rho` of what was seen.

    Parameters
    ----------
    rho : float
        Share in (0, 1].

    Examples
    --------
    >>> schedule = constant(0.25)
    >>> schedule(1), schedule(100)
    (0.25, 0.25)
    """
    share = _share(rho, "rho of constant")
    return partial(_constant, share)


def harmonic(alpha: float, offset: float = 1.0) -> Schedule:
    """Return the schedule ``(t + offset) ** -alpha`` of batch t.

    Parameters
    ----------
    alpha : float
        Above 0; between 0.5 (exclusive) and 1 the fit converges (Cappé and Moulines 2009, J. R. Stat. Soc. B 71).
    offset : float
        At least 0.

    Examples
    --------
    >>> harmonic(1.0)(3)
    0.25
    """
    power, shift = positive(alpha, "alpha of harmonic"), finite(offset, "offset of harmonic")
    if shift < 0.0:
        raise ValueError(f"offset of harmonic must not be negative, is {offset!r}")
    return partial(_harmonic, power, shift)


def _constant(share: float, _: int) -> float:
    return share


def _harmonic(power: float, shift: float, step: int) -> float:
    return float((step + shift) ** -power)


class Forgetting:
    """Schedule that keeps the share `rho` of what was seen and adds each batch in full."""

    def __init__(self, rho: float) -> None:
        self.rho = _share(rho, "rho of forgetting")

    def __call__(self, step: int) -> float:
        """Return the share that is kept."""
        return self.rho

    def __repr__(self) -> str:
        return f"forgetting({self.rho!r})"


def forgetting(rho: float) -> Schedule:
    """Return the schedule that keeps the share `rho` of what was seen and adds each batch in full.

    Parameters
    ----------
    rho : float
        Share in (0, 1]; 1 forgets nothing.

    Notes
    -----
    The weight of a batch decays geometrically, so that at most ``1 / (1 - rho)`` batches count: a power prior (Ibrahim
    and Chen 2000, Statistical Science 15).

    Examples
    --------
    >>> forgetting(0.9)
    forgetting(0.9)
    """
    return Forgetting(rho)


def posterior_carry() -> str:
    """Return the name of the mode in which the posterior after each batch is the prior of the next.

    Examples
    --------
    >>> posterior_carry()
    'posterior_carry'
    """
    return "posterior_carry"


def shares(schedule: Any, step: int) -> tuple[float, float]:
    """Return the factors of what was seen and of batch number `step` (from 1).

    Raises
    ------
    ValueError
        If the schedule returns something outside (0, 1].
    TypeError
        If it is no schedule.
    """
    if schedule == posterior_carry():
        return 1.0, 1.0
    if not callable(schedule):
        raise TypeError(
            f"schedule is constant(rho), harmonic(alpha), forgetting(rho) or posterior_carry(), not {schedule!r}"
        )
    rho = schedule(step)
    if not (isinstance(rho, (int, float)) and math.isfinite(rho) and 0.0 < rho <= 1.0):
        raise ValueError(f"a schedule must return a share in (0, 1], this one returned {rho!r} for step {step}")
    return (float(rho), 1.0) if isinstance(schedule, Forgetting) else (1.0 - float(rho), float(rho))
