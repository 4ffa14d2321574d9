"""Limits of processors and memory in layouts that differ in kind, written from the kernel's documentation."""

import resource
import subprocess
import sys

import pytest

from mixle.utils.parallel.planner import Resources
from mixle.utils.parallel.planning import limits
from mixle.utils.parallel.planning.limits import Limits, quantity, read_limits

GIB = 2**30
MACHINE = {"proc/meminfo": "MemTotal:       16777216 kB\nMemFree: 1 kB\n"}  # 16 GiB
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def v1(*controllers, root="/"):
    """Mount lines of the first layout; controllers joined by a comma share a mount."""
    return "".join(
        f"{40 + i} 30 0:{30 + i} {root} /sys/fs/cgroup/{name} rw shared:{i} - cgroup cgroup rw,{name}\n"
        for i, name in enumerate(controllers)
    )


LAYOUTS = {
    "a container of the second layout in its own namespace": (
        {
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/memory.max": f"{GIB}\n",
            "sys/fs/cgroup/memory.high": "max\n",
        },
        {}, 8, (2, GIB),
    ),
    "a container of the first layout that sees the host's path": (
        {
            "proc/self/cgroup": "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n3:cpuset:/docker/abc\n",
            "proc/self/mountinfo": v1("memory", "cpu,cpuacct", "cpuset", root="/docker/abc"),
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{3 * GIB}\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpuset/cpuset.cpus": "0-7\n",
        },
        {}, 8, (3, 3 * GIB),
    ),
    "a nested systemd slice whose ancestor is limited": (
        {
            "proc/self/cgroup": "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-7.scope\n",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user.slice/user-1000.slice/cpu.max": "200000 100000\n",
            "sys/fs/cgroup/user.slice/user-1000.slice/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/memory.high": f"{2 * GIB}\n",
            "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-7.scope/memory.max": "max\n",
            "sys/fs/cgroup/system.slice/memory.max": "1\n",
        },
        {}, 8, (2, 2 * GIB),
    ),
    "a hybrid: controllers in the first layout, an empty second one": (
        {
            "proc/self/cgroup": "4:memory:/jobs/a\n1:name=systemd:/x\n2:cpu:/\n0::/init.scope\n",
            "proc/self/mountinfo": v1("memory", "cpu", "name=systemd")
            + "60 30 0:60 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/memory/jobs/a/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes": f"{5 * GIB}\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        {}, 6, (6, 5 * GIB),
    ),
    "an empty cpu.max beside a set of processors": (
        {
            "proc/self/cgroup": "0::/queue\n",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/queue/cpu.max": "",
            "sys/fs/cgroup/queue/memory.max": "",
            "sys/fs/cgroup/queue/cpuset.cpus.effective": "0-1,4\n",
        },
        {}, 8, (3, 16 * GIB),
    ),
    "a pod whose path lies outside its namespace, with limits in variables": (
        {
            "proc/self/cgroup": "0::/../../kubepods-besteffort.slice/cri-x.scope\n",
            "proc/self/mountinfo": "30 23 0:26 /.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            "sys/fs/cgroup/memory.max": f"{8 * GIB}\n",
        },
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "MY_CPU_LIMIT": "2500m", "MY_MEM_LIMIT": "6Gi"}, 8, (3, 6 * GIB),
    ),
    "a Slurm task": (
        {},
        {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "4", "SLURM_CPUS_ON_NODE": "8", "SLURM_MEM_PER_CPU": "1024"},
        8, (4, 8 * GIB),
    ),
    "a bare machine and an affinity mask": ({}, {"SLURM_MEM_PER_NODE": "1"}, 3, (3, 16 * GIB)),
    "a Slurm job that has the node's memory": (
        {},
        {"SLURM_JOB_ID": "7", "SLURM_JOB_CPUS_PER_NODE": "6(x2)", "SLURM_MEM_PER_NODE": "0"}, 8, (6, 16 * GIB),
    ),
    "limits of the first layout that only memory.stat shows": (
        {
            "proc/self/cgroup": "4:memory:/a\n3:cpuset:/a\n",
            "proc/self/mountinfo": v1("memory", "cpuset"),
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/a/memory.stat": f"cache 0\nhierarchical_memory_limit {7 * GIB}\n",
            "sys/fs/cgroup/cpuset/a/cpuset.effective_cpus": "5\n",
        },
        {}, 8, (1, 7 * GIB),
    ),
}  # fmt: skip


def lay(root, files):
    for name, text in (MACHINE | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_its_limits(tmp_path, name):
    files, environ, affinity, (cpus, memory) = LAYOUTS[name]
    lay(tmp_path, files)
    found = read_limits(tmp_path, environ, affinity, {})
    assert (found.cpus, found.memory_bytes) == (cpus, memory), found.sources


@pytest.mark.parametrize(
    "text", ["", "max", "max 100000", "x y", "0 0", "100000 0", "-1 100000", "nan 1", "100000\n", "1 2 3"]
)
def test_no_text_of_a_quota_breaks_the_reader(tmp_path, text):
    files = {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": V2, "sys/fs/cgroup/cpu.max": text}
    lay(tmp_path, files)
    assert 1 <= read_limits(tmp_path, {}, 8, {}).cpus <= 8


@pytest.mark.parametrize("text", ["garbage", "0::\n::::\n9:x\n", "\x00\xff", "0::/a:b:c\n"])
def test_foreign_proc_files_are_no_limits(tmp_path, text):
    lay(tmp_path, {"proc/self/mountinfo": V2 + "short\n - \n"})
    (tmp_path / "proc/self/cgroup").write_text(text, encoding="latin-1")
    assert read_limits(tmp_path, {}, 4, {}).cpus == 4


def test_without_any_file_the_mask_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_physical", lambda _: None)
    assert read_limits(tmp_path, {}, 5, {}) == Limits(5, None, None, {"cpus: affinity": 5.0})


def test_the_limit_of_a_single_process_is_told_apart(tmp_path):
    lay(tmp_path, {})
    found = read_limits(tmp_path, {}, 2, {"AS": 3 * GIB, "DATA": 4 * GIB})
    assert (found.memory_bytes, found.process_bytes) == (16 * GIB, 3 * GIB)


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2.0), ("500m", 0.5), ("1Ki", 1024.0), ("1k", 1000.0), ("16GB", 16e9), ("1e9", 1e9), ("1.5Gi", 1.5 * GIB)],
)
def test_quantities(text, value):
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "x", "-1", "1Zi", "0", "1 2", "nan"])
def test_what_is_no_quantity(text):
    assert quantity(text) is None


def test_discovery_has_the_memory_of_this_process(monkeypatch):
    monkeypatch.setattr(limits, "read_limits", lambda: Limits(4, 8 * GIB, 3 * GIB))
    one = Resources.discover(include_torch=False)
    assert [device.memory_bytes for device in one.devices] == [3 * GIB]
    four = Resources.discover(include_torch=False, cpu_workers=4)
    assert [device.memory_bytes for device in four.devices] == [2 * GIB] * 4
    assert len(Resources.local().devices) == 4  # pools size themselves by the same number


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux")
def test_a_real_limit_of_this_system_is_seen():
    code = "from mixle.utils.parallel.planning.limits import read_limits as r; print(r().process_bytes, r().cpus)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (6 * GIB, 6 * GIB)),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    seen, cpus = done.stdout.split()
    assert int(seen) <= 6 * GIB
    assert int(cpus) == read_limits().cpus
