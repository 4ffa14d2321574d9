"""Each engine is started once for all tests of its module; a missing one is an error where it was asked for."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import pytest

PACKAGES = {
    "test_dask.py": ("distributed",),
    "test_larger_than_memory.py": ("distributed", "pyarrow"),
    "test_spark.py": ("pyspark", "pyarrow", "pandas"),
    "test_spark_standalone.py": ("pyspark",),
}
ASKED = os.environ.get("MIXLE_ENGINES") == "required"

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def lacking(name):
    return [package for package in PACKAGES.get(name, ()) if importlib.util.find_spec(package) is None]


def pytest_ignore_collect(collection_path, config):
    """Leave out the tests of an engine that is not installed, unless the engines session runs, which brings it."""
    missing = lacking(collection_path.name)
    if missing and ASKED:
        raise pytest.UsageError(f"{collection_path.name} needs {', '.join(missing)}: the engines session installs it")
    return True if missing else None


@pytest.fixture(scope="session", autouse=True)
def folder_of_the_engines():
    """Let engines, and the programs that tests start, keep their files in one folder, which goes at the end.

    Its path is short whatever the folder of temporary files is: Ray has sockets in it, whose paths are limited to 107
    bytes.
    """
    short = Path("/tmp") if Path("/tmp").is_dir() else None
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="mx", dir=short, ignore_cleanup_errors=True) as at,
    ):
        for variable in ("RAY_TMPDIR", "SPARK_LOCAL_DIRS", "DASK_TEMPORARY_DIRECTORY"):
            patch.setenv(variable, at)
        yield


def pytest_report_header(config):
    left_out = {name: lacking(name) for name in PACKAGES if lacking(name)}
    return [f"engines: {name} left out, not installed: {', '.join(missing)}" for name, missing in left_out.items()]
