"""The pytest plugin, as a project of its own would load it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mixle.testing import Census
from mixle.testing.backends import backends_of

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
import os, subprocess, sys, tempfile, threading
import numpy as np
import pytest
from mixle.stats import GaussianEstimator, MixtureEstimator
EST = MixtureEstimator([GaussianEstimator()] * 2)
ROWS = np.random.RandomState(0).normal(size=60)
KEEP = []
"""


def run(folder, text, *options):
    """Run a module of tests in a project of its own; return the counts of its outcomes, and what was printed."""
    (folder / "test_it.py").write_text(HEAD + text, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mixle.testing.plugin", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    words = last.replace(",", "").split()
    counts = {word.rstrip("s"): int(words[i - 1]) for i, word in enumerate(words) if i and words[i - 1].isdigit()}
    return counts, done.stdout + done.stderr


BACKENDS = """
DIGESTS = set()
def test_bits(mixle_backend, no_leaks):
    handle = mixle_backend(ROWS, EST)
    DIGESTS.add(handle.pysp_seq_initialize(EST, 1, 1.0).digest())
    assert len(DIGESTS) == 1
    handle.close()
def test_they_are_closed_at_the_end(mixle_backend):
    KEEP.append(mixle_backend(ROWS, EST))
def test_they_were():
    assert all(handle.closed or handle.transport.name == "local" for handle in KEEP)
@pytest.mark.parametrize("mixle_backend", ["local"], indirect=True)
def test_a_backend_of_its_own(mixle_backend):
    assert mixle_backend.name == "local"
"""


def test_a_test_runs_on_every_backend(tmp_path):
    assert run(tmp_path, BACKENDS)[0]["passed"] == 8


@pytest.mark.parametrize(
    ("option", "names"),
    [("local", 1), ("mp , local", 2), ("LOCAL,local", 1), ("all", len(backends_of("all")))],
    ids=["one", "two", "one twice", "all that are installed"],
)
def test_the_option_names_them(tmp_path, option, names):
    assert run(tmp_path, BACKENDS, "--mixle-backends", option)[0]["passed"] == 2 * names + 2


def test_a_backend_that_is_not_known_is_refused(tmp_path):
    counts, text = run(tmp_path, BACKENDS, "--mixle-backends", "lokal")
    assert "passed" not in counts
    assert "--mixle-backends: backend 'lokal' is not known. Did you mean 'local'?" in text


PLANS = """
def test_met(mixle_backend, chaos_plan):
    handle = mixle_backend(ROWS, EST, policies=[chaos_plan.delay(0.001, round=1)])
    handle.pysp_seq_estimate(EST, handle.pysp_seq_initialize(EST, 1, 1.0))
def test_not_met(mixle_backend, chaos_plan):
    mixle_backend(ROWS, EST, policies=[chaos_plan.delay(0.001, round=1)])
def test_given_to_nobody(chaos_plan):
    chaos_plan.kill(worker=1)
def test_not_used(chaos_plan):
    assert len(chaos_plan) == 0
def test_that_fails_is_told_once(mixle_backend, chaos_plan):
    mixle_backend(ROWS, EST, policies=[chaos_plan.delay(0.001, round=1)])
    assert 0
"""


def test_a_plan_that_does_not_happen_fails_its_test(tmp_path):
    counts, text = run(tmp_path, PLANS, "--mixle-backends", "local")
    assert (counts["passed"], counts["error"], counts["failed"]) == (4, 2, 1)
    assert "planned and not met in 0 E-steps: delay(seconds=0.001, round=1, at='before')" in text
    assert "ChaosPlan().kill(worker=1, at='before') was given to no handle" in text


LEAKS = """
def test_file(no_leaks):
    KEEP.append(open(os.devnull))
def test_folder(no_leaks):
    tempfile.mkdtemp(prefix="forgotten")
def test_child(no_leaks):
    KEEP.append(subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE))
def test_thread(no_leaks):
    KEEP.append(threading.Event())
    threading.Thread(target=KEEP[-1].wait, name="forgotten thread", daemon=True).start()
def test_asked_in_the_middle(no_leaks):
    with open(os.devnull):
        with pytest.raises(AssertionError, match="left behind"):
            no_leaks.check(0.0)
def test_clean(no_leaks):
    with tempfile.TemporaryDirectory() as folder:
        assert folder.startswith(os.environ["TMPDIR"])
def test_end():
    KEEP[1].communicate()
    KEEP[2].set()
    KEEP[0].close()
"""


def test_what_is_left_behind_is_named(tmp_path, monkeypatch):
    quick = "import mixle.testing.leaks as leaks; leaks.WAIT_S = 0.3\n"
    counts, text = run(tmp_path, quick + LEAKS)
    assert (counts["passed"], counts["error"]) == (7, 4)
    for word in ("-> /dev/null", "temporary file", "forgotten", "process ", "thread 'forgotten thread'"):
        assert word in text


def test_workers_of_xdist_do_not_see_each_others_leaks(tmp_path):
    counts, _ = run(tmp_path, BACKENDS + PLANS.partition("def test_not_met")[0], "-n", "2")
    assert counts["passed"] == 11


def test_a_census_looks_at_what_it_is_asked_for(tmp_path):
    census = Census(tmp_path, kinds=["temporary file"])
    with (tmp_path / "forgotten").open("w"):
        assert census.left_behind(0.0) == [f"temporary file {tmp_path / 'forgotten'}"]
    with pytest.raises(AssertionError, match="left behind:\n  temporary file"):
        census.check(0.0)
    with pytest.raises(ValueError, match=r"a census of \['threads'\] cannot be made; kinds are process, thread"):
        Census(kinds=["threads"])


def test_loading_the_plugin_costs_nothing():
    code = "import json, sys, pytest; before = {*sys.modules}; import mixle.testing.plugin; "
    code += "print(json.dumps(sorted({*sys.modules} - before)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == {"mixle", "mixle.testing", "mixle.testing.plugin"}


def test_the_wheel_announces_it():
    """Under the module's own name, so that naming it a second time is no second plugin."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["pytest11"]
    assert points == {"mixle.testing.plugin": "mixle.testing.plugin"}
