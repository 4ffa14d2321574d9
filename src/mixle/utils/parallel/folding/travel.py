"""Tasks, models and results on their way between the processes of one job: frames with a checksum in front.

Plain data and arrays travel as what they are. What else a user's classes bring travels as a pickle inside the same
frame; nothing here reads bytes that did not come from a process of this job.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from mixle.utils.parallel.folding import payload
from mixle.utils.parallel.folding.faults import RemoteFault, fault_of
from mixle.utils.parallel.folding.tasks import Result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixle.utils.parallel.folding.payload import Buffer

__all__ = ["Parcel", "pack", "pack_results", "unpack", "unpack_results"]


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


def _by_name(value: Any) -> bytes:
    """Pickle `value`; what pickle cannot find by name travels with its definition."""
    import pickle

    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return _by_value(value)


def _by_value(value: Any) -> bytes:
    """Pickle `value` with the definitions that ``__main__`` made."""
    import cloudpickle

    data: bytes = cloudpickle.dumps(value, 5)
    return data


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


def pack_results(results: Iterable[Result]) -> bytes:
    """Return results as frames, one after another; a value that cannot travel becomes its result's error."""
    return b"".join(_packed(result) for result in results)


def _packed(result: Result) -> bytes:
    try:
        return pack(_plain(result))
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
    fault = None if result.error is None else astuple(result.error)
    return result.shard, result.rows, result.weight, result.value, result.log_density, result.receipt, fault
