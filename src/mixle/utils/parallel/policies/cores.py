"""Physical cores: which processors share one, and which a worker is bound to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Pins", "assign_cores", "bind", "elsewhere", "physical_cores"]

TOPOLOGY = Path("/sys/devices/system/cpu")


def physical_cores(usable: Iterable[int] | None = None, root: Path = TOPOLOGY) -> list[tuple[int, ...]]:
    """Return the usable processors of each physical core, in the order of their first one.

    Parameters
    ----------
    usable : iterable of int, optional
        Processors to look at; those that this process may use if not given.
    root : Path
        Where the system tells its topology. A processor that it does not tell of is a core of its own.
    """
    if usable is None:
        usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    own = set(usable)
    cores: set[tuple[int, ...]] = set()
    for cpu in sorted(own):
        try:
            text = (root / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
            siblings = own & _listed(text)
        except (OSError, ValueError):
            siblings = set()
        cores.add(tuple(sorted(siblings | {cpu})))
    return sorted(cores)


def _listed(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def assign_cores(workers: Iterable[int], cores: Sequence[tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Return the processors of each worker: cores in turn, so that no two workers share one while there are enough.

    Examples
    --------
    >>> assign_cores([0, 1, 2], [(0, 4), (1, 5)])
    {0: (0, 4), 1: (1, 5), 2: (0, 4)}
    """
    return {worker: cores[place % len(cores)] for place, worker in enumerate(sorted(workers))} if cores else {}


def elsewhere(candidates: Sequence[int], barred: Iterable[int], homes: Mapping[int, tuple[int, ...]]) -> list[int]:
    """Return the candidates whose core none of the barred workers is on; all of them if there is none.

    Examples
    --------
    >>> elsewhere([1, 2], [0], {0: (0, 4), 1: (1, 5), 2: (0, 4)}), elsewhere([2], [0], {0: (0, 4), 2: (0, 4)})
    ([1], [2])
    """
    taken = {homes[worker] for worker in barred if worker in homes}
    free = [worker for worker in candidates if homes.get(worker) not in taken]
    return free or list(candidates)


def bind(pid: int, cpus: Iterable[int]) -> bool:
    """Bind a process to processors; return whether the platform allows it."""
    try:
        os.sched_setaffinity(pid, cpus)
    except (AttributeError, OSError):
        return False
    return True


class Pins:
    """Which workers are bound to which core.

    Attributes
    ----------
    cores : dict of int to tuple of int
        Processors of each worker that could be bound.
    """

    def __init__(self) -> None:
        self.cores: dict[int, tuple[int, ...]] = {}
        self._bound: dict[int, int] = {}

    def renew(self, transport: Any) -> None:
        """Bind the workers that were started since the last time; a transport without processes has none."""
        processes = getattr(transport, "processes", None)
        pids = {} if processes is None else {worker: process.pid for worker, process in processes().items()}
        if pids != self._bound:
            wanted = assign_cores(pids, physical_cores())
            self.cores.clear()
            self.cores.update((worker, cpus) for worker, cpus in wanted.items() if bind(pids[worker], cpus))
            self._bound = pids
