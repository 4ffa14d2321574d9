"""Retry: lost shards are recomputed by the living, dead ranks are started again, hopeless ones are given up."""

from __future__ import annotations

import operator
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from mixle._log import note
from mixle.errors import BackendError, HandleClosed, RoundLosses
from mixle.utils.parallel.policies.assignment import spread
from mixle.utils.parallel.policies.elastic import Elastic
from mixle.utils.parallel.policies.exchange import open_exchange
from mixle.utils.parallel.policies.losses import OomWatch, RoundReceipt, classify, nobody_left
from mixle.utils.parallel.policies.recovery import Recovery

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.folding.transport import Source
    from mixle.utils.parallel.policies.exchange import Exchange, Gone
    from mixle.utils.parallel.policies.losses import Loss
    from mixle.utils.parallel.policies.speculate import Difference, Late

__all__ = ["Retry"]

LAUNCHER_DEATHS = 3  # of the launcher in one round, after which the machine is to blame


class Retry(Elastic):
    """Recover from lost workers within the round, exactly.

    What a dead worker owed is recomputed by the others, spread over them by load, each shard once; what it had sent is
    kept. A statistic depends on the shard and the model alone, and statistics are added in shard order, so the round
    has the bits of a round without a loss. Meanwhile the rank is started again and encodes its shards; a rank that was
    lost `max_retries` times is given up, and its shards move to others for good.

    A user's exception is no loss: it is raised, and nothing is retried.

    Parameters
    ----------
    max_retries : int
        Number of losses after which a rank is given up.
    speculate : bool
        Let idle workers repeat what a slow one still owes. The first reply is used; if the late one differs, that is
        noted in `differences`.

    Attributes
    ----------
    failures : dict of int to int
        Losses of each rank so far; 0 for one that was never lost.
    blacklist : set of int
        Ranks that were given up.
    last : RoundReceipt
        What the last `map` took.
    differences : list of Difference
        Shards of which two workers made different statistics.

    Raises
    ------
    ValueError
        If `max_retries` is below 1.

    Examples
    --------
    >>> from mixle.utils.parallel.transports.local import LocalTransport
    >>> Retry(max_retries=2).over(LocalTransport()).blacklist
    set()
    """

    order = 1
    title = "this pool"
    withheld = frozenset({"begin", "open", "loaded"})

    def __init__(self, max_retries: int = 2, *, speculate: bool = False) -> None:
        self.max_retries = check_retries(max_retries)
        if not isinstance(speculate, bool):
            raise TypeError(f"speculate must be True or False, not {speculate!r}")
        self.speculate = speculate

    def bind(self) -> None:
        """Start with a clean record."""
        self.failures: dict[int, int] = Counter()
        self.blacklist: set[int] = set()
        self.up: set[int] = set()
        self.unborn: set[int] = set()
        self.late: list[Late] = []
        self.differences: list[Difference] = []
        self.last = RoundReceipt()
        self._record: list[Loss] = []
        self._encoding: list[Exchange] = []
        self._memory = OomWatch()

    # The verbs

    def load(self, source: Source) -> None:
        """Encode all shards where they will live; workers that die meanwhile are replaced.

        Raises
        ------
        RowError
            Naming the position in the data of a row that cannot be read.
        RoundLosses
            If no worker is left.
        """
        opened = getattr(self.inner, "open", None)
        if opened is None:
            self.inner.load(source)
            return
        opened(source)
        self.inner.loaded(list(self.map(None)))  # type: ignore[attr-defined] # comes with `open`

    def map(self, task: Task | None) -> Iterator[Result]:
        """Run `task` on every shard and yield each result once, in any order.

        Raises
        ------
        RoundLosses
            (a RuntimeError) naming each loss, if a shard is left and no worker may be started for it any more.
        """
        self.last = receipt = RoundReceipt()
        return self._round(task, None, receipt)

    def map_beside(self, task: Task, seconds: Mapping[int, Sequence[int]]) -> Iterator[Result]:
        """Run `task` on every shard, and beside it a second time on chosen shards on chosen workers.

        Parameters
        ----------
        task : Task
            What to do.
        seconds : mapping of int to sequence of int
            Shards by worker. Their results come after the others and have ``receipt["second"]``; those of a worker
            that is lost meanwhile are missing.
        """
        self.last = receipt = RoundReceipt()
        return self._round(task, None, receipt, seconds)

    def dispatch(self, task: Task, assignment: Mapping[int, Sequence[int]]) -> Iterator[Result]:
        """Run `task` on chosen shards on chosen workers; if one of them is lost, others take over.

        The receipt of a result says which ``worker`` did it.
        """
        receipt = RoundReceipt()
        try:
            yield from self._round(task, {worker: list(shards) for worker, shards in assignment.items()}, receipt)
        finally:
            self.last.failed |= receipt.failed
            self.last.blacklisted |= receipt.blacklisted
            self.last.losses += receipt.losses

    def run(self, task: Task, shard: int, worker: int) -> Result:
        """Run `task` on one shard on a chosen worker, or on another one if that is lost."""
        (result,) = self.dispatch(task, {worker: [shard]})
        return result

    def processes(self) -> dict[int, Any]:
        """Return the process of each worker; ranks that are being started are waited for."""
        if self.unborn and not self.inner.closed:  # type: ignore[attr-defined] # comes with `spawn`
            self.inner.start(sorted(self.unborn))  # type: ignore[attr-defined]
            self.welcome()
        found: dict[int, Any] = self.inner.processes()  # type: ignore[attr-defined]
        return found

    def close(self) -> None:
        """Close the transport; further calls do nothing."""
        self.late.clear()
        self._encoding.clear()
        self.inner.close()

    def _round(
        self,
        task: Task | None,
        assignment: dict[int, list[int]] | None,
        receipt: RoundReceipt,
        seconds: Mapping[int, Sequence[int]] | None = None,
    ) -> Iterator[Result]:
        self._muster(receipt)
        everything = assignment is None
        if everything and getattr(self.inner, "owner", None) is not None:
            assignment = self._around_the_late(self.residence())
        yield from Recovery(self, task, assignment, receipt, everything, seconds).results()

    # What a round asks for

    @property
    def speculates(self) -> bool:
        """Whether slow workers are backed up; the transport must be able to talk meanwhile."""
        return self.speculate and hasattr(self.inner, "begin")

    def _muster(self, receipt: RoundReceipt) -> None:
        """Wait for the ranks that were asked for, and see who may be given work."""
        for exchange in self._encoding:
            exchange.close()
        self._encoding.clear()
        self.poll_late(receipt)
        workers = set(getattr(self.inner, "workers", lambda: [0])()) - self.blacklist
        if getattr(self.inner, "closed", False):
            raise HandleClosed(f"{self.title} is closed: make a new handle")
        if not workers:
            raise self._nobody(f"{self.title} has no live workers left.")
        missing = sorted(workers - self.up)
        if missing and hasattr(self.inner, "start"):
            try:
                self.inner.start(missing)
            except HandleClosed:
                raise
            except RuntimeError:
                if not workers & self.up:
                    raise
                workers &= self.up
        self.unborn -= workers
        self.up = workers

    def _around_the_late(self, homes: dict[int, list[int]]) -> dict[int, list[int]]:
        """Take the shards of workers that are still busy with an earlier round, or cannot be started, to others."""
        free = sorted(self.up - self.late_work().keys()) or sorted(self.up)
        homeless = [shard for worker, shards in homes.items() if worker not in free for shard in shards]
        if not homeless:
            return homes
        homes = {worker: shards for worker, shards in homes.items() if worker in free}
        loads = {worker: float(sum(self.sizes.get(s, 1) for s in homes.get(worker, ()))) for worker in free}
        for worker, shards in spread(homeless, self.sizes, loads).items():
            homes[worker] = sorted([*homes.get(worker, ()), *shards])
        return homes

    def is_last_chance(self, worker: int) -> bool:
        """Return whether one more loss gives the rank up."""
        return self.failures.get(worker, 0) + 1 >= self.max_retries

    def settle(self, gone: Gone, receipt: RoundReceipt) -> None:
        """Note why a worker was lost, and start it again or give it up."""
        error = gone.told()
        memory = self._memory.grew()
        worker = gone.worker
        loss = classify(error, memory)
        if loss.kind != "launcher":
            self.failures[worker] = self.failures.get(worker, 0) + 1
        elif sum(one.kind == "launcher" and one.worker == worker for one in receipt.losses) >= LAUNCHER_DEATHS:
            self.failures[worker] = self.max_retries
        if self.failures.get(worker, 0) >= self.max_retries:
            loss = classify(error, memory, blacklisted=True)
            receipt.blacklisted.add(worker)
            self._give_up(worker, receipt.heirs)
        receipt.losses.append(loss)
        self._record.append(loss)
        facts = {"worker": worker, "shards": loss.shards, "kind": loss.kind, "exitcode": loss.exitcode}
        note("warning", "pool", f"lost {loss}", **facts)
        if loss.blacklisted:
            note("error", "pool", f"worker {worker} was lost {self.failures[worker]} times and is given up", **facts)
        if worker not in self.blacklist and hasattr(self.inner, "spawn"):
            try:
                self.inner.spawn([worker])
            except HandleClosed:
                raise
            except RuntimeError:  # told by the round if nobody else is left
                return
            self.unborn.add(worker)

    def altered(self, loss: Loss, receipt: RoundReceipt) -> None:
        """Note a reply that did not arrive as it was sent; nobody is to blame for it."""
        receipt.losses.append(loss)
        self._record.append(loss)
        note("warning", "pool", f"lost a reply of {loss}", worker=loss.worker, shards=loss.shards, kind=loss.kind)

    def _give_up(self, worker: int, takers: Mapping[int, int]) -> None:
        """Let a rank go; its shards move to those who compute them now, or else by load."""
        self.blacklist.add(worker)
        self.unborn.discard(worker)
        owner = getattr(self.inner, "owner", None)
        others = set(self.inner.workers()) - self.blacklist if owner is not None else set()  # type: ignore[attr-defined]
        heirs = (self.up & others) or others
        if owner is None or not heirs:
            return
        homes = self.residence()
        taken = {shard: takers[shard] for shard in homes.get(worker, ()) if takers.get(shard) in heirs}
        for shard, heir in taken.items():
            self.inner.move(shard, heir)  # type: ignore[attr-defined]
            homes.setdefault(heir, []).append(shard)
        rest = [shard for shard in homes.get(worker, ()) if shard not in taken]
        loads = {heir: float(sum(self.sizes.get(s, 1) for s in homes.get(heir, ()))) for heir in sorted(heirs)}
        for heir, shards in spread(rest, self.sizes, loads).items():
            for shard in shards:
                self.inner.move(shard, heir)  # type: ignore[attr-defined]
        self.inner.retire(worker)  # type: ignore[attr-defined]

    def welcome(self) -> None:
        """Let workers that have been started again encode their shards."""
        if not self.unborn:
            return
        born = sorted(self.unborn.intersection(self.inner.live()))  # type: ignore[attr-defined]
        self.unborn.difference_update(born)
        self.up.update(born)
        for worker in born:
            note("info", "pool", f"worker {worker} was started again", worker=worker)
        if hasattr(self.inner, "begin"):
            homes = self.residence()
            own = {worker: homes[worker] for worker in born if worker in homes}
            if own:
                self._encoding.append(open_exchange(self.inner, None, own))

    def revive(self, orphans: Sequence[int], receipt: RoundReceipt) -> None:
        """Start every rank that may be started, since nobody is left.

        Raises
        ------
        RoundLosses
            If there is none.
        """
        ranks = sorted(set(getattr(self.inner, "workers", list)()) - self.blacklist)
        if not ranks or not hasattr(self.inner, "start"):
            raise self._nobody(f"no surviving worker available to recover shard {min(orphans)}.", receipt)
        try:
            self.inner.start(ranks)
        except HandleClosed:
            raise
        except RuntimeError as error:
            text = f"no surviving worker available to recover shard {min(orphans)}."
            raise self._nobody(text, receipt) from error
        self.unborn.difference_update(ranks)
        self.up.update(ranks)

    def _nobody(self, text: str, receipt: RoundReceipt | None = None) -> RoundLosses:
        return nobody_left(text, self.max_retries, self._record if receipt is None else receipt.losses)

    # Slow workers

    def late_work(self) -> dict[int, list[int]]:
        """Return the shards of earlier rounds that workers are still busy with."""
        work: dict[int, list[int]] = {}
        for late in self.late:
            for worker, shards in late.owed.items():
                work.setdefault(worker, []).extend(shards)
        return work

    def poll_late(self, receipt: RoundReceipt) -> None:
        """Compare the replies that came late with those that were used."""
        for late in list(self.late):
            differences, gone = late.poll()
            self.differences += differences
            for one in gone:
                self.up.discard(one.worker)
                receipt.failed.add(one.worker)
                self.settle(one, receipt)
            if not late.owed:
                self.late.remove(late)

    def wait(self, seconds: float) -> None:
        """Let events come in."""
        if hasattr(self.inner, "live"):
            self.inner.live()
        time.sleep(min(seconds, 0.001))


def check_retries(value: Any) -> int:
    """Return `max_retries` as an int ≥ 1."""
    if isinstance(value, bool):
        raise TypeError(f"max_retries must be an integer, not {value!r}")
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"max_retries must be an integer, not {value!r}") from None
    if count < 1:
        raise BackendError("max_retries must be at least 1.")
    return count
