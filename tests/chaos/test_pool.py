"""The supervised pool: real processes, really killed, stopped, starved and lied to."""

import gc
import operator
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pool_support as support
import psutil
import pytest
from leaks import FULL
from pool_support import apply, source

from mixle.errors import BackendError, HandleClosed, RoundLosses, RowError, WorkerLost
from mixle.stats import DiagonalGaussianEstimator
from mixle.utils.parallel.folding.round import run_round
from mixle.utils.parallel.folding.tasks import Apply
from mixle.utils.parallel.transports.process import ProcessTransport

pytestmark = pytest.mark.chaos
LINUX = sys.platform.startswith("linux")
ROWS = np.arange(24.0)
TOTALS = {shard: float(ROWS[shard::4].sum()) for shard in range(4)}


def until(condition, seconds=5.0):
    """Poll a condition until it holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.002)


def lives(pid):
    """Return whether a process runs; one that only waits for init to collect it does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def family():
    return {child.pid for child in psutil.Process().children(recursive=True)}


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir())) if LINUX else 0


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    gc.collect()
    processes, fds, threads = family(), descriptors(), threading.active_count()
    yield
    gc.collect()
    until(lambda: family() <= processes)
    assert descriptors() <= fds
    assert threading.active_count() == threads


@pytest.fixture
def pool():
    """Return a function that opens a loaded pool; all are closed in the end."""
    opened = []

    def open_pool(rows=ROWS, shards=4, workers=2, encoder=None, weights=None, pieces=1, **options):
        transport = ProcessTransport(workers, **options)
        opened.append(transport)
        transport.load(source(rows, shards, encoder, weights, pieces))
        return transport

    yield open_pool
    for transport in opened:
        transport.close()


@pytest.fixture(scope="module")
def shared():
    """A pool that no test may harm."""
    transport = ProcessTransport(2)
    transport.load(source(ROWS, 4))
    yield transport
    transport.close()


# What works


def test_shards_live_on_their_workers_and_results_come_back(shared):
    assert shared.sizes == dict.fromkeys(range(4), 6)
    assert apply(shared, support.total) == TOTALS
    pids = apply(shared, support.pid)
    assert pids[0] == pids[2] != pids[1] == pids[3]
    assert {worker: process.pid for worker, process in shared.processes().items()} == {0: pids[0], 1: pids[1]}


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
def test_results_do_not_depend_on_the_number_of_workers(pool, workers):
    assert apply(pool(workers=workers), support.total) == TOTALS


def test_workers_are_clipped_to_rows():
    transport = ProcessTransport(8)
    transport.load(source(np.arange(2.0), 2))
    assert transport.num_workers == len(transport.live()) == 2
    transport.close()


def test_default_number_of_workers_is_the_usable_cpus():
    assert ProcessTransport().num_workers == len(os.sched_getaffinity(0)) if LINUX else os.cpu_count()


@pytest.mark.parametrize("pieces", [1, 3])
def test_python_rows_weights_and_pieces_reach_workers(pool, pieces):
    rows, weights = list(range(11)), np.linspace(0.0, 1.0, 11)
    transport = pool(rows, 2, weights=weights, pieces=pieces)
    got, heavy = apply(transport, support.rows_of), apply(transport, support.weights_of)
    for shard in range(2):
        wanted = [list(range(11))[shard::2][piece::pieces] for piece in range(pieces)]
        assert got[shard] == wanted
        for part, piece in zip(heavy[shard], range(pieces), strict=True):
            np.testing.assert_array_equal(part, weights[shard::2][piece::pieces])


