"""What this process may use: processors and memory, by whoever limits them.

Control groups are read where the process is, from its own group up to the mount, in both layouts: the smallest limit on
the way counts. Sources: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,cpusets}.rst,
Documentation/scheduler/sched-bwc.rst, proc(5), cgroups(7), getrlimit(2); Slurm, sbatch "OUTPUT ENVIRONMENT VARIABLES";
Kubernetes, "Expose Pod Information to Containers" and "Quantity".
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

__all__ = ["Limits", "read_limits"]

#: A memory limit of the first layout from here on is no limit: the kernel's largest page counter.
NO_LIMIT = 2**62
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_UNITS |= {f"{name}i": 1024**power for power, name in enumerate("KMGTP", start=1)}


@dataclass(frozen=True)
class Limits:
    """Processors and memory that a process may use.

    Attributes
    ----------
    cpus : int
        Whole processors, at least 1; a quota of 1.5 counts as 2.
    memory_bytes : int or None
        Memory of all processes of the group or machine together; None if nothing tells.
    process_bytes : int or None
        Address space of each single process (``RLIMIT_AS``, ``RLIMIT_DATA``).
    sources : dict
        What each limit comes from: name of the source to its value.
    """

    cpus: int
    memory_bytes: int | None
    process_bytes: int | None = None
    sources: dict[str, float] = field(default_factory=dict)


def read_limits(
    root: Any = "/",
    environ: Mapping[str, str] | None = None,
    affinity: int | None = None,
    rlimits: Mapping[str, int] | None = None,
) -> Limits:
    """Return the limits of this process.

    Parameters
    ----------
    root : path
        Folder that holds ``proc`` and the mounts, for tests.
    environ : mapping, optional
        Environment variables; this process' by default.
    affinity : int, optional
        Processors of the affinity mask; this process' by default.
    rlimits : mapping, optional
        ``AS`` and ``DATA`` in bytes; this process' by default.

    Returns
    -------
    Limits

    Examples
    --------
    >>> read_limits().cpus >= 1
    True
    """
    base = Path(root)
    environ = os.environ if environ is None else environ
    cpus: dict[str, float] = {"affinity": float(_affinity() if affinity is None else affinity)}
    memory: dict[str, float] = {}
    for what, where, value in _group_limits(base):
        into = cpus if what == "cpus" else memory
        into[where] = min(value, into.get(where, math.inf))
    _slurm(environ, cpus, memory)
    _kubernetes(environ, cpus, memory)
    total = _physical(base)
    if total is not None:
        memory["machine"] = float(total)
    single = _rlimits() if rlimits is None else rlimits
    sources = {f"cpus: {name}": value for name, value in cpus.items()}
    sources |= {f"memory: {name}": value for name, value in memory.items()}
    return Limits(
        max(1, math.ceil(min(cpus.values()) - 1e-9)),
        int(min(memory.values())) if memory else None,
        min(single.values(), default=None),
        sources,
    )


def _affinity() -> int:
    mask = getattr(os, "sched_getaffinity", None)
    return len(mask(0)) if mask is not None else os.cpu_count() or 1


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _group_limits(base: Path) -> Iterator[tuple[str, str, float]]:
    """Yield ("cpus" or "memory", source, value) of every group that this process is in, and of the groups around it."""
    mounts = list(_mounts(_text(base / "proc/self/mountinfo")))
    for line in _text(base / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        controllers = set(names.split(",")) - {""}
        for mount_root, point, kind, options in mounts:
            second = not controllers
            if kind != ("cgroup2" if second else "cgroup") or (controllers and not controllers & options):
                continue
            for folder in _upwards(base, point, mount_root, path):
                yield from _second_layout(folder) if second else _first_layout(folder, controllers)


def _mounts(text: str) -> Iterator[tuple[str, str, str, set[str]]]:
    """Yield (root, mount point, type, options) of control-group mounts; see proc_pid_mountinfo(5)."""
    for line in text.splitlines():
        before, found, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if found and len(fields) > 4 and kinds[0].startswith("cgroup"):
            options = set(kinds[2].split(",")) if len(kinds) > 2 else set()
            yield _unescaped(fields[3]), _unescaped(fields[4]), kinds[0], options


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _upwards(base: Path, point: str, mount_root: str, path: str) -> Iterator[Path]:
    """Yield the folder of a group and those of its ancestors, as far as the mount shows them."""
    top = base / point.lstrip("/")
    group, root = PurePosixPath(path), PurePosixPath(mount_root)
    inside = group.relative_to(root) if group.is_relative_to(root) and ".." not in group.parts else PurePosixPath()
    for depth in range(len(inside.parts), -1, -1):
        yield top.joinpath(*inside.parts[:depth])


def _second_layout(folder: Path) -> Iterator[tuple[str, str, float]]:
    words = _text(folder / "cpu.max").split()
    if words and words[0] != "max":
        yield from _quota("cgroup v2 cpu.max", words[0], words[1] if len(words) > 1 else "100000")
    for name in ("memory.max", "memory.high"):
        yield from _bytes(f"cgroup v2 {name}", _text(folder / name))
    yield from _set("cgroup v2 cpuset", _text(folder / "cpuset.cpus.effective"))


def _first_layout(folder: Path, controllers: set[str]) -> Iterator[tuple[str, str, float]]:
    if "cpu" in controllers:
        quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        yield from _quota("cgroup v1 cpu quota", quota, period)
    if "memory" in controllers:
        yield from _bytes("cgroup v1 memory", _text(folder / "memory.limit_in_bytes"))
        stat = re.search(r"^hierarchical_memory_limit (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
        yield from _bytes("cgroup v1 memory", stat[1] if stat else "")
    if "cpuset" in controllers:
        cpus = _text(folder / "cpuset.effective_cpus") or _text(folder / "cpuset.cpus")
        yield from _set("cgroup v1 cpuset", cpus)


def _quota(source: str, quota: str, period: str) -> Iterator[tuple[str, str, float]]:
    try:
        share = float(quota) / float(period)
    except (ValueError, ZeroDivisionError):
        return
    if share > 0.0 and math.isfinite(share):
        yield "cpus", source, share


def _bytes(source: str, text: str) -> Iterator[tuple[str, str, float]]:
    if text.isdigit() and 0 < int(text) < NO_LIMIT:
        yield "memory", source, float(text)


def _set(source: str, text: str) -> Iterator[tuple[str, str, float]]:
    """Yield the number of processors of a list such as ``0-3,8``."""
    count = 0
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return
        count += int(last or first) - int(first) + 1
    if count > 0:
        yield "cpus", source, float(count)


def _slurm(environ: Mapping[str, str], cpus: dict[str, float], memory: dict[str, float]) -> None:
    """Take in what Slurm gave this task; its megabytes are 2**20 bytes, 0 means all of the node."""

    def number(name: str) -> int:
        text = re.match(r"\d+", environ.get(name, "").strip())
        return int(text[0]) if text else 0

    if "SLURM_JOB_ID" not in environ:
        return
    task, node = number("SLURM_CPUS_PER_TASK"), number("SLURM_CPUS_ON_NODE") or number("SLURM_JOB_CPUS_PER_NODE")
    if task or node:
        cpus["Slurm"] = float(task or node)
    whole, each = number("SLURM_MEM_PER_NODE"), number("SLURM_MEM_PER_CPU")
    if whole or (each and node):
        memory["Slurm"] = float(whole or each * node) * 2**20
    elif each and task:
        memory["Slurm"] = float(each * task) * 2**20


def _kubernetes(environ: Mapping[str, str], cpus: dict[str, float], memory: dict[str, float]) -> None:
    """Take in limits that a pod's variables carry, under the names that the documentation of Kubernetes uses."""
    if "KUBERNETES_SERVICE_HOST" not in environ:
        return
    for names, into in (
        (("MY_CPU_LIMIT", "CPU_LIMIT", "CPU_LIMITS"), cpus),
        (("MY_MEM_LIMIT", "MEM_LIMIT", "MEMORY_LIMIT", "MEMORY_LIMITS"), memory),
    ):
        found = [value for name in names if (value := quantity(environ.get(name, ""))) is not None]
        if found:
            into["Kubernetes"] = min(found)


