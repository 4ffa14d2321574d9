"""Refusals that several transports and policies share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mixle.errors import BackendError, EmptyDataError

__all__ = ["check_retirable", "check_worker", "no_rows", "undelivered"]


def no_rows(title: str) -> EmptyDataError:
    """Return the error of a handle that is to hold no rows; `title` names it."""
    return EmptyDataError(f"{title} requires non-empty data. Pass at least one row.")


def check_worker(worker: int, workers: Sequence[int], what: str = "worker") -> None:
    """Raise BackendError if `worker` is none of `workers`."""
    if worker not in workers:
        raise BackendError(f"there is no {what} {worker!r}: this pool has {what}s {list(workers)}; name one of them")


def check_retirable(
    worker: int, owner: Mapping[int, int], workers: Sequence[int], what: str = "worker", more: str = "add_worker()"
) -> None:
    """Raise BackendError if shards live with `worker` or it is the last one.

    Parameters
    ----------
    worker : int
        The worker that is to leave.
    owner : mapping
        The worker of each shard.
    workers : sequence of int
        All that are left.
    what : str
        What a worker is called here.
    more : str
        What to do where there is no other.
    """
    held = sorted(shard for shard, place in owner.items() if place == worker)
    if held or list(workers) == [worker]:
        why = f"shards {held} live there: move them first" if held else f"it is the last one; {more} first, or close()"
        raise BackendError(f"{what} {worker} cannot be retired: {why}")


def undelivered(transport: str, shards: Iterable[int]) -> RuntimeError:
    """Return the error of a round that ended without a result or a loss of these shards."""
    return RuntimeError(
        f"transport {transport!r} delivered no result for shards {sorted(shards)}; "
        "its map must yield one Result per shard, or raise RoundLosses"
    )
