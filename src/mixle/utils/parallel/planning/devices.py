"""Places where shards can go: a device, and a collection of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from mixle.stats.refusals import shown
from mixle.utils.parallel.planning.json_text import JsonFile
from mixle.utils.parallel.planning.precision import precision_name

__all__ = ["DeviceSpec", "Resources"]

_GPU_KINDS = frozenset({"cuda", "mps", "gpu"})


def exact_int(value: Any, name: str, least: int | None, *, optional: bool = False) -> int | None:
    """Return `value` as an int of at least `least`, if any; TypeError or ValueError naming `name` otherwise."""
    if value is None and optional:
        return None
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    number = int(value)
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def check_resources(resources: Any) -> Any:
    """Return `resources` if they have devices; TypeError with what to pass otherwise."""
    if isinstance(resources, type) or not hasattr(resources, "devices"):
        raise TypeError(f"resources is {shown(resources)}, no Resources; pass for example Resources.local(2)")
    return resources


@dataclass(frozen=True)
class DeviceSpec:
    """Description of one compute placement target.

    Parameters
    ----------
    name : str
        Unique name, for example ``"cpu:0"``.
    kind : str
        "cpu", "cuda", "mps", "gpu" or a name of your own.
    memory_bytes : int or None
        Memory that shards may use; None is unknown.
    engine : str
        Compute engine; this library runs "numpy".
    throughput : float
        Advisory speed relative to the other devices, above 0.
    precision : str or None
        Precision that the device is planned with.
    node_id, local_rank, global_rank : optional
        Where a launcher placed it.

    Raises
    ------
    ValueError
        For an empty name, a throughput that is not finite and positive, memory below one byte, a negative rank.

    Examples
    --------
    >>> DeviceSpec("cuda:0", kind="cuda", throughput=10.0).is_gpu
    True
    """

    name: str
    kind: str = "cpu"
    memory_bytes: int | None = None
    engine: str = "numpy"
    throughput: float = 1.0
    precision: str | None = None
    node_id: str | None = None
    local_rank: int | None = None
    global_rank: int | None = None

    def __post_init__(self) -> None:
        if not str(self.name).strip():
            raise ValueError(f"name of a device must be a non-empty string, not {self.name!r}")
        exact_int(self.memory_bytes, "memory_bytes", 1, optional=True)
        if isinstance(self.throughput, bool) or not isinstance(self.throughput, (int, float)):
            object.__setattr__(self, "throughput", _number(self.throughput))
        if not (math.isfinite(self.throughput) and self.throughput > 0.0):
            raise ValueError(f"throughput of {self.name!r} must be finite and positive, got {self.throughput!r}")
        for rank in ("local_rank", "global_rank"):
            exact_int(getattr(self, rank), rank, 0, optional=True)
        if self.precision is not None:
            object.__setattr__(self, "precision", precision_name(self.precision))

    @property
    def is_gpu(self) -> bool:
        """Return true for CUDA/MPS/GPU-like devices."""
        return self.kind.lower() in _GPU_KINDS

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable device description."""
        return asdict(self)

    @classmethod
    def from_dict(cls, payload: dict[str, Any]) -> Self:
        """Build a device description from `to_dict` output; keys of later versions are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in payload.items() if key in known})


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(f"throughput must be a number, not {value!r}")
    return float(value)


@dataclass(frozen=True)
class Resources(JsonFile):
    """A collection of placement targets.

    Parameters
    ----------
    devices : iterable of DeviceSpec
        At least one, with unique names; kept as a tuple.

    Raises
    ------
    ValueError
        Without a device, or if two share a name.

    Examples
    --------
    >>> [device.name for device in Resources.local(2).devices]
    ['cpu:0', 'cpu:1']
    """

    devices: tuple[DeviceSpec, ...]

    def __post_init__(self) -> None:
        given = self.devices if isinstance(self.devices, Iterable) else (self.devices,)
        devices = tuple(given)
        wrong = next((device for device in devices if not isinstance(device, DeviceSpec)), None)
        if wrong is not None or self.devices is None:
            raise TypeError(f"devices is a tuple of DeviceSpec, as (DeviceSpec('cpu:0'),); it holds {shown(wrong)}")
        object.__setattr__(self, "devices", devices)
        if not devices:
            raise ValueError("Resources needs at least one device, e.g. Resources.single_cpu()")
        names = [device.name for device in devices]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"device names must be unique; given more than once: {', '.join(twice)}")

    @classmethod
    def single_cpu(cls, memory_bytes: int | None = None, throughput: float = 1.0, precision: Any | None = None) -> Self:
        """Return a one-device CPU resource description, named "cpu:0"."""
        return cls((DeviceSpec("cpu:0", "cpu", memory_bytes, "numpy", throughput, precision),))

    @classmethod
    def local(cls, num_cpus: int | None = None, memory_bytes: int | None = None, precision: Any | None = None) -> Self:
        """Return local CPU resources split into logical worker slots "cpu:0", "cpu:1", ....

        Parameters
        ----------
        num_cpus : int, optional
            Number of slots, at least one; by default the processors that this process may use (affinity and container
            limits count).
        memory_bytes : int, optional
            Memory of all slots together; each gets an equal part.
        precision : str, optional
            Precision of the slots.
        """
        from mixle.utils.parallel.planning.discover import usable_cpus

        wanted = exact_int(num_cpus, "num_cpus", None, optional=True)
        count = usable_cpus() if wanted is None else max(1, wanted)
        part = memory_part(memory_bytes, count)
        return cls(tuple(DeviceSpec(f"cpu:{i}", memory_bytes=part, precision=precision) for i in range(count)))

    @classmethod
    def discover(cls, include_torch: bool = True, cpu_workers: int | None = None, precision: Any | None = None) -> Self:
        """Best-effort local resource discovery with no required extras.

        The memory of the CPU slots is what this process may use: the smallest limit of its control groups, Slurm or
        Kubernetes, at most the machine's, in equal parts; no slot has more than the limit of a single process.

        Parameters
        ----------
        include_torch : bool
            Look for CUDA and MPS devices if torch is installed.
        cpu_workers : int, optional
            Number of CPU slots, at least 1; 1 by default.
        precision : str, optional
            Precision of all devices.
        """
        from mixle.utils.parallel.planning.discover import torch_devices
        from mixle.utils.parallel.planning.limits import read_limits

        count, limits = max(1, exact_int(cpu_workers, "cpu_workers", None, optional=True) or 1), read_limits()
        known = [limit for limit in (limits.memory_bytes, _times(limits.process_bytes, count)) if limit is not None]
        cpus = cls.local(count, min(known, default=None), precision).devices
        return cls(cpus + (torch_devices(precision) if include_torch else ()))

    @classmethod
    def from_specs(cls, specs: Iterable[DeviceSpec]) -> Self:
        """Build resources from an iterable of device specifications."""
        return cls(tuple(specs))

    @classmethod
    def from_mpi(
        cls,
        comm: Any | None = None,
        memory_bytes: int | None = None,
        throughput: float = 1.0,
        precision: Any | None = None,
    ) -> Self:
        """Return CPU resource slots "mpi:i" for an MPI world without importing mpi4py.

        Parameters
        ----------
        comm : communicator, optional
            Anything with ``Get_size()``. Without it the launcher's environment variables tell the size, else 1.
        memory_bytes : int, optional
            Memory of all slots together; each gets an equal part.
        throughput : float
            Speed of each slot.
        precision : str, optional
            Precision of each slot.
        """
        from mixle.utils.parallel.planning.discover import mpi_size

        count = mpi_size(comm)
        part = memory_part(memory_bytes, count)
        return cls(
            tuple(
                DeviceSpec(f"mpi:{i}", "cpu", part, "numpy", throughput, precision, global_rank=i) for i in range(count)
            )
        )

    @classmethod
    def from_dask(cls, client: Any, precision: Any | None = None) -> Self:
        """Return a slot "dask:<worker>" for each worker of a dask.distributed-like client, sorted by name.

        Relies only on ``client.scheduler_info()``.
        """
        from mixle.utils.parallel.planning.discover import dask_devices

        return cls(dask_devices(client, precision))

    @classmethod
    def from_spark(cls, spark_context: Any, memory_bytes: int | None = None, precision: Any | None = None) -> Self:
        """Return a CPU slot "spark:i" for each unit of a SparkContext's ``defaultParallelism``.

        They share the memory in equal parts.
        """
        count = max(1, int(getattr(spark_context, "defaultParallelism", 1)))
        part = memory_part(memory_bytes, count)
        return cls(tuple(DeviceSpec(f"spark:{i}", memory_bytes=part, precision=precision) for i in range(count)))

    @classmethod
    def from_torchrun(cls, memory_bytes: int | None = None, precision: Any | None = None) -> Self:
        """Return the slots of a torchrun world from its environment variables, named "torchrun:i" or "cuda:i".

        They share the memory in equal parts.
        """
        from mixle.utils.parallel.planning.discover import torchrun_devices

        return cls(torchrun_devices(memory_bytes, precision))

    def fastest(self) -> DeviceSpec:
        """Return the device with the largest advisory throughput weight, the first one among equals."""
        return max(self.devices, key=lambda device: device.throughput)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable resource description."""
        return {"devices": [device.to_dict() for device in self.devices]}

    @classmethod
    def from_dict(cls, payload: dict[str, Any]) -> Self:
        """Build resources from `to_dict` output; ValueError if it holds no devices."""
        return cls(tuple(DeviceSpec.from_dict(device) for device in payload.get("devices", ())))

    @classmethod
    def load(cls, path: Any) -> Self:
        """Load resources from a JSON file created by `save`."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))


def _times(value: int | None, count: int) -> int | None:
    return None if value is None else value * count


def memory_part(memory_bytes: int | None, count: int) -> int | None:
    """Return the memory of each of `count` slots that share `memory_bytes`."""
    whole = exact_int(memory_bytes, "memory_bytes", 1, optional=True)
    return None if whole is None else max(1, whole // count)