def quantity(text: str) -> float | None:
    """Return a quantity as Kubernetes and people write it, None if it is none.

    Examples
    --------
    >>> quantity("500m"), quantity("16G"), quantity("1.5Gi"), quantity("many")
    (0.5, 16000000000.0, 1610612736.0, None)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(m|[kKMGTP]?i?)[bB]?", text.strip())
    if found is None:
        return None
    unit = "k" if found[2] == "K" else found[2]
    if unit == "m":
        return float(found[1]) / 1000.0
    factor = _UNITS.get(unit if unit != "ki" else "Ki")
    value = None if factor is None else float(found[1]) * factor
    return value or None


def _rlimits() -> dict[str, int]:
    """Return the limits of each process' address space."""
    try:
        import resource
    except ImportError:
        return {}
    found = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in ("AS", "DATA")}
    return {name: value for name, value in found.items() if value not in (resource.RLIM_INFINITY, -1)}


def _physical(base: Path) -> int | None:
    """Return the memory of the machine."""
    found = re.search(r"^MemTotal:\s+(\d+) kB$", _text(base / "proc/meminfo"), re.MULTILINE)
    if found:
        return int(found[1]) * 1024
    if sys.platform == "win32":
        return _windows_memory()
    try:
        return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None


def _windows_memory() -> int | None:
    import ctypes

    fields: list[tuple[str, Any]] = [("length", ctypes.c_uint32), ("load", ctypes.c_uint32)]
    fields += [(f"bytes{i}", ctypes.c_uint64) for i in range(7)]
    status = type("Status", (ctypes.Structure,), {"_fields_": fields})()
    status.length = ctypes.sizeof(status)
    kernel: Any = getattr(ctypes, "windll", None)
    asked = kernel is not None and kernel.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return int(status.bytes0) if asked else None
