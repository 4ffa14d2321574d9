"""Rows that are sets: reading, canonical codes, and laws whose elements are in a set or not, each on its own.

The elements of a set come in no order that holds from one process to the next, so nothing here depends on it: labels
are sorted, and so are the codes of each row.
"""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import RowError
from mixle.stats.contract import Column
from mixle.stats.enumeration import products, ranked
from mixle.stats.kinds import weights_by_code
from mixle.stats.leaf import Leaf, Rows, as_rows
from mixle.stats.reading import read_labels
from mixle.stats.refusals import shown

__all__ = ["RaggedCodes", "SetLeaf", "SetTables", "in_its_row", "label_order", "listed_sets", "read_label_sets"]
__all__ += ["ragged_take", "set_codes", "split_sets"]

#: Entries of the table of present and absent elements that is held at a time.
_TABLE = 1 << 20
_PROJECTIONS = 8


def ragged_take(offsets: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets of the rows at `index`, and where their entries lie among those of rows ``offsets`` (n + 1,).

    Examples
    --------
    >>> offsets, entries = ragged_take(np.array([0, 2, 2, 5]), np.array([2, 0]))
    >>> offsets.tolist(), entries.tolist()
    ([0, 3, 5], [2, 3, 4, 0, 1])
    """
    sizes = np.diff(offsets)[index]
    found = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return found, np.arange(found[-1]) + np.repeat(offsets[index] - found[:-1], sizes)


@dataclass(frozen=True, eq=False, slots=True)
class RaggedCodes:
    """Rows of codes: row i holds ``codes[offsets[i] - offsets[0] : offsets[i + 1] - offsets[0]]``, ascending.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n + 1,)
        Where rows begin.
    codes : ndarray of int32
        The codes of all rows, end to end.
    """

    offsets: np.ndarray
    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, part: slice | np.ndarray) -> RaggedCodes:
        if isinstance(part, np.ndarray):
            offsets, entries = ragged_take(self.offsets - self.offsets[0], part)
            return RaggedCodes(offsets, self.codes[entries])
        start, stop, _ = part.indices(len(self))
        stop = max(start, stop)
        first = self.offsets[0]
        return RaggedCodes(
            self.offsets[start : stop + 1], self.codes[self.offsets[start] - first : self.offsets[stop] - first]
        )

    @property
    def nbytes(self) -> int:
        """Return the bytes of both arrays."""
        return int(self.offsets.nbytes + self.codes.nbytes)

    def owners(self) -> np.ndarray:
        """Return the row of each code."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def matrix(self, width: int) -> Any:
        """Return the rows as a sparse matrix of ones, rows × `width` codes."""
        from scipy.sparse import csr_array

        parts = np.ones(len(self.codes)), self.codes, self.offsets - self.offsets[0]
        return csr_array(parts, shape=(len(self), width))

    def counts(self, weights: np.ndarray, width: int) -> np.ndarray:
        """Return the weight of each code (K, width) for row weights (K, n), added in the order of the rows."""
        return weights_by_code(self.codes, self.offsets - self.offsets[0], weights, width)