@pytest.mark.parametrize(
    "rows",
    [
        np.arange(24.0).reshape(12, 2),
        np.asfortranarray(np.arange(24.0).reshape(12, 2)),
        np.arange(48.0)[::4],
        np.array(["2020-01-01", "NaT", "2021-05-05"] * 4, dtype="M8[D]"),
        np.zeros(12, dtype=[("a", "f8"), ("b", "U3")]),
        np.arange(12, dtype=">i2"),
        np.array([None, "x", (1, 2)] * 4, dtype=object),
    ],
    ids=["matrix", "fortran", "strided", "dates", "structured", "big endian", "objects"],
)
def test_array_rows_arrive_as_they_are(pool, rows):
    got = apply(pool(rows, 3, encoder=support.Anything()), support.rows_of)
    for shard in range(3):
        wanted = list(rows[shard::3])
        assert len(got[shard][0]) == len(wanted)
        for ours, theirs in zip(got[shard][0], wanted, strict=True):
            assert np.asarray(ours).dtype == np.asarray(theirs).dtype
            np.testing.assert_array_equal(ours, theirs)


def test_shards_are_read_only_views_of_shared_memory_and_narrow_pieces_of_one_lie_packed(shared, pool):
    assert set(apply(shared, support.view_facts).values()) == {(False, False, "<f8", (8,))}
    narrow = pool(np.zeros(40), 2, pieces=2)
    assert set(apply(narrow, support.view_facts).values()) == {(True, True, "<f8", (8,))}
    encoder = DiagonalGaussianEstimator(8).accumulator_factory().make().acc_to_encoder()
    for pieces, step in ((1, 64), (2, 128)):
        wide = pool(np.zeros((40, 8)), 2, encoder=encoder, pieces=pieces)
        assert set(apply(wide, support.view_facts).values()) == {(False, False, "<f8", (step, 8))}


def test_masked_rows_keep_their_mask(pool):
    rows = np.ma.MaskedArray(np.arange(6.0), mask=[0, 1, 0, 0, 1, 0])
    got = apply(pool(rows, 2, encoder=support.Anything()), support.rows_of)
    assert [row is np.ma.masked for row in got[1][0]] == [True, False, False]


def test_workers_have_one_blas_thread_the_drivers_directory_and_no_interrupt(shared):
    for blas, directory, threads, deaf in apply(shared, support.environment).values():
        assert set(blas.values()) == {"1"}
        assert (directory, threads, deaf) == (str(Path.cwd()), 1, True)


def test_large_tasks_go_through_the_mailbox_again_and_again(shared):
    for scale in range(1, 4):
        model = {"a": np.full(1 << 18, float(scale)), "b": "x" * 1000}
        assert apply(shared, support.scaled, model) == {s: scale * (1 << 18) * s for s in range(4)}


def test_large_replies(pool):
    (value,) = apply(pool(shards=1), support.big, 200 << 20).values()
    assert (len(value), value[0], value[-1]) == (25 << 20, 0.0, 0.0)


def test_a_round_that_is_given_up_leaves_no_reply_to_the_next(shared):
    for _ in range(3):
        abandoned = shared.map(Apply(support.total))
        next(abandoned)
        abandoned.close()
        assert apply(shared, support.rows_of) == {s: [list(ROWS[s::4])] for s in range(4)}


def test_a_round_that_nobody_waits_for_keeps_no_reply(shared):
    for _ in range(3):
        shared.map(Apply(support.total))
    gc.collect()
    assert apply(shared, support.total) == TOTALS
    assert not list(shared._pool.supervisor.requests)


def test_two_rounds_at_once_do_not_mix(shared):
    first, second = shared.map(Apply(support.total)), shared.map(Apply(support.pid))
    early = next(first)
    one = {early.shard: early.value}
    two = {r.shard: r.value for r in second}
    one |= {r.shard: r.value for r in first}
    assert one == TOTALS
    assert set(two) == set(TOTALS)


def test_run_and_move(pool):
    transport = pool()
    pids = {worker: process.pid for worker, process in transport.processes().items()}
    assert transport.run(Apply(support.pid), 0, 1).value == pids[1]
    assert transport.run(Apply(support.total), 0, 1).value == TOTALS[0]
    transport.move(0, 1)
    assert apply(transport, support.pid) == {0: pids[1], 1: pids[1], 2: pids[0], 3: pids[1]}
    assert apply(transport, support.total) == TOTALS
    with pytest.raises(BackendError, match=r"workers \[0, 1\]"):
        transport.move(0, 2)


