"""Who takes a shard: the least loaded worker, the same one every time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["level", "spread"]


def spread(shards: Iterable[int], sizes: Mapping[int, int], loads: Mapping[int, float]) -> dict[int, list[int]]:
    """Give shards to workers: the largest shard first, each to the worker with the fewest rows before it.

    Parameters
    ----------
    shards : iterable of int
        What is to be done.
    sizes : mapping of int to int
        Rows of each shard.
    loads : mapping of int to float
        Rows that each worker has still to do.

    Returns
    -------
    dict of int to list of int
        Ascending shards by worker. Graham's rule of the longest processing time: at most 4/3 of the optimum.

    Examples
    --------
    >>> spread([4, 5, 6], {4: 10, 5: 10, 6: 10}, {0: 0, 2: 5})
    {0: [4, 6], 2: [5]}
    """
    loads = dict(loads)
    given: dict[int, list[int]] = {}
    for shard in sorted(shards, key=lambda one: (-sizes.get(one, 1), one)):
        worker = min(loads, key=lambda one: (loads[one], one))
        loads[worker] += sizes.get(shard, 1)
        given.setdefault(worker, []).append(shard)
    return {worker: sorted(given[worker]) for worker in sorted(given)}


def level(owner: Mapping[int, int], sizes: Mapping[int, int], workers: Iterable[int]) -> dict[int, int]:
    """Return the moves that level the rows of `workers`, as few as it takes.

    Parameters
    ----------
    owner : mapping of int to int
        Worker of each shard. Shards of a worker that is not among `workers` move in any case.
    sizes : mapping of int to int
        Rows of each shard.
    workers : iterable of int
        Who may hold shards.

    Returns
    -------
    dict of int to int
        New worker of each shard that moves.

    Examples
    --------
    >>> level({0: 0, 1: 0, 2: 0, 3: 1}, dict.fromkeys(range(4), 7), [0, 1, 2])
    {2: 2}
    """
    loads: dict[int, float] = dict.fromkeys(sorted(workers), 0.0)
    where = dict(owner)
    for shard, worker in owner.items():
        if worker in loads:
            loads[worker] += sizes.get(shard, 1)
    for worker, shards in spread([s for s, w in owner.items() if w not in loads], sizes, loads).items():
        for shard in shards:
            where[shard] = worker
            loads[worker] += sizes.get(shard, 1)
    for _ in range(len(owner)):
        least, peak = min(loads, key=lambda w: (loads[w], w)), max(loads.values())
        gap = peak - loads[least]
        fitting = [s for s, w in where.items() if loads[w] == peak and sizes.get(s, 1) < gap]
        if not fitting:
            break
        shard = min(fitting, key=lambda s: (abs(gap - 2 * sizes.get(s, 1)), -s))
        most = where[shard]
        where[shard] = least
        loads[most] -= sizes.get(shard, 1)
        loads[least] += sizes.get(shard, 1)
    return {shard: where[shard] for shard in sorted(where) if where[shard] != owner[shard]}
