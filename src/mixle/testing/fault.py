"""One planned fault: what happens, at which point of a fit, to whom, how often."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mixle.errors import ContractError

__all__ = ["DEADLY", "KINDS", "POINTS", "Fault", "check_count", "check_word"]

#: The points of a fit, in its order.
POINTS = (
    "start",
    "load",
    "encode",
    "init",
    "before",
    "mid_update",
    "after",
    "reply",
    "score",
    "recover",
    "close",
)
WITHIN = POINTS[1:-1]  # in the worker, while it works
UPDATE = ("before", "mid_update", "after", "reply", "recover")  # in an E-step
#: The kinds of faults, and the points where each may strike.
KINDS: dict[str, tuple[str, ...]] = {
    "kill": POINTS,
    "stop": POINTS,
    "segfault": POINTS,
    "exit": WITHIN,
    "hang": WITHIN,
    "raise_": WITHIN,
    "delay": WITHIN,
    "hold_lock": WITHIN,
    "out_of_memory": WITHIN,
    "garble": WITHIN,
    "slow": ("after",),
    "corrupt": ("before", "mid_update", "after", "reply"),
}
#: Kinds that end or block the process they strike.
DEADLY = frozenset({"kill", "stop", "segfault", "exit", "hang", "garble", "out_of_memory"})
#: Points at which rounds are counted.
COUNTED = frozenset({*UPDATE, "init", "score"})


@dataclass(frozen=True)
class Fault:
    """A fault of a plan.

    Attributes
    ----------
    kind : str
        The method of `ChaosPlan` that planned it.
    at : str
        Point of the fit.
    worker, round, shard : int or None
        Whom and when it strikes; None is the first that comes.
    times : int or None
        How often; None is every time.
    skip : int
        Arrivals at the point that are left alone before.
    detail : tuple of (str, object)
        What the kind needs besides.

    Examples
    --------
    >>> from mixle.testing import ChaosPlan
    >>> ChaosPlan().kill(worker=1).faults[0].worker
    1
    """

    kind: str
    at: str
    worker: int | None = None
    round: int | None = None
    shard: int | None = None
    times: int | None = 1
    skip: int = 0
    detail: tuple[tuple[str, Any], ...] = field(default=())

    def get(self, name: str) -> Any:
        """Return a detail."""
        return dict(self.detail)[name]

    def __repr__(self) -> str:
        """Return the call that plans it."""
        where: dict[str, Any] = {"worker": self.worker, "round": self.round, "shard": self.shard}
        said = [repr(value) if name == "exc" else f"{name}={_said(value)}" for name, value in self.detail]
        said += [f"{name}={value!r}" for name, value in where.items() if value is not None]
        if self.kind != "slow":
            said.append(f"at={self.at!r}")
        if self.times != (None if self.kind in {"delay", "slow"} else 1):
            said.append(f"times={self.times!r}")
        if self.skip:
            said.append(f"skip={self.skip}")
        return f"{self.kind}({', '.join(said)})"

    def __str__(self) -> str:
        return repr(self)


def _said(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)


def check_word(value: Any, known: Iterable[str], what: str) -> str:
    """Return one of the known words; the error suggests the nearest."""
    words = list(known)
    if value in words:
        return str(value)
    from difflib import get_close_matches

    near = get_close_matches(str(value), words, n=1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    raise ContractError(f"{what} {value!r} is not known.{meant} Use one of {', '.join(words)}")


def check_count(value: Any, what: str, least: int, hint: str = "") -> int | None:
    """Return a whole number that is at least `least`; None passes."""
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = math.nan
    if math.isnan(number) or number < least:
        raise ContractError(f"{what} must be a whole number from {least} on{hint}, not {value!r}")
    return int(number)


def check_seconds(value: Any, what: str, least: float = 0.0) -> float:
    """Return a finite number above `least`."""
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > least):
        raise ContractError(f"{what} must be a finite number above {least:g}, not {value!r}")
    return number


def check_place(kind: str, at: Any, round: Any) -> tuple[str, int | None]:  # noqa: A002 - the word of the design
    """Return the point and the round of a fault."""
    check_word(at, POINTS, "the point at=")
    if at not in KINDS[kind]:
        raise ContractError(f".{kind} cannot strike at={at!r}; it can at {', '.join(KINDS[kind])}")
    number = check_count(round, "round", 1, " (E-steps are counted from 1)")
    if number is not None and at not in COUNTED:
        raise ContractError(f"at={at!r} belongs to no round: leave out round={round!r}")
    return str(at), number
