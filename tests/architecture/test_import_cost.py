"""What an import may load: start-up is import time, and every worker pays it."""

import json
import subprocess
import sys

import pytest

#: Loaded when first used, never at import.
LATE = (
    "asyncio", "cloudpickle", "concurrent.futures.process", "dask", "distributed", "hashlib", "importlib.metadata",
    "json", "mpi4py", "multiprocessing", "numpy.random", "pandas", "pyspark", "ray", "scipy", "threadpoolctl",
)  # fmt: skip
#: Modules besides our own that importing the planner may add to `import numpy`.
EXTRA_MODULES = 12


def loaded_by(statement):
    """Return the names of the modules that a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys; names = sorted(sys.modules); import json; print(json.dumps(names))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def late_among(names):
    return sorted(name for name in names if any(name == late or name.startswith(late + ".") for late in LATE))


@pytest.fixture(scope="module")
def numpy_alone():
    return loaded_by("import numpy")


@pytest.fixture(scope="module")
def planner():
    return loaded_by("import mixle.utils.parallel.planner")


def test_package_alone_loads_nothing():
    assert {name for name in loaded_by("import mixle") - loaded_by("pass") if name != "mixle"} == set()


def test_planner_loads_nothing_late(planner, numpy_alone):
    assert late_among(planner - numpy_alone) == []


def test_planner_adds_few_modules_to_numpy(planner, numpy_alone):
    added = sorted(name for name in planner - numpy_alone if name.partition(".")[0] != "mixle")
    assert len(added) <= EXTRA_MODULES, added


@pytest.mark.parametrize("module", ["mixle.cli.main", "mixle.errors"])
def test_light_modules_do_without_numpy(module):
    assert "numpy" not in loaded_by(f"import {module}")
