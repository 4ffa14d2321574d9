"""What the system says this process has used."""

from __future__ import annotations

import sys

__all__ = ["usage"]

try:
    from resource import RUSAGE_SELF, getrusage
except ImportError:  # pragma: no cover - Windows

    def usage() -> tuple[int, int, int] | None:
        """Return nothing: this system does not tell."""
        return None

else:
    _UNIT = 1 if sys.platform == "darwin" else 1024

    def usage() -> tuple[int, int, int] | None:
        """Return minor page faults, major page faults and peak memory in bytes; None where the system does not tell."""
        used = getrusage(RUSAGE_SELF)
        return used.ru_minflt, used.ru_majflt, used.ru_maxrss * _UNIT
