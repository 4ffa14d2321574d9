"""The retry policy over any transport that reports losses, and what it is made of."""

import os
import signal
import sys
import time

import fault_support as faults
import numpy as np
import pool_support as support
import pytest
from hypothesis import given
from hypothesis import strategies as st
from leaks import nothing_hangs_and_nothing_is_left_behind  # noqa: F401 - a fixture
from pool_support import source

from mixle.errors import BackendError, HandleClosed, RoundLosses, RowError, WorkerLost
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.folding.round import run_round
from mixle.utils.parallel.folding.tasks import Apply, Result
from mixle.utils.parallel.planner import LocalEncodedData
from mixle.utils.parallel.policies.assignment import level, spread
from mixle.utils.parallel.policies.base import Policy, stack
from mixle.utils.parallel.policies.losses import OomWatch, classify
from mixle.utils.parallel.policies.retry import Retry
from mixle.utils.parallel.policies.speculate import Difference, differ
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData
from mixle.utils.parallel.transports.local import LocalTransport
from mixle.utils.parallel.transports.process import ProcessTransport

pytestmark = pytest.mark.chaos
ROWS = np.arange(24.0)
TOTALS = {shard: float(ROWS[shard::4].sum()) for shard in range(4)}


def total(policy):
    return {result.shard: result.value for result in run_round(policy, Apply(support.total))}


def lost(worker, shards, cause="killed by SIGKILL", exitcode=-9, tail=""):
    error = WorkerLost(f"worker {worker} was lost: {cause}")
    error.worker, error.shards, error.cause, error.exitcode, error.stderr_tail = worker, shards, cause, exitcode, tail
    return error


def group(*losses):
    error = RoundLosses("\n".join(map(str, losses)))
    error.losses = losses
    return error


class Cluster(LocalTransport):
    """A third party's transport with two workers: it tells losses, and moves nothing by itself.

    `script` holds, for each call of a verb, the workers that die in it.
    """

    name = "cluster"

    def __init__(self, script=()):
        super().__init__()
        self.script, self.given = list(script), []

    def workers(self):
        return [0, 1]

    def map(self, task):
        yield from self.work(task, {worker: [s for s in self.sizes if s % 2 == worker] for worker in (0, 1)})

    def work(self, task, assignment):
        dying = self.script.pop(0) if self.script else ()
        self.given.append({worker: list(shards) for worker, shards in assignment.items()})
        losses = []
        for worker, shards in assignment.items():
            for place, shard in enumerate(shards):
                if worker in dying and place == len(shards) // 2:
                    losses.append(lost(worker, tuple(shards[place:])))
                    break
                yield super().run(task, shard, worker)
        if losses:
            raise group(*losses)


class Dispatching(Cluster):
    """The same with a verb for many shards at once."""

    def dispatch(self, task, assignment):
        return self.work(task, assignment)


class Running(Cluster):
    """The same with a verb for one shard."""

    def run(self, task, shard, worker=None):
        (result,) = self.one(task, shard, worker)
        return result

    def one(self, task, shard, worker):
        dying = self.script.pop(0) if self.script else ()
        self.given.append({worker: [shard]})
        if worker in dying:
            raise lost(worker, (shard,))
        yield LocalTransport.run(self, task, shard, worker)


@pytest.mark.parametrize("kind", [Dispatching, Running])
def test_losses_of_a_foreign_transport_are_recomputed_once(kind):
    cluster = kind([(1,)])
    policy = Retry(2).over(cluster)
    policy.load(source(ROWS, 4))
    assert total(policy) == TOTALS
    assert (policy.last.reused, policy.last.recomputed, policy.last.failed) == ({0, 1, 2}, {3}, {1})
    assert policy.failures == {1: 1}
    assert cluster.given[1:] == [{0: [3]}]


