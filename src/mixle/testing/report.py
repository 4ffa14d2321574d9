"""What came of a campaign."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Cell", "Report"]

COLUMNS = ("injected", "consequential", "detected", "late", "raised", "escaped", "equal_bits")


@dataclass
class Cell:
    """One site and band.

    Attributes
    ----------
    site, band : str
        Where and what.
    injected : int
        Faults that were met.
    consequential : int or None
        Of these, faults that change a parameter of the finished model by more than the tolerance where nothing guards;
        None where that cannot be tried.
    detected : int
        Told in the round of the fault: by a receipt, a sum that does not add up, a loss, an exception.
    late : int
        Told in a later round.
    raised : int
        Of the detected, those that ended the fit with an error.
    escaped : int
        Finished models that are off by more than the tolerance.
    equal_bits : int
        Finished models with the bits of the clean fit.
    note : str
        Why nothing was injected.
    """

    site: str
    band: str
    injected: int = 0
    consequential: int | None = 0
    detected: int = 0
    late: int = 0
    raised: int = 0
    escaped: int = 0
    equal_bits: int = 0
    note: str = ""


@dataclass
class Report:
    """Counts of a campaign by site and band.

    Attributes
    ----------
    cells : list of Cell
        In the order of sites and bands.
    about : dict
        Arguments of the campaign, as plain data.
    """

    cells: list[Cell] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    def cell(self, site: str, band: str) -> Cell:
        """Return the counts of one site and band.

        Parameters
        ----------
        site, band : str
            Which.

        Raises
        ------
        KeyError
            If it was not tried.
        """
        for cell in self.cells:
            if (cell.site, cell.band) == (site, band):
                return cell
        raise KeyError(f"{site}, {band}: tried were {sorted({(one.site, one.band) for one in self.cells})}")

    def total(self, column: str) -> int:
        """Return the sum of a column.

        Parameters
        ----------
        column : str
            A count of `Cell`.
        """
        return sum(getattr(cell, column) or 0 for cell in self.cells)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data that JSON can hold."""
        return {"about": dict(self.about), "cells": [dict(vars(cell)) for cell in self.cells]}

    def render(self) -> str:
        """Return a table.

        Examples
        --------
        >>> print(Report([Cell("statistic", "sign", injected=2, consequential=2, detected=2, equal_bits=2)]).render())
        site       band  injected  consequential  detected  late  raised  escaped  equal bits
        statistic  sign         2              2         2     0       0        0           2
        """
        lines = [["site", "band", *(column.replace("_", " ") for column in COLUMNS)]]
        for cell in self.cells:
            counts = [getattr(cell, column) for column in COLUMNS]
            lines.append([cell.site, cell.band, *("-" if count is None else str(count) for count in counts)])
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        made = []
        for line, note in zip(lines, ["", *(cell.note for cell in self.cells)], strict=True):
            words = [
                word.ljust(w) if i < 2 else word.rjust(w) for i, (word, w) in enumerate(zip(line, widths, strict=True))
            ]
            made.append("  ".join([*words, *([note] if note else [])]).rstrip())
        return "\n".join(made)

    def __str__(self) -> str:
        return self.render()
