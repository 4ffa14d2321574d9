"""ResilientMPEncodedData: what the page and the contract of the handle say, sentence by sentence."""

import pickle
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from fold_support import PlainEncoder, PlainEstimator, numbers

from mixle.errors import BackendError, HandleClosed, RoundLosses, RowError
from mixle.inference import optimize
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.planner import EncodedDataHandle, LocalEncodedData, encoded_data
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData, checkpointed_fold
from mixle.utils.parallel.sdc_audit import finite_guarded_fold

ROWS = numbers()
TWO = [float(x) for x in np.random.RandomState(2).normal(size=60)] + [10.0 + 0.5 * x for x in range(40)]
MIX = MixtureEstimator([GaussianEstimator()] * 2)


def kill(*victims):
    """Return a hook that kills workers."""

    def hook(worker, process):
        if worker in victims:
            process.kill()
            process.join()

    return hook


def bits(handle):
    estimator = PlainEstimator()
    start = handle.pysp_seq_initialize(estimator, 3, 0.3)
    model = handle.pysp_seq_estimate(estimator, start)
    return start.bits(), model.bits(), handle.pysp_seq_log_density_sum(model)


@pytest.fixture(scope="module")
def shared():
    """A handle that no test may harm."""
    with ResilientMPEncodedData(ROWS, PlainEstimator(), num_workers=3) as handle:
        yield handle


@pytest.fixture
def handle():
    with ResilientMPEncodedData(TWO, MIX, num_workers=3) as handle:
        yield handle


@cache
def reference(shards=3, sub_chunks=1):
    return LocalEncodedData(TWO, MIX, num_shards=shards, sub_chunks=sub_chunks)


@cache
def start():
    return reference().pysp_seq_initialize(MIX, 3, 0.5)


@cache
def stepped(shards=3, sub_chunks=1):
    return reference(shards, sub_chunks).pysp_seq_estimate(MIX, start()).digest()


# A drop-in handle


def test_it_is_a_documented_handle(shared):
    assert isinstance(shared, EncodedDataHandle)
    assert encoded_data(shared) is shared
    assert (shared.num_workers, shared.sub_chunks, shared.max_retries, shared.size, len(shared)) == (3, 1, 2, 103, 103)


@pytest.mark.parametrize(("workers", "sub_chunks"), [(1, 1), (2, 3), (5, 1)])
def test_rows_go_round_robin_into_one_shard_per_worker(workers, sub_chunks):
    with ResilientMPEncodedData(ROWS, None, PlainEncoder(), workers, sub_chunks) as handle:
        assert handle._worker_shards == {worker: {worker} for worker in range(workers)}
        assert bits(handle) == bits(LocalEncodedData(ROWS, PlainEstimator(), num_shards=workers, sub_chunks=sub_chunks))
        rows = [pickle.loads(handle._shard_raw[shard]) for shard in range(workers)]
        assert rows == [list(ROWS[shard::workers]) for shard in range(workers)]


def test_another_shard_map_and_weights():
    weights = [float(i % 3) for i in range(103)]
    for shard_map in (7, Contiguous(4)):
        local = LocalEncodedData(ROWS, PlainEstimator(), num_shards=shard_map, weights=weights)
        with ResilientMPEncodedData(
            ROWS, PlainEstimator(), num_workers=2, num_shards=shard_map, weights=weights
        ) as handle:
            assert bits(handle) == bits(local)


@pytest.mark.parametrize(("asked", "got"), [(0, 1), (-3, 1), (99, 4), (np.int64(2), 2)])
def test_workers_are_clipped_to_the_rows(asked, got):
    with ResilientMPEncodedData(ROWS[:4], PlainEstimator(), num_workers=asked) as handle:
        assert handle.num_workers == got == len(handle._procs)


