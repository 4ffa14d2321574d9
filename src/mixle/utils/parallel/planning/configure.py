"""Where a fit should run: backend, workers, shards and pieces, chosen by the seconds that are predicted for a round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from mixle.utils.parallel.planning.devices import Resources, exact_int
from mixle.utils.parallel.planning.discover import usable_cpus
from mixle.utils.parallel.planning.forecast import Footprint, forecast
from mixle.utils.parallel.planning.pace import Costs, RoundTime

__all__ = ["OBJECTIVES", "Configuration", "configure"]

OBJECTIVES = ("time", "cpu")
#: Of configurations that are this near to the best by the objective, the best by the other one is taken.
NEAR = 1.02
#: Shards per worker, and pieces per shard, that are looked at.
SHARES, PIECES = (1, 2, 4, 8), (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Configuration:
    """Where a fit runs, and what is expected of it.

    Attributes
    ----------
    backend : {"local", "threads", "mp"}
        This process alone, threads of it, or worker processes.
    workers, num_shards, sub_chunks : int
        Threads or processes; shards; encoded pieces per shard.
    round_time : RoundTime
        Seconds of a round.
    memory_bytes : int or None
        Bound of the peak memory of a worker; None if no footprint was given.
    """

    backend: str
    workers: int
    num_shards: int
    sub_chunks: int
    round_time: RoundTime
    memory_bytes: int | None = None

    def options(self) -> dict[str, Any]:
        """Return the keywords of `encoded_data`.

        Examples
        --------
        >>> Configuration("mp", 4, 8, 1, RoundTime(1.0, 4.0, 1.0)).options()
        {'num_chunks': 8, 'sub_chunks': 1, 'backend': 'mp', 'num_workers': 4}
        """
        split: dict[str, Any] = {"num_chunks": self.num_shards, "sub_chunks": self.sub_chunks}
        if self.backend == "mp":
            return split | {"backend": "mp", "num_workers": self.workers}
        return split | ({"chunk_workers": self.workers} if self.backend == "threads" else {})


def configure(
    total_rows: int,
    costs: Costs,
    resources: Resources | None = None,
    *,
    num_shards: int | None = None,
    footprint: Footprint | None = None,
    objective: str = "time",
) -> Configuration:
    """Return the configuration whose rounds should be done first, or take the least processor time.

    All numbers of workers up to one per device are looked at, on every backend that `costs` knows; threads live in this
    process, and are never more than its processors. Where two differ by no more than 2 % in the objective, the one that
    is better in the other is taken.

    Parameters
    ----------
    total_rows : int
        Rows to fit.
    costs : Costs
        From `measure_costs`.
    resources : Resources, optional
        Devices, one per worker at most, each with its memory; one per usable processor by default.
    num_shards : int, optional
        Shards, if they are not to be chosen: bits depend on them.
    footprint : Footprint, optional
        From `measure_footprint`: then what does not fit the memory of the devices is not chosen.
    objective : {"time", "cpu"}
        Seconds of the driver and the busiest worker, or processor seconds of all.

    Returns
    -------
    Configuration

    Raises
    ------
    ValueError
        For an unknown objective, or if nothing fits.

    Examples
    --------
    >>> from mixle.utils.parallel.planning.pace import Overhead, Pace
    >>> pace = Pace(1e-7, 0.0, 5e-4, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    >>> costs = Costs(pace, {"local": Overhead(), "mp": Overhead(1e-3, 1e-4, 1e-4, 5e-4, 0.0)})
    >>> four = Resources.local(4)
    >>> [(c.backend, c.workers) for c in (configure(n, costs, four) for n in (1000, 10_000_000))]
    [('local', 1), ('mp', 4)]
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective is {' or '.join(map(repr, OBJECTIVES))}, not {objective!r}")
    rows = exact_int(total_rows, "total_rows", 1) or 1
    fixed = exact_int(num_shards, "num_shards", 1, optional=True)
    resources = Resources.local() if resources is None else resources
    memory = [device.memory_bytes for device in resources.devices if device.memory_bytes is not None]
    found = [
        choice
        for choice in _choices(rows, costs, len(resources.devices), fixed, footprint)
        if choice.memory_bytes is None or not memory or choice.memory_bytes <= _room(choice.backend, memory)
    ]
    if not found:
        raise ValueError(
            f"{rows} rows fit on none of {len(resources.devices)} devices of {min(memory)} bytes: give more devices or "
            "more memory each; plan(total_rows=..., encoded_row_bytes=..., resources=...) says how many"
        )
    keys = (_seconds, _processor) if objective == "time" else (_processor, _seconds)
    limit = min(map(keys[0], found)) * NEAR
    return min((choice for choice in found if keys[0](choice) <= limit), key=keys[1])


def _seconds(choice: Configuration) -> float:
    return choice.round_time.seconds


def _processor(choice: Configuration) -> float:
    return choice.round_time.cpu_seconds


def _room(backend: str, memory: list[int]) -> int:
    """Return the bytes that a process may take: workers have a device each, threads live in one process."""
    return min(memory) if backend == "mp" else sum(memory)


def _choices(
    rows: int, costs: Costs, most: int, fixed: int | None, footprint: Footprint | None
) -> Iterator[Configuration]:
    cuts = (1,) if footprint is None else PIECES  # more pieces save nothing but memory
    for backend in costs.overheads:
        crews = {"local": range(1, 2), "threads": range(2, min(most, rows, usable_cpus()) + 1)}
        for workers in crews.get(backend, range(1, min(most, rows) + 1)):
            shares = SHARES if fixed is None else (1,)
            counts = dict.fromkeys(min(rows, fixed or share * workers) for share in shares)
            for shards, pieces in product(counts, cuts):
                told = costs.round(rows, backend=backend, workers=workers, num_shards=shards, sub_chunks=pieces)
                bound = None
                if footprint is not None:
                    processes = workers if backend == "mp" else 1
                    held = forecast(footprint, rows, processes, num_shards=shards, sub_chunks=pieces)
                    bound = held.bound_bytes
                yield Configuration(backend, workers, shards, pieces, told, bound)