def test_a_fork_that_user_code_lets_return_does_not_reply(pool):
    transport = pool()
    assert apply(transport, support.fork_and_return) == apply(transport, support.pid)
    assert apply(transport, support.total) == TOTALS


def test_a_retired_worker_stays_away(pool):
    transport = pool()
    with pytest.raises(BackendError, match=r"shards \[1, 3\] live there: move them first"):
        transport.retire(1)
    for shard in (1, 3):
        transport.move(shard, 0)
    process = transport.process(1)
    transport.retire(1)
    until(lambda: not lives(process.pid))
    assert apply(transport, support.total) == TOTALS
    assert transport.live() == transport.workers() == [0]
    with pytest.raises(BackendError, match="there is no worker 1"):
        transport.move(0, 1)
    with pytest.raises(BackendError, match="the last one"):
        transport.move(0, 0)
        transport.owner.clear()
        transport.retire(0)


def test_a_transport_is_loaded_once(pool):
    transport = pool()
    with pytest.raises(BackendError, match="make a new one"):
        transport.load(source(ROWS, 2))
    assert apply(transport, support.total) == TOTALS


def test_a_stopped_launcher_is_replaced(pool):
    transport = pool()
    launcher = psutil.Process(transport.process(0).pid).ppid()
    os.kill(launcher, signal.SIGSTOP)
    transport.process(0).kill()
    until(lambda: not transport.process(0).is_alive())
    assert apply(transport, support.total) == TOTALS
    until(lambda: not lives(launcher))


def test_global_generators_differ_between_workers(pool):
    drawn = apply(pool(preload=["numpy.random"], shards=2), support.draws)
    assert drawn[0][0] != drawn[1][0]
    assert drawn[0][1] != drawn[1][1]


# Errors of users


@pytest.mark.parametrize("kind", [ValueError, MemoryError])
def test_an_exception_is_a_result_and_the_pool_stays_usable(shared, kind):
    pids = apply(shared, support.pid)
    with pytest.raises(kind, match="shard 2 is wrong") as caught:
        run_round(shared, Apply(support.fail, (kind, 2)))
    assert caught.value.shard == 2
    assert caught.value.worker == 0
    assert "in fail" in caught.value.remote_traceback
    assert apply(shared, support.pid) == pids


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (support.fail_unreadable, "first"),
        (support.fail_mute, "whose text cannot be made"),
        (support.unpicklable, "cannot pickle"),
        (support.poisoned, "cannot be read"),
    ],
)
def test_values_and_errors_that_cannot_travel_are_errors_of_the_task(shared, function, text):
    with pytest.raises(RuntimeError, match=text):
        run_round(shared, Apply(function))
    assert apply(shared, support.total) == TOTALS