def label_order(label: Any) -> tuple[int, Any, str]:
    """Return a key by which labels of any types are sorted: numbers, then text, then all others by their repr."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, (bool, int, float)):
        return 0, label, ""
    return (1, 0, label) if isinstance(label, str) else (2, 0, repr(label))


def split_sets(rows: Sequence[Any], family: str) -> tuple[np.ndarray, list[Any]]:
    """Return where rows begin in the list of all their elements, and that list.

    Raises
    ------
    RowError
        For a row that is no set, list, tuple or vector.
    """
    for i, row in enumerate(rows):
        plain = isinstance(row, (str, bytes, Mapping)) or not (hasattr(row, "__len__") and np.iterable(row))
        if plain or (isinstance(row, np.ndarray) and row.ndim != 1):
            raise RowError(
                f"{shown(row)} is not a set of elements; pass a set, or a list without repetitions", family, i
            )
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))])
    return offsets, list(chain.from_iterable(row.tolist() if isinstance(row, np.ndarray) else row for row in rows))


def set_codes(offsets: np.ndarray, codes: np.ndarray, labels: Any, family: str) -> RaggedCodes:
    """Return rows of ascending codes.

    Raises
    ------
    RowError
        For a row that holds an element twice.
    """
    owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((codes, owners))
    codes = codes[order]
    twice = (codes[1:] == codes[:-1]) & (owners[1:] == owners[:-1])
    if twice.any():
        first = int(np.argmax(twice))
        label = int(codes[first]) if labels is None else labels[int(codes[first])]
        raise RowError(f"the set holds {label!r:.80} twice; pass each once", family, int(owners[first]))
    return RaggedCodes(offsets, codes.astype(np.int32))


def read_label_sets(rows: Sequence[Any], family: str) -> Rows:
    """Return sets of labels as codes of the sorted labels.

    Raises
    ------
    RowError
        For a row that is no set, an element that cannot be a label (NaN, unhashable), or one that stands there twice.
    """
    offsets, elements = split_sets(rows, family)
    try:
        codes, labels = read_labels(elements, family)
    except RowError as error:
        raise in_its_row(error, offsets, rows) from None
    order = sorted(range(len(labels)), key=lambda i: label_order(labels[i]))
    place = np.zeros(len(labels), np.int64)
    place[order] = np.arange(len(order))
    found = tuple(labels[i] for i in order)
    return Rows(set_codes(offsets, place[codes] if len(codes) else codes, found, family), labels=found)


def in_its_row(error: RowError, offsets: np.ndarray, rows: Sequence[Any]) -> RowError:
    """Return `error` of an element as one of its row; in a list its position is a field."""
    if error.row is None:
        return error
    row = int(np.searchsorted(offsets, error.row, side="right")) - 1
    ordered = isinstance(rows[row], (list, tuple, np.ndarray))
    return (error.inside(error.row - int(offsets[row])) if ordered else error).at(row)


def listed_sets(labels: Sequence[Any], log_p: np.ndarray, log_n: np.ndarray) -> Iterator[tuple[list[Any], float]]:
    """Yield sets as lists, the most probable first."""
    pairs = zip(labels, log_p.tolist(), log_n.tolist(), strict=True)
    streams = [ranked([((label,), there), ((), gone)]) for label, there, gone in pairs]
    return ((list(chain.from_iterable(parts)), score) for parts, score in products(streams))


class SetTables(NamedTuple):
    """What scores sets under one law, without cancellation: every term is ≤ 0.

    Elements of probability above one half count where they are absent, the others where they are present.

    Attributes
    ----------
    base : float
        Log-density of the set of all elements of probability above one half.
    present : ndarray, shape (N + 1,)
        What an element adds by being there; the last entry is −∞, for an element that the law does not know.
    common : ndarray of int, shape (N + 1,)
        Number of an element among those of probability above one half, or −1.
    absent : ndarray, shape (C,)
        What each of those adds by not being there.
    """

    base: float
    present: np.ndarray
    common: np.ndarray
    absent: np.ndarray

    @classmethod
    def of(cls, log_p: np.ndarray, log_n: np.ndarray) -> SetTables:
        """Return the tables of a law, of log-probabilities to be there and not to be there."""
        often = log_p > math.log(0.5)
        base = math.fsum(np.where(often, log_p, log_n).tolist())
        present = np.append(np.where(often, 0.0, log_p - np.where(often, 0.0, log_n)), -np.inf)
        common = np.append(np.where(often, np.cumsum(often) - 1, -1), -1)
        return cls(base, present, common, (log_n - log_p)[often])

    def score(self, sets: RaggedCodes, places: np.ndarray | None) -> np.ndarray:
        """Return the log-densities of sets, shape (n,); `places` tells the element of each code, None: the code."""
        found = np.minimum(sets.codes, len(self.present) - 1) if places is None else places[sets.codes]
        owners = sets.owners()
        result = np.asarray(self.base + np.bincount(owners, self.present[found], len(sets)))
        return self.less_absent(result, sets, owners, found) if len(self.absent) else result

    def by_code(self, count: int, places: np.ndarray | None) -> np.ndarray:
        """Return what each of `count` codes adds by being there, shape (count,)."""
        return self.present[np.minimum(np.arange(count), len(self.present) - 1) if places is None else places]

    def less_absent(self, result: np.ndarray, sets: RaggedCodes, owners: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Add to `result` (n,) what the elements of probability above one half add where they are absent.

        `found` is the element of each code; `owners` its row.
        """
        width = len(self.absent)
        step = max(1, _TABLE // width)
        columns = self.common[found]
        starts = sets.offsets - sets.offsets[0]
        for start in range(0, len(sets), step):
            stop = min(start + step, len(sets))
            own = slice(int(starts[start]), int(starts[stop]))
            known = columns[own] >= 0
            seen = np.zeros((stop - start, width), bool)
            seen[owners[own][known] - start, columns[own][known]] = True
            rows, lost = np.nonzero(~seen)
            result[start:stop] += np.bincount(rows, self.absent[lost], stop - start)
        return result


class SetLeaf(Leaf):
    """A law of sets whose elements are there or not, each on its own."""

    kind: ClassVar[str] = "general"

    @abstractmethod
    def places(self, dist: Any, labels: tuple[Any, ...] | None) -> np.ndarray | None:
        """Return the element of `dist` that each code stands for, their number N for an unknown one; None if itself."""

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        """Return the log-densities of sets."""
        scores: np.ndarray = dist.tables.score(rows.x, self._places(dist, rows))
        return scores

    def _places(self, dist: Any, rows: Rows) -> np.ndarray | None:
        """Return `places`, found once for a chunk."""
        kept = dist.__dict__.get("_cached_places")
        if kept is None or kept[0] is not rows.labels:
            kept = (rows.labels, self.places(dist, rows.labels))
            dist.__dict__["_cached_places"] = kept
        found: np.ndarray | None = kept[1]
        return found

    def scores(self, dists: Sequence[Any], rows: Rows) -> np.ndarray | None:
        """Return the log-densities (K, n) of sets: a sparse product adds the elements of a row in their order."""
        sets: RaggedCodes = rows.x
        width = int(sets.codes.max(initial=-1)) + 1 if rows.labels is None else len(rows.labels)
        if width > len(sets.codes):
            return None
        places = [self._places(dist, rows) for dist in dists]
        table = np.empty((width, len(dists)))
        for k, (dist, own) in enumerate(zip(dists, places, strict=True)):
            table[:, k] = dist.tables.by_code(width, own)
        result = np.ascontiguousarray((sets.matrix(width) @ table).T)
        owners = sets.owners() if any(len(dist.tables.absent) for dist in dists) else np.zeros(0, int)
        for k, (dist, own) in enumerate(zip(dists, places, strict=True)):
            tables: SetTables = dist.tables
            result[k] += tables.base
            if len(tables.absent):
                found = np.minimum(sets.codes, len(tables.present) - 1) if own is None else own[sets.codes]
                tables.less_absent(result[k], sets, owners, found)
        return result

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        """Return the size of each set, and projections that keep the distances between sets (D. Achlioptas, 2003)."""
        rows = as_rows(payload).cut(start, stop)
        sets: RaggedCodes = rows.x
        names = range(int(sets.codes.max(initial=-1)) + 1) if rows.labels is None else rows.labels
        bits = np.array([zlib.crc32(repr(label_order(name)).encode()) for name in names], np.uint32)
        owners = sets.owners()
        result = [Column(np.diff(sets.offsets).astype(float))]
        for j in range(_PROJECTIONS):
            sign = 1.0 - 2.0 * ((bits >> np.uint32(j)) & np.uint32(1)).astype(float)
            result.append(Column(np.bincount(owners, sign[sets.codes], len(sets)).astype(float)))
        return result
