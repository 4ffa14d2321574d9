"""Shard maps: which rows make up which shard, and how a shard is cut into encoded chunks.

A shard map is a value. The bits of a fit are a function of the rows, the map, the sub-chunks, the estimator and the
seed; nothing about workers enters.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from mixle.errors import ContractError, RowError
from mixle.stats.label_column import LabelColumn
from mixle.stats.table import Table

__all__ = [
    "Chunk",
    "Contiguous",
    "Partitions",
    "Shard",
    "ShardMap",
    "Strided",
    "as_shard_map",
    "cut",
    "encode_shard",
    "split_range",
]


def split_range(part: range, count: int) -> tuple[range, ...]:
    """Cut `part` into at most `count` consecutive pieces at ``i * n // count``; empty pieces are dropped.

    Examples
    --------
    >>> split_range(range(5), 2)
    (range(0, 2), range(2, 5))
    """
    size = len(part)
    edges = [i * size // count for i in range(count + 1)]
    return tuple(part[a:b] for a, b in pairwise(edges) if b > a)


def _exact_count(value: Any, what: str) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{what} must be a whole number of shards, not {value!r}")
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be a whole number of shards, not {value!r}") from None
    if count < 1:
        raise ValueError(f"{what} must be at least 1, got {count}")
    return count


def _exact_sizes(sizes: Any, what: str) -> tuple[int, ...]:
    try:
        exact = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise TypeError(f"{what} must be whole numbers of rows, one per shard, not {sizes!r}") from None
    if any(size < 0 for size in exact):
        raise ValueError(f"{what} must not be negative: {exact}")
    return exact


def _resolve_sizes(sizes: tuple[int, ...], rows: int, name: str) -> tuple[range, ...]:
    if sum(sizes) != rows:
        raise ValueError(f"{name} covers {sum(sizes)} rows, the data has {rows}; give sizes that add up to that")
    shards, start = [], 0
    for size in sizes:
        if size:
            shards.append(range(start, start + size))
        start += size
    return tuple(shards)


@dataclass(frozen=True)
class Strided:
    """Shard `s` of `count` holds the rows ``s, s + count, s + 2 count, ...``; what an int means.

    Parameters
    ----------
    count : int
        Number of shards, clipped to the number of rows.

    Examples
    --------
    >>> Strided(2).resolve(5)
    (range(0, 5, 2), range(1, 5, 2))
    """

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", _exact_count(self.count, "Strided(count)"))

    def resolve(self, rows: int) -> tuple[range, ...]:
        """Return the row positions of each shard."""
        count = min(self.count, rows)
        return tuple(range(shard, rows, count) for shard in range(count))


@dataclass(frozen=True)
class Contiguous:
    """Shards are consecutive runs of rows.

    Parameters
    ----------
    count : int, optional
        Number of shards of nearly equal size, clipped to the number of rows.
    sizes : sequence of int, optional
        Rows of each shard, instead of `count`; empty shards are dropped.

    Examples
    --------
    >>> Contiguous(2).resolve(5)
    (range(0, 2), range(2, 5))
    >>> Contiguous(sizes=(4, 1)).resolve(5)
    (range(0, 4), range(4, 5))
    """

    count: int | None = None
    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if (self.count is None) == (self.sizes is None):
            raise ValueError(
                "Contiguous takes a count or sizes=..., and exactly one of them; give for example Contiguous(8)"
            )
        if self.count is not None:
            object.__setattr__(self, "count", _exact_count(self.count, "Contiguous(count)"))
        else:
            object.__setattr__(self, "sizes", _exact_sizes(self.sizes, "Contiguous(sizes)"))

    def resolve(self, rows: int) -> tuple[range, ...]:
        """Return the row positions of each shard.

        Raises
        ------
        ValueError
            If `sizes` does not add up to `rows`.
        """
        if self.sizes is not None:
            return _resolve_sizes(self.sizes, rows, "Contiguous(sizes=...)")
        return split_range(range(rows), min(self.count or 1, max(rows, 1)))


@dataclass(frozen=True)
class Partitions:
    """The partitions that a collection came with (Spark, Dask, Ray); positions count in partition order.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each partition; empty partitions are dropped. ``Contiguous(sizes=sizes)`` gives the same shards.
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", _exact_sizes(self.sizes, "Partitions(sizes)"))

    def resolve(self, rows: int) -> tuple[range, ...]:
        """Return the row positions of each shard; ValueError if the sizes do not add up to `rows`."""
        return _resolve_sizes(self.sizes, rows, "Partitions")


ShardMap: TypeAlias = Strided | Contiguous | Partitions


def as_shard_map(value: Any) -> ShardMap:
    """Return the shard map that `value` means: itself, or ``Strided(value)`` for an int.

    Raises
    ------
    TypeError
        If it is neither.
    ValueError
        If the count is below 1.

    Examples
    --------
    >>> as_shard_map(3)
    Strided(count=3)
    """
    if isinstance(value, (Strided, Contiguous, Partitions)):
        return value
    try:
        return Strided(value)
    except TypeError:
        raise TypeError(
            f"num_shards takes an int, Strided(K), Contiguous(K) or Contiguous(sizes=...), not {value!r}"
        ) from None


