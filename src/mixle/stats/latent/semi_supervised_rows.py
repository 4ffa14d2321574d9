"""Encoding of rows that may tell their component."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats.combinators.fields import split_rows
from mixle.stats.contract import Column, DataSequenceEncoder

__all__ = ["SemiSupervisedEncoder", "Told"]


class Told(NamedTuple):
    """Encoded rows with what they tell.

    Attributes
    ----------
    payload : object
        Encoded values.
    rows : ndarray of int, shape (m,)
        The rows that tell something, in order.
    evidence : ndarray, shape (K, m)
        Their evidence for each component, the largest 1.
    """

    payload: Any
    rows: np.ndarray
    evidence: np.ndarray

    def of(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the places, from `start` on, of the telling rows ``start:stop``, and their evidence."""
        a, b = np.searchsorted(self.rows, (start, stop))
        return self.rows[a:b] - start, self.evidence[:, a:b]


class SemiSupervisedEncoder(DataSequenceEncoder):
    """Encoder of rows ``(value, told)``; `told` is None or pairs (component, evidence)."""

    row_form: ClassVar[str] = "tuple"

    def __init__(self, encoder: DataSequenceEncoder, components: int) -> None:
        self.encoder, self.components = encoder, components

    def seq_encode(self, rows: Sequence[Any]) -> Told:
        """Encode rows.

        Raises
        ------
        RowError
            For a row that is no pair, a value that cannot be read (field 0), or evidence that is none (field 1).
        """
        values, told = split_rows(rows, 2)
        errors: list[RowError] = []
        payload = None
        try:
            payload = self.encoder.seq_encode(values)
        except RowError as error:
            errors.append(error.inside(0))
        places = [i for i, pairs in enumerate(told) if pairs is not None]
        evidence = np.zeros((self.components, len(places)))
        for j, i in enumerate(places):
            try:
                self._read(told[i], evidence[:, j], i)
            except RowError as error:
                errors.append(error)
                break
        if errors:
            raise min(errors, key=lambda error: -1 if error.row is None else error.row)
        return Told(payload, np.array(places, np.int64), evidence)

    def _read(self, pairs: Any, out: np.ndarray, row: int) -> None:
        what = f"{pairs!r:.80} must be None, or pairs of a component 0 to {self.components - 1} and a number above 0"
        try:
            read = [(operator.index(component), float(share)) for component, share in pairs]
        except (TypeError, ValueError):
            raise RowError(what, "SemiSupervisedMixture", row, (1,)) from None
        good = all(0 <= component < self.components and 0.0 <= share < np.inf for component, share in read)
        for component, share in read if good else ():
            out[component] += share
        top = float(out.max())
        if not top > 0.0:
            raise RowError(what, "SemiSupervisedMixture", row, (1,))
        out /= top

    def row_count(self, payload: Told) -> int:
        """Return the number of rows."""
        return int(self.encoder.row_count(payload.payload))

    def nbytes(self, payload: Told) -> int:
        """Return the bytes of values and evidence."""
        return self.encoder.nbytes(payload.payload) + int(payload.rows.nbytes + payload.evidence.nbytes)

    def slice(self, payload: Told, start: int, stop: int) -> Told:
        """Return rows ``start:stop``."""
        places, evidence = payload.of(start, max(start, stop))
        return Told(self.encoder.slice(payload.payload, start, stop), places, evidence)

    def take(self, payload: Told, index: np.ndarray) -> Told:
        """Return the rows at `index`, in that order."""
        from mixle.stats.latent.hmm_take import take

        where = np.full(self.row_count(payload), -1, np.int64)
        where[payload.rows] = np.arange(len(payload.rows))
        found = where[index]
        places = np.flatnonzero(found >= 0)
        return Told(take(self.encoder, payload.payload, index), places, payload.evidence[:, found[places]])

    def columns(self, payload: Told, start: int, stop: int) -> list[Column] | None:
        """Return the columns of the values, and the component that a row tells as a label."""
        columns = self.encoder.columns(payload.payload, start, stop)
        if columns is None:
            return None
        size = stop - start
        labels, missing = np.zeros(size, np.int64), np.ones(size, bool)
        places, evidence = payload.of(start, stop)
        labels[places], missing[places] = np.argmax(evidence, axis=0), False
        told = Column(labels, tuple(range(self.components)), missing, (1,))
        return [*(column._replace(path=(0, *column.path)) for column in columns), told]