@pytest.mark.parametrize(
    ("data", "controls", "error", "words"),
    [
        ([], {}, ValueError, "ResilientMPEncodedData requires non-empty data"),
        ((x for x in ROWS), {}, TypeError, r"ResilientMPEncodedData: a generator can be read only once: pass list"),
        (ROWS, {"estimator": None}, ValueError, "ResilientMPEncodedData requires an estimator or an explicit encoder"),
        (ROWS, {"num_workers": True}, TypeError, "num_workers must be a number of processes, not True"),
        (ROWS, {"num_workers": 2.0}, TypeError, "num_workers must be a number of processes, not 2.0"),
        (ROWS, {"sub_chunks": 0}, ValueError, "sub_chunks must be positive"),
        (ROWS, {"sub_chunks": 1.5}, TypeError, "sub_chunks must be a positive integer"),
        (ROWS, {"max_retries": 0}, ValueError, "max_retries must be at least 1."),
        (ROWS, {"max_retries": 1.0}, TypeError, "max_retries must be an integer"),
        (ROWS, {"max_retries": True}, TypeError, "max_retries must be an integer"),
        (ROWS, {"worker_timeout_s": 0}, ValueError, "worker_timeout_s must be a positive number"),
        (ROWS, {"step_timeout_s": -1.0}, ValueError, "step_timeout_s must be a positive number"),
        (ROWS, {"weights": [1.0]}, ValueError, "one per row"),
        (ROWS, {"num_shards": "2"}, TypeError, "num_shards takes an int"),
        (ROWS, {"speculate": 1}, TypeError, "speculate must be True or False"),
        ([*ROWS, "x"], {"num_workers": 2}, RowError, r"Row 103 \(Plain\): 'x' is not a number"),
    ],
)
def test_bad_input_is_refused(data, controls, error, words):
    with pytest.raises(error, match=words):
        ResilientMPEncodedData(data, **{"estimator": PlainEstimator(), **controls})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda h: h.pysp_seq_estimate(PlainEstimator(), None), "ResilientMPEncodedData has no live workers left"),
        (lambda h: h.pysp_stream_accumulate(PlainEstimator(), None), "has no live workers left.*update cannot be"),
        (lambda h: h.pysp_seq_log_density_sum(start()), "workers returned no scores: this handle is closed"),
        (lambda h: h.pysp_seq_initialize(PlainEstimator(), 1, 0.5), "workers returned no start: this handle is closed"),
        (lambda h: h.add_worker(), "has no live workers left"),
    ],
)
def test_a_closed_handle_says_so(call, words):
    handle = ResilientMPEncodedData(ROWS, PlainEstimator(), num_workers=2)
    handle.close()
    handle.close()
    assert len(handle) == 103
    assert handle._procs == handle._conns == {}
    with pytest.raises(HandleClosed, match=words) as caught:
        call(handle)
    assert isinstance(caught.value, RuntimeError)


# Losses


def test_a_worker_killed_at_the_rendezvous_costs_its_shard_and_no_bit(handle):
    seen = []

    def hook(worker, process):
        seen.append((worker, process.pid, process.is_alive()))
        kill(1)(worker, process)

    before = {worker: process.pid for worker, process in handle._procs.items()}
    handle.arm_kill(hook)
    assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped()
    assert seen == [(worker, before[worker], True) for worker in range(3)]
    assert handle.last_round_reused_shards == {0, 2}
    assert handle.last_round_recomputed_shards == {1}
    assert handle.last_round_failed_workers == {1}
    assert handle.last_round_blacklisted_workers == handle._blacklist == set()
    assert handle._failures == {1: 1}
    assert handle._failures[0] == 0  # a rank that was never lost
    (loss,) = handle.last_round_losses
    assert (loss.worker, loss.shards, loss.kind, loss.exitcode) == (1, (1,), "signal", -9)
    assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped()
    assert len(seen) == 3  # used once
    assert handle.last_round_failed_workers == handle.last_round_recomputed_shards == set()
    assert handle.last_round_reused_shards == {0, 1, 2}
    after = {worker: process.pid for worker, process in handle._procs.items()}
    assert after.keys() == before.keys()  # the same rank, started again
    assert {worker for worker in after if after[worker] != before[worker]} == {1}
    assert handle._worker_shards == {0: {0}, 1: {1}, 2: {2}}


def test_a_rank_that_fails_again_is_blacklisted_and_its_shard_moves_for_good(handle):
    for _ in range(2):
        handle.arm_kill(kill(1))
        assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped()
    assert handle.last_round_blacklisted_workers == handle._blacklist == {1}
    assert handle._failures == {1: 2}
    assert handle.last_round_losses[0].blacklisted
    assert set(handle._procs) == set(handle._conns) == {0, 2}
    shards = handle._worker_shards
    assert shards[1] == set()
    assert sorted(shards[0] | shards[2]) == [0, 1, 2]
    assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped()
    assert handle.last_round_recomputed_shards == set()
    assert handle._blacklist == {1}


def test_shards_of_several_lost_workers_spread_over_the_survivors():
    done_by = {}
    with ResilientMPEncodedData(TWO, MIX, num_workers=4, num_shards=8) as handle:
        run = handle._retry.map

        def watched(task):
            for result in run(task):
                done_by[result.shard] = result.receipt["worker"]
                yield result

        handle._retry.map = watched
        handle.arm_kill(kill(0, 3))
        assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped(8)
        assert handle.last_round_recomputed_shards == {0, 3, 4, 7}
        doers = [done_by[shard] for shard in (0, 3, 4, 7)]
        assert max(doers.count(worker) for worker in doers) <= 2


