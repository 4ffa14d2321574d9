"""The driver dies or is interrupted in the middle of a fit; the same call goes on and ends with the same bits."""

import _thread
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import driver_support as driver
import psutil
import pytest
from leaks import FULL, nothing_hangs_and_nothing_is_left_behind  # noqa: F401 - a fixture

from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.planning.quicker import Quicker

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not hasattr(os, "killpg"), reason="process groups of POSIX"),
]


@pytest.fixture(scope="module")
def wanted():
    with encoded_data(driver.ROWS, driver.EST, num_shards=8) as handle:
        return driver.fit(handle, driver.EST).digest()


def start(kind, folder):
    """Start a driver in a process group of its own, with what it writes to standard error in a file."""
    command = [sys.executable, driver.__file__, kind, str(folder)]
    with (folder / "errors").open("w") as errors:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1, start_new_session=True
        )


def descendants(process):
    return psutil.Process(process.pid).children(recursive=True)


def gone(processes):
    end = time.monotonic() + 5.0
    while any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes):
        assert time.monotonic() < end, "a worker outlives its driver"
        time.sleep(0.002)


def finish(kind, folder):
    with start(kind, folder) as process:
        lines = process.stdout.read().splitlines()
    assert process.returncode == 0, (folder / "errors").read_text()
    return json.loads(lines[-1]), [int(line.split()[1]) for line in lines if line.startswith("step")]


@pytest.mark.parametrize("kind", ["local", "mp", "resilient"])
@pytest.mark.parametrize("seed", range(10 if FULL else 1))
def test_a_killed_driver_goes_on_with_the_bits_of_an_unbroken_fit(kind, seed, tmp_path, wanted):
    rng, reached = random.Random(f"{kind} {seed}"), 0
    for _ in range(3 if FULL else 1):
        with start(kind, tmp_path) as process:
            last = reached + rng.randint(1, 12)
            for line in process.stdout:
                if line.startswith("step") and int(line.split()[1]) >= last:
                    break
            time.sleep(rng.uniform(0.0, 0.01))  # anywhere in a round, also while the file is written
            workers = descendants(process)
            process.kill()
        gone(workers)
        reached = last
    found, steps = finish(kind, tmp_path)
    assert steps[0] > reached
    assert steps == list(range(steps[0], driver.ROUNDS + 1))
    assert (found["digest"], found["its"]) == (wanted, driver.ROUNDS)


@pytest.mark.parametrize("kind", ["local", "mp", "resilient"])
def test_an_interrupt_in_a_long_round_returns_the_best_model_and_leaves_a_checkpoint(kind, tmp_path, wanted):
    """Ctrl-C goes to the whole process group, as a terminal sends it; a round would take a minute."""
    with start(kind, tmp_path) as process:
        for line in process.stdout:
            if line.startswith("step 3"):
                (tmp_path / "slow").touch()
                break
        while not (tmp_path / "in").exists():
            assert process.poll() is None
            time.sleep(0.001)
        workers, began = descendants(process), time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        told = json.loads(process.stdout.read().splitlines()[-1])
    assert process.returncode == 0
    assert told["stopped"] == "interrupted"
    assert told["at"] - began < 5.0
    gone(workers)
    errors = (tmp_path / "errors").read_text()
    assert "interrupted; the model reached so far is returned" in errors
    assert "Traceback" not in errors
    (tmp_path / "slow").unlink()
    found, steps = finish(kind, tmp_path)
    assert steps[0] == told["its"] + 1
    assert found["digest"] == wanted


def until_nothing_else_wakes_the_main_thread(done, count):
    while len(done) < count or sys._current_frames()[threading.main_thread().ident].f_code.co_name != "wait":
        time.sleep(0.001)


@pytest.mark.parametrize("wakes", [True, False])
def test_an_interrupt_waits_for_no_thread(tmp_path, wanted, monkeypatch, wakes):
    """Shards that threads have under way go on for themselves; the handle can be used at once.

    One that does not wake a thread that waits is seen when the wait looks up.
    """
    monkeypatch.setattr(Quicker, "choose", lambda _: True)
    estimator = driver.Waiting(driver.EST, tmp_path)
    held, release = threading.Event(), threading.Event()

    class Gate(driver.WaitingAccumulator):
        def seq_update_scored(self, enc, weights, model):
            if not held.is_set() and threading.current_thread() is not threading.main_thread() and armed:
                held.set()
                assert release.wait(30.0)
            found = self.inner.seq_update_scored(enc, weights, model)
            others.extend([None] * held.is_set())
            return found

    estimator.make = lambda: Gate(driver.EST.accumulator_factory().make(), estimator)
    armed, others = [], []

    def interrupt():
        held.wait(30.0)
        if wakes:
            os.kill(os.getpid(), signal.SIGINT)
            return
        until_nothing_else_wakes_the_main_thread(others, handle.num_shards - 1)
        _thread.interrupt_main()

    def on_step(step):
        if step.iter == 3:
            armed.append(True)
            threading.Thread(target=interrupt).start()

    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start what runs behind them without it
    with driver.opened("threads", estimator) as handle:
        try:
            with pytest.warns(UserWarning, match="interrupted"):
                model = driver.fit(handle, estimator, tmp_path / "fit", on_step)
            assert not release.is_set()
            assert model.fit_provenance().iterations == 3
            assert driver.fit(handle, estimator, tmp_path / "fit").digest() == wanted
        finally:
            release.set()
            signal.signal(signal.SIGINT, ignored)
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(30.0)


@pytest.mark.parametrize("turn", range(12 if FULL else 1))
def test_an_interrupt_at_any_time_prints_one_traceback_at_most(turn, tmp_path):
    """While the pool starts or the start is drawn the interrupt is raised, in the driver alone."""
    with start("mp", tmp_path) as process:
        time.sleep(random.Random(turn).uniform(0.05, 0.8))
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()
    assert (tmp_path / "errors").read_text().count("Traceback") <= 1


def test_two_drivers_of_one_path(tmp_path, wanted):
    """Each ends with the right bits, and what is left is a whole checkpoint of one of them."""
    with start("local", tmp_path) as one, start("local", tmp_path) as other:
        told = [json.loads(process.stdout.read().splitlines()[-1]) for process in (one, other)]
    assert [found["digest"] for found in told] == [wanted, wanted]
    assert finish("local", tmp_path)[0]["digest"] == wanted
    assert {path.name for path in Path(tmp_path).iterdir()} == {"fit", "fit.previous", "errors"}
