"""Types of the arguments on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable

__all__ = ["count"]


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
