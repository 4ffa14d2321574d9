"""What the machine, or a launcher's environment, says about places to work. Nothing here imports a framework."""

from __future__ import annotations

import os
import sys
from typing import Any

from mixle.stats.refusals import shown
from mixle.utils.parallel.planning.devices import DeviceSpec, memory_part

__all__ = ["count_workers", "dask_devices", "mpi_size", "torch_devices", "torchrun_devices", "usable_cpus"]

_MPI_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS")


def usable_cpus() -> int:
    """Return the processors that this process may use: affinity, control groups, Slurm and Kubernetes count.

    Examples
    --------
    >>> usable_cpus() >= 1
    True
    """
    from mixle.utils.parallel.planning.limits import read_limits

    return read_limits().cpus


def mpi_size(comm: Any | None) -> int:
    """Return the size of an MPI world: the communicator's, else what the launcher's environment says, else 1."""
    if comm is not None:
        return max(1, int(comm.Get_size()))
    return next((size for size in map(_environment_int, _MPI_SIZES) if size), 1)


def _environment_int(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    return int(text) if text.isdigit() else None


def dask_devices(client: Any, precision: Any | None) -> tuple[DeviceSpec, ...]:
    """Return a device for each worker that ``client.scheduler_info()`` lists, sorted by name."""
    try:
        found = client.scheduler_info(n_workers=-1)  # some versions list five workers if not asked for all
    except TypeError:
        found = client.scheduler_info()
    workers = found.get("workers", {})
    devices = []
    for address, facts in sorted(workers.items(), key=lambda item: str(item[1].get("name", item[0]))):
        memory = int(facts.get("memory_limit") or 0) or None
        speed = float(max(1, int(facts.get("nthreads") or 1)))
        name = f"dask:{facts.get('name', address)}"
        devices.append(DeviceSpec(name, memory_bytes=memory, throughput=speed, precision=precision))
    return tuple(devices)


def torch_devices(precision: Any | None) -> tuple[DeviceSpec, ...]:
    """Return the accelerators that an installed torch reports; none if it is absent or fails."""
    import importlib.util

    if "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
        return ()
    try:
        torch = importlib.import_module("torch")
        found = []
        for i in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
            memory = int(torch.cuda.get_device_properties(i).total_memory)
            found.append(DeviceSpec(f"cuda:{i}", "cuda", memory, "torch", 10.0, precision))
        if torch.backends.mps.is_available():
            found.append(DeviceSpec("mps:0", "mps", None, "torch", 3.0, precision))
    except Exception:  # noqa: BLE001 - discovery is best effort: a broken driver is no device
        return ()
    return tuple(found)


def torchrun_devices(memory_bytes: int | None, precision: Any | None) -> tuple[DeviceSpec, ...]:
    """Return one device per rank of the torchrun world that the environment describes."""
    world = _environment_int("WORLD_SIZE") or 1
    local = _environment_int("LOCAL_WORLD_SIZE") or world
    torch = sys.modules.get("torch")
    cuda = torch is not None and bool(torch.cuda.is_available())
    part = memory_part(memory_bytes, world)
    prefix, kind, engine = ("cuda", "cuda", "torch") if cuda else ("torchrun", "cpu", "numpy")
    return tuple(
        DeviceSpec(
            f"{prefix}:{rank}",
            kind,
            part,
            engine,
            precision=precision,
            node_id=str(rank // local),
            local_rank=rank % local,
            global_rank=rank,
        )
        for rank in range(world)
    )


#: A machine starts no more processes than this without harm: a larger number is a mistake.
_MOST_WORKERS = 4096


def count_workers(wanted: Any, rows: int) -> int:
    """Return the number of worker processes, clipped to 1 ... `rows`; as many as there are cores for None.

    Raises
    ------
    TypeError
        For what is no whole number.
    ValueError
        For more processes than a machine starts.
    """
    if wanted is None:
        return max(1, min(usable_cpus(), rows))
    if isinstance(wanted, bool) or not hasattr(type(wanted), "__index__"):
        raise TypeError(f"num_workers must be a number of processes, not {shown(wanted)}; pass e.g. num_workers=2")
    if min(int(wanted), rows) > _MOST_WORKERS:
        raise ValueError(
            f"num_workers={shown(wanted)} is more than the {_MOST_WORKERS} processes of a pool; pass about as many as "
            f"there are cores, here num_workers={usable_cpus()}, and num_shards= for finer shards"
        )
    return max(1, min(int(wanted), rows))