def test_the_shards_of_a_given_up_rank_move_to_who_computed_them():
    with ResilientMPEncodedData(TWO, MIX, num_workers=3, num_shards=9, max_retries=1) as handle:
        run, done_by = handle._retry.map, {}

        def watched(task):
            for result in run(task):
                done_by[result.shard] = result.receipt["worker"]
                yield result

        handle._retry.map = watched
        handle.arm_kill(kill(1))
        assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped(9)
        assert handle._retry.owner == done_by
        assert {worker: len(shards) for worker, shards in handle._worker_shards.items()} in (
            {0: 5, 1: 0, 2: 4},
            {0: 4, 1: 0, 2: 5},
        )


def test_sub_chunks_are_carried_to_the_recovery():
    with ResilientMPEncodedData(TWO, MIX, num_workers=2, sub_chunks=5) as handle:
        handle.arm_kill(kill(0))
        assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped(2, 5)


def test_workers_killed_between_rounds_are_losses_of_the_next_one(handle):
    handle._procs[2].kill()
    handle._procs[2].join()
    assert handle.pysp_seq_log_density_sum(start()) == reference().pysp_seq_log_density_sum(start())
    assert handle.last_round_failed_workers == {2}
    handle.pysp_seq_log_density_sum(start())
    assert handle.last_round_failed_workers == {2}  # a clean score is no E-step
    handle._conns[0].close()
    again = handle.pysp_seq_initialize(MIX, 3, 0.5)
    assert again.digest() == start().digest()
    assert handle.pysp_stream_accumulate(MIX, start())[0] == 100.0
    assert handle._failures == {2: 1, 0: 1}


def test_a_hook_waits_for_an_e_step_whatever_comes_before(handle):
    handle.arm_kill(kill(0))
    assert handle.pysp_seq_initialize(MIX, 3, 0.5).digest() == start().digest()
    handle.pysp_seq_log_density_sum(start())
    handle.apply(len_of)
    assert handle._failures == {}
    handle.pysp_stream_accumulate(MIX, start())
    assert handle.last_round_failed_workers == {0}


def len_of(shard):
    return shard.rows


def test_a_hook_is_cleared_although_the_call_is_refused(handle):
    handle.arm_kill(kill(0))
    with pytest.raises(TypeError, match="needs a model to step from"):
        handle.pysp_seq_estimate(MIX, None)
    handle.pysp_seq_estimate(MIX, start())
    handle.arm_kill(kill(0))
    handle.arm_kill(None)
    handle.pysp_seq_estimate(MIX, start())
    assert handle._failures == {}
    with pytest.raises(TypeError, match="cannot be called"):
        handle.arm_kill(3)


def test_a_hook_that_raises_leaves_the_handle_usable(handle):
    handle.arm_kill(lambda worker, process: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        handle.pysp_seq_estimate(MIX, start())
    assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped()
    assert handle._failures == {}


def test_optimize_fires_the_hook_and_keeps_the_bits(handle):
    wanted = optimize(TWO, MIX, enc_data=reference(), delta=1e-3, rng=np.random.RandomState(1), out=None)
    handle.arm_kill(kill(2))
    fitted = optimize(TWO, MIX, enc_data=handle, delta=1e-3, rng=np.random.RandomState(1), out=None)
    assert fitted.digest() == wanted.digest()
    assert handle._failures == {2: 1}


def test_all_workers_killed_below_max_retries_are_started_again(handle):
    handle.arm_kill(kill(0, 1, 2))
    assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped()
    assert handle.last_round_failed_workers == {0, 1, 2}
    assert handle.last_round_recomputed_shards == {0, 1, 2}


def test_nobody_left_is_told_with_each_loss_and_can_be_mended():
    with ResilientMPEncodedData(TWO, MIX, num_workers=3, max_retries=1) as handle:
        handle.arm_kill(kill(0, 1, 2))
        with pytest.raises(RuntimeError, match=r"no surviving worker available to recover shard 0\.") as caught:
            handle.pysp_seq_estimate(MIX, start())
        assert isinstance(caught.value, RoundLosses)
        assert [loss.worker for loss in caught.value.losses] == [0, 1, 2]
        for worker in range(3):
            assert f"worker {worker} with shard" in str(caught.value)
        assert handle.last_round_blacklisted_workers == {0, 1, 2}
        with pytest.raises(RoundLosses, match="ResilientMPEncodedData has no live workers left"):
            handle.pysp_seq_estimate(MIX, start())
        handle.resize(2)
        assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped()
        assert sorted(handle._procs) == [3, 4]


def test_a_users_exception_retires_nobody(handle):
    pids = {worker: process.pid for worker, process in handle._procs.items()}
    with pytest.raises(RuntimeError, match="shard 1: ZeroDivisionError") as caught:
        handle.apply(divide)
    assert isinstance(caught.value, ZeroDivisionError)
    assert (caught.value.shard, caught.value.worker) == (1, 1)
    assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped()
    assert {worker: process.pid for worker, process in handle._procs.items()} == pids
    assert (handle._failures, handle._blacklist) == ({}, set())


def divide(shard):
    return 1 / (shard.id - 1)


# Growing and shrinking


def test_workers_come_and_go_and_bits_stay():
    with ResilientMPEncodedData(TWO, MIX, num_workers=2, num_shards=6) as handle:
        assert handle.add_worker() == 2
        assert handle.num_workers == 3
        assert {worker: len(shards) for worker, shards in handle._worker_shards.items()} == {0: 2, 1: 2, 2: 2}
        assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped(6)
        assert handle.last_round_recomputed_shards == set()
        assert handle.remove_worker(0) == 0
        assert sorted(handle._procs) == [1, 2]
        assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped(6)
        for count in (5, 1, 3):
            handle.resize(count)
            assert handle.num_workers == count
            assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped(6)
            assert len(handle._procs) == count
        handle.arm_kill(kill(*handle._procs))
        assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped(6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda h: h.remove_worker(9), r"there is no worker 9: this pool has workers \[0\]"),
        (lambda h: h.remove_worker(), "worker 0 is the last one"),
        (lambda h: h.resize(0), "at least 1 worker, not 0"),
        (lambda h: h.resize(True), "at least 1 worker, not True"),
    ],
)
def test_a_pool_keeps_one_worker(call, words):
    with ResilientMPEncodedData(TWO, MIX, num_workers=1) as handle, pytest.raises(BackendError, match=words):
        call(handle)


