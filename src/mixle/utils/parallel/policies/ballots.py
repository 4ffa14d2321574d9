"""One worker's statistic of one shard, as evidence: its bytes, its digest, and how it compares with another one."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.utils.parallel.folding import payload
from mixle.utils.parallel.folding.finite import all_finite
from mixle.utils.parallel.policies.canonical import canonical_bytes, sha256
from mixle.utils.parallel.policies.compare import WITHIN, Comparison, compare, failure, plain

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result

__all__ = ["Ballot", "Hook", "identical", "judge", "listen"]

Hook = Callable[[int, int, str, bytes], Any]
REPR_LIMIT = 2000
_FLOAT = struct.Struct("<d")
_EXACT = {int, bool, str, bytes, type(None)}


@dataclass(eq=False)
class Ballot:
    """A statistic that was delivered.

    Attributes
    ----------
    result : Result
        As it would be folded.
    worker : int
        Who made it; -1 is the driver.
    heard : bytes or None
        The payload as a hook returned it, if there was one.
    failed : Comparison or None
        Why the payload cannot be read.
    """

    result: Result
    worker: int
    heard: bytes | None = None
    failed: Comparison | None = None

    @property
    def statistic(self) -> tuple[float, Any]:
        """The weight and the value."""
        return self.result.weight, self.result.value

    @cached_property
    def raw(self) -> bytes:
        """The payload as bytes: what the hook returned, or the pickled statistic."""
        return self.heard if self.heard is not None else _pickled(self.statistic)

    @cached_property
    def frame(self) -> bytes:
        """Everything that is compared, in the frame in which statistics travel."""
        parts = payload.encode(self.everything(), allow_pickle=True)
        return b"".join(parts)

    @cached_property
    def key(self) -> str:
        """The digest that is equal where everything that would be folded has equal bits; empty if unreadable."""
        if self.failed is not None:
            return ""
        try:
            return sha256(canonical_bytes(self.everything()))
        except Exception:  # noqa: BLE001 - a user's type: its bytes must do
            return sha256(self.raw)

    @cached_property
    def canonical(self) -> str:
        """The digest of the typed statistic; of the bytes where it cannot be read."""
        try:
            typed = b"raw:" + self.raw if self.failed is not None else canonical_bytes(self.statistic)
        except Exception:  # noqa: BLE001 - a type that has no place in a statistic
            typed = b"raw:" + self.raw
        return sha256(typed)

    @property
    def score(self) -> bytes | None:
        """The bits of the summed log-density."""
        score = self.result.log_density
        return None if score is None else struct.pack("<d", score)

    @property
    def left_out(self) -> int:
        """Rows that the statistic leaves out."""
        return int(self.result.receipt.get("left_out", 0))

    @property
    def text(self) -> str:
        """The statistic as text, cut."""
        if self.failed is not None:
            return f"<unpicklable: {self.failed.reason.partition(': ')[2]}>"[:REPR_LIMIT]
        try:
            return repr(self.statistic)[:REPR_LIMIT]
        except Exception as error:  # noqa: BLE001 - a user's __repr__
            return f"<unprintable: {type(error).__name__}>"

    def everything(self) -> tuple[Any, ...]:
        """Return all that is compared: weight, value, score, rows left out."""
        return self.result.weight, self.result.value, self.score, self.left_out


def _pickled(statistic: tuple[float, Any]) -> bytes:
    try:
        return pickle.dumps(statistic)
    except Exception:  # noqa: BLE001 - a user's class of the main script, say
        import cloudpickle

        data: bytes = cloudpickle.dumps(statistic)
        return data


def listen(result: Result, hook: Hook | None, role: str, worker: int) -> Ballot:
    """Return what a worker delivered, as the hook lets it be heard.

    Parameters
    ----------
    result : Result
        Of one shard.
    hook : callable or None
        ``hook(worker, shard, role, payload) -> payload``. Bytes returned unchanged are not read; others are read as
        plain data and are a failure where they cannot be.
    role : {"primary", "audit", "witness"}
        For the hook.
    worker : int
        Who delivered it.
    """
    if hook is None:
        return Ballot(result, worker)
    sent = _pickled((result.weight, result.value))
    heard = hook(worker, result.shard, role, sent)
    if isinstance(heard, (bytes, bytearray, memoryview)):
        heard = bytes(heard)
        if heard == sent:
            return Ballot(result, worker, sent)
        try:
            count, value = _read(heard)
        except Exception as error:  # noqa: BLE001 - whatever altered bytes lead to
            return Ballot(result, worker, heard, failure(error))
        return Ballot(replace(result, weight=count, value=value), worker, heard)
    return Ballot(
        result, worker, b"", failure(TypeError(f"the hook returned {type(heard).__name__}, it must return bytes"))
    )


def _read(heard: bytes) -> tuple[float, Any]:
    from mixle.utils.parallel.policies.plainpickle import read_plain_pickle

    count, value = read_plain_pickle(heard)
    count = plain(count)
    if isinstance(count, bool) or not isinstance(count, (int, float)):
        raise TypeError(f"a count must be a number, not a {type(count).__name__}")
    return count, value


def identical(left: Ballot, right: Ballot) -> bool:
    """Return whether two workers delivered the same bytes; told without looking at types."""
    if left.failed is not None or right.failed is not None:
        return False
    told = same(left.everything(), right.everything())
    if told is not None:
        return told
    try:
        return left.frame == right.frame
    except Exception:  # noqa: BLE001 - a user's value that does not pickle here
        return False


def same(left: Any, right: Any) -> bool | None:
    """Return whether two values have the same types and the same bits; None where only their frames can tell.

    Examples
    --------
    >>> import numpy as np
    >>> same((1.0, np.zeros(2)), (1.0, np.zeros(2))), same((0.0,), (-0.0,)), same((1,), (True,)), same(object(), [])
    (True, False, False, False)
    """
    if left is right:
        return True
    kind = type(left)
    if kind is not type(right):
        return False
    if kind is np.ndarray:
        alike = left.dtype == right.dtype and left.shape == right.shape
        return (None if left.dtype.hasobject else bool(left.tobytes() == right.tobytes())) if alike else False
    if kind is float:
        return bool(_FLOAT.pack(left) == _FLOAT.pack(right))
    if kind in _EXACT:
        return bool(left == right)
    bare = kind is list or (issubclass(kind, tuple) and not kind.__dictoffset__)
    return _same_items(left, right) if bare else None


def _same_items(left: Any, right: Any) -> bool | None:
    if len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=True):
        told = same(one, other)
        if not told:
            return told
    return True


def judge(left: Ballot, right: Ballot, rtol: float, atol: float) -> Comparison:
    """Compare what two workers delivered under the envelope.

    The statistic ``(count, value)`` comes first, then the summed log-density and the number of rows left out. Equal
    bytes match, whatever their type, if all numbers are finite.
    """
    for ballot in (left, right):
        if ballot.failed is not None:
            return ballot.failed
    if identical(left, right) and all_finite(left.statistic):
        return Comparison(True, WITHIN)
    found = compare(left.statistic, right.statistic, rtol, atol)
    if found.match and left.score != right.score:
        score = compare(left.result.log_density, right.result.log_density, rtol, atol, "log_density")
        found = score if not score.match else found
    if found.match:
        left_out = compare(left.left_out, right.left_out, rtol, atol, "left_out")
        found = left_out if not left_out.match else found
    return found