def test_a_task_that_cannot_be_read_by_workers_is_an_error_of_the_task(shared, tmp_path, monkeypatch):
    (tmp_path / "not_for_workers.py").write_text("def f(shard):\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import not_for_workers

    with pytest.raises(ModuleNotFoundError, match="not_for_workers"):
        run_round(shared, Apply(not_for_workers.f))
    assert apply(shared, support.total) == TOTALS


def test_a_task_that_cannot_be_pickled_is_refused_before_it_is_sent(shared):
    with pytest.raises(TypeError, match="Apply task cannot be pickled for the worker processes"):
        run_round(shared, Apply(support.total, (threading.Lock(),)))
    assert apply(shared, support.total) == TOTALS


@pytest.mark.parametrize("shards", [2, 3])
def test_a_bad_row_is_named_by_its_position_in_the_data(pool, shards):
    rows = [0.0, 1.0, 2.0, "three", 4.0, 5.0]
    with pytest.raises(RowError, match=r"Row 3 .*'three' is not a number") as caught:
        pool(rows, shards)
    assert caught.value.row == 3
    assert "seq_encode" in str(caught.value.__cause__)


def test_rows_that_cannot_be_pickled_are_named_before_work_starts(pool):
    rows = [1.0, 2.0, threading.Lock(), 4.0]
    with pytest.raises(TypeError, match=r"row 2 \(lock\) cannot be pickled .*backend='local'"):
        pool(rows, 2)


def test_an_encoder_that_cannot_be_pickled_is_refused(pool):
    encoder = support.Numbers()
    encoder.lock = threading.Lock()
    with pytest.raises(TypeError, match=r"the encoder \(Numbers\) cannot be pickled"):
        pool(encoder=encoder)


@pytest.mark.parametrize("encoder", [support.DieWhenUnpickled(), support.Deadly()])
def test_a_worker_that_dies_while_it_loads(encoder):
    transport = ProcessTransport(2)
    with pytest.raises(RoundLosses) as caught:
        transport.load(source(np.arange(24.0), 2, encoder))
    assert transport.closed
    assert {loss.exitcode for loss in caught.value.losses} <= {9, -9}


@pytest.mark.parametrize("word", ["worker_timeout_s", "step_timeout_s", "shutdown_timeout_s"])
@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_time_limits_are_positive(word, seconds):
    with pytest.raises(BackendError, match=word):
        ProcessTransport(2, **{word: seconds})


# Death


@pytest.mark.parametrize(
    ("how", "code", "text"),
    [
        ("exit", 7, "exited with code 7"),
        ("system exit", 5, "exited with code 5"),
        ("kill", -9, r"killed by SIGKILL \(often out of memory"),
        ("segfault", -11, "killed by SIGSEGV"),
        ("half", 0, "exited with code 0"),
        ("complain", 3, "the last words"),
        ("garbage", -9, "garbage on its pipe"),
        ("close", -9, "the end of its pipe"),
        ("stop", -9, "stopped"),
    ],
)
def test_a_lost_worker_is_told_after_what_arrived_and_replaced(pool, how, code, text):
    transport = pool(shards=4, workers=4)
    arrived = []
    with pytest.raises(RoundLosses, match=text) as caught:
        arrived.extend(result.shard for result in transport.map(Apply(support.end, (2, how))))
    assert sorted(arrived) == [0, 1, 3]
    (loss,) = caught.value.losses
    assert isinstance(loss, WorkerLost)
    assert (loss.worker, loss.shards, loss.exitcode) == (2, (2,), code)
    assert apply(transport, support.total) == TOTALS
    assert transport.live() == [0, 1, 2, 3]


@pytest.mark.parametrize("how", ["sleep", "deadlock"])
def test_silence_is_told_with_the_place(pool, how):
    transport = pool(worker_timeout_s=0.4)
    start = time.monotonic()
    with pytest.raises(RoundLosses, match=r"silent for 0.4 s.*raise worker_timeout_s") as caught:
        list(transport.map(Apply(support.end, (1, how))))
    assert time.monotonic() - start < 3.0
    assert "in end" in caught.value.losses[0].stderr_tail  # the traceback of the hung process
    assert apply(transport, support.total) == TOTALS


def test_slow_is_not_dead(pool):
    transport = pool(shards=2, worker_timeout_s=0.15)
    assert apply(transport, support.spin, 0.5) == {0: 0, 1: 1}


def test_a_step_may_be_bounded(pool):
    transport = pool(step_timeout_s=0.3)
    with pytest.raises(RoundLosses, match=r"one shard took longer than step_timeout_s = 0\.3"):
        list(transport.map(Apply(support.forever, ("loop",))))
    assert apply(transport, support.total) == TOTALS


def test_all_workers_die_at_once(pool):
    transport = pool(workers=3)
    for process in transport.processes().values():
        process.kill()
        process.join()
    assert apply(transport, support.total) == TOTALS  # died between rounds: no loss
    with pytest.raises(RoundLosses) as caught:
        list(transport.map(Apply(support.fail, (SystemExit, 0))))
    assert [loss.worker for loss in caught.value.losses] == [0]
    assert apply(transport, support.total) == TOTALS


def test_run_on_a_worker_that_dies(pool):
    transport = pool()
    with pytest.raises(WorkerLost, match="exited with code 7") as caught:
        transport.run(Apply(support.end, (0, "exit")), 0, 1)
    assert (caught.value.worker, caught.value.shards) == (1, (0,))
    assert transport.run(Apply(support.total), 0, 1).value == TOTALS[0]


def test_hook_may_kill_before_any_work(pool):
    transport = pool(workers=4)
    seen = []

    def hook(worker, process):
        seen.append(worker)
        assert process.is_alive()
        assert process.exitcode is None
        if worker == 1:
            process.kill()
            process.join()
            assert not process.is_alive()
            assert process.exitcode == -9

    transport.arm(hook)
    arrived = []
    with pytest.raises(RoundLosses) as caught:
        arrived.extend(result.shard for result in transport.map(Apply(support.total)))
    assert (seen, sorted(arrived)) == ([0, 1, 2, 3], [0, 2, 3])
    assert [loss.worker for loss in caught.value.losses] == [1]
    assert apply(transport, support.total) == TOTALS
    assert seen == [0, 1, 2, 3]  # used once


def test_a_hook_that_raises_leaves_the_pool_usable(shared):
    shared.arm(lambda worker, process: operator.truediv(1, 0))
    with pytest.raises(ZeroDivisionError):
        list(shared.map(Apply(support.total)))
    assert apply(shared, support.total) == TOTALS


def test_terminated_worker_tells_its_signal(pool):
    transport = pool()
    process = transport.process(0)
    process.terminate()
    process.join(5)
    assert (process.exitcode, process.is_alive()) == (-15, False)
    assert "SIGTERM" in repr(process)


def test_a_stopped_worker_with_a_large_task_does_not_block_the_driver(pool):
    transport = pool()
    victim = transport.process(1)
    os.kill(victim.pid, signal.SIGSTOP)
    model = {"a": np.ones(1000), "b": [float(i) for i in range(20_000)]}
    start = time.monotonic()
    rounds = [transport.map(Apply(support.scaled, (model,))) for _ in range(4)]  # more than a socket holds
    with pytest.raises(RoundLosses, match="stopped"):
        list(rounds[0])
    assert time.monotonic() - start < 4.0
    for others in rounds[1:]:
        with pytest.raises(RoundLosses):
            list(others)
    assert apply(transport, support.total) == TOTALS


def test_grandchildren_go_with_their_worker(pool):
    transport = pool(shards=2)
    grandchildren = apply(transport, support.start_grandchild)
    assert all(lives(child) for child in grandchildren.values())
    transport.process(0).kill()
    until(lambda: not lives(grandchildren[0]))
    transport.close()
    until(lambda: not lives(grandchildren[1]))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_launcher_dies(pool, number):
    transport = pool()
    workers = [process.pid for process in transport.processes().values()]
    launcher = psutil.Process(workers[0]).ppid()
    assert launcher != os.getpid()
    os.kill(launcher, number)
    until(lambda: not any(lives(worker) for worker in workers))
    assert apply(transport, support.total) == TOTALS
    assert psutil.Process(transport.process(0).pid).ppid() != launcher


def test_the_launcher_dies_during_a_round(pool):
    transport = pool()
    launcher = psutil.Process(transport.process(0).pid).ppid()
    round_ = transport.map(Apply(support.forever, ("sleep",)))
    threading.Timer(0.05, os.kill, (launcher, signal.SIGKILL)).start()
    with pytest.raises(RoundLosses, match="launcher") as caught:
        list(round_)
    assert [loss.shards for loss in caught.value.losses] == [(0, 2), (1, 3)]
    assert apply(transport, support.total) == TOTALS


# Output


def test_output_of_workers_reaches_the_driver_and_is_bounded(pool, capsys):
    transport = pool(shards=2)
    apply(transport, support.chatter, 1000)
    assert capsys.readouterr().err.count("x" * 99) == 20
    apply(transport, support.chatter, 8 << 20)
    text = capsys.readouterr().err
    assert len(text) < 1 << 20
    assert "more bytes from worker 0 are left out" in text
    assert apply(transport, support.total, *()) == {0: float(ROWS[::2].sum()), 1: float(ROWS[1::2].sum())}


# Opening and closing


def test_close_is_idempotent_and_final(pool):
    transport = pool()
    transport.close()
    transport.close()
    assert transport.closed
    with pytest.raises(HandleClosed):
        list(transport.map(Apply(support.total)))


def test_close_before_load():
    transport = ProcessTransport(2)
    transport.close()
    transport.close()


@pytest.mark.parametrize("how", ["gil", "sleep", "loop"])
def test_close_ends_busy_workers_at_once(pool, how):
    transport = pool()
    round_ = transport.map(Apply(support.forever, (how,)))
    start = time.monotonic()
    transport.close()
    assert time.monotonic() - start < 1.0
    with pytest.raises(HandleClosed):
        next(round_)


def test_close_ends_stopped_workers_and_a_stopped_launcher(pool):
    transport = pool(shutdown_timeout_s=0.1)
    workers = [process.pid for process in transport.processes().values()]
    launcher = psutil.Process(workers[0]).ppid()
    for stopped in (*workers, launcher):
        os.kill(stopped, signal.SIGSTOP)
    transport.close()
    until(lambda: not any(lives(one) for one in (*workers, launcher)))


def test_close_from_another_thread(pool):
    transport = pool()
    caught = []

    def work():
        try:
            list(transport.map(Apply(support.forever, ("sleep",))))
        except HandleClosed as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: transport._pool.supervisor.requests)
    transport.close()
    thread.join(5)
    assert len(caught) == 1


