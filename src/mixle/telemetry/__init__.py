"""Typed events, recorded in memory and in append-only JSONL files."""

from __future__ import annotations

from mixle._facade import publish
from mixle.telemetry.dashboard import dashboard, render_dashboard
from mixle.telemetry.event import EVENT_KINDS, Event
from mixle.telemetry.recorder import Telemetry, get_default_recorder, record, set_default_recorder

__all__ = [
    "EVENT_KINDS",
    "Event",
    "Telemetry",
    "dashboard",
    "get_default_recorder",
    "record",
    "render_dashboard",
    "set_default_recorder",
]

publish(
    __name__,
    Event,
    Telemetry,
    dashboard,
    get_default_recorder,
    record,
    render_dashboard,
    set_default_recorder,
)