def cut(shard: range, count: int, shard_map: ShardMap) -> tuple[range, ...]:
    """Return the sub-chunks of a shard: ``shard[j::count]`` for a strided map, consecutive pieces otherwise.

    Parameters
    ----------
    shard : range
        Row positions of the shard.
    count : int
        Wanted number of sub-chunks, clipped to the rows of the shard.
    shard_map : ShardMap
        The map that the shard comes from.

    Examples
    --------
    >>> cut(range(1, 9, 2), 2, Strided(2))
    (range(1, 9, 4), range(3, 9, 4))
    """
    count = max(1, min(count, len(shard)))
    if isinstance(shard_map, Strided):
        return tuple(shard[j::count] for j in range(count))
    return split_range(shard, count)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Encoded rows.

    Attributes
    ----------
    count : int
        Number of rows.
    payload : Any
        What the encoder made of them.
    positions : range
        Position of each row in the data.
    weights : ndarray of float64, shape (count,), or None
        Row weights; None means ones.
    """

    count: int
    payload: Any
    positions: range
    weights: np.ndarray | None = None

    def ones_or_weights(self) -> np.ndarray:
        """Return the row weights as an array."""
        return np.ones(self.count) if self.weights is None else self.weights


@dataclass(frozen=True, eq=False)
class Shard:
    """A fixed set of rows, encoded; it outlives the workers that hold it.

    Attributes
    ----------
    id : int
        Position in the fold.
    chunks : tuple of Chunk
        Its sub-chunks, in order.
    encoder : Any
        The encoder that made them.
    """

    id: int
    chunks: tuple[Chunk, ...]
    encoder: Any

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(chunk.count for chunk in self.chunks)

    @functools.cached_property
    def nbytes(self) -> int:
        """Encoded bytes; 0 where the encoder cannot tell."""
        try:
            return sum(int(self.encoder.nbytes(chunk.payload)) for chunk in self.chunks)
        except Exception:  # noqa: BLE001 - the user's encoder; a size is not worth an error
            return 0


def pick(rows: Any, part: range) -> Any:
    """Return the rows at the positions `part` as an indexable sequence (a view of an array)."""
    if len(part) == len(rows) and part == range(len(rows)):
        return rows
    if isinstance(rows, (np.ndarray, list, tuple, range, Table, LabelColumn)):
        return rows[part.start : part.stop : part.step]
    return [rows[i] for i in part]


def encode_shard(
    id: int,  # noqa: A002 - the word of the design
    rows: Any,
    positions: range,
    encoder: Any,
    pieces: tuple[range, ...],
    weights: np.ndarray | None = None,
) -> Shard:
    """Encode the rows of one shard, sub-chunk by sub-chunk.

    Parameters
    ----------
    id : int
        Shard id.
    rows : sequence or ndarray
        The rows of this shard alone, in shard order.
    positions : range
        Their positions in the data.
    encoder : DataSequenceEncoder
        Encoder of the model.
    pieces : tuple of range
        Positions (in the data) of each sub-chunk, as `cut` returns them.
    weights : ndarray of float64, shape (len(rows),), optional
        Row weights of this shard, in shard order.

    Returns
    -------
    Shard

    Raises
    ------
    RowError
        Naming the position in the data of a row that cannot be read.
    ContractError
        If the encoder returns another number of rows than it was given.
    """
    chunks = []
    for piece in pieces:
        local = _local(positions, piece)
        try:
            payload = encoder.seq_encode(pick(rows, local))
        except RowError as error:
            if error.row is None or not 0 <= error.row < len(piece):
                raise
            raise error.at(row=piece[error.row]) from error.__cause__
        check_row_count(encoder, payload, len(piece))
        part = None if weights is None else np.ascontiguousarray(pick(weights, local), dtype=np.float64)
        chunks.append(Chunk(len(piece), payload, piece, part))
    return Shard(id, tuple(chunks), encoder)


def check_row_count(encoder: Any, payload: Any, declared: int) -> None:
    """Raise ContractError unless the encoder counts `declared` rows in `payload` (encoders that cannot tell pass)."""
    count = getattr(encoder, "row_count", None)
    if count is None:
        return
    try:
        found = int(count(payload))
    except (NotImplementedError, TypeError):
        return
    if found != declared:
        raise ContractError(
            f"{type(encoder).__name__} encoded {found} rows where {declared} were given: seq_encode must keep every row"
        )


def _local(positions: range, piece: range) -> range:
    """Return the indices within the shard of the rows at `piece`."""
    if not len(piece):
        return range(0)
    first = positions.index(piece[0])
    step = max(1, piece.step // positions.step)
    return range(first, first + step * (len(piece) - 1) + 1, step)
