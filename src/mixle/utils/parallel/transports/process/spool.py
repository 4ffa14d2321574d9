"""The rows of a pool: written once into one memory file, sealed, and mapped by every worker.

The rows of a shard lie together, numeric arrays as they are, of which workers see views, other rows as one pickle per
shard: a worker touches no page but those of its own shards, whoever is first. The encoder, the shard map and the row
weights lie there too, so that a worker that starts later needs nothing else.

Pickled rows have checksums of their own, arrays one per shard, which is looked at whenever rows are read: a shard that
is encoded anew after a loss must not be another one.

Every value arrives with its bits; the memory layout of an array does not: what is not in Fortran order arrives in C
order. Nothing that reaches a number may depend on it.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.errors import AlteredPayload, CorruptedRows
from mixle.utils.parallel.folding.digests import words_of
from mixle.utils.parallel.folding.payload import is_plain
from mixle.utils.parallel.folding.shards import Shard, encode_shard, pick
from mixle.utils.parallel.transports.process import system
from mixle.utils.parallel.transports.process.parcels import ALIGN, Definitions, KnownDefinitions, unpicklable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixle.utils.parallel.folding.payload import Buffer
    from mixle.utils.parallel.folding.transport import Source

__all__ = ["Spool", "SpoolReader"]

_HEAD = struct.Struct("<8sQQ")  # magic, place and length of the index
_MAGIC = b"MXSPOOL1"
_BLOCK = 1 << 26


class Spool:
    """The driver's side.

    Attributes
    ----------
    fd : int
        The memory file; after `write` a descriptor that cannot be written through.
    """

    def __init__(self) -> None:
        self.fd = system.memory_file("mixle-rows")
        self.at = ALIGN

    def write(self, source: Source, definitions: Definitions) -> None:
        """Write everything that workers need to encode any shard, and seal it.

        Raises
        ------
        TypeError, AttributeError, pickle.PicklingError
            Naming the encoder, or the first row that cannot be pickled.
        OSError
            If memory is full.
        """
        encoder = _packed(definitions, source.encoder, "the encoder")
        rows = self._rows(source, definitions)
        weights = None if source.weights is None else self._array(np.asarray(source.weights, np.float64), source.shards)
        index = (rows, weights, source.shards, source.pieces, self._parts(encoder), _sums(source))
        place, length = self._parts(definitions.parcel(index))
        self._pwrite(_HEAD.pack(_MAGIC, place, length), 0)
        definitions.pin()
        system.seal(self.fd)
        written, self.fd = self.fd, system.read_only(self.fd)
        os.close(written)

    def close(self) -> None:
        """Release the descriptor; the memory goes with the last worker's map."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def _rows(self, source: Source, definitions: Definitions) -> Any:
        if _in_array(source.rows):
            return self._array(np.asarray(source.rows), source.shards)
        places = []
        for shard in range(len(source.shards)):
            rows = source.shard_rows(shard)
            try:
                parcel = definitions.parcel(rows)
            except Exception as error:
                raise _first_culprit(definitions, rows, source.shards[shard], error) from error
            places.append(self._parts(parcel))
        return places

    def _array(self, rows: np.ndarray[Any, Any], shards: Iterable[range]) -> tuple[Any, ...]:
        """Write an array in its own order, shard by shard."""
        order = "F" if rows.flags.f_contiguous and not rows.flags.c_contiguous else "C"
        return rows.dtype, rows.shape[1:], order, [self._lines(pick(rows, shard), order) for shard in shards]

    def _lines(self, rows: np.ndarray[Any, Any], order: str) -> int:
        """Write the rows of a shard, block by block, and return where they lie."""
        lines = rows.T if order == "F" else rows
        place = self.at
        step = max(1, _BLOCK * len(lines) // max(1, lines.nbytes)) if lines.ndim else 1
        for first in range(0, len(lines), step):
            block = np.ascontiguousarray(lines[first : first + step])
            self._append(block.reshape(-1).view(np.uint8).data if block.nbytes else b"")
        self.at += -self.at % ALIGN
        return place

    def _parts(self, parts: Iterable[Buffer]) -> tuple[int, int]:
        """Write buffers one after another and return where they lie."""
        place = self.at
        for part in parts:
            self._append(part)
        length = self.at - place
        self.at += -self.at % ALIGN
        return place, length

    def _append(self, data: Buffer) -> None:
        self._pwrite(data, self.at)
        self.at += len(data)

    def _pwrite(self, data: Buffer, at: int) -> None:
        view = memoryview(data)
        while view:
            done = system.write_at(self.fd, view[:_BLOCK], at)
            view, at = view[done:], at + done


def _sums(source: Source) -> tuple[Any, ...]:
    """Return the checksums of each shard's rows and weights, None where there is no array."""
    arrays = (source.rows if _in_array(source.rows) else None, source.weights)
    return tuple(
        None if one is None else [words_of(pick(np.asarray(one), positions)) for positions in source.shards]
        for one in arrays
    )


def _in_array(rows: Any) -> bool:
    """Return whether rows lie in the file as the array that they are."""
    return type(rows) in {np.ndarray, np.memmap} and is_plain(rows.dtype)


def _packed(definitions: Definitions, value: Any, what: str) -> list[Buffer]:
    try:
        return definitions.parcel(value)
    except Exception as error:
        raise unpicklable(error, f"{what} ({type(value).__name__})") from error


def _first_culprit(definitions: Definitions, rows: Any, positions: range, error: Exception) -> Exception:
    for row, position in zip(rows, positions, strict=False):
        try:
            definitions.parcel(row)
        except Exception as own:  # noqa: BLE001 - any failure marks the row
            return unpicklable(own, f"row {position} ({type(row).__name__})")
    return unpicklable(error, "one of the rows")


class SpoolReader:
    """A worker's side: encodes any shard from the sealed file."""

    def __init__(self, fd: int, definitions: KnownDefinitions) -> None:
        self.map = memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
        magic, place, length = _HEAD.unpack_from(self.map)
        if magic != _MAGIC:
            raise ValueError("the row file of this pool is not complete")
        self.definitions = definitions
        index = definitions.open(self._at(place, length))
        self.rows, self.weights, self.shards, self.pieces, where, self.sums = index
        self.encoder = definitions.open(self._at(*where))

    def encode(self, shard: int) -> Shard:
        """Return one shard, encoded; RowError names a bad row by its position in the data."""
        positions = self.shards[shard]
        rows = self.rows_of(shard)
        weights = None
        if self.weights is not None:
            weights = np.ascontiguousarray(self._checked(1, self.weights, shard))
        return encode_shard(shard, rows, positions, self.encoder, self.pieces[shard], weights)

    def rows_of(self, shard: int) -> Any:
        """Return the rows of one shard, in shard order; CorruptedRows if they are not those that were written."""
        if not isinstance(self.rows, list):
            return self._checked(0, self.rows, shard)
        try:
            return self.definitions.open(self._at(*self.rows[shard]))
        except AlteredPayload:
            raise _changed(shard) from None

    def _checked(self, which: int, form: tuple[Any, ...], shard: int) -> np.ndarray[Any, Any]:
        dtype, columns, order, places = form
        part: np.ndarray[Any, Any] = np.ndarray(
            (len(self.shards[shard]), *columns), dtype, self.map, places[shard], order=order
        )
        if words_of(part) != self.sums[which][shard]:
            raise _changed(shard)
        return part

    def _at(self, place: int, length: int) -> memoryview:
        return self.map[place : place + length]


def _changed(shard: int) -> CorruptedRows:
    return CorruptedRows(
        f"the rows of shard {shard} changed in the memory from which workers read them, after they were written there: "
        "build a new handle from your data"
    )
