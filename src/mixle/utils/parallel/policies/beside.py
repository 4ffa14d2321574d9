"""A round with second computations beside it: who has done its own part goes on with another worker's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixle.errors import RoundLosses
from mixle.utils.parallel.policies.base import Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.folding.transport import Transport

__all__ = ["beside"]


def beside(transport: Transport, task: Task, seconds: Mapping[int, Sequence[int]]) -> Iterator[Result]:
    """Run `task` on every shard and, without waiting in between, a second time on chosen shards on chosen workers.

    Where the transport cannot do that, nothing is done a second time.

    Parameters
    ----------
    transport : Transport
        Who works.
    task : Task
        What to do.
    seconds : mapping of int to sequence of int
        Shards by worker. Their results come last and have ``receipt["second"]``; what was lost of them is missing.

    Raises
    ------
    RoundLosses
        As `Transport.map` does.
    """
    if not seconds:
        return transport.map(task)
    # looked for on the type: a policy in between must not be passed over
    if hasattr(type(transport), "map_beside"):
        results: Iterator[Result] = transport.map_beside(task, seconds)  # type: ignore[attr-defined] # looked for above
        return results
    dispatch = None if isinstance(transport, Policy) else getattr(transport, "dispatch", None)
    return transport.map(task) if dispatch is None else _both(transport.map(task), dispatch(task, seconds))


def _both(first: Iterable[Result], second: Any) -> Iterator[Result]:
    yield from first
    try:
        for result in second:
            result.receipt["second"] = True
            yield result
    except RoundLosses:  # told again by the next round, if it still matters there
        return
