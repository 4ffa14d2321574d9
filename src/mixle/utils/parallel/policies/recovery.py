"""One round that survives losses: what a dead worker owed is done by the living, while its rank is started again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixle._log import note
from mixle.errors import AlteredPayload
from mixle.utils.parallel.folding.refusals import undelivered
from mixle.utils.parallel.folding.tasks import Result
from mixle.utils.parallel.policies.assignment import spread
from mixle.utils.parallel.policies.exchange import open_exchange
from mixle.utils.parallel.policies.losses import Loss
from mixle.utils.parallel.policies.speculate import TICK_S, Backups, Late, differ

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mixle.utils.parallel.policies.exchange import Exchange, Gone
    from mixle.utils.parallel.policies.losses import RoundReceipt
    from mixle.utils.parallel.policies.retry import Retry

__all__ = ["Recovery"]

ALTERED = AlteredPayload.__name__
ASKS = 3  # times that a shard is asked for again in a round because its reply was altered
SETTLE_S = 0.005  # between two looks at a loss whose exit status is still to come


class Recovery:
    """The state of one round.

    Attributes
    ----------
    todo : set of int
        Shards without a result.
    owed : dict of int to list of int
        What each living worker still has to do, in its order.
    orphans : list of int
        Shards that nobody has.
    unsettled : list of Gone
        Losses whose exit status is still to come.
    altered : dict of int to list of int
        Workers whose replies did not arrive as they were sent, by shard.

    Parameters
    ----------
    policy : Retry
        Whose round it is.
    task : Task
        What to do.
    assignment : dict of int to list of int, or None
        Shards by worker; None leaves the choice to the transport's `map`.
    receipt : RoundReceipt
        Filled while the round runs.
    everything : bool
        The assignment covers all shards, each where it lives.
    seconds : mapping of int to sequence of int, optional
        Shards that workers do a second time beside the round; their results have ``receipt["second"]``. What is lost
        of them is not done again.
    """

    def __init__(
        self,
        policy: Retry,
        task: Any,
        assignment: dict[int, list[int]] | None,
        receipt: RoundReceipt,
        everything: bool,
        seconds: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self.policy, self.task, self.receipt = policy, task, receipt
        self.sizes = policy.sizes
        self.owed = {worker: list(shards) for worker, shards in (assignment or {}).items() if shards}
        self.todo = set(self.sizes) if assignment is None else {s for shards in self.owed.values() for s in shards}
        self.orphans: list[int] = []
        self.unsettled: list[Gone] = []
        self.used: dict[int, Result] = {}
        self.altered: dict[int, list[int]] = {}
        self.backups = Backups(self.sizes) if policy.speculates else None
        self.exchange = open_exchange(policy.inner, task, assignment, everything)
        self.again = {worker: set(shards) for worker, shards in (seconds or {}).items() if worker in policy.up}
        self.beside = self._beside() if self.again else None

    def _beside(self) -> Exchange:
        """Begin what is done a second time."""
        again = {worker: sorted(shards) for worker, shards in self.again.items()}
        begin = getattr(self.exchange, "beside", None)  # without reading the task again
        return open_exchange(self.policy.inner, self.task, again) if begin is None else begin(again)

    def results(self) -> Iterator[Result]:
        """Yield the result of every shard once.

        Raises
        ------
        RoundLosses
            If a shard is left and no worker may be started for it any more.
        """
        try:
            while self.todo:
                event = self.exchange.next(self._patience())
                if isinstance(event, Result):
                    if not self._ask_again(event) and self._take(event):
                        yield event
                elif event is not None:
                    self._lose(event)
                elif self._stalled():
                    raise undelivered(self.policy.name, self.todo)
                if self._restless():
                    self._tend()
            yield from self._seconds()
            while self.unsettled:
                self._tend()
            if self.receipt.recomputed:
                shards = sorted(self.receipt.recomputed)
                note("info", "pool", f"recovered: shards {shards} were computed by other workers", shards=shards)
        finally:
            self._end()

    def _ask_again(self, result: Result) -> bool:
        """Ask once more for a shard whose task or reply was altered on its way; the worker lives and keeps it.

        What is altered again and again is told as the error that it is.
        """
        shard, worker = result.shard, result.receipt.get("worker")
        before = self.altered.get(shard, [])
        if result.error is None or not result.error.type_name.endswith(ALTERED):
            if before:
                result.receipt["altered"] = before[-1]
            return False
        if worker is None or shard not in self.owed.get(worker, ()) or len(before) >= ASKS:
            return False
        self.altered[shard] = [*before, worker]
        self.policy.altered(
            Loss(worker, (shard,), "garbled reply", f"{result.error.message} Asked again"), self.receipt
        )
        self.exchange.give({worker: [shard]})
        return True

    def _seconds(self) -> Iterator[Result]:
        """Yield what was done beside the round; a worker lost meanwhile is started again, its shards are not."""
        while self.beside is not None and any(self.again.values()):
            event = self.beside.next(self._patience())
            if isinstance(event, Result):
                worker = event.receipt.get("worker", next(w for w, s in self.again.items() if event.shard in s))
                self.again[worker].discard(event.shard)
                event.receipt["second"] = True
                yield event
            elif event is not None:
                self.again.pop(event.worker, None)
                if event.worker not in self.receipt.failed:
                    self._lose(event)
            elif self._patience() is None:
                return
            if self._restless():
                self._tend()

    def _restless(self) -> bool:
        return bool(
            self.unsettled or self.orphans or self.policy.unborn or self.policy.late or self.backups is not None
        )

    def _stalled(self) -> bool:
        """Return whether nothing more will come: without a limit, `next` waits as long as something is owed."""
        return self._patience() is None and not self.orphans

    def _patience(self) -> float | None:
        if self.unsettled or self.policy.unborn:
            return SETTLE_S
        return TICK_S if self.backups is not None else None

    def _take(self, result: Result) -> bool:
        """Note a result; False if the shard has one already."""
        shard = result.shard
        worker = result.receipt.get("worker")
        if worker is None or shard not in self.owed.get(worker, ()):  # a transport that does not say who did it
            worker = next((w for w, shards in self.owed.items() if shard in shards), None)
        if worker is not None:
            self.owed[worker].remove(shard)
            if self.backups is not None:
                self.backups.arrived(result, worker)
        if shard not in self.todo:
            difference = differ(self.used[shard], result) if shard in self.used else None
            self.policy.differences += [difference] if difference is not None else []
            return False
        self.todo.discard(shard)
        if any(shard in shards for shards in self.owed.values()):
            self.used[shard] = result
            self.receipt.backed_up.add(shard)
        elif shard not in self.receipt.recomputed:
            self.receipt.reused.add(shard)
        if shard in self.receipt.recomputed:
            result.receipt["recomputed"] = True
        return True

    def _lose(self, gone: Gone) -> None:
        """Give what a lost worker owed to the others, at once."""
        held = self.owed.pop(gone.worker, list(gone.shards))
        self.policy.up.discard(gone.worker)
        self.receipt.failed.add(gone.worker)
        self.unsettled.append(gone)
        elsewhere = {shard for shards in self.owed.values() for shard in shards}
        fresh = [shard for shard in held if shard in self.todo and shard not in elsewhere and shard not in self.orphans]
        self.orphans += fresh
        self.receipt.recomputed.update(fresh)
        self._place(keep=self.policy.is_last_chance(gone.worker))

    def _place(self, keep: bool = False) -> None:
        """Spread orphans over the workers that live."""
        if not self.orphans or not self.policy.up:
            return
        given = spread(self.orphans, self.sizes, self._loads())
        self.receipt.heirs.update((shard, worker) for worker, shards in given.items() for shard in shards)
        self.orphans = []
        self._give(given, keep)

    def _give(self, given: dict[int, list[int]], keep: bool) -> None:
        if self.backups is not None:
            self.backups.given(worker for worker in given if not self.owed.get(worker))
        for worker, shards in given.items():
            self.owed.setdefault(worker, []).extend(shards)
        self.exchange.give(given, keep or None)

    def _loads(self) -> dict[int, float]:
        late = self.policy.late_work()
        work = {worker: (*self.owed.get(worker, ()), *late.get(worker, ())) for worker in sorted(self.policy.up)}
        return {worker: float(sum(self.sizes.get(shard, 1) for shard in shards)) for worker, shards in work.items()}

    def _tend(self) -> None:
        """Settle losses, welcome newborn workers, find a place for orphans, back up slow workers."""
        for gone in list(self.unsettled):
            if gone.settled:
                self.unsettled.remove(gone)
                self.policy.settle(gone, self.receipt)
        self.policy.poll_late(self.receipt)
        self.policy.welcome()
        if self.orphans and not self.policy.up and not self.unsettled:
            self.policy.revive(self.orphans, self.receipt)
        self._place()
        if self.unsettled and not self.todo:
            self.policy.wait(SETTLE_S)
        if self.backups is not None and self.todo:
            busy = {*self.policy.late_work(), *(worker for worker, shards in self.owed.items() if shards)}
            given = self.backups.choose(self.owed, self.todo, self.policy.up - busy)
            if given:
                self._give(given, keep=True)

    def _end(self) -> None:
        if self.beside is not None:
            self.beside.close()
        owed = {worker: shards for worker, shards in self.owed.items() if shards}
        if owed and not self.todo:
            self.policy.late.append(Late(self.exchange, owed, self.used))
        else:
            self.exchange.close()