@pytest.mark.parametrize("kind", [Dispatching, Running])
def test_losses_on_both_sides_until_nobody_is_left(kind):
    cluster = kind([(0, 1)])
    policy = Retry(2).over(cluster)
    policy.load(source(ROWS, 4))
    with pytest.raises(RoundLosses, match="no surviving worker available to recover shard 2") as caught:
        total(policy)
    assert [loss.worker for loss in caught.value.losses] == [0, 1]
    assert [loss.exitcode for loss in caught.value.losses] == [-9, -9]
    assert total(policy) == TOTALS  # the transport has started them again


def test_a_blacklisted_worker_of_a_foreign_transport_gets_no_more_work():
    cluster = Dispatching([(1,), (), (1,), (), (), ()])
    policy = Retry(2).over(cluster)
    policy.load(source(ROWS, 4))
    for _ in range(2):
        assert total(policy) == TOTALS
    assert policy.blacklist == policy.last.blacklisted == {1}
    with pytest.raises(RoundLosses, match="no live workers left"):
        Policy.over(policy, policy.inner)
        policy.blacklist |= {0}
        total(policy)


def test_a_transport_without_losses_is_left_as_it_is():
    policy = stack(LocalTransport(), [Retry(2, speculate=True)])
    policy.load(source(ROWS, 4))
    assert total(policy) == TOTALS
    assert policy.run(Apply(support.total), 3, 0).value == TOTALS[3]
    assert (policy.name, policy.closable, policy.last.reused) == ("local", False, {0, 1, 2, 3})
    assert not policy.speculates
    for call in (policy.add_worker, policy.remove_worker, lambda: policy.resize(2)):
        with pytest.raises(BackendError, match="use backend='mp'"):
            call()
    policy.close()


def test_policies_are_sorted_and_checked():
    class Outer(Policy):
        order = 3
        needs = ("move",)

    policy = stack(ProcessTransport(1), [Outer(), Retry(1)])
    assert isinstance(policy, Outer)
    assert isinstance(policy.inner, Retry)
    policy.close()
    with pytest.raises(BackendError, match=r"Outer needs a transport that can move; 'local' cannot"):
        stack(LocalTransport(), [Outer()])
    with pytest.raises(BackendError, match="Retry is given 2 times"):
        stack(LocalTransport(), [Retry(1), Retry(2)])
    with pytest.raises(TypeError, match=r"policies takes policies such as Retry\(2\), not 'retry'"):
        stack(LocalTransport(), ["retry"])
    with pytest.raises(AttributeError, match="Retry has no move"):
        Retry(2).move  # noqa: B018 - what it lacks before it has a transport


def test_one_spec_serves_many_pools():
    spec = Retry(1)
    one, two = spec.over(Dispatching([(1,)])), spec.over(Dispatching())
    for policy in (one, two):
        policy.load(source(ROWS, 4))
        assert total(policy) == TOTALS
    assert (one.blacklist, two.blacklist) == ({1}, set())
    assert not hasattr(spec, "blacklist")


@pytest.mark.parametrize("value", [0, -1])
def test_max_retries_is_at_least_one(value):
    with pytest.raises(ValueError, match=r"max_retries must be at least 1\."):
        Retry(value)


# Over processes


@pytest.fixture
def pool():
    opened = []

    def open_pool(rows=ROWS, shards=4, workers=2, encoder=None, retry=None, **options):
        policy = (retry or Retry(2)).over(ProcessTransport(workers, **options))
        opened.append(policy)
        policy.load(source(rows, shards, encoder))
        return policy

    yield open_pool
    for policy in opened:
        policy.close()


def test_run_and_dispatch_move_to_another_worker_if_theirs_dies(pool):
    policy = pool()
    policy.process(1).kill()
    policy.process(1).join()
    result = policy.run(Apply(support.total), 3, 1)
    assert (result.value, result.receipt["worker"], result.receipt["recomputed"]) == (TOTALS[3], 0, True)
    assert policy.last.failed == {1}
    got = {r.shard: r.receipt["worker"] for r in policy.dispatch(Apply(support.total), {0: [1], 1: [0, 2]})}
    assert got == {1: 0, 0: 1, 2: 1}


