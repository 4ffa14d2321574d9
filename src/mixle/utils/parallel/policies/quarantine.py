"""Retire a worker that was found to corrupt numbers: its shards are worked on elsewhere first, then it goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mixle._log import note
from mixle.errors import RoundLosses, WorkerLost
from mixle.utils.parallel.policies.assignment import spread

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.folding.transport import Transport

__all__ = ["gather", "live_workers", "retire", "worker_of"]

VERBS = ("owner", "move", "retire")


def live_workers(transport: Transport) -> list[int]:
    """Return the workers that may be given work, ascending; one that has just died will be started again."""
    workers = getattr(transport, "workers", None)
    if workers is None:
        return [0]
    blacklist: set[int] = getattr(transport, "blacklist", set())
    return sorted(set(workers()) - blacklist)


def worker_of(result: Result, transport: Transport) -> int:
    """Return who made a result."""
    worker = result.receipt.get("worker")
    if worker is None:
        owner: Mapping[int, int] = getattr(transport, "owner", None) or {}
        worker = owner.get(result.shard, 0)
    return int(worker)


def gather(transport: Transport, task: Task, assignment: Mapping[int, Sequence[int]]) -> dict[int, Result]:
    """Return the results of chosen shards on chosen workers, by shard; what was lost on the way is missing."""
    found: dict[int, Result] = {}
    dispatch = getattr(transport, "dispatch", None)
    if dispatch is not None:
        try:
            for result in dispatch(task, assignment):
                found[result.shard] = result
        except RoundLosses:  # told again by the next round, if it still matters there
            pass
        return found
    for worker, shards in assignment.items():
        for shard in shards:
            try:
                found[shard] = transport.run(task, shard, worker)  # type: ignore[attr-defined] # asked for by the policy
            except (RoundLosses, WorkerLost):
                break
    return found


def retire(
    transport: Transport, task: Task, suspect: int, survivors: Iterable[int], delivered: Iterable[int]
) -> tuple[str, dict[int, Result]]:
    """Take everything from a suspect, and only then let it go.

    Every shard that lives with the suspect or was delivered by it in this round is computed by survivors first. If all
    of that works, the shards move and the worker is ended for good; otherwise nothing changes.

    Parameters
    ----------
    transport : Transport
        Whose worker it is.
    task : Task
        The E-step of this round.
    suspect : int
        The worker.
    survivors : iterable of int
        Workers that are trusted.
    delivered : iterable of int
        Shards whose payload came from the suspect in this round.

    Returns
    -------
    status : str
        "committed", "not_needed", or "deferred:" and the reason.
    results : dict of int to Result
        The survivors' results by shard, if it was committed.
    """
    status, results = _retired(transport, task, suspect, survivors, delivered)
    done = "is retired" if status == "committed" else f"is suspected and stays: {status}"
    note("warning", "audit", f"worker {suspect} {done}", worker=suspect, status=status)
    return status, results


def _retired(
    transport: Transport, task: Task, suspect: int, survivors: Iterable[int], delivered: Iterable[int]
) -> tuple[str, dict[int, Result]]:
    if suspect not in live_workers(transport):
        return "not_needed", {}
    heirs = sorted(set(survivors) - {suspect})
    if not heirs:
        return "deferred:no_safe_survivor", {}
    if not all(hasattr(transport, verb) for verb in VERBS):
        return "deferred:ambiguous_shard_ownership", {}
    owner: Mapping[int, int] = transport.owner  # type: ignore[attr-defined] # looked for above
    if set(owner) != set(transport.sizes):
        return "deferred:ambiguous_shard_ownership", {}
    held = {shard for shard, worker in owner.items() if worker == suspect}
    loads = {heir: float(sum(transport.sizes[s] for s, w in owner.items() if w == heir)) for heir in heirs}
    placement = spread({*held, *delivered}, transport.sizes, loads)
    staged = gather(transport, task, placement)
    wanted = {shard for shards in placement.values() for shard in shards}
    sound = [s for s, r in staged.items() if r.error is None and worker_of(r, transport) in heirs]
    if wanted != set(sound):
        return "deferred:staging_failed", {}
    _commit(
        transport, suspect, {shard: heir for heir, shards in placement.items() for shard in shards if shard in held}
    )
    return "committed", staged


def _commit(transport: Any, suspect: int, moves: Mapping[int, int]) -> None:
    """Move the shards, end the worker, and let the retry policy know that it does not come back."""
    able = set(live_workers(transport)) - {suspect}
    for shard, heir in sorted(moves.items()):
        transport.move(shard, heir if heir in able else min(able))
    transport.retire(suspect)
    failures = getattr(transport, "failures", None)
    if failures is not None:
        failures[suspect] = transport.max_retries
        transport.blacklist.add(suspect)
        transport.up.discard(suspect)
        transport.unborn.discard(suspect)
