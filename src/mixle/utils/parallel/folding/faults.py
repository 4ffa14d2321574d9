"""A user's exception on its way from a task to the driver, where it is raised once, typed."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mixle.errors import HandleClosed, RowError, TaskError

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.shards import Chunk

__all__ = ["RemoteFault", "RemoteTraceback", "closed_error", "fault_of", "load_error", "surface"]


@dataclass(frozen=True, eq=False)
class RemoteFault:
    """What a task's exception leaves behind when it cannot travel as itself.

    Attributes
    ----------
    type_name : str
        Name of the exception's class.
    message : str
        Its text; a row in it is named by its position in the data.
    row : int or None
        That position.
    fields : tuple
        Path of fields inside the row.
    traceback_text : str
        The traceback as printed where the task ran.
    pickled : bytes or None
        The exception itself, if it can be read back.
    """

    type_name: str
    message: str
    row: int | None = None
    fields: tuple[Any, ...] = ()
    traceback_text: str = ""
    pickled: bytes | None = None


class RemoteTraceback(Exception):
    """The traceback of a task, chained as the cause of the error that surfaces on the driver."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _pickled(error: BaseException) -> bytes | None:
    """Return `error` as bytes that were read back once: whole, or what of it can travel; None if its class cannot."""
    import cloudpickle

    for what in (lambda: error, lambda: _Bare(error)):
        for dumps in (pickle.dumps, cloudpickle.dumps):
            try:
                data: bytes = dumps(what())
                if type(pickle.loads(data)).__name__ == type(error).__name__:
                    return data
            except Exception:  # noqa: BLE001 - a user's class may fail in any way; its text still travels
                continue
    return None


class _Bare:
    """An exception that pickles without its constructor, and without those of its parts that do not pickle."""

    def __init__(self, error: BaseException) -> None:
        args = tuple(value if _travels(value) else repr(value) for value in error.args)
        state = {name: value for name, value in error.__dict__.items() if _travels(value)}
        self.parts = type(error), args, state

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, self.parts


def _travels(value: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # noqa: BLE001 - a user's value may fail in any way
        return False
    return True


def _rebuilt(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    try:
        error = kind.__new__(kind, *args)
    except TypeError:
        error = BaseException.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def fault_of(error: BaseException, chunk: Chunk | None = None) -> RemoteFault:
    """Return the fault of `error`; a row of `chunk` that it names becomes a position in the data.

    Parameters
    ----------
    error : BaseException
        The exception of a task.
    chunk : Chunk, optional
        The chunk at work when it was raised.
    """
    try:
        text, message = "".join(traceback.format_exception(error)), str(error)
    except Exception as broken:  # noqa: BLE001 - a user's __str__ may fail in any way
        text = message = f"{type(error).__name__}, whose text cannot be made: {type(broken).__name__}"
    row, fields = getattr(error, "row", None), getattr(error, "fields", ())
    if isinstance(error, RowError) and row is not None and chunk is not None and 0 <= row < chunk.count:
        error = error.at(row=chunk.positions[row])
        row, message = error.row, str(error)
    if not isinstance(row, int):
        row = None
    fields = tuple(fields) if isinstance(fields, (tuple, list)) else ()
    return RemoteFault(type(error).__name__, message, row, fields, text, _pickled(error))


def surface(fault: RemoteFault, shard: int | None = None, worker: int | None = None) -> TaskError:
    """Return the exception to raise on the driver for `fault`.

    It is a `TaskError` (a RuntimeError) and, where the two classes combine, also of the user's own type; the remote
    traceback is its ``__cause__``. It pickles.

    Parameters
    ----------
    fault : RemoteFault
        The fault of a Result.
    shard, worker : int, optional
        Where it happened.
    """
    original = _original(fault)
    error = _combined(original)
    error.shard, error.row, error.worker = shard, fault.row, worker
    error.remote_traceback = fault.traceback_text
    state = error.__dict__
    state["_fault"] = fault
    state["_text"] = _message(fault, shard, original)
    if isinstance(original, RowError) and shard is not None:
        error.add_note(f"raised by shard {shard}" + ("" if worker is None else f" on worker {worker}"))
    error.__cause__ = RemoteTraceback(fault.traceback_text)
    return error


def closed_error(verb: str) -> HandleClosed:
    """Return the error of a call on a handle that is closed."""
    return HandleClosed(
        f"this parallel encoded-data handle is closed: {verb} cannot be served. "
        "Build a new one: encoded_data(rows, estimator, backend=...)"
    )


def load_error(fault: RemoteFault, shard: int | None = None, worker: int | None = None, first: int = 0) -> TaskError:
    """Return the error of a shard that could not be encoded; a row that it names is counted from `first`.

    Parameters
    ----------
    fault : RemoteFault
        What the worker said.
    shard, worker : int, optional
        Where it happened.
    first : int
        Position in the data of the row that the fault counts as 0.
    """
    error = _original(fault)
    if isinstance(error, RowError):
        moved = error if error.row is None else error.at(row=error.row + first)
        fault = replace(fault, message=str(moved), row=moved.row, pickled=_pickled(moved))
    return surface(fault, shard, worker)


def _original(fault: RemoteFault) -> BaseException | None:
    """Return the exception of `fault`, or None where it did not travel or its class is not importable here."""
    if fault.pickled is None:
        return None
    try:
        error: BaseException = pickle.loads(fault.pickled)
    except Exception:  # noqa: BLE001 - its text is enough
        return None
    return error


def _message(fault: RemoteFault, shard: int | None, original: BaseException | None) -> str:
    if isinstance(original, RowError):
        return fault.message
    place = [] if shard is None else [f"shard {shard}"]
    place += [] if fault.row is None else [f"row {fault.row}"]
    where = ", ".join(place)
    return f"{where + ': ' if where else ''}{fault.type_name}: {fault.message}"


class _Surfaced(TaskError):
    """Text and pickling that every surfaced error shares, whatever the user's type adds."""

    def __str__(self) -> str:
        return str(self.__dict__.get("_text", ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return surface, (self.__dict__["_fault"], self.shard, self.worker)


def _combined(original: BaseException | None) -> TaskError:
    """Return an empty error of both types, carrying what the user's exception carries."""
    if not isinstance(original, Exception):
        return _Surfaced()
    kind = type(original)
    for new in (kind.__new__, BaseException.__new__):
        try:
            both = type(kind.__name__, (_Surfaced, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})
            error: TaskError = new(both, *original.args)
        except Exception:  # noqa: BLE001 - layouts or metaclasses that do not combine: a TaskError remains
            continue
        error.args = original.args
        error.__dict__.update(original.__dict__)
        return error
    return _Surfaced()
