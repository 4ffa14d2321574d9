"""Rows of Python or numpy values to arrays, with the first bad row named.

The fast path asks the interpreter for the set of types once; only when it finds something else is each value looked
at.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixle.errors import RowError
from mixle.stats.label_column import LabelColumn
from mixle.stats.refusals import shown

__all__ = [
    "integer_codes",
    "is_missing",
    "masked_rows",
    "read_counts",
    "read_integers",
    "read_labels",
    "read_matrix",
    "read_numbers",
]

#: The square of a larger number overflows, or leaves no room for a sum.
LARGEST_ROOT = 1e150
_PLAIN = frozenset({float, int, bool, np.float64, np.float32, np.int64, np.int32, np.bool_})
_NO_NUMBERS = (complex, np.complexfloating, np.timedelta64)
_MISSING_HINT = "is missing; a column with missing values needs Optional around its family (OptionalEstimator)"


_HELD = "a number that float64 can hold"
_NEVER_MISSING = frozenset({int, str, bool, bytes, np.int64, np.int32, np.bool_, np.str_})


def is_missing(value: Any) -> bool:
    """Return True for None, a NaN or NaT of any type, pandas' NA, and a masked value.

    Examples
    --------
    >>> [is_missing(value) for value in (None, float("nan"), np.datetime64("NaT"), np.ma.masked, 0.0, "nan")]
    [True, True, True, True, False, False]
    """
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    return value is None or (type(value) not in _NEVER_MISSING and _rarely_missing(value))


def _rarely_missing(value: Any) -> bool:
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    kind = type(value)
    if kind.__name__ in {"NAType", "NaTType"}:
        return kind.__module__.startswith("pandas.")
    if isinstance(value, np.ndarray):
        return kind.__name__ == "MaskedConstant"
    return isinstance(value, numbers.Number) and bool(value != value)  # Decimal, complex


def masked_rows(rows: Any) -> np.ndarray | None:
    """Return which rows of a masked array are masked, shape (n,) or that of the array; None for anything else."""
    if not isinstance(rows, np.ndarray) or not hasattr(rows, "mask"):
        return None
    return np.broadcast_to(np.asarray(rows.mask), rows.shape)


def _bad(value: Any, family: str, row: int, what: str = "a number") -> RowError:
    if is_missing(value):
        return RowError(f"{shown(value)} {_MISSING_HINT}", family, row)
    if isinstance(value, (float, np.floating)) and not np.isfinite(value):
        return RowError(f"{shown(value)} is not finite; leave the row out, or give a finite number", family, row)
    advice = "convert it, or use Categorical for labels" if what == "a number" else f"pass {what}"
    return RowError(f"{shown(value)} is not {what}; {advice}", family, row)


def _of_width(found: int, expected: int, family: str, row: int) -> RowError:
    return RowError(f"the row has {found} entries, {expected} are expected; pass rows of one width", family, row)


def _object_array(rows: Sequence[Any]) -> bool:
    return isinstance(rows, np.ndarray) and rows.dtype.kind not in "biuf"


def read_numbers(rows: Sequence[Any], family: str, squared: bool = False) -> np.ndarray:
    """Return finite float64 numbers, shape (n,).

    A float64 array comes back as it is. Integers, booleans and anything that is a ``numbers.Real`` are converted.

    Parameters
    ----------
    rows : sequence
        Numbers.
    family : str
        For the message.
    squared : bool
        Refuse numbers whose square overflows as well.

    Raises
    ------
    RowError
        Naming the first row that is not a finite number, or too large.
    """
    _refuse_masked(rows, family)
    if isinstance(rows, np.ndarray) and not _object_array(rows):
        if rows.ndim != 1:
            raise RowError(
                f"each row is one number, the array has {_shape(rows)}; pass rows.ravel(), or a family of vectors",
                family,
                0 if len(rows) else None,
            )
        values = np.asarray(rows, float)
    elif set(map(type, rows)) <= _PLAIN:
        try:
            values = (
                np.array(rows, dtype=float) if isinstance(rows, (list, tuple)) else np.array(list(rows), dtype=float)
            )
        except OverflowError:
            values = np.array([_to_float(v, family, i) for i, v in enumerate(rows)], dtype=float)
    else:
        values = np.array([_to_float(v, family, i) for i, v in enumerate(rows)], dtype=float)
    bad = first_not_finite(values, squared)
    if bad is not None:
        raise _too_large(rows[bad], family, bad) if np.isfinite(values[bad]) else _bad(rows[bad], family, bad, _HELD)
    return values


def _shape(rows: np.ndarray) -> str:
    """Return the shape of an array for a message that is the same for a part of the rows: their number is called n."""
    sizes = ["n", *map(str, rows.shape[1:])] if rows.ndim else []
    return f"shape ({', '.join(sizes)}{',' if rows.ndim == 1 else ''})"


def _refuse_masked(rows: Sequence[Any], family: str) -> None:
    mask = masked_rows(rows)
    if mask is not None and mask.any():
        row, *entry = (int(i) for i in np.argwhere(mask)[0])
        error = _entry_error(None, family, row) if entry else _bad(None, family, row)
        raise error.inside(entry[0]) if entry else error


def _too_large(value: Any, family: str, row: int) -> RowError:
    return RowError(f"{shown(value)} is too large: its square overflows; give the column another unit", family, row)


def _to_float(value: Any, family: str, row: int) -> float:
    if is_missing(value):
        raise _bad(value, family, row)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    number: Any = value
    if not isinstance(value, (numbers.Number, np.bool_)) or isinstance(value, _NO_NUMBERS):
        raise _bad(value, family, row)
    try:
        return float(number)
    except (TypeError, ValueError, OverflowError):
        raise _bad(value, family, row, _HELD) from None


def first_not_finite(values: np.ndarray, squared: bool = False) -> int | None:
    """Return the first row of `values` that holds a NaN or an infinity, or None; blocks keep the memory small.

    With `squared` a number above 1e150 in size counts as well.
    """
    step = max(1, 65536 // max(1, values[:1].size))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(values), step):
            block = values[start : start + step]
            if not np.isfinite(np.add.reduce(np.square(block) if squared else block, axis=None)):
                good = np.abs(block) <= LARGEST_ROOT if squared else np.isfinite(block)
                rows = good.reshape(len(block), -1).all(axis=1)
                if not rows.all():
                    return start + int(np.argmin(rows))
    return None


def read_matrix(rows: Sequence[Any], family: str, dim: int | None = None, squared: bool = False) -> np.ndarray:
    """Return finite float64 rows of equal width, shape (n, d); a float64 array or memory map stays as it is.

    Raises
    ------
    RowError
        Naming the first row that is ragged, of another width than `dim`, or holds something else than finite numbers.
    """
    _refuse_masked(rows, family)
    if isinstance(rows, np.ndarray) and not _object_array(rows):
        if rows.ndim != 2:
            raise RowError(
                f"rows are vectors, the array has {_shape(rows)}; pass shape (n, d)",
                family,
                0 if len(rows) else None,
            )
        values = rows if rows.dtype == np.float64 else rows.astype(float)
    else:
        values = _stack_rows(rows, family, dim)
    if dim is not None and len(values) and values.shape[1] != dim:
        raise _of_width(values.shape[1], dim, family, 0)
    if not len(values):
        return np.zeros((0, dim or values.shape[1]))
    bad = first_not_finite(values, squared)
    if bad is not None:
        fine = np.isfinite(values[bad])
        entry = int(np.argmin(fine)) if not fine.all() else int(np.argmax(np.abs(values[bad])))
        value = float(values[bad, entry])
        error = _entry_error(value, family, bad) if not fine.all() else _too_large(value, family, bad)
        raise error.inside(entry)
    return values


def _entry_error(value: Any, family: str, row: int) -> RowError:
    if is_missing(value):
        hint = "a vector family needs all entries; use a Composite with OptionalEstimator around each column"
        return RowError(f"{shown(value)} is missing; {hint}", family, row)
    return _bad(value, family, row)


def _stack_rows(rows: Sequence[Any], family: str, dim: int | None) -> np.ndarray:
    if not len(rows):
        return np.zeros((0, 0))
    width = dim
    for i, row in enumerate(rows):
        if isinstance(row, (str, bytes)) or not hasattr(row, "__len__"):
            raise _bad(row, family, i, "a vector of numbers")
        width = len(row) if width is None else width
        if len(row) != width:
            raise _of_width(len(row), width, family, i)
    kinds = {type(v) for row in rows for v in row}
    if kinds <= _PLAIN:
        try:
            return np.array([list(row) for row in rows], dtype=float).reshape(len(rows), width or 0)
        except OverflowError:
            pass  # an integer that no float holds: the way below names it
    return np.array([[_entry(v, family, i, j) for j, v in enumerate(row)] for i, row in enumerate(rows)], dtype=float)


def _entry(value: Any, family: str, row: int, entry: int) -> float:
    try:
        return _to_float(value, family, row)
    except RowError as error:
        raise error.inside(entry) from None


def read_integers(rows: Sequence[Any], family: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return numbers as float64 (n,) and the mask of those that are not integers (None if all are)."""
    values = read_numbers(rows, family)
    wide = np.abs(values) >= 2.0**53
    if wide.any():
        row = int(np.argmax(wide))
        reason = (
            f"{shown(rows[row])} is too large: integers from 2**53 on are not told apart; use Categorical for labels"
        )
        raise RowError(reason, family, row)
    broken = values != np.floor(values)
    return values, (broken if broken.any() else None)