def test_a_round_that_is_given_up_disturbs_no_later_one(pool):
    policy = pool()
    rounds = policy.map(Apply(support.total))
    next(rounds)
    rounds.close()
    assert total(policy) == TOTALS
    assert policy.failures == {}


def test_a_row_that_cannot_be_read_is_named_while_workers_die(pool, tmp_path):
    with pytest.raises(RowError, match=r"Row 5 .*'x' is not a number"):
        pool([0.0, 1.0, 2.0, 3.0, 4.0, "x"], 2)


def test_a_shard_that_ends_every_worker_is_told():
    policy = Retry(1).over(ProcessTransport(2))
    with pytest.raises(RoundLosses, match="no surviving worker available to recover shard") as caught:
        policy.load(source(ROWS, 2, support.Deadly()))
    assert [loss.exitcode for loss in caught.value.losses] == [-9, -9]
    policy.close()
    with pytest.raises(HandleClosed):
        total(policy)


def test_it_serves_a_pool_of_spawned_workers(pool):
    policy = pool(start_method="spawn")
    policy.process(1).kill()
    assert total(policy) == TOTALS
    assert total(policy) == TOTALS
    assert len(policy.processes()) == 2


def test_recovery_does_not_wait_for_the_respawn(pool):
    """A worker whose launcher is stopped cannot be started again; the round goes on without it."""
    import psutil

    policy = pool(workers=3)
    launcher = psutil.Process(policy.process(0).pid).ppid()
    policy.arm(lambda worker, process: end(launcher, process) if worker == 2 else None)
    began = time.monotonic()
    assert total(policy) == TOTALS
    assert time.monotonic() - began < 0.9  # a stopped launcher is given up after a second
    assert policy.last.failed == {2}
    os.kill(launcher, signal.SIGCONT)
    assert total(policy) == TOTALS


def end(launcher, process):
    os.kill(launcher, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGKILL)


# Slow workers

SPEED = MixtureEstimator([GaussianEstimator()] * 2)
TWENTY = [float(x) for x in np.random.RandomState(4).normal(size=80)]


@pytest.mark.parametrize("shards", [4, 16])
def test_a_slow_worker_is_backed_up(tmp_path, shards):
    slow = tmp_path / "pid"
    slow.write_text("")
    snail = faults.Snail(SPEED, slow, 0.05, 0.5)
    local = LocalEncodedData(TWENTY, SPEED, num_shards=shards)
    start = local.pysp_seq_initialize(SPEED, 3, 0.5)
    wanted = local.pysp_seq_estimate(SPEED, start).digest()
    with ResilientMPEncodedData(TWENTY, snail, num_workers=4, num_shards=shards, speculate=True) as handle:
        assert handle.pysp_seq_estimate(snail, start).digest() == wanted
        slow.write_text(str(handle._procs[1].pid))
        times, backed_up = [], set()
        for _ in range(4):
            began = time.monotonic()
            assert handle.pysp_seq_estimate(snail, start).digest() == wanted
            times.append(time.monotonic() - began)
            backed_up |= handle._retry.last.backed_up
        assert sorted(times)[1] < 0.5 * shards / 4  # what the slow worker takes for its own
        assert handle._failures == {}
        assert backed_up
        end_at = time.monotonic() + 20
        slow.write_text("")
        while handle._retry.late_work():
            assert handle.differences == ()
            assert time.monotonic() < end_at
            time.sleep(0.01)
        assert handle.pysp_seq_estimate(snail, start).digest() == wanted


