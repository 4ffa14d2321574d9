"""Numbers and dates that stand in a column as text, for the reasons of the rules."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any

__all__ = ["reads_like"]

#: So many labels are looked at.
PROBE = 200
#: Longer labels are prose.
LONGEST = 40
#: Up to three letters or a sign (EUR, $, %) on either side of digits with marks between them; no code such as 00417.
_NUMBER = re.compile(
    r"\(?[+-]?(?:[^\W\d_]{1,3}\W?|[^\w\s.])?\s?[+-]?"
    r"(?!0\d)\d[\d.,' \u00a0\u202f]*(?:%|[^\W\d_]{1,3}|[^\w\s])?\)?"
)
_DATE = re.compile(
    r"(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d\d))"
    r"(?:[T ]\d{1,2}:\d\d\S*.{0,6})?"
)


def reads_like(name: Any, labels: Iterable[Any]) -> str:
    """Return what the labels of a column of text read like and what makes them so; empty for plain text.

    Parameters
    ----------
    name : object
        Name of the column.
    labels : iterable
        Its labels.

    Examples
    --------
    >>> reads_like("price", ["$1,200.50", "$7"])
    "they read like numbers ('$1,200.50'): turn them into numbers, without signs, to fit them so"
    >>> reads_like("day", ["2024-02-01", "2024-02-03"])
    "they read like dates ('2024-02-01'): pandas.to_datetime(df['day']) makes them so"
    >>> reads_like("name", ["Ann", "Bob"])
    ''
    """
    seen = list(itertools.islice(labels, PROBE))
    if not seen or not all(isinstance(label, str) and len(label) <= LONGEST for label in seen):
        return ""
    if all(_DATE.fullmatch(label.strip()) for label in seen):
        return f"they read like dates ({seen[0]!r}): pandas.to_datetime(df[{name!r}]) makes them so"
    if all(_NUMBER.fullmatch(label.strip()) for label in seen):
        return f"they read like numbers ({seen[0]!r}): turn them into numbers, without signs, to fit them so"
    return ""
