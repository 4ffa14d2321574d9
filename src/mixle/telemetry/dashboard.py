"""The events of a recorder in a few numbers."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixle.telemetry.recorder import Telemetry

__all__ = ["dashboard", "render_dashboard"]


def dashboard(t: Telemetry) -> dict[str, Any]:
    """Return counts and totals over the events of a recorder.

    Parameters
    ----------
    t : Telemetry
        The recorder.

    Returns
    -------
    dict
        ``n_events``; ``by_kind`` and ``choices``, counts; ``cost_total`` over the ``n_costed`` events whose outcome
        has a finite ``cost``; ``latency_total`` and ``n_latency`` likewise; ``n_unaggregatable``, events whose cost or
        latency is no finite number; ``abstention_rate``, the share of the events with a choice that chose
        ``"abstain"``, None without any.

    Examples
    --------
    >>> from mixle.telemetry import Telemetry
    >>> t = Telemetry()
    >>> _ = t.record("route", choice="small", outcome={"cost": 2.0})
    >>> _ = t.record("route", choice="abstain", outcome={"cost": "?"})
    >>> numbers = dashboard(t)
    >>> numbers["cost_total"], numbers["n_costed"], numbers["n_unaggregatable"], numbers["abstention_rate"]
    (2.0, 1, 1, 0.5)
    """
    events = list(t.events())
    choices = Counter(str(event.choice) for event in events if event.choice is not None)
    totals: dict[str, list[float]] = {"cost": [], "latency": []}
    odd = 0
    for event in events:
        given = {name: event.outcome[name] for name in totals if event.outcome.get(name) is not None}
        for name, value in given.items():
            if _is_number(value):
                totals[name].append(float(value))
        odd += not all(_is_number(value) for value in given.values())
    chosen = sum(choices.values())
    return {
        "n_events": len(events),
        "by_kind": dict(Counter(event.kind for event in events)),
        "choices": dict(choices),
        "cost_total": math.fsum(totals["cost"]),
        "n_costed": len(totals["cost"]),
        "latency_total": math.fsum(totals["latency"]),
        "n_latency": len(totals["latency"]),
        "n_unaggregatable": odd,
        "abstention_rate": choices["abstain"] / chosen if chosen else None,
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def render_dashboard(t: Telemetry) -> str:
    """Return the dashboard as a Markdown table.

    Parameters
    ----------
    t : Telemetry
        The recorder.

    Examples
    --------
    >>> from mixle.telemetry import Telemetry
    >>> render_dashboard(Telemetry()).splitlines()[0]
    '# Telemetry'
    """
    lines = ["# Telemetry", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in dashboard(t).items()]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    """Return a value as the text of a Markdown cell."""
    if isinstance(value, dict):
        value = ", ".join(f"{key} {count}" for key, count in sorted(value.items())) or None
    text = "none" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|")