# The fold


def test_a_foreign_fold_is_given_pickles_in_shard_order(handle):
    given = []

    def fold(estimator, payloads):
        given.extend(payloads)
        return checkpointed_fold(estimator, payloads, checkpoint_after=1)

    handle._fold_fn = fold
    handle.arm_kill(kill(0))
    assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped()
    assert [type(data) for data in given] == [bytes] * 3
    counts = [pickle.loads(data)[0] for data in given]
    assert counts == [34.0, 33.0, 33.0]


def test_our_own_folds_take_the_short_way(handle, monkeypatch):
    import mixle.utils.parallel.resilient_em as home

    class Guarded(ResilientMPEncodedData):
        _fold_fn = staticmethod(finite_guarded_fold)

    def refuse(*words):
        raise AssertionError("pickled")

    monkeypatch.setattr(home.pickle, "dumps", refuse)
    assert handle.pysp_seq_estimate(MIX, start()).digest() == stepped()
    with Guarded(TWO, MIX, num_workers=3) as guarded:
        assert guarded.pysp_seq_estimate(MIX, start()).digest() == stepped()


@pytest.mark.parametrize("after", [None, 0, 1, 2])
def test_a_running_sum_is_a_checkpoint(after):
    payloads = [pickle.dumps((float(i), (float(i), 2.0 * i, 1.0, 1.0))) for i in range(3)]
    assert checkpointed_fold(PlainEstimator(), payloads, after) == (3.0, (3.0, 6.0, 3.0, 3.0))


# Views


def test_views_are_real(shared):
    assert sorted(shared._procs) == sorted(shared._conns) == [0, 1, 2]
    for process in shared._procs.values():
        assert process.is_alive()
        assert process.exitcode is None
        assert process.sentinel > 2
    assert all(connection.fileno() > 2 for connection in shared._conns.values())
    assert set(shared._shard_raw) == {0, 1, 2}
    assert len(shared._shard_raw) == 3
    with pytest.raises(KeyError):
        shared._shard_raw[3]


class Cell:
    """A row that only this module defines."""

    def __init__(self, x):
        self.x = x


class Cells(PlainEncoder):
    def seq_encode(self, rows):
        return np.array([row.x for row in rows])


def test_raw_shards_of_arrays_and_of_objects():
    with ResilientMPEncodedData(np.arange(10.0), PlainEstimator(), num_workers=2) as handle:
        assert pickle.loads(handle._shard_raw[1]) == [1.0, 3.0, 5.0, 7.0, 9.0]
    with ResilientMPEncodedData([Cell(float(i)) for i in range(4)], None, Cells(), 2) as handle:
        assert [row.x for row in pickle.loads(handle._shard_raw[1])] == [1.0, 3.0]


def test_importing_it_loads_nothing_late():
    late = {"scipy", "multiprocessing", "numpy.random", "json"}
    code = f"import sys; late = {late!r} - sys.modules.keys(); import mixle.utils.parallel.resilient_em; "
    code += "print(sorted(late & sys.modules.keys()))"  # what measures coverage may have loaded some already
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
