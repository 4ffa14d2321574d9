"""Types of the arguments on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable

__all__ = ["count", "counts"]


def count(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return an argparse type that reads an integer of at least `least` and at most `most`.

    Examples
    --------
    >>> count(1)("12,000")
    12000
    """

    def read(text: str) -> int:
        try:
            value = int(text.replace(",", "").replace("_", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is too small: {least} or more")
        if most is not None and value > most:
            raise argparse.ArgumentTypeError(f"{value} is too large: {most} or less")
        return value

    return read


def counts(text: str) -> list[int]:
    """Read a whole number of at least 1, or several as in ``2-6`` or ``2,4,8``.

    Examples
    --------
    >>> counts("2-4"), counts("8")
    ([2, 3, 4], [8])
    """
    read = count(1)
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        found += range(read(low), read(high) + 1) if dash else [read(part)]
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} holds no number; write the smaller one first")
    return sorted(set(found))
