"""Documented home of `ImpossibleEvidenceError`."""

from __future__ import annotations

from mixle.errors import ImpossibleEvidenceError

__all__ = ["ImpossibleEvidenceError"]