def integer_codes(x: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return codes of the smallest sufficient type and the integers they stand for, ascending.

    Parameters
    ----------
    x : ndarray of float64, shape (n,)
        Integers, n ≥ 1.
    """
    values = x.astype(np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low < 4 * len(values) + 1024:
        seen = np.bincount(values - low) > 0
        labels, codes = np.flatnonzero(seen) + low, (np.cumsum(seen) - 1)[values - low]
    else:
        labels, codes = np.unique(values, return_inverse=True)
    dtype = np.int8 if len(labels) < 128 else np.int16 if len(labels) < 32768 else np.int32
    return codes.astype(dtype), tuple(labels.tolist())


def read_counts(rows: Sequence[Any], family: str) -> tuple[np.ndarray, np.ndarray | None, tuple[int, ...]]:
    """Return codes of the integers in `rows`, the mask of rows that are no counts (negative or broken), and the labels.

    A row that is no count has the code of one that is, so that nothing depends on its value.
    """
    x, broken = read_integers(rows, family)
    outside = x < 0.0 if broken is None else (x < 0.0) | broken
    known = x[~outside] if outside.any() else x
    if not len(known):
        return np.zeros(len(x), np.int8), outside if len(x) else None, (0,) if len(x) else ()
    codes, labels = integer_codes(known)
    if len(known) == len(x):
        return codes, None, labels
    every = np.zeros(len(x), codes.dtype)
    every[~outside] = codes
    return every, outside, labels


def read_labels(rows: Sequence[Any], family: str) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return integer codes (n,) of the smallest sufficient type, and the label of each code in first-seen order.

    Raises
    ------
    RowError
        If a value is NaN or cannot be a label (unhashable).
    """
    if isinstance(rows, LabelColumn):
        return _coded(rows, family)
    values = rows.tolist() if isinstance(rows, np.ndarray) else rows
    try:
        table = dict.fromkeys(values)
    except TypeError:
        for i, value in enumerate(values):
            try:
                hash(value)
            except TypeError:
                reason = f"{shown(value)} cannot be a label: it is not hashable; pass a tuple, or str(value)"
                raise RowError(reason, family, i) from None
        raise
    labels = tuple(table)
    for code, label in enumerate(labels):
        table[label] = code
        if label is not None and is_missing(label):
            row = next(i for i, value in enumerate(values) if is_missing(value) and value is not None)
            raise _bad(label, family, row)
    return np.fromiter(map(table.__getitem__, values), dtype=_code_type(len(labels)), count=len(values)), labels


def _code_type(labels: int) -> type[np.signedinteger[Any]]:
    return np.int8 if labels < 128 else np.int16 if labels < 32768 else np.int32


def _coded(rows: LabelColumn, family: str) -> tuple[np.ndarray, tuple[Any, ...]]:
    missing = rows.missing
    if missing.any():
        raise _bad(None, family, int(np.argmax(missing)))
    codes, labels = rows.first_seen()
    return codes.astype(_code_type(len(labels))), labels
