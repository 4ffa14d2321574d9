"""Numbers as people read them."""

from __future__ import annotations

import math

__all__ = ["count", "seconds", "size"]


def seconds(value: float) -> str:
    """Return a duration with three significant digits.

    Examples
    --------
    >>> seconds(0.01234), seconds(75.0), seconds(0.0), seconds(7300.0)
    ('12.3 ms', '1 min 15 s', '0 s', '2 h 1 min')
    """
    if not math.isfinite(value):
        return "–"
    if value >= 3600.0:
        return f"{int(value // 3600)} h {int(value % 3600 // 60)} min"
    if value >= 60.0:
        return f"{int(value // 60)} min {int(value % 60)} s"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return "0 s" if value == 0.0 else f"{value:.1g} s"


def size(value: float) -> str:
    """Return a number of bytes.

    Examples
    --------
    >>> size(813_000), size(12), size(3.5e12)
    ('813 kB', '12 B', '3.5 TB')
    """
    return _scaled(value, ("B", "kB", "MB", "GB", "TB", "PB"))


def count(value: float) -> str:
    """Return a count with three significant digits.

    Examples
    --------
    >>> count(950), count(1_234_567), count(2e9)
    ('950', '1.23 M', '2 G')
    """
    return _scaled(value, ("", "k", "M", "G", "T", "P")).rstrip()


def _scaled(value: float, units: tuple[str, ...]) -> str:
    if not math.isfinite(value):
        return "–"
    step = 0
    while abs(value) >= 999.5 and step < len(units) - 1:
        value, step = value / 1000.0, step + 1
    text = f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"
    return f"{text} {units[step]}"
