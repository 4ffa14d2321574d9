"""A worker that the kernel really kills for memory, in a control group of little memory."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import memory_support
import pytest
from leaks import nothing_hangs_and_nothing_is_left_behind  # noqa: F401 - a fixture

from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.planner import LocalEncodedData

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="control groups of Linux"),
]
LIMIT = 1 << 29


def own_group():
    """Return the folder of this process's memory group and the name of the file with its limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, place = line.split(":", 2)
        if "memory" in kinds.split(","):
            return Path("/sys/fs/cgroup/memory") / place.lstrip("/"), "memory.limit_in_bytes"
    return Path("/sys/fs/cgroup") / place.lstrip("/"), "memory.max"


@pytest.fixture
def group():
    """A group of little memory inside the one of this process, removed afterwards."""
    parent, limit = own_group()
    made = parent / f"mixle-test-{os.getpid()}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    try:
        try:
            (made / limit).write_text(str(LIMIT))
            with contextlib.suppress(OSError):  # else it would be swapped out instead
                (made / "memory.memsw.limit_in_bytes").write_text(str(LIMIT))
                (made / "memory.swap.max").write_text("0")
        except OSError as error:
            pytest.skip(f"the memory of a control group cannot be limited here: {error.strerror}")
        yield made
    finally:
        made.rmdir()


def test_a_worker_that_the_kernel_kills_for_memory_is_told_as_that(group, tmp_path):
    command = [sys.executable, memory_support.__file__, str(group), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses, digests, later = json.loads(done.stdout)
    ((kind, _, exitcode, told),) = losses
    assert (kind, exitcode, later) == ("out of memory", -signal.SIGKILL, 0)
    assert "the kernel killed for memory meanwhile" in told
    estimator = MixtureEstimator([GaussianEstimator()] * 2)
    handle = LocalEncodedData([float(x % 17) for x in range(400)], estimator, num_shards=2, sub_chunks=2)
    models = [handle.pysp_seq_initialize(estimator, 3, 0.5)]
    for _ in range(2):
        models.append(handle.pysp_seq_estimate(estimator, models[-1]))
    assert digests == [model.digest() for model in models]
