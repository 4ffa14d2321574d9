"""What every test has in common: nothing is left behind, and hypothesis has no clock."""

import gc
import os

import hypothesis
import pytest

from mixle.testing.leaks import Census

pytest_plugins = ["mixle.testing.plugin"]

hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leave what is collected out of the collections of garbage: it stays, and each walk takes a third of a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def no_process_is_left_behind():
    """Fail a test module that leaves a child process running."""
    census = Census(kinds=["process"])
    yield
    census.check()
