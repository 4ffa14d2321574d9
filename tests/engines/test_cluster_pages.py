"""The blocks of the pages on MPI, Ray and executors run, each as a program; the demo and the doctor run on them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from engine_support import launcher

pytestmark = pytest.mark.engines

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"
MPI = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
RAY = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


def blocks(page):
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"^```python {page}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def run(command, folder, **options):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def on_ranks(count):
    return [launcher("mpiexec"), "-n", str(count)]


PAGES_AND_MARKS = {"mpi": [MPI], "ray": [RAY], "executors": []}
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
    assert len(run([*command, str(script)], tmp_path).strip().splitlines()) == 1 or page == "ray"


@pytest.mark.parametrize(
    ("backend", "ranks"),
    [
        pytest.param("mpi", 1, marks=MPI),
        pytest.param("mpi", 2, marks=MPI),
        pytest.param("ray", 0, marks=RAY),
        ("futures", 0),
    ],
)
def test_the_demo_prints_the_digest_of_one_core_once(backend, ranks, tmp_path):
    command = [sys.executable, "-m", "mixle", "demo", "--data", "penguins", "--iterations", "3", "--backend", backend]
    digests = re.findall(r"sha256 ([0-9a-f]{64})", run([*(on_ranks(ranks) if ranks else []), *command], tmp_path))
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