def test_a_late_reply_that_differs_is_noted():
    used = Result(3, 5, 5.0, (1.0, np.ones(2)), -1.0, {"worker": 1})
    same = Result(3, 5, 5.0, (1.0, np.ones(2)), -1.0, {"worker": 2, "seconds": 9.0})
    assert differ(used, same) is None
    flipped = Result(3, 5, 5.0, (1.0, np.array([1.0, np.nextafter(1.0, 2.0)])), -1.0, {"worker": 2})
    assert differ(used, flipped) == Difference(3, 1, 2, "value")
    assert differ(used, Result(3, 5, 5.0, used.value, -2.0, {})) == Difference(3, 1, None, "log_density")


# Its parts


@given(
    st.dictionaries(st.integers(0, 40), st.integers(1, 1000), max_size=30),
    st.dictionaries(st.integers(0, 9), st.floats(0, 1e4), min_size=1, max_size=6),
)
def test_spread_gives_each_shard_once_and_levels_loads(sizes, loads):
    given_ = spread(sizes, sizes, loads)
    assert sorted(shard for shards in given_.values() for shard in shards) == sorted(sizes)
    assert given_ == spread(list(sizes)[::-1], sizes, dict(reversed(loads.items())))
    after = {worker: loads[worker] + sum(sizes[s] for s in given_.get(worker, ())) for worker in loads}
    for worker, shards in given_.items():
        smallest = min(sizes[shard] for shard in shards)
        assert after[worker] - smallest <= min(after.values()) + 1e-6


@given(
    st.dictionaries(st.integers(0, 40), st.tuples(st.integers(1, 100), st.integers(0, 5)), max_size=25),
    st.sets(st.integers(0, 6), min_size=1),
)
def test_level_moves_to_allowed_workers_and_leaves_no_better_move(cells, workers):
    sizes = {shard: size for shard, (size, _) in cells.items()}
    owner = {shard: worker for shard, (_, worker) in cells.items()}
    after = {**owner, **level(owner, sizes, workers)}
    assert set(after.values()) <= workers
    loads = {w: sum(sizes[s] for s in after if after[s] == w) for w in workers}
    gap = max(loads.values()) - min(loads.values())
    for shard, worker in after.items():
        if loads[worker] == max(loads.values()):
            assert sizes[shard] >= gap


@pytest.mark.parametrize(
    ("cause", "exitcode", "tail", "memory", "kind"),
    [
        ("killed by SIGKILL (often out of memory)", -9, "", False, "signal"),
        ("killed by SIGKILL (often out of memory)", -9, "", True, "out of memory"),
        ("killed by SIGSEGV (a crash in compiled code)", -11, "", True, "signal"),
        ("exited with code 1", 1, "ModuleNotFoundError: No module named 'x'", None, "import error"),
        ("exited with code 1", 1, "bye", None, "exit"),
        ("it has been stopped (SIGSTOP) for 1 s", -9, "", None, "stopped"),
        ("silent for 30 s: asleep", -9, "", None, "silent"),
        ("one shard took longer than step_timeout_s = 3", -9, "", None, "over its time limit"),
        ("the driver met garbage on its pipe", -9, "", None, "garbled reply"),
        ("the driver met an oversized reply of 3 bytes", -9, "", None, "garbled reply"),
        ("the driver met the end of its pipe", -9, "", None, "closed its pipe"),
        ("its launcher killed by SIGKILL", None, "", None, "launcher"),
        ("died, exit status unknown", None, "", None, "unknown"),
    ],
)
def test_losses_are_classified(cause, exitcode, tail, memory, kind):
    loss = classify(lost(1, (2, 3), cause, exitcode, tail), memory)
    assert loss.kind == kind
    assert str(loss).startswith(f"worker 1 with shards 2, 3: {cause}")
    assert ("killed for memory" in str(loss)) == bool(memory)
    assert (f"it last wrote: {tail}" in str(loss)) == bool(tail)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counters of Linux")
def test_the_kernels_counter_is_read():
    watch = OomWatch()
    assert watch.files
    assert watch.grew() is False
    watch.before = dict.fromkeys(watch.before, -1)
    assert watch.grew() is True
    watch.files = []
    assert watch.grew() is None
