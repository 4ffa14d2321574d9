"""Workers come and go between rounds; shards move, bits stay."""

from __future__ import annotations

import operator
from typing import Any

from mixle.errors import BackendError
from mixle.utils.parallel.folding.refusals import check_worker
from mixle.utils.parallel.policies.assignment import level
from mixle.utils.parallel.policies.base import Policy

__all__ = ["Elastic"]


class Elastic(Policy):
    """A policy that can open and end workers of its transport.

    Attributes
    ----------
    blacklist : set of int
        Ranks that were given up: they neither count nor get shards.
    up, unborn : set of int
        Ranks that may be given work, and those that are being started.
    """

    blacklist: set[int]
    up: set[int]
    unborn: set[int]

    def residence(self) -> dict[int, list[int]]:
        """Return the shards of each worker."""
        homes: dict[int, list[int]] = {}
        owner = getattr(self.inner, "owner", None)
        for shard in sorted(self.sizes):
            homes.setdefault(0 if owner is None else owner[shard], []).append(shard)
        return homes

    def add_worker(self) -> int:
        """Open one more worker, level the rows, and return its id. Bits do not change."""
        worker: int = self._able("grow")()
        self._level()
        self._leave_the_lost()
        return worker

    def remove_worker(self, worker: int | None = None) -> int:
        """End a worker (the one with the fewest rows if none is named), its shards move to others; return its id.

        Raises
        ------
        BackendError
            If there is no such worker, or it is the last one.
        """
        able = sorted(set(self._able("workers")()) - self.blacklist)
        if worker is None:
            homes = self.residence()
            worker = min(able, key=lambda w: (sum(self.sizes[s] for s in homes.get(w, ())), -w))
        check_worker(worker, able)
        if able == [worker]:
            raise BackendError(f"worker {worker} is the last one: add_worker() first, or close()")
        self._level(without=worker)
        self.inner.retire(worker)  # type: ignore[attr-defined]
        self.up.discard(worker)
        self.unborn.discard(worker)
        return worker

    def resize(self, workers: int) -> None:
        """Open or end workers until there are `workers`.

        Raises
        ------
        ValueError
            If `workers` is below 1.
        """
        if isinstance(workers, bool) or operator.index(workers) < 1:
            raise BackendError(f"a pool has at least 1 worker, not {workers!r}")
        while (count := len(set(self._able("workers")()) - self.blacklist)) != workers:
            if count < workers:
                self.add_worker()
            else:
                self.remove_worker()

    def _able(self, verb: str) -> Any:
        found = getattr(self.inner, verb, None)
        if found is None or not hasattr(self.inner, "retire"):
            raise BackendError(f"{self.inner.name!r} has no workers that can be added or removed; use backend='mp'")
        return found

    def _level(self, without: int | None = None) -> None:
        able = set(self.inner.workers()) - self.blacklist - {without}  # type: ignore[attr-defined]
        for shard, worker in level(self.inner.owner, self.sizes, able).items():  # type: ignore[attr-defined]
            self.inner.move(shard, worker)  # type: ignore[attr-defined]

    def _leave_the_lost(self) -> None:
        """Retire ranks that were given up when nobody was there to take their shards."""
        for worker in sorted(self.blacklist.intersection(self.inner.workers())):  # type: ignore[attr-defined]
            self.inner.retire(worker)  # type: ignore[attr-defined]
