"""The blocks of the engines' pages run, each as a program; the demo, the doctor and the pytest plugin run on them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from engine_support import launcher

from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.planner import encoded_data

pytestmark = pytest.mark.engines

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"
MPI = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
RAY = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
DASK = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="distributed is not installed")
SPARK = pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed")


def blocks(page):
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"^```python {page}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def run(command, folder, **options):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def on_ranks(count):
    return [launcher("mpiexec"), "-n", str(count)]


PAGES_AND_MARKS = {"mpi": [MPI], "ray": [RAY], "dask": [DASK], "spark": [SPARK], "executors": []}
#: Pages whose blocks print one line, on however many ranks.
ONE_LINE = {"mpi", "executors"}
CASES = [
    pytest.param(page, number, marks=marks)
    for page, marks in PAGES_AND_MARKS.items()
    for number in range(len(blocks(page)))
]


@pytest.mark.parametrize(("page", "number"), CASES)
def test_a_block_runs(page, number, tmp_path):
    script = tmp_path / "block.py"
    script.write_text(blocks(page)[number])
    command = [*on_ranks(2), sys.executable, "-m", "mpi4py"] if page == "mpi" else [sys.executable]
    printed = run([*command, str(script)], tmp_path).strip().splitlines()
    assert len(printed) == 1 if page in ONE_LINE else printed


@pytest.mark.parametrize(
    ("backend", "ranks"),
    [
        pytest.param("mpi", 1, marks=MPI),
        pytest.param("mpi", 2, marks=MPI),
        pytest.param("ray", 0, marks=RAY),
        pytest.param("dask", 0, marks=DASK),
        pytest.param("spark", 0, marks=SPARK),
        ("futures", 0),
    ],
)
def test_the_demo_prints_the_digest_of_one_core_once(backend, ranks, tmp_path):
    command = [sys.executable, "-m", "mixle", "demo", "--data", "penguins", "--iterations", "3", "--backend", backend]
    printed = run([*(on_ranks(ranks) if ranks else []), *command], tmp_path)
    assert f"on {backend}:" in printed or f"({backend}):" in printed
    digests = re.findall(r"sha256 ([0-9a-f]{64})", printed)
    assert len(digests) == 2
    assert len(set(digests)) == 1


def test_the_doctor_tries_every_backend(tmp_path):
    found = json.loads(run([sys.executable, "-m", "mixle", "doctor", "--json", "local", "mp", "futures"], tmp_path))
    assert [one["status"] for one in found] == ["ok"] * 3
    assert len({one["digest"] for one in found}) == 1


@MPI
def test_the_doctor_tries_mpi(tmp_path):
    (found,) = json.loads(run([sys.executable, "-m", "mixle", "doctor", "--json", "mpi"], tmp_path))
    assert found["status"] == "ok"
    assert found["launcher"] == launcher("mpiexec")


@RAY
def test_the_doctor_tries_ray(tmp_path):
    (found,) = json.loads(run([sys.executable, "-m", "mixle", "doctor", "--json", "ray"], tmp_path))
    assert found["status"] == "ok"


def test_the_doctor_says_what_to_type_for_what_is_missing(tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ImportError('libmpi.so.12: cannot open shared object file')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "mixle", "doctor", "mpi"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 1
    assert 'fix: pip install "mpi4py>=4" mpich' in done.stdout


PLUGIN = """
from mixle.stats import GaussianEstimator, MixtureEstimator
ESTIMATOR = MixtureEstimator([GaussianEstimator()] * 2)
ROWS = [float(i % 7) + 0.01 * i for i in range(60)]
def test_the_fixture_leaves_nothing(mixle_backend, no_leaks):
    handle = mixle_backend(ROWS, ESTIMATOR)
    assert handle.pysp_seq_initialize(ESTIMATOR, 1, 1.0).digest() == "DIGEST"
    handle.close()
def test_it_is_closed_at_the_end(mixle_backend):
    mixle_backend(ROWS, ESTIMATOR)
"""


@pytest.mark.parametrize(
    "backend",
    ["futures", pytest.param("mpi", marks=MPI), pytest.param("dask", marks=DASK), pytest.param("spark", marks=SPARK)],
)
def test_the_fixtures_of_the_plugin_serve_an_engine(backend, tmp_path):
    estimator = MixtureEstimator([GaussianEstimator()] * 2)
    with encoded_data([float(i % 7) + 0.01 * i for i in range(60)], estimator, num_shards=4) as handle:
        digest = handle.pysp_seq_initialize(estimator, 1, 1.0).digest()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # a project of its own, wherever the folder is
    (tmp_path / "test_engine.py").write_text(PLUGIN.replace("DIGEST", digest))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--mixle-backends", backend]
    loaded = [] if entry_points(group="pytest11", name="mixle") else ["-p", "mixle.testing.plugin"]
    assert "2 passed" in run([*command, *loaded], tmp_path)
