"""An estimator for rows of any form, by the rules of columns applied part by part."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mixle.errors import SchemaError
from mixle.inference.rows import as_rows
from mixle.inference.rules import choose, table_text
from mixle.stats.label_column import LabelColumn
from mixle.stats.reading import is_missing
from mixle.stats.table import Table
from mixle.utils.parallel.folding.inputs import is_cluster_collection
from mixle.utils.parallel.folding.protocol import is_encoded_data_handle

__all__ = ["ROW_RULES", "Inferred", "infer", "inferred_for"]

#: Text: what a row of each form becomes. The parts follow ``mixle.tables.RULES``.
ROW_RULES = """\
one value                                   a family, by the rules of columns
tuples of one length, rows of a matrix      Composite: a family for each position
mappings, tables                            Record: a family for each name
lists, and tuples of different lengths      Sequence: a family of all items, one of the lengths
None instead of a row, or of a part         Optional around it
a part that the rules of columns leave out  Null: says nothing of the row, and cannot be drawn"""

_Cell = tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class Inferred:
    """What `infer` chose for rows; printing it shows each part, its family and the reason.

    Attributes
    ----------
    estimator : ParameterEstimator
        Estimator of a row.
    cells : tuple of (str, str, str)
        Part, family and reason, the heading first.
    rows : int
        Number of rows that were looked at.

    Examples
    --------
    >>> from mixle.inference import infer
    >>> type(infer([1.5, 2.5, 3.25]).estimator).__name__
    'GaussianEstimator'
    """

    estimator: Any
    cells: tuple[_Cell, ...]
    rows: int

    def __str__(self) -> str:
        return table_text(self.cells, self.rows)

    __repr__ = __str__


def infer(data: Any, fields: Sequence[Any] | None = None) -> Inferred:
    """Return an estimator for rows by the rules that ``mixle.inference.ROW_RULES`` and ``mixle.tables.RULES`` print.

    The same rules choose the families of ``mixle.schema`` and of `optimize` without an estimator.

    Parameters
    ----------
    data : rows or table
        As for `optimize`.
    fields : sequence, optional
        Columns of a table to take.

    Returns
    -------
    Inferred
        Its ``estimator`` may be fitted, or be the component of a mixture.

    Raises
    ------
    SchemaError
        (a ValueError) for rows of mixed forms, a column of mixed kinds, dates, an infinity, and where nothing is left
        to fit, as of rows that are all the same.
    EmptyDataError
        Without rows.

    Examples
    --------
    >>> from mixle.inference import infer
    >>> print(infer([("tea", 2.0), ("coffee", None), ("tea", 2.25)]))
    part  family             why
    0     Categorical        text with 2 different values
    1     Optional Gaussian  numbers 2 to 2.25; 1 missing
    (3 rows)
    >>> type(infer([["a", "b"], ["b"], ["b", "a", "a"]]).estimator).__name__
    'SequenceEstimator'
    """
    rows = as_rows(data, fields, mappings=True)
    cells: list[_Cell] = [("part", "family", "why")]
    estimator = _law("", rows, cells)
    if estimator is None or all(cell[1] in {"Ignored", *_FORMS} for cell in cells[1:]):
        why = "; ".join(f"{name}: {reason}" for name, family, reason in cells[1:] if family == "Ignored")
        raise SchemaError(
            f"nothing is left to fit ({why}); name the family, as optimize(rows, mixle.stats.GaussianEstimator())"
        )
    return Inferred(estimator, tuple(cells), len(rows))


def inferred_for(data: Any, settings: Mapping[str, Any]) -> tuple[Any, Inferred | None]:
    """Return the rows, an iterator read to its end, and what is inferred for them where `optimize` got no estimator.

    Parameters
    ----------
    data : object
        As for `optimize`.
    settings : mapping
        The arguments of `optimize` by name.
    """
    told = any(settings.get(name) is not None for name in ("estimator", "prev_estimate", "enc_data"))
    elsewhere = settings.get("root_only") or is_encoded_data_handle(data) or is_cluster_collection(data)
    if told or elsewhere or data is None:
        return data, None
    if isinstance(data, Iterator):
        data = list(data)
    return data, infer(data, settings.get("fields"))


_FORMS = ("Composite", "Record", "Sequence", "Optional Composite", "Optional Record", "Optional Sequence")


def _law(name: str, rows: Any, cells: list[_Cell]) -> Any:
    """Return the estimator of one part of all rows, None if it is left out, and note what was chosen in `cells`."""
    if isinstance(rows, Table):
        return _record(name, dict(zip(rows.names, rows.columns, strict=True)), cells)
    if isinstance(rows, np.ndarray) and rows.ndim == 2:
        return _composite(name, [rows[:, j] for j in range(rows.shape[1])], cells)
    if isinstance(rows, (np.ndarray, LabelColumn)) and getattr(rows, "ndim", 1) == 1:
        return _column(name, rows, cells)
    there = [row for row in rows if not is_missing(row)]
    forms = dict.fromkeys(map(_form, there))
    if len(forms) > 1:
        raise SchemaError(f"{_called(name)} mixes {' and '.join(forms)}; give every row one form")
    form = next(iter(forms), "values")
    if form == "values":
        return _column(name, rows, cells)
    return _structured(name, form, there, len(rows) - len(there), cells)


def _form(value: Any) -> str:
    if isinstance(value, Mapping):
        return "mappings"
    if isinstance(value, tuple):
        return "tuples"
    if isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim):
        return "lists" if isinstance(value, list) else "arrays"
    return "values"


def _structured(name: str, form: str, there: list[Any], missing: int, cells: list[_Cell]) -> Any:
    sizes = {len(row) for row in there}
    if form == "mappings":
        family, why = "Record", f"mappings of {len(there[0])} fields"
    elif form in {"tuples", "arrays"} and len(sizes) == 1:
        family, why = "Composite", f"{form} of {len(there[0])}"
    else:
        family, why = "Sequence", f"{form} of {min(sizes)} to {max(sizes)} items"
    if name or missing or family == "Sequence":
        cells.append((name or "row", f"Optional {family}" if missing else family, _with_missing(why, missing)))
    if family == "Record":
        estimator = _record(name, _by_name(name, there), cells)
    elif family == "Composite":
        estimator = _composite(name, [[row[j] for row in there] for j in range(len(there[0]))], cells)
    else:
        estimator = _sequence(name, there, cells)
    return _optional(estimator, missing)


def _by_name(name: str, rows: list[Mapping[Any, Any]]) -> dict[Any, list[Any]]:
    for i, row in enumerate(rows):
        if set(row) != set(rows[0]):
            raise SchemaError(
                f"{_called(name)}: row {i} has the fields {list(row)}, row 0 {list(rows[0])}; give every row the same "
                "fields, None where a value is missing"
            )
    return {key: [row[key] for row in rows] for key in rows[0]}


def _record(name: str, columns: Mapping[Any, Any], cells: list[_Cell]) -> Any:
    from mixle.stats import RecordEstimator

    parts = {key: _law(_inside(name, key), values, cells) for key, values in columns.items()}
    return RecordEstimator({key: _or_null(part) for key, part in parts.items()})


def _composite(name: str, columns: Sequence[Any], cells: list[_Cell]) -> Any:
    from mixle.stats import CompositeEstimator

    parts = [_law(_inside(name, j), values, cells) for j, values in enumerate(columns)]
    return CompositeEstimator(tuple(_or_null(part) for part in parts))


def _sequence(name: str, rows: list[Any], cells: list[_Cell]) -> Any:
    from mixle.stats import SequenceEstimator

    items = [item for row in rows for item in (row.tolist() if isinstance(row, np.ndarray) else row)]
    element = _law(f"{name} items".strip(), items, cells)
    lengths = _column(f"{name} length".strip(), np.array([len(row) for row in rows]), cells)
    return SequenceEstimator(_or_null(element), len_estimator=lengths)


def _column(name: str, values: Any, cells: list[_Cell]) -> Any:
    choice = choose(name or "row", values)
    if choice.family == "Ignored":
        cells.append((name or "row", "Ignored", choice.reason))
        return None
    family = f"Optional {choice.family}" if choice.missing else choice.family
    cells.append((name or "row", family, _with_missing(choice.reason, choice.missing)))
    return _optional(choice.estimator, choice.missing)


def _optional(estimator: Any, missing: int) -> Any:
    from mixle.stats import OptionalEstimator

    return OptionalEstimator(estimator, est_prob=True, pseudo_count=0.5) if missing else estimator


def _or_null(estimator: Any) -> Any:
    from mixle.stats import NullEstimator

    return NullEstimator() if estimator is None else estimator


def _with_missing(why: str, missing: int) -> str:
    return f"{why}; {missing} missing" if missing else why


def _inside(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _called(name: str) -> str:
    return f"part {name!r} of the rows" if name else "the data"
