"""What every test has in common: nothing is left behind, and hypothesis has no clock."""

import gc
import os

import hypothesis
import psutil
import pytest

pytest_plugins = ["mixle.testing.plugin"]

hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True, scope="module")
def no_process_is_left_behind():
    """Fail a test module that leaves a child process running."""
    before = set(psutil.Process().children(recursive=True))
    yield
    gc.collect()
    children = [child for child in psutil.Process().children(recursive=True) if child not in before]
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive, f"processes left behind: {alive}"
