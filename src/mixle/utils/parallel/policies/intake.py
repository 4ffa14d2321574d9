"""What workers computed from: digests of their rows and of their model, compared with those of the original."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mixle.errors import CorruptedRows
from mixle.utils.parallel.folding.digests import sealed
from mixle.utils.parallel.folding.model_digest import model_digest
from mixle.utils.parallel.folding.tasks import Apply
from mixle.utils.parallel.policies.alarms import Alarm
from mixle.utils.parallel.policies.quarantine import gather, worker_of
from mixle.utils.parallel.policies.speculate import differ

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.folding.transport import Transport

__all__ = ["Intake"]

BY_DRIVER = "computed by the driver"
UNLIKE = 2  # so many workers, or rounds of one, without the driver's model are no flipped bits


class Intake:
    """Tells results that were made from other rows or another model than they should have been, and mends them.

    The digest of a shard's rows is that of its first encoding. A worker with other rows drops them, encodes them anew
    and computes again; the fresh rows must have the sha256 of the first encoding, too. One with another model is sent
    it again.

    Parameters
    ----------
    transport : Transport
        Who works.
    recompute : callable
        ``recompute(task, shard)`` returns what this process computes from the rows it holds, or None.
    """

    def __init__(self, transport: Transport, recompute: Callable[[Task, int], Result | None]) -> None:
        self.transport, self.recompute = transport, recompute
        self.rows: dict[int, str] = {}
        self.told = True
        self.opaque: set[type] = set()
        self.unlike = 0
        self.model: int | None = None
        self.seals: dict[int, str] = {}

    def seal(self) -> None:
        """Take the sha256 of all rows as they were encoded, where they live."""
        told = self.transport.map(Apply(sealed))
        self.seals = {one.shard: one.value for one in told if one.error is None and one.value is not None}

    def begin(self, task: Any) -> None:
        """Take the digest of the model that is about to be sent."""
        model = getattr(task, "model", None)
        self.model = None if type(model) in self.opaque else model_digest(model)
        if not self.rows:
            self.rows = dict(getattr(self.transport, "digests", None) or {})

    def sound(self, result: Result) -> bool:
        """Return whether a result says to come from the right rows and the right model."""
        return self._right_rows(result) and self._right_model(result)

    def _right_rows(self, result: Result) -> bool:
        digest = result.receipt.get("rows")
        return not self.told or digest is None or self.rows.setdefault(result.shard, digest) == digest

    def _right_model(self, result: Result) -> bool:
        digest = result.receipt.get("model")
        return self.model is None or digest is None or digest == self.model

    def contest(self, task: Task, seconds: Mapping[int, Result], number: int) -> list[Alarm]:
        """Doubt the first encoding of rows that a second worker has encoded otherwise: this process encodes them, too.

        Whose digest is confirmed is that of the rows from now on; the others drop theirs.
        """
        alarms = []
        for shard, second in sorted(seconds.items()):
            if second.error is not None or self._right_rows(second):
                continue
            own = self.recompute(task, shard)
            if own is not None and own.receipt.get("rows") == second.receipt["rows"]:
                self.rows[shard] = second.receipt["rows"]
                continue  # whose first encoding was wrong is told when its result is looked at
            worker = worker_of(second, self.transport)
            alarms.append(Alarm(number, shard, worker, "rows", "its second computation was dropped"))
        self.drop(seconds.values())
        return alarms

    def mend(self, task: Task, results: dict[int, Result], number: int) -> list[Alarm]:
        """Replace results that were made from the wrong rows or model; return what was found.

        Raises
        ------
        CorruptedRows
            If rows changed wherever they are held.
        """
        misled = self._misled(results)
        self._count(misled, results)
        wrong = {shard: "rows" for shard, one in sorted(results.items()) if not self._right_rows(one)}
        for shard, one in sorted(results.items()):
            if worker_of(one, self.transport) in misled:
                wrong.setdefault(shard, "model")
        if not wrong:
            return []
        again = self._again(task, {shard: results[shard] for shard in wrong}, wrong)
        alarms = []
        for shard, check in wrong.items():
            worker, fresh = worker_of(results[shard], self.transport), again.get(shard)
            outcome = "computed again from a fresh copy"
            if fresh is None or not self._right_rows(fresh):
                fresh, outcome = self._own(task, shard, fresh)
            elif worker_of(fresh, self.transport) in self._misled(again):
                fresh, outcome = self._other_model(task, shard, fresh)
            if fresh is not None:
                results[shard] = fresh
            alarms.append(Alarm(number, shard, worker, check, outcome))
        kind = type(getattr(task, "model", None))
        if any(alarm.outcome == BY_DRIVER for alarm in alarms):
            self.opaque.discard(kind)  # equal bits elsewhere were chance
        if kind in self.opaque:
            self.model = None
        return alarms

    def believed(self, seconds: Mapping[int, Result]) -> dict[int, Result]:
        """Return the second computations that were made from the right rows and the right model."""
        misled = self._misled(seconds)
        right = {shard: one for shard, one in seconds.items() if self._right_rows(one)}
        return {shard: one for shard, one in right.items() if worker_of(one, self.transport) not in misled}

    def _misled(self, results: Mapping[int, Result]) -> set[int]:
        """Return the workers that have another model: what one says of its last shard goes for all."""
        return {worker_of(one, self.transport) for one in results.values() if not self._right_model(one)}

    def _count(self, misled: set[int], results: Mapping[int, Result]) -> None:
        """Add up the workers that have another model than the driver, as long as nobody has the driver's."""
        told = {worker_of(one, self.transport) for one in results.values() if "model" in one.receipt}
        if told:
            self.unlike = self.unlike + len(misled) if told == misled else 0

    def _other_model(self, task: Task, shard: int, fresh: Result) -> tuple[Result, str]:
        """Return what this process computes instead of a worker that has another model after a second sending, too.

        If both agree to the bit, and no worker has the driver's model, no bit was flipped: the model's pickle is not
        the same everywhere, and is not looked at any more. A flipped bit may also leave a statistic as it is.
        """
        own = self.recompute(task, shard)
        if own is not None and differ(own, fresh) is not None:
            return own, BY_DRIVER
        if self.unlike < UNLIKE:
            return fresh, "confirmed by the driver"
        self.opaque.add(type(getattr(task, "model", None)))
        return fresh, "left alone: models of this type have no digest that is the same everywhere"

    def _again(self, task: Task, results: Mapping[int, Result], wrong: Mapping[int, str]) -> dict[int, Result]:
        """Return what the same workers make of fresh rows and a fresh model."""
        homes: dict[int, list[int]] = {}
        for shard, result in results.items():
            worker = worker_of(result, self.transport)
            homes.setdefault(worker, []).append(shard)
            if wrong[shard] == "rows":
                self.drop([result])
        again = {shard: one for shard, one in gather(self.transport, task, homes).items() if one.error is None}
        suspicious = {worker: [s for s in shards if wrong[s] == "rows"] for worker, shards in homes.items()}
        seals = gather(self.transport, Apply(sealed), suspicious) if self.seals and any(suspicious.values()) else {}
        broken = {shard for shard, one in seals.items() if one.value not in {None, self.seals.get(shard)}}
        return {shard: one for shard, one in again.items() if shard not in broken}

    def drop(self, results: Iterable[Result]) -> None:
        """Let workers drop rows that are not right."""
        forget = getattr(self.transport, "forget", None)
        for result in results:
            if forget is not None and not self._right_rows(result):
                forget(result.shard, worker_of(result, self.transport))

    def _own(self, task: Task, shard: int, fresh: Result | None) -> tuple[Result | None, str]:
        """Return what this process computes, if its rows are right."""
        own = self.recompute(task, shard)
        if own is not None and self._right_rows(own):
            return own, BY_DRIVER
        if own is not None and fresh is not None and own.receipt.get("rows") != fresh.receipt.get("rows"):
            self.told = False  # two encodings of the same rows differ: the encoder is no function of them
            return None, "left alone: the encoder makes something else of the rows each time"
        raise CorruptedRows(
            f"the rows of shard {shard} changed in memory after they were loaded, and no clean copy is held: build a "
            "new handle from your data"
        )