def test_a_forgotten_pool_is_closed(pool):
    transport = ProcessTransport(2)
    transport.load(source(ROWS, 2))
    workers = [process.pid for process in transport.processes().values()]
    del transport
    gc.collect()
    until(lambda: not any(lives(worker) for worker in workers))


def test_many_pools_leave_nothing():
    def cycle(kill):
        transport = ProcessTransport(2)
        transport.load(source(ROWS, 2))
        if kill:
            transport.process(0).kill()
            transport.process(0).join()
            assert set(apply(transport, support.total)) == {0, 1}
        transport.close()

    cycle(True)
    fds, threads, processes = descriptors(), threading.active_count(), family()
    for i in range(500 if FULL else 12):
        cycle(i % 5 == 0)
    assert (descriptors(), threading.active_count(), family()) == (fds, threads, processes)


def test_respawns_leave_no_descriptors(pool):
    transport = pool()
    apply(transport, support.total)
    fds = descriptors()
    for _ in range(20):
        with pytest.raises(RoundLosses):
            list(transport.map(Apply(support.end, (1, "exit"))))
    apply(transport, support.total)
    assert descriptors() == fds


def test_two_pools_from_two_threads():
    totals, errors = {}, []

    def work(name):
        try:
            transport = ProcessTransport(2)
            transport.load(source(ROWS + name, 4))
            totals[name] = [apply(transport, support.total) for _ in range(20)]
            transport.close()
        except Exception as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors
    for name in range(3):
        assert totals[name] == [{s: float((ROWS + name)[s::4].sum()) for s in range(4)}] * 20


