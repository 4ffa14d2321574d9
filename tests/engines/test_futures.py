"""Any executor of `concurrent.futures`: threads, processes, loky, and one that sees no files of the driver."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from engine_support import (
    COUNTS,
    ESTIMATOR,
    FULL,
    NARROW,
    NUMBERS,
    POLICIES,
    REPRESENTATIVE,
    ROWS,
    check_policies,
    engine_trace,
    fit,
    gaussian,
    local_reference,
    narrow_reference,
    narrow_trace,
    shard_counts,
)

import mixle.stats as st
from mixle.errors import BackendError, HandleClosed, RoundLosses, RowError, TaskError
from mixle.inference import optimize
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.policies.retry import Retry
from mixle.utils.parallel.transports.futures import remote, transport
from mixle.utils.parallel.transports.futures.transport import FuturesTransport
from traces import NAMES, problem, reference, trace

EXECUTORS = ["from_server", "loky", "spawned"]
#: Executors of processes differ in how these start only: one of them runs all models.
MATRIX = [(name, kind) for kind in EXECUTORS for name in NAMES if FULL or kind == "loky" or name in REPRESENTATIVE]
FEW = ["gaussian", "mixture of composite", "mixture of optional"]


def processes(method, workers=2):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context(method))


@pytest.fixture(scope="module", autouse=True)
def no_tracker_is_left_behind():
    """End the helper processes that the standard library starts once and keeps."""
    yield
    from multiprocessing import forkserver, resource_tracker

    forkserver._forkserver._stop()
    resource_tracker._resource_tracker._stop()


@pytest.fixture(scope="module")
def spawned():
    with processes("spawn") as pool:
        yield pool


@pytest.fixture(scope="module")
def from_server():
    with processes("forkserver") as pool:
        yield pool


@pytest.fixture(scope="module")
def loky():
    pytest.importorskip("loky", reason="loky is not installed")
    from loky import ProcessPoolExecutor as Loky

    with Loky(2) as pool:
        yield pool
    from loky.backend.resource_tracker import _resource_tracker

    _resource_tracker._stop()  # loky has a helper of its own


@pytest.mark.parametrize("name", NAMES)
def test_threads_give_the_bits_of_one_thread(name):
    rows, estimator = problem(name)
    with ThreadPoolExecutor(3) as pool:
        for shards in COUNTS if FULL else (7,):
            with encoded_data(rows, estimator, backend="futures", client=pool, num_shards=shards) as handle:
                assert trace(handle, estimator) == reference(name, Strided(shards))


@pytest.mark.parametrize("name", FEW)
def test_processes_give_the_bits_of_one_thread(name, spawned):
    rows, estimator = problem(name)
    for shards in COUNTS:
        with encoded_data(rows, estimator, backend="futures", client=spawned, num_shards=shards) as handle:
            assert trace(handle, estimator) == reference(name, Strided(shards))


@pytest.mark.engines
@pytest.mark.parametrize(("name", "executor"), MATRIX)
def test_every_executor_gives_the_bits_of_one_thread(name, executor, request):
    pool = request.getfixturevalue(executor)
    for shards in shard_counts(name, 0):
        with encoded_data(problem(name)[0], problem(name)[1], backend="futures", client=pool, num_shards=shards) as h:
            assert engine_trace(h, name) == local_reference(name, Strided(shards))


@pytest.mark.engines
@pytest.mark.parametrize(("name", "shards"), NARROW)
@pytest.mark.parametrize("executor", ["from_server", "loky"])
def test_float32_has_the_bits_of_one_thread_too(name, shards, executor, request):
    pool = request.getfixturevalue(executor)
    assert narrow_trace(name, shards, backend="futures", client=pool) == narrow_reference(name, shards)


def test_maps_weights_and_pieces(spawned):
    weights = [float(i % 3) for i in range(len(ROWS))]
    for options in ({"num_shards": Contiguous(5)}, {"num_chunks": 5, "sub_chunks": 2}, {"weights": weights}):
        local = {"num_shards": 16, **options} if "weights" in options else options
        assert fit(backend="futures", client=spawned, **options) == fit(**local)


def test_arrays(spawned):
    rows = np.random.RandomState(1).normal(size=(300, 2))
    estimator = st.MixtureEstimator([st.MultivariateGaussianEstimator(dim=2)] * 2)
    digests = {
        optimize(rows, estimator, max_its=3, delta=None, seed=1, num_shards=5, **options).digest()
        for options in ({}, {"backend": "futures", "client": spawned})
    }
    assert len(digests) == 1


class Remote(Executor):
    """Runs calls in another process that sees no file of the driver, one after another."""

    def __init__(self, pool):
        self.pool, self.sent = pool, []

    def submit(self, function, /, *args, **kwargs):
        self.sent.append([len(word) for word in args if isinstance(word, bytes)])
        args = [job._replace(folder=job.folder + "-not-here") if isinstance(job, remote.Job) else job for job in args]
        return self.pool.submit(function, *args, **kwargs)


@pytest.mark.parametrize("small_task", [0, 1 << 14])
def test_a_process_on_another_machine_is_sent_what_it_cannot_read_once(small_task, monkeypatch):
    monkeypatch.setattr(transport, "SMALL_TASK", small_task)
    with processes("spawn", 1) as pool:
        executor = Remote(pool)
        assert fit(backend="futures", client=executor, num_shards=5) == fit(num_shards=5)
    task_and_rows = [words for words in executor.sent if len(words) == 2]
    assert len(task_and_rows) == 5
    assert executor.sent.count([]) <= 1 + 5  # whether files are seen, and at the load


@pytest.mark.parametrize("small_task", [0, 1 << 14])
def test_a_task_in_a_file_and_a_task_in_the_call_give_the_same_bits(spawned, small_task, monkeypatch):
    monkeypatch.setattr(transport, "SMALL_TASK", small_task)
    written = []
    monkeypatch.setattr(FuturesTransport, "_write", spy(FuturesTransport._write, written))
    assert fit(backend="futures", client=spawned, num_shards=5) == fit(num_shards=5)
    assert any(name.startswith("task") for name in written) == (small_task == 0)


def spy(method, names):
    def write(self, name, data):
        names.append(name)
        method(self, name, data)

    return write


@pytest.mark.parametrize("keep_bytes", [0, 1 << 30])
def test_what_is_not_kept_is_encoded_again(spawned, keep_bytes):
    rows, estimator = problem("mixture of composite")
    encoder = estimator.accumulator_factory().make().acc_to_encoder()
    source = make_source(rows, encoder, Strided(4), 1, None, estimator)
    with Handle(FuturesTransport(spawned, keep_bytes=keep_bytes), source) as handle:
        assert trace(handle, estimator) == reference("mixture of composite", Strided(4))
        kept = max(spawned.submit(kept_shards, handle.transport.job.folder).result() for _ in range(8))
        assert (kept > 0) == (keep_bytes > 0)


def kept_shards(folder):
    return len(remote.HOMES[folder].resident) if folder in remote.HOMES else 0


@pytest.mark.parametrize("shards", [256, 257])
def test_both_sides_of_a_group(shards):
    with ThreadPoolExecutor(2) as pool:
        assert fit(backend="futures", client=pool, num_shards=shards, max_its=1) == fit(num_shards=shards, max_its=1)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.filterwarnings("ignore:an audit needs a second worker")
def test_policies_compose(policy, spawned):
    with encoded_data(ROWS, ESTIMATOR, num_shards=7) as plain:
        wanted = trace(plain, ESTIMATOR)
    options = {"backend": "futures", "client": spawned, "num_shards": 7}
    check_policies(policy, lambda given: encoded_data(ROWS, ESTIMATOR, policies=given, **options), wanted)


class Deadly(st.GaussianEstimator):
    """Kills the process that first makes its accumulator, if that is not the driver."""

    def __init__(self, mark, times=1):
        super().__init__()
        self.mark, self.driver, self.times = str(mark), os.getpid(), times

    def accumulator_factory(self):
        if os.getpid() != self.driver:
            for i in range(self.times):
                try:
                    os.close(os.open(f"{self.mark}{i}", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)
        return super().accumulator_factory()


def test_a_killed_process_breaks_a_foreign_executor_and_says_what_to_do(tmp_path):
    with (
        processes("spawn") as pool,
        encoded_data(NUMBERS, st.GaussianEstimator(), backend="futures", client=pool, num_shards=4) as handle,
        pytest.raises(RoundLosses, match=r"policies=\[Retry\(2\)\]") as caught,
    ):
        handle.pysp_seq_estimate(Deadly(tmp_path / "mark"), None)
    assert caught.value.losses[0].worker == 0


def test_retry_makes_an_executor_again_and_the_bits_are_the_same(tmp_path):
    made = []

    def make():
        made.append(processes("spawn"))
        return made[-1]

    options = {"backend": "futures", "client": make, "num_shards": 4, "policies": [Retry(3)]}
    with encoded_data(NUMBERS, st.GaussianEstimator(), **options) as handle:
        model = handle.pysp_seq_estimate(Deadly(tmp_path / "mark"), None)
    assert len(made) == 2
    assert model.digest() == gaussian(4)
    assert all(pool._processes is None for pool in made)  # shut down with the handle


class Failing(st.GaussianEstimator):
    def accumulator_factory(self):
        raise KeyError("a user's own error")


def test_a_users_error_names_its_shard_and_the_executor_goes_on(spawned):
    with encoded_data(NUMBERS, st.GaussianEstimator(), backend="futures", client=spawned, num_shards=3) as handle:
        handle.pysp_seq_estimate(st.GaussianEstimator(), None)
        with pytest.raises(TaskError, match="shard 0: KeyError") as caught:
            list(handle._run(failing_task()))
        assert isinstance(caught.value, KeyError)
        assert handle.pysp_seq_estimate(st.GaussianEstimator(), None).mu == pytest.approx(np.mean(NUMBERS))


def failing_task():
    from mixle.utils.parallel.folding.tasks import Accumulate

    return Accumulate(Failing(), None)


def test_bad_rows_are_named(spawned):
    with pytest.raises(RowError, match="Row 4 "):
        encoded_data([*NUMBERS[:4], "x"], st.GaussianEstimator(), backend="futures", client=spawned)


def test_refusals():
    est = st.GaussianEstimator()
    with pytest.raises(BackendError, match="needs an executor: pass client="):
        encoded_data(NUMBERS, est, backend="futures")
    with pytest.raises(BackendError, match="takes no num_workers"):
        encoded_data(NUMBERS, est, backend="futures", num_workers=2)
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(BackendError, match="takes no more work"):
        encoded_data(NUMBERS, est, backend="futures", client=pool)


SCRIPT = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from mixle.stats import GaussianEstimator
from mixle.utils.parallel.planner import encoded_data
with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
    encoded_data([1.0, 2.0], GaussianEstimator(), backend="futures", client=pool)
"""


