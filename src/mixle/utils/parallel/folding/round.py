"""One round: a task over all shards, results in shard order, errors surfaced once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixle.errors import RoundLosses
from mixle.utils.parallel.folding.faults import surface
from mixle.utils.parallel.folding.refusals import undelivered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.folding.transport import Transport

    Watch = Callable[[Callable[[Task], Iterable[Result]], Task], Iterable[Result]]

__all__ = ["run_round"]


def run_round(transport: Transport, task: Task, watch: Watch | None = None, *, groups: bool = False) -> list[Result]:
    """Run `task` on every shard of `transport`.

    Parameters
    ----------
    transport : Transport
        Where the shards live; policies wrap it and look the same.
    task : Task
        What to compute.
    watch : callable, optional
        Called as ``watch(transport.map, task)`` instead of ``transport.map(task)``: `RoundLog.watch`.
    groups : bool
        Let a transport that has ``map_groups`` add up groups of shards in place. Policies want to see each shard's
        own statistic, so it is asked of the transport's class: a verb that a policy hands on does not count.

    Returns
    -------
    list of Result
        One per shard, in shard order.

    Raises
    ------
    TaskError
        For the first shard (in shard order) whose task raised: a RuntimeError that is also of the user's own type.
    RoundLosses
        If workers were lost and no policy recomputed their shards.
    """
    begins = getattr(transport, "round_begins", None)  # of a policy that counts rounds
    if begins is not None:
        begins(task)
    run = getattr(transport, "map_groups" if groups and hasattr(type(transport), "map_groups") else "map")
    arrived: dict[int, Result] = {}
    losses: RoundLosses | None = None
    try:
        for result in run(task) if watch is None else watch(run, task):
            if result.shard in arrived:
                raise RuntimeError(
                    f"transport {transport.name!r} delivered shard {result.shard} twice in one round; "
                    "its map must yield one Result per shard"
                )
            arrived[result.shard] = result
    except RoundLosses as lost:
        losses = lost
    ordered = [arrived[shard] for shard in sorted(arrived)]
    for result in ordered:
        if result.error is not None:
            error = surface(result.error, result.shard, result.receipt.get("worker"))
            if losses is not None:
                error.add_note(f"in the same round: {losses}")
            raise error
    if losses is not None:
        raise losses
    missing = sorted(set(transport.sizes) - set(arrived))
    if missing:
        raise undelivered(transport.name, missing)
    return ordered