def test_a_pool_outlives_the_thread_that_made_it(pool):
    made = []
    thread = threading.Thread(target=lambda: made.append(pool()))
    thread.start()
    thread.join()
    assert apply(made[0], support.total) == TOTALS


def test_a_fork_of_the_driver_gives_its_copies_back(shared):
    fds = descriptors()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        shared.close()
        os.write(write, pickle.dumps((descriptors(), shared.closed)))
        os._exit(0)
    os.close(write)
    inside, closed = pickle.loads(os.read(read, 1000))
    os.close(read)
    os.waitpid(child, 0)
    assert closed
    assert inside < fds
    assert apply(shared, support.total) == TOTALS


def test_signals_blocked_or_ignored_in_the_driver(pool):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    child = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        transport = pool()
        with pytest.raises(RoundLosses, match="exited with code 7"):
            list(transport.map(Apply(support.end, (1, "exit"))))
        transport.process(0).terminate()
        transport.process(0).join()
        assert apply(transport, support.total) == TOTALS
        transport.close()
    finally:
        signal.signal(signal.SIGCHLD, child)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_nothing_runs_while_idle(shared):
    apply(shared, support.total)
    group = [psutil.Process(process.pid) for process in shared.processes().values()]
    group.append(psutil.Process(group[0].ppid()))
    until(lambda: all(process.status() == psutil.STATUS_SLEEPING for process in group))
    before = [process.num_ctx_switches().voluntary for process in group]
    time.sleep(0.3)  # the time in which nothing may happen
    assert [process.num_ctx_switches().voluntary for process in group] == before


