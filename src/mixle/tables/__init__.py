"""From a table to a fitted mixture: schemas, fits, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixle.inference.rules import RULES
    from mixle.tables.fitting import fit
    from mixle.tables.results import Fit, load
    from mixle.tables.schemas import Field, Schema, schema
    from mixle.tables.summaries import Summary, summary

__all__ = ["RULES", "Field", "Fit", "Schema", "Summary", "fit", "load", "schema", "summary"]

_HOMES = {"Field": "tables.schemas", "Schema": "tables.schemas", "schema": "tables.schemas"}
_HOMES |= {"RULES": "inference.rules", "fit": "tables.fitting", "Fit": "tables.results", "load": "tables.results"}
_HOMES |= {"Summary": "tables.summaries", "summary": "tables.summaries"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"mixle.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