def test_a_script_without_a_guard_is_told_what_to_write(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert "BackendError: the executor broke at its first call (BrokenProcessPool" in done.stderr
    assert 'in a script make the executor under if __name__ == "__main__":' in done.stderr
    assert "takes no more work" not in done.stderr


def test_close_leaves_a_foreign_executor_running_and_nothing_behind(spawned):
    handle = encoded_data(NUMBERS, st.GaussianEstimator(), backend="futures", client=spawned)
    folder = Path(handle.transport.job.folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    handle.close()
    handle.close()
    assert not folder.exists()
    assert str(folder) not in remote.HOMES
    assert spawned.submit(abs, -1).result() == 1
    with pytest.raises(HandleClosed):
        handle.pysp_seq_estimate(st.GaussianEstimator(), None)


def test_an_executor_that_is_made_here_is_shut_down():
    before = {thread.name for thread in threading.enumerate()}
    children = set(psutil.Process().children(recursive=True))
    with encoded_data(NUMBERS, st.GaussianEstimator(), backend="futures", client=lambda: processes("spawn")) as handle:
        handle.pysp_seq_estimate(st.GaussianEstimator(), None)
        assert set(psutil.Process().children(recursive=True)) - children
    left = [
        child
        for child in set(psutil.Process().children(recursive=True)) - children
        if "tracker" not in str(child.cmdline())
    ]
    assert not left
    assert {thread.name for thread in threading.enumerate()} == before


class Cancelling(Executor):
    """Never runs anything but the first calls; what waits can only be cancelled."""

    def __init__(self, runs):
        self.runs, self.waiting = runs, []

    def submit(self, function, /, *args, **kwargs):
        future = Future()
        if self.runs:
            self.runs -= 1
            future.set_result(function(*args, **kwargs))
        else:
            self.waiting.append(future)
        return future


def test_close_from_another_thread_ends_a_call():
    executor = Cancelling(runs=1 + 3)  # the question whose process it is, and encoding
    handle = encoded_data(NUMBERS, st.GaussianEstimator(), backend="futures", client=executor, num_shards=3)
    told = []

    def call():
        with pytest.raises(HandleClosed):
            handle.pysp_seq_estimate(st.GaussianEstimator(), None)
        told.append(True)

    thread = threading.Thread(target=call)
    thread.start()
    while not executor.waiting:
        thread.join(0.001)
    handle.close()
    thread.join(30)
    assert told == [True]