# Drivers of every kind


DRIVER = """
import numpy as np
from mixle.utils.parallel.folding.shards import Strided, cut
from mixle.utils.parallel.folding.tasks import Apply
from mixle.utils.parallel.folding.transport import Source
from mixle.utils.parallel.transports.process import ProcessTransport

OFFSET = 1000.0

class Encoder:
    def seq_encode(self, rows):
        return np.asarray(rows, dtype=float)

class Model:
    def __init__(self, scale):
        self.scale = scale
    def times(self, x):
        return x * self.scale * factor

def scaled(shard, model):
    return Answer(model.times(sum(float(c.payload.sum()) for c in shard.chunks)) + OFFSET)

class Answer:
    def __init__(self, value):
        self.value = value

rows = list(range(10))
shards = Strided(2).resolve(10)
transport = ProcessTransport(2)
transport.load(Source(rows, None, Encoder(), shards, tuple((s,) for s in shards)))
for factor in (1.0, 2.0):
    got = {r.shard: r for r in transport.map(Apply(scaled, (Model(1.0),)))}
    assert all(type(r.value) is Answer for r in got.values()), got
    print([got[s].value.value for s in sorted(got)])
OFFSET = 0.0
more = {r.shard: r.value for r in transport.map(Apply(lambda shard: (shard.id, OFFSET)))}
print([more[s] for s in sorted(more)])
"""
SAID = "[1020.0, 1025.0]\n[1040.0, 1050.0]\n[(0, 0.0), (1, 0.0)]\n"


