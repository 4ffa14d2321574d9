"""Rows that are held as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

__all__ = ["Table"]


class Table(Sequence[Any]):
    """A sequence of rows over columns of equal length, which encoders of fields read without making rows.

    Parameters
    ----------
    columns : sequence of (ndarray or list)
        One value per row each.
    names : sequence of str
        Name of each column.
    mappings : bool
        Whether a row is a mapping from name to value instead of a tuple.

    Raises
    ------
    ValueError
        If columns differ in length.

    Examples
    --------
    >>> table = Table([[1, 2], ["x", "y"]], ["a", "b"])
    >>> list(table), table[1], len(table[:1])
    ([(1, 'x'), (2, 'y')], (2, 'y'), 1)
    """

    def __init__(self, columns: Sequence[Any], names: Sequence[str], *, mappings: bool = False) -> None:
        self.columns, self.names, self.mappings = list(columns), tuple(names), mappings
        if len({len(column) for column in self.columns}) > 1:
            sizes = ", ".join(f"{n!r}: {len(c)}" for n, c in zip(self.names, self.columns, strict=True))
            raise ValueError(f"columns differ in length ({sizes}); every column has one value per row")

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Table([column[at] for column in self.columns], self.names, mappings=self.mappings)
        return self._row([_plain(column[at]) for column in self.columns])

    def __iter__(self) -> Iterator[Any]:
        values = [column.tolist() if isinstance(column, np.ndarray) else column for column in self.columns]
        return map(self._row, zip(*values, strict=True))

    def _row(self, values: Sequence[Any]) -> Any:
        return dict(zip(self.names, values, strict=True)) if self.mappings else tuple(values)

    def by_name(self, names: Sequence[Any]) -> list[Any] | None:
        """Return the columns of these names if the table has exactly them, else None."""
        if len(set(self.names)) != len(self.names) or set(self.names) != set(names):
            return None
        return [self.columns[self.names.index(name)] for name in names]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
