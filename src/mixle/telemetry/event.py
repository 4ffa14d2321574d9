"""One typed event: what was known, what was chosen, what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, Self

__all__ = ["EVENT_KINDS", "Event"]

#: Every kind an event may have.
EVENT_KINDS = ("fit", "placement", "route", "escalation", "context", "reason", "pool_job", "drift", "em_round")


@dataclass(eq=True)
class Event:
    """One event.

    Attributes are checked whenever they are assigned. An event that a `Telemetry` returned tells its recorder of later
    edits: an assigned attribute, or an item set in `outcome`.

    Attributes
    ----------
    kind : str
        One of `EVENT_KINDS`.
    features : dict
        What was known.
    choice : Any
        What was chosen; None if nothing was.
    outcome : dict
        What came of it.
    tags : dict
        Labels, ``run_id`` among them.
    ts : float
        Finite time stamp.

    Raises
    ------
    ValueError
        For an unknown kind or a time stamp that is not finite.

    Examples
    --------
    >>> Event("route", {"size": 3}, choice="small").as_row()["choice"]
    'small'
    """

    kind: str
    features: dict[str, Any] = field(default_factory=dict)
    choice: Any = None
    outcome: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, Any] = field(default_factory=dict)
    ts: float = 0.0

    __hash__ = None  # type: ignore[assignment]  # events are edited

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "kind":
            check_kind(value)
        elif name == "ts":
            value = check_time(value)
        state = self.__dict__
        edited = state.get("_edited")
        if edited is None:
            state[name] = value
            return
        state[name] = Outcome(value, self) if name == "outcome" else value
        if name in _NAMES:
            edited(self, name)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the recorder behind: a copy or a pickle is an event of its own."""
        return self.as_row()

    def as_row(self) -> dict[str, Any]:
        """Return the attributes as a dict of copies, in the order in which they are written to a file."""
        from copy import deepcopy

        return deepcopy(self.row())

    def row(self) -> dict[str, Any]:
        """Return the attributes as a dict that shares their values."""
        return {
            "kind": self.kind,
            "features": self.features,
            "choice": self.choice,
            "outcome": self.outcome,
            "tags": self.tags,
            "ts": self.ts,
        }

    @classmethod
    def trusted(cls, kind: str, features: dict[str, Any], choice: Any, tags: dict[str, Any], ts: float) -> Event:
        """Return an event of values that were checked before, without an outcome."""
        event = cls.__new__(cls)
        event.__dict__.update(kind=kind, features=features, choice=choice, outcome={}, tags=tags, ts=ts)
        return event

    def attach(self, edited: Callable[[Event, str], None]) -> Event:
        """Call ``edited(event, name)`` after each later edit."""
        self.__dict__["outcome"] = Outcome(self.outcome, self)
        self.__dict__["_edited"] = edited
        return self


_NAMES = frozenset(item.name for item in fields(Event))


class Source(Protocol):
    """What keeps events to itself for a while."""

    def send(self) -> None:
        """Record what was kept."""


def check_kind(kind: Any) -> None:
    """Refuse a kind that is not one of `EVENT_KINDS`."""
    if kind not in EVENT_KINDS:
        raise ValueError(f"unknown event kind {kind!r}; use one of {', '.join(EVENT_KINDS)}")


def check_time(ts: Any) -> float:
    """Return a time stamp as a float; refuse one that is not finite."""
    if isinstance(ts, (str, bytes)) or not hasattr(ts, "__float__"):
        raise TypeError(f"ts must be a number, not {type(ts).__name__}")
    if not math.isfinite(ts):
        raise ValueError(f"ts must be finite, not {ts!r}")
    return float(ts)


class Outcome(dict[str, Any]):
    """The outcome of a recorded event, which tells its event when it is edited."""

    __slots__ = ("_event",)

    def __init__(self, items: Any = (), event: Event | None = None) -> None:
        dict.__init__(self, items)
        self._event = event

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        from copy import deepcopy

        return deepcopy(dict(self), memo)

    def _note(self) -> None:
        edited = None if self._event is None else self._event.__dict__.get("_edited")
        if edited is not None and self._event is not None and self._event.outcome is self:
            edited(self._event, "outcome")

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._note()

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._note()

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc]
        self.update(other)
        return self

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Update as a dict does."""
        super().update(*args, **kwargs)
        self._note()

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the item, set first if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, *args: Any) -> Any:
        """Remove an item and return it."""
        value = super().pop(*args)
        self._note()
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last item and return it."""
        item = super().popitem()
        self._note()
        return item

    def clear(self) -> None:
        """Remove all items."""
        super().clear()
        self._note()
