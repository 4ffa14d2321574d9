"""Values of which some are known only to lie between two bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixle.errors import RowError
from mixle.stats.combinators.missing import OptionalRows
from mixle.stats.combinators.wrapping import WrappedRows, WrappingEncoder
from mixle.stats.contract import DataSequenceEncoder
from mixle.stats.reading import is_missing, read_numbers

__all__ = ["CensoredEncoder", "CensoredInterval"]


@dataclass(frozen=True)
class CensoredInterval:
    """A value that lies between two bounds, both included.

    Parameters
    ----------
    lower, upper : float
        The bounds; −inf and inf where there is none.

    Raises
    ------
    ValueError
        If a bound is no number, or the lower one is above the upper one.

    Examples
    --------
    >>> CensoredInterval(3, math.inf)
    CensoredInterval(lower=3.0, upper=inf)
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        low, high = _ends((self.lower, self.upper))
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)


def _ends(pair: Any) -> tuple[float, float]:
    """Return the bounds of a pair; None stands for an end that is open.

    Raises
    ------
    ValueError
        Saying what is wrong with them.
    """
    if len(pair) != 2:
        raise ValueError(f"an interval has two ends, not {len(pair)}; pass (low, high)")
    low, high = _end(pair[0], 0, -math.inf), _end(pair[1], 1, math.inf)
    if low > high or low == math.inf or high == -math.inf:
        raise ValueError(f"the lower end {low!r} of an interval is above its upper end {high!r}; pass (low, high)")
    return low, high


def _end(value: Any, place: int, if_open: float) -> float:
    if value is None:
        return if_open
    if isinstance(value, (float, np.floating)) and not math.isnan(value):
        return float(value)
    try:
        return float(read_numbers([value], "Censored")[0])
    except RowError as error:
        reason = f"{error.reason}; an open end of an interval is None"
        raise RowError(reason, "Censored", None, (place,)) from None


def _within(low: float, high: float) -> float:
    """Return a number of an interval that stands for it in a start."""
    if low > -math.inf and high < math.inf:
        return 0.5 * low + 0.5 * high
    return low if low > -math.inf else high if high < math.inf else 0.0


class CensoredEncoder(WrappingEncoder):
    """Encoder of numbers and intervals: the child sees a number for each, the bounds of intervals stand beside."""

    def __init__(self, encoder: DataSequenceEncoder, whole: bool) -> None:
        super().__init__(encoder)
        self.whole = whole

    def seq_encode(self, rows: Sequence[Any]) -> WrappedRows:
        """Encode rows: numbers, `CensoredInterval`, or pairs ``(low, high)``, None for an open end.

        Raises
        ------
        RowError
            Naming the first row whose bounds cannot be read, or as the child raises it for a number.
        """
        low, high = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
        if isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "biuf":
            return self._rows(rows, low, high)
        values: list[Any] = list(rows)
        bad: RowError | None = None
        for i, value in enumerate(values):
            pair = (value.lower, value.upper) if isinstance(value, CensoredInterval) else value
            if not isinstance(pair, (tuple, list, np.ndarray)) or is_missing(pair):
                continue
            try:
                low[i], high[i] = _ends(pair)
            except ValueError as error:
                reason, fields = (error.reason, error.fields) if isinstance(error, RowError) else (str(error), ())
                bad = bad or RowError(reason, "Censored", i, fields)
                values[i] = 0
                continue
            values[i] = self._stand_in(float(low[i]), float(high[i]))
            if low[i] == high[i]:
                values[i], low[i], high[i] = pair[0], np.nan, np.nan
        try:
            found = self._rows(values, low, high)
        except RowError as error:
            raise error if bad is None or (error.row or 0) < (bad.row or 0) else bad from None
        if bad is not None:
            raise bad
        return found

    def _stand_in(self, low: float, high: float) -> float:
        middle = _within(low, high)
        return (
            float(min(max(np.rint(middle), math.ceil(low) if low > -math.inf else low), high)) if self.whole else middle
        )

    def _rows(self, values: Any, low: np.ndarray, high: np.ndarray) -> WrappedRows:
        return WrappedRows(OptionalRows(len(values), None, self.encoder.seq_encode(values)), (low, high))
