"""A schema: which column of a table has which family, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mixle.errors import SchemaError
from mixle.inference.rules import Choice, choose, named_estimator, table_text
from mixle.stats.reading import is_missing
from mixle.stats.table import Table
from mixle.tables.reading import KINDS, Conversion, as_told, column_names, table_columns

__all__ = ["Field", "Schema", "schema"]

_HOW = {"": "", "days": "dates as days since 1970-01-01; ", "durations": "durations in days; "}


@dataclasses.dataclass(frozen=True)
class Field:
    """One column of a schema.

    Attributes
    ----------
    name : object
        Name of the column.
    family : str
        Name of the family, or ``"Ignored"``.
    estimator : ParameterEstimator or None
        What is fitted to the values that are there; None for an ignored column.
    reason : str
        Why this family.
    missing : int
        Rows without a value in the table that the schema was made from.
    conversion : {"", "days", "durations"}
        How values become numbers: dates as days since 1970-01-01, durations as days.

    Examples
    --------
    >>> import mixle
    >>> mixle.schema({"price": [1.5, 2.25, 9.0]})["price"].family
    'Gaussian'
    """

    name: Any
    family: str
    estimator: Any
    reason: str
    missing: int = 0
    conversion: Conversion = ""

    @property
    def full_estimator(self) -> Any:
        """The estimator of the column, missing values included."""
        from mixle.stats import OptionalEstimator

        # Half a row each way (Jeffreys): a cluster whose rows all have a value does not exclude one that has none.
        return OptionalEstimator(self.estimator, est_prob=True, pseudo_count=0.5) if self.missing else self.estimator


class Schema:
    """Families of the columns of a table; printable, editable, and the way from a table to rows.

    Parameters
    ----------
    fields : sequence of Field
        The columns in order.
    rows : int
        Rows of the table that they were found in.

    Examples
    --------
    >>> import mixle
    >>> schema = mixle.schema({"drink": ["tea", "coffee", "tea"], "grams": [2.0, 9.5, 2.25]})
    >>> schema["grams"].family
    'Gaussian'
    >>> schema.replace(grams="LogGaussian")["grams"].reason
    'as told'
    """

    def __init__(self, fields: Sequence[Field], rows: int) -> None:
        self.fields, self.rows = tuple(fields), rows

    @property
    def used(self) -> tuple[Field, ...]:
        """The columns that are not ignored."""
        return tuple(field for field in self.fields if field.estimator is not None)

    def __getitem__(self, name: Any) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"the schema has no column {name!r}; it has {[field.name for field in self.fields]}")

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def replace(self, families: Mapping[Any, Any] | None = None, /, **more: Any) -> Schema:
        """Return the schema with other families for some columns.

        Parameters
        ----------
        families : mapping, optional
            For each column the name of a family (``"Beta"``), an estimator, or ``"Ignored"``; for names that are no
            Python words.
        **more
            The same by keyword.

        Raises
        ------
        SchemaError
            For a column that is not there, and for a name that is no family.
        """
        told = {**(families or {}), **more}
        known = [field.name for field in self.fields]
        absent = [name for name in told if name not in known]
        if absent:
            raise SchemaError(f"the schema has no columns {absent}; it has {known}")
        return Schema([_told(field, told[field.name]) if field.name in told else field for field in self], self.rows)

    def estimator(self, components: int | None = None) -> Any:
        """Return the estimator of a row, or of a mixture of rows.

        Parameters
        ----------
        components : int, optional
            Number of components of a `MixtureEstimator`; None gives the `RecordEstimator` alone.

        Raises
        ------
        SchemaError
            If every column is ignored.
        """
        from mixle.stats import MixtureEstimator, RecordEstimator

        if not self.used:
            why = "; ".join(f"{field.name!r}: {field.reason}" for field in self.fields)
            raise SchemaError(f"no column is left to fit ({why}); name a family with schema.replace(column='Gaussian')")
        record = RecordEstimator({field.name: field.full_estimator for field in self.used})
        if components is None:
            return record
        if isinstance(components, bool) or not isinstance(components, int) or components < 1:
            raise SchemaError(f"components must be a whole number of at least 1, not {components!r}")
        return MixtureEstimator([record] * components)

    def read(self, data: Any) -> Table:
        """Return the used columns of a table as rows, for `optimize`, `encoded_data` or a model.

        Parameters
        ----------
        data : table or path
            A table with (at least) the used columns.

        Raises
        ------
        SchemaError
            Naming the columns that the table lacks.
        """
        names = [field.name for field in self.used]
        found = table_columns(data, names)
        absent = [name for name in names if name not in found]
        if absent:
            raise SchemaError(f"the table has no columns {absent}; it has {column_names(data)}")
        for field in self.used:
            values, how = found[field.name]
            if how != field.conversion and not all(map(is_missing, values)):
                held, holds = KINDS[field.conversion], KINDS[how]
                raise SchemaError(
                    f"column {field.name!r} held {held} in the table of this schema, and holds {holds} here; "
                    "convert it alike"
                )
        return Table([found[name][0] for name in names], names, mappings=True)

    def told(self, rows: Sequence[Mapping[Any, Any]]) -> dict[Any, Any]:
        """Return rows of the used columns, which `read` made or a model drew, as the columns that a table has.

        Parameters
        ----------
        rows : sequence of mapping
            One value for each used column.
        """
        return {field.name: as_told([row[field.name] for row in rows], field.conversion) for field in self.used}

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        from mixle.stats.serialize import to_plain

        parts = [{**vars(field), "estimator": field.estimator} for field in self.fields]
        return {"rows": self.rows, "fields": [{key: to_plain(value) for key, value in part.items()} for part in parts]}

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> Schema:
        """Return the schema that `to_dict` wrote.

        Parameters
        ----------
        payload : mapping
            What `to_dict` returned.
        """
        from mixle.stats.serialize import from_plain

        fields = [Field(**{key: from_plain(value) for key, value in part.items()}) for part in payload["fields"]]
        return cls(fields, int(payload["rows"]))

    def _cells(self) -> list[tuple[str, str, str]]:
        rows = [("column", "family", "why")]
        for field in self.fields:
            family = f"Optional {field.family}" if field.missing and field.estimator is not None else field.family
            why = f"{field.reason}; {field.missing} missing" if field.missing and field.estimator else field.reason
            rows.append((str(field.name), family, why))
        return rows

    def __str__(self) -> str:
        return table_text(self._cells(), self.rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        head, *body = self._cells()
        lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
        lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body]
        return f"<table><caption>Schema of {self.rows:,} rows</caption>{''.join(lines)}</table>"


def schema(data: Any, columns: Sequence[Any] | None = None) -> Schema:
    """Return which family each column of a table gets, and why; the rules are printed by ``mixle.tables.RULES``.

    Parameters
    ----------
    data : table or path
        A data frame (pandas, polars, or any that narwhals knows), an Arrow table, a mapping of columns, a structured
        or two-dimensional array, a list of mappings or tuples, or the path of a CSV or Parquet file.
    columns : sequence, optional
        The columns to look at, all by default.

    Returns
    -------
    Schema
        Print it, edit it with ``replace``, fit it with ``mixle.fit(data, schema=...)``.

    Raises
    ------
    SchemaError
        Naming the column: lists in it, kinds mixed, dates of a time zone, an infinity, a name twice; and for a table
        of a single row.
    EmptyDataError
        Without rows or columns.

    Examples
    --------
    >>> import mixle
    >>> print(mixle.schema({"tea": [True, False, True], "grams": [2.0, 9.5, None]}))
    column  family             why
    tea     Bernoulli          true and false, 66.7 % true
    grams   Optional Gaussian  numbers 2 to 9.5; 1 missing
    (3 rows)
    """
    found = table_columns(data, columns)
    if columns is not None:
        absent = [name for name in columns if name not in found]
        if absent:
            raise SchemaError(f"the table has no columns {absent}; it has {column_names(data)}")
    rows = len(next(iter(found.values()))[0])
    if rows < 2:
        raise SchemaError(f"the table has {rows} row; families are told apart by at least two")
    return Schema([_field(name, choose(name, values), how) for name, (values, how) in found.items()], rows)


def _field(name: Any, choice: Choice, how: Conversion) -> Field:
    if choice.family == "Ignored":
        return Field(name, "Ignored", None, choice.reason, choice.missing, how)
    reason = _HOW[how] + choice.reason
    return Field(name, choice.family, choice.estimator, reason, choice.missing, how)


def _told(field: Field, family: Any) -> Field:
    if family == "Ignored" or family is None:
        return dataclasses.replace(field, family="Ignored", estimator=None, reason="as told")
    if isinstance(family, str):
        return dataclasses.replace(field, family=family, estimator=named_estimator(family, {}), reason="as told")
    if not callable(getattr(family, "accumulator_factory", None)):
        raise SchemaError(
            f"column {field.name!r}: {family!r:.80} is no family; pass a name as 'Gaussian' or an estimator"
        )
    name = type(family).__name__.removesuffix("Estimator")
    return dataclasses.replace(field, family=name, estimator=family, reason="as told")
