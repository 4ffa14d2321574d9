"""Tasks, models and results on their way between the processes of one job: frames with a checksum in front.

Plain data and arrays travel as what they are. What else a user's classes bring travels as a pickle inside the same
frame; nothing here reads bytes that did not come from a process of this job.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from mixle.utils.parallel.folding import payload
from mixle.utils.parallel.folding.faults import RemoteFault, fault_of
from mixle.utils.parallel.folding.shards import encode_shard
from mixle.utils.parallel.folding.tasks import Result

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from mixle.utils.parallel.folding.payload import Buffer
    from mixle.utils.parallel.folding.shards import Shard
    from mixle.utils.parallel.folding.transport import Source

__all__ = ["Parcel", "ShardRows", "pack", "pack_results", "rows_of", "told", "unpack", "unpack_results"]


class Parcel:
    """Values that travel as one pickle: rows, which are many small objects.

    Parameters
    ----------
    value : Any
        What travels; ``unpack(pack(Parcel(value))).value`` is equal to it.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True, eq=False)
class ShardRows:
    """The rows of one shard on their way from the driver.

    Attributes
    ----------
    rows : sequence or None
        The rows; None if they come another way.
    positions : range
        Their positions in the data.
    pieces : tuple of range
        Positions of each encoded piece.
    weights : ndarray or None
        One weight per row.
    """

    rows: Any
    positions: range
    pieces: tuple[range, ...]
    weights: np.ndarray | None

    def encode(self, index: int, encoder: Any) -> Shard:
        """Return them encoded."""
        return encode_shard(index, self.rows, self.positions, encoder, self.pieces, self.weights)


def rows_of(source: Source, shard: int, *, rows: bool = True) -> ShardRows:
    """Return the rows of a shard that the driver holds, or with ``rows=False`` all but them."""
    held = source.shard_rows(shard) if rows else None
    return ShardRows(held, source.shards[shard], source.pieces[shard], source.shard_weights(shard))


def told(fault: RemoteFault) -> tuple[Any, ...]:
    """Return a fault as plain data."""
    return astuple(fault)


def _by_name(value: Any) -> bytes:
    """Pickle `value`; what pickle cannot find by name travels with its definition."""
    import pickle

    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return _by_value(value)


def _by_value(value: Any) -> bytes:
    """Pickle `value` with the definitions that ``__main__`` made; where it has none, plainly, which is faster."""
    import pickle

    data = b""
    if not _registered():
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            data = pickle.dumps(value, 5)
    if not data or any(name in data for name in _MAIN):
        import cloudpickle

        data = cloudpickle.dumps(value, 5)
    return data


#: What a pickle contains that refers to the main script, here or in a process that multiprocessing started.
_MAIN = b"__main__", b"__mp_main__"


def _registered() -> bool:
    """Return whether modules are to travel with their definitions: ``cloudpickle.register_pickle_by_value``."""
    package = sys.modules.get("cloudpickle")
    return package is not None and bool(package.list_registry_pickle_by_value())


def pack(value: Any, *, definitions: bool = False) -> bytes:
    """Return `value` as one frame.

    Parameters
    ----------
    value : Any
        A task, a model, a statistic.
    definitions : bool
        Let classes and functions of ``__main__`` travel with their definitions: for processes that do not run the
        same script.

    Raises
    ------
    TypeError, AttributeError, pickle.PicklingError
        For a value that cannot be pickled.

    Examples
    --------
    >>> unpack(pack({"a": (1, 2.5)}))
    {'a': (1, 2.5)}
    """
    dumps = _by_value if definitions else _by_name
    return b"".join(payload.encode(value, allow_pickle=True, dumps=dumps))


def unpack(data: Buffer) -> Any:
    """Return the value of a frame that a process of this job packed.

    Raises
    ------
    PayloadError
        If the frame was altered on its way; nothing was read then.
    """
    return payload.decode(data, allow_pickle=True)


def pack_results(results: Iterable[Result], *, definitions: bool = False) -> bytes:
    """Return results as frames, one after another; a value that cannot travel becomes its result's error."""
    return b"".join(_packed(result, definitions) for result in results)


def _packed(result: Result, definitions: bool) -> bytes:
    try:
        return pack(_plain(result), definitions=definitions)
    except Exception as error:  # noqa: BLE001 - whatever a user's value does when it is pickled
        error.add_note(f"raised while a worker sent back a value of type {type(result.value).__name__}")
        failed = Result(result.shard, result.rows, 0.0, None, None, dict(result.receipt), fault_of(error))
        return pack(_plain(failed))


def unpack_results(data: Buffer) -> list[Result]:
    """Return the results of `pack_results`; each receipt gets the ``payload_bytes`` of its frame."""
    view, at, found = memoryview(data).cast("B"), 0, []
    while at < len(view):
        _, _, length = payload.PREFIX.unpack_from(view, at)
        end = at + payload.HEAD_SIZE + length
        shard, rows, weight, value, log_density, receipt, fault = unpack(view[at:end])
        receipt["payload_bytes"] = end - at
        error = None if fault is None else RemoteFault(*fault)
        found.append(Result(shard, rows, weight, value, log_density, receipt, error))
        at = end
    return found


def _plain(result: Result) -> tuple[Any, ...]:
    """Return a result as plain data."""
    fault = None if result.error is None else told(result.error)
    return result.shard, result.rows, result.weight, result.value, result.log_density, result.receipt, fault
