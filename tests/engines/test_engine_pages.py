"""The blocks of the engines' pages run, each as a program of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engines

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"


def blocks(engine):
    text = (PAGES / f"{engine}.md").read_text(encoding="utf-8")
    return re.findall(rf"^```python {engine}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


CASES = [(engine, number) for engine in ("dask", "spark") for number in range(len(blocks(engine)))]


@pytest.mark.parametrize(("engine", "number"), CASES)
def test_a_block_runs(engine, number, tmp_path):
    script = tmp_path / "block.py"
    script.write_text(blocks(engine)[number])
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_the_demo_prints_the_digest_of_one_core(engine, tmp_path):
    command = [sys.executable, "-m", "mixle", "demo", "--data", "penguins", "--iterations", "3", "--backend", engine]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    digests = re.findall(r"sha256 ([0-9a-f]{64})", done.stdout)
    assert len(digests) == 2
    assert len(set(digests)) == 1
    assert f"on {engine}:" in done.stdout