def python(*args, text=None, env=None):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(env or {})}
    done = subprocess.run(
        [sys.executable, *args], input=text, capture_output=True, text=True, env=env, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("way", ["script", "-c", "stdin", "exec", "thread", "no main file", "inner function"])
def test_drivers_without_a_main_guard(tmp_path, way):
    code = DRIVER if way in {"script", "-c", "thread"} else DRIVER + "transport.close()\n"  # or left to the finalizer
    if way == "script":
        (tmp_path / "script.py").write_text(code)
        done = python(str(tmp_path / "script.py"))
    elif way == "-c":
        done = python("-c", code)
    elif way == "stdin":
        done = python("-", text=code)
    elif way == "exec":
        done = python("-c", f"exec({code!r}, {{'__name__': '__main__'}})")
    elif way == "thread":
        run = f"import threading\nt = threading.Thread(target=exec, args=({code!r}, globals()))\nt.start()\nt.join()"
        done = python("-c", run)
    elif way == "no main file":
        done = python("-c", f"import __main__\n__main__.__dict__.pop('__file__', None)\n{code}")
    else:
        inner = textwrap.indent(code.replace("OFFSET = 0.0", "OFFSET = OFFSET * 0.0"), "    ")
        done = python("-c", f"def main():\n{inner}\nmain()")
    assert done.stdout == SAID
    assert done.stderr == ""


@pytest.mark.parametrize("flags", [("-W", "error", "-X", "dev"), ("-I",), ("-O",)], ids=" ".join)
def test_interpreter_flags(flags):
    lines = f"import sys\nsys.path[:0] = {sys.path!r}\n"
    done = python(*flags, "-c", f"{lines}{DRIVER}transport.close()\n")
    assert (done.stdout, done.stderr) == (SAID, "")


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_hash_seeds(seed):
    assert python("-c", DRIVER, env={"PYTHONHASHSEED": seed}).stdout == SAID


def test_closed_standard_streams():
    code = "import os\nfor fd in (0, 1, 2):\n    os.close(fd)\n" + DRIVER + "transport.close()\n"
    assert python("-c", code.replace("print(", "str(")).returncode == 0


def test_spawned_workers_do_the_same():
    code = DRIVER.replace("ProcessTransport(2)", "ProcessTransport(2, start_method='spawn')")
    done = python("-c", code)
    assert (done.stdout, done.stderr) == (SAID, "")


def test_spawned_workers_die_and_are_replaced(pool):
    transport = pool(start_method="spawn")
    with pytest.raises(RoundLosses, match="exited with code 7"):
        list(transport.map(Apply(support.end, (1, "exit"))))
    assert apply(transport, support.total) == TOTALS


BUSY = """
import os, sys
sys.path[:0] = {path!r}
import numpy as np, pool_support as support
from mixle.utils.parallel.folding.tasks import Apply
from mixle.utils.parallel.transports.process import ProcessTransport
transport = ProcessTransport(2)
transport.load(support.source(np.arange(10.0), 2))
work = transport.map(Apply(support.{function}, {args!r}))
print(*[p.pid for p in transport.processes().values()], flush=True)
"""


def start_busy_driver(function, *args, then="list(work)"):
    code = BUSY.format(path=sys.path, function=function, args=args) + then
    driver = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    workers = [int(word) for word in driver.stdout.readline().split()]
    assert len(workers) == 2
    return driver, [*workers, psutil.Process(workers[0]).ppid()]


@pytest.mark.parametrize("stopped", [False, True], ids=["", "launcher stopped"])
@pytest.mark.parametrize("how", ["gil", "sleep", "idle"])
def test_death_of_the_driver_ends_its_workers(how, stopped):
    function, args = ("total", ()) if how == "idle" else ("forever", (how,))
    driver, family_ = start_busy_driver(function, *args, then="list(work); input()" if how == "idle" else "list(work)")
    if stopped:
        os.kill(family_[-1], signal.SIGSTOP)
    driver.kill()
    driver.communicate()
    until(lambda: not any(lives(one) for one in family_), 1.0)


def test_death_of_the_driver_although_a_fork_of_it_lives():
    then = "child = os.fork()\nif child == 0:\n    import time; time.sleep(30)\nprint(child, flush=True)\nlist(work)"
    driver, family_ = start_busy_driver("forever", "sleep", then=then)
    child = int(driver.stdout.readline())
    driver.kill()
    until(lambda: not any(lives(one) for one in family_), 1.0)
    os.kill(child, signal.SIGKILL)
    driver.communicate()


def test_interrupting_the_driver_leaves_workers_alone():
    then = textwrap.dedent("""
        try:
            print("at work", flush=True)
            list(work)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        again = transport.map(Apply(support.pid))
        transport.close()
        print("closed", flush=True)
    """)
    driver, family_ = start_busy_driver("forever", "sleep", then=then)
    assert driver.stdout.readline() == "at work\n"
    driver.send_signal(signal.SIGINT)
    out, err = driver.communicate(timeout=10)
    assert (out, err, driver.returncode) == ("interrupted\nclosed\n", "", 0)
    assert not any(lives(one) for one in family_)


def test_a_pool_inside_a_worker_of_a_pool(pool):
    assert apply(pool(shards=2), nested_total) == {0: 190.0, 1: 190.0}


def nested_total(shard):
    inner = ProcessTransport(2)
    inner.load(source(np.arange(20.0), 4))
    try:
        return sum(apply(inner, support.total).values())
    finally:
        inner.close()


FORK_AFTER_CLOSE = """
import os
from mixle.stats import GaussianEstimator
from mixle.utils.parallel.planner import encoded_data
handle = encoded_data([1.0, 2.0, 3.0], GaussianEstimator(), backend="mp", num_workers=2)
handle.close()
ends = [os.open("/dev/null", os.O_RDONLY) for _ in range(16)]  # the numbers the pool gave back
child = os.fork()
if child == 0:
    for fd in ends:
        os.fstat(fd)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_after_close_finds_nothing_to_close():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_AFTER_CLOSE],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
