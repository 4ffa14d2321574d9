"""What policies are made of: the words they leave, the numbers they decide by, the verbs they hand on."""

import math
import os

import numpy as np
import pytest

from mixle.errors import BackendError, RoundLosses, WorkerLost
from mixle.utils.parallel.folding.tasks import Accumulate, Result
from mixle.utils.parallel.folding.transport import Transport
from mixle.utils.parallel.planner import CalibrationCatalog, Costs, Overhead, Pace, known_costs
from mixle.utils.parallel.policies import cores, losses
from mixle.utils.parallel.policies.alarms import Alarm
from mixle.utils.parallel.policies.base import Policy, lets_choose, stack
from mixle.utils.parallel.policies.beside import beside
from mixle.utils.parallel.policies.cores import Pins, bind, physical_cores
from mixle.utils.parallel.policies.evidence import BOUND, SOUND, UNSOUND, Evidence
from mixle.utils.parallel.policies.losses import Loss, OomWatch, RoundReceipt, classify, nobody_left
from mixle.utils.parallel.policies.predict import Predict
from mixle.utils.parallel.policies.quarantine import live_workers, retire
from mixle.utils.parallel.policies.rebalance import Rebalance
from mixle.utils.parallel.policies.retry import Retry
from mixle.utils.parallel.policies.selection import Selection
from mixle.utils.parallel.transports.local import LocalTransport

# Alarms and evidence


@pytest.mark.parametrize(
    ("shard", "worker", "text"),
    [
        (0, 0, "round 3, shard 0, worker 0: rows: mended"),
        (7, -1, "round 3, shard 7, driver: rows: mended"),
        (-1, 2, "round 3, worker 2: rows: mended"),
        (-1, -1, "round 3, driver: rows: mended"),
    ],
)
def test_an_alarm_says_where_and_whose(shard, worker, text):
    assert str(Alarm(3, shard, worker, "rows", "mended")) == text


def test_the_score_of_a_worker_is_the_log_likelihood_ratio_of_the_two_rates():
    assert math.exp(BOUND) == pytest.approx(1e6)
    evidence, fault, sound = Evidence(), math.log(UNSOUND / SOUND), math.log((1 - UNSOUND) / (1 - SOUND))
    assert fault == pytest.approx(math.log(1e4), rel=1e-12)
    evidence.add([4, 4, 4], [])
    assert evidence.score == {4: 0.0}  # it never falls below zero
    evidence.add([], [4])
    assert evidence.score[4] == pytest.approx(fault, rel=1e-12)
    evidence.add([4] * 1000, [])
    assert evidence.score[4] == pytest.approx(fault + 1000 * sound, rel=1e-9)
    assert evidence.score[4] < fault
    assert (evidence.trials, evidence.faults, evidence.named) == ({4: 1003}, {4: 1}, {})
    assert evidence.add([5], [4, 4]) == [4]
    assert evidence.named == {4: "3 of 1003 compared statistics were wrong"}


def test_two_faults_name_a_worker_up_to_the_number_of_trials_that_is_documented():
    for trials, named in [(460_000, [1]), (461_000, [])]:
        evidence = Evidence()
        evidence.add([1], [1])
        evidence.score[1] += trials * (math.log1p(-UNSOUND) - math.log1p(-SOUND))
        assert evidence.add([], [1]) == named


def test_a_worker_that_was_never_compared_may_still_be_named_and_the_text_follows_its_faults():
    evidence = Evidence()
    assert evidence.add([], [2, 1, 1, 2]) == [1, 2]
    assert evidence.named[2] == "2 of 0 compared statistics were wrong"
    assert evidence.add([2], [2]) == []
    assert evidence.named[2] == "3 of 1 compared statistics were wrong"


# Whom an audit takes, and how it retires a worker


def test_what_is_not_drawn_yet_is_kept_as_credit():
    selection, rng = Selection(0.3), np.random.RandomState(0)
    assert [len(selection.draw(range(5), rng)) for _ in range(4)] == [1, 2, 1, 2]
    selection.back([4, 6])
    assert selection.credit == pytest.approx(2.0)
    assert len(selection.draw(range(5), rng)) == 3  # 2 that were taken back, and 1.5


def test_those_whose_time_runs_out_go_first_and_the_longest_waiting_of_them():
    selection, rng = Selection(0.5), np.random.RandomState(0)
    selection.age = {0: 1, 1: 5, 2: 3, 3: 9}
    assert selection.draw(range(4), rng) == [1, 3]


class Workers:
    """Three workers with two shards each; what happens to them is written down."""

    name = "workers"

    def __init__(self):
        self.sizes = dict.fromkeys(range(6), 10)
        self.owner = {shard: shard % 3 for shard in self.sizes}
        self.live, self.record = [0, 1, 2], []

    def workers(self):
        return list(self.live)

    def run(self, task, shard, worker):
        return Result(shard, 10, 10.0, worker, None, {"worker": worker})

    def move(self, shard, worker):
        self.record.append(("move", shard, worker))
        self.owner[shard] = worker

    def retire(self, worker):
        self.record.append(("retire", worker))
        self.live.remove(worker)


class Retried(Workers):
    """The same under a retry policy."""

    max_retries = 2

    def __init__(self):
        super().__init__()
        self.failures, self.blacklist = {}, set()
        self.up, self.unborn = {0, 1, 2}, {1}


def test_a_retired_worker_does_not_come_back(caplog):
    pool = Retried()
    status, staged = retire(pool, "task", 1, {0, 2}, [])
    assert status == "committed"
    assert {shard: result.value for shard, result in staged.items()} == {1: 0, 4: 2}
    assert pool.record == [("move", 1, 0), ("move", 4, 2), ("retire", 1)]
    assert (pool.failures, pool.blacklist, pool.up, pool.unborn) == ({1: 2}, {1}, {0, 2}, set())
    (record,) = caplog.records
    assert (record.name, record.levelname, record.message) == ("mixle.audit", "WARNING", "worker 1 is retired")
    assert (record.worker, record.status) == (1, "committed")


def test_a_suspect_that_stays_is_told_with_the_reason(caplog):
    assert retire(Workers(), "task", 1, {1}, []) == ("deferred:no_safe_survivor", {})
    (record,) = caplog.records
    assert record.message == "worker 1 is suspected and stays: deferred:no_safe_survivor"
    assert record.status == "deferred:no_safe_survivor"


def test_shards_go_to_the_heirs_that_hold_least():
    pool = Workers()
    pool.sizes.update({0: 1000})
    _, staged = retire(pool, "task", 1, {0, 2}, [])
    assert {shard: result.value for shard, result in staged.items()} == {1: 2, 4: 2}


def test_an_heir_that_went_meanwhile_is_replaced_by_the_first_that_is_left():
    class Leaving(Workers):
        def run(self, task, shard, worker):
            self.live = [0, 1]
            return super().run(task, shard, worker)

    pool = Leaving()
    assert retire(pool, "task", 1, {2}, [])[0] == "committed"
    assert pool.record == [("move", 1, 0), ("move", 4, 0), ("retire", 1)]


def test_live_workers_are_those_that_are_not_given_up():
    pool = Retried()
    pool.live, pool.blacklist = [2, 0, 1], {0}
    assert live_workers(pool) == [1, 2]


# Second computations beside a round


class Plain(Transport):
    """A transport that can only map."""

    name = "plain"

    def __init__(self):
        self.sizes = {0: 1, 1: 1}

    def load(self, source):
        raise NotImplementedError

    def map(self, task):
        yield from (Result(shard, 1, 1.0, task, None) for shard in self.sizes)

    def close(self):
        pass


class Dispatching(Plain):
    """One that can give a shard to a chosen worker; what it is given after `limit` is lost."""

    def __init__(self, limit=9):
        super().__init__()
        self.limit, self.asked = limit, []

    def dispatch(self, task, assignment):
        self.asked.append(dict(assignment))
        for number, shard in enumerate(shard for shards in assignment.values() for shard in shards):
            if number == self.limit:
                raise RoundLosses("gone")
            yield Result(shard, 1, 1.0, task, None)


def told(results):
    return [(result.shard, result.receipt.get("second", False)) for result in results]


def test_second_computations_come_last_and_are_marked():
    assert told(beside(Dispatching(), "task", {1: [0]})) == [(0, False), (1, False), (0, True)]
    assert told(beside(Dispatching(limit=1), "task", {1: [0, 1]})) == [(0, False), (1, False), (0, True)]
    transport = Dispatching()
    assert told(beside(transport, "task", {})) == [(0, False), (1, False)]
    assert transport.asked == []
    assert told(beside(Plain(), "task", {1: [0]})) == [(0, False), (1, False)]


def test_a_policy_in_between_is_not_passed_over():
    class Counting(Policy):
        def map_beside(self, task, seconds):
            yield Result(9, 1, 1.0, (task, dict(seconds)), None)

    inner = Dispatching()
    assert told(beside(Policy().over(inner), "task", {1: [0]})) == [(0, False), (1, False)]
    assert inner.asked == []
    (only,) = beside(Counting().over(inner), "task", {1: [0]})
    assert (only.shard, only.value) == (9, ("task", {1: [0]}))


# What every policy shares


class Outer(Policy):
    order = 5


class Needy(Policy):
    order = 3
    needs = ("run", "move")
    withheld = frozenset({"dispatch"})


def test_policies_stand_in_their_order_whatever_order_they_are_given_in():
    class Able(Dispatching):
        run = move = None

    transport = stack(Able(), [Outer(), Needy()])
    assert (type(transport), type(transport.inner), type(transport.inner.inner)) == (Outer, Needy, Able)
    assert (transport.name, transport.closable, transport.sizes) == ("plain", True, {0: 1, 1: 1})
    with pytest.raises(AttributeError, match=r"^Needy has no dispatch$"):
        _ = transport.dispatch
    assert transport.asked == []
    assert stack(transport, []) is transport


@pytest.mark.parametrize(
    ("policies", "error", "words"),
    [
        ([3], TypeError, r"^policies takes policies such as Retry\(2\), not 3$"),
        ([Outer(), Outer()], BackendError, r"^Outer is given 2 times: give it once$"),
        (
            [Needy()],
            BackendError,
            r"^Needy needs a transport that can run and move; 'plain' cannot: leave .*, or use backend='mp'$",
        ),
    ],
)
def test_what_cannot_be_stacked_is_told(policies, error, words):
    with pytest.raises(error, match=words):
        stack(Dispatching(), policies)


def test_a_policy_without_a_transport_has_no_verbs_of_one():
    with pytest.raises(AttributeError, match=r"^Outer has no workers$"):
        _ = Outer().workers
    bound = Outer().over(Dispatching())
    with pytest.raises(AttributeError, match=r"__mixle__"):
        _ = bound.__mixle__
    with pytest.raises(AttributeError, match="workers"):
        _ = bound.workers


def test_whether_one_may_choose_a_worker_is_asked_of_the_innermost_transport():
    class Running(Plain):
        def run(self, task, shard, worker):
            raise NotImplementedError

    assert lets_choose(Outer().over(Retry(2).over(LocalTransport())))
    assert lets_choose(Running())
    assert lets_choose(Dispatching())
    assert not lets_choose(Outer().over(Plain()))


# Cores


def test_a_core_that_tells_garbage_is_one_of_its_own(tmp_path):
    for cpu, text in {0: "0-1", 1: "0-1", 2: "two", 3: "2-"}.items():
        (tmp_path / f"cpu{cpu}" / "topology").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(text)
    assert physical_cores([3, 2, 1, 0], tmp_path) == [(0, 1), (2,), (2, 3)]


def test_without_a_list_of_processors_all_are_taken(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert physical_cores(root=tmp_path) == [(0,), (1,), (2,)]
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert physical_cores(root=tmp_path) == [(0,)]


def test_workers_are_bound_once_and_those_that_cannot_be_are_left_out(monkeypatch):
    class Process:
        def __init__(self, pid):
            self.pid = pid

    bound = []

    def may(pid, cpus):
        bound.append((pid, tuple(cpus)))
        return pid != 12

    monkeypatch.setattr(cores, "bind", may)
    monkeypatch.setattr(cores, "physical_cores", lambda: [(0, 4), (1, 5)])
    transport = Plain()
    transport.processes = lambda: {0: Process(10), 1: Process(11), 2: Process(12)}
    pins = Pins()
    seen = pins.cores
    pins.renew(transport)
    assert bound == [(10, (0, 4)), (11, (1, 5)), (12, (0, 4))]
    assert seen == {0: (0, 4), 1: (1, 5)}
    pins.renew(transport)
    assert len(bound) == 3
    transport.processes = lambda: {1: Process(13)}
    pins.renew(transport)
    assert bound[3:] == [(13, (0, 4))]
    assert seen == {1: (0, 4)}
    pins.renew(Plain())
    assert seen == {}


def test_where_the_platform_binds_no_process_nothing_is_bound(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert not bind(os.getpid(), [0])


# Losses


def lost(cause="", exitcode=None, tail="", worker=4, shards=(1, 7)):
    error = WorkerLost("worker 4 was lost")
    error.worker, error.shards, error.cause, error.exitcode, error.stderr_tail = worker, shards, cause, exitcode, tail
    return error


@pytest.mark.parametrize(
    ("error", "memory", "kind"),
    [
        (lost("its launcher ended"), None, "launcher"),
        (lost("stopped by SIGSTOP", -9), None, "stopped"),
        (lost("silent for 3 s", -9), True, "silent"),
        (lost("over step_timeout_s", -9), None, "over its time limit"),
        (lost("sent garbage"), None, "garbled reply"),
        (lost("sent half a reply"), None, "garbled reply"),
        (lost("an oversized reply"), None, "garbled reply"),
        (lost("the driver met EPIPE"), None, "closed its pipe"),
        (lost("killed", -9), True, "out of memory"),
        (lost("killed", -9), False, "signal"),
        (lost("killed", -9), None, "signal"),
        (lost("killed", -11), True, "signal"),
        (lost("ended", 1, "ImportError: no x"), None, "import error"),
        (lost("ended", 1, "ModuleNotFoundError: no x"), None, "import error"),
        (lost("ended", 1, "ValueError: x"), None, "exit"),
        (lost("ended", 0), None, "exit"),
        (lost("gone"), None, "unknown"),
        (lost(""), None, "unknown"),
    ],
)
def test_a_loss_is_of_one_kind(error, memory, kind):
    loss = classify(error, memory, blacklisted=True)
    assert loss == Loss(
        4, (1, 7), kind, error.cause or "worker 4 was lost", error.exitcode, memory, error.stderr_tail, True
    )
    assert not classify(error, memory).blacklisted


def test_a_loss_says_itself_in_one_line():
    assert str(classify(lost("killed by SIGKILL", -9), None)) == "worker 4 with shards 1, 7: killed by SIGKILL"
    assert str(classify(lost("gone", shards=()), False)) == "worker 4: gone"
    tail = classify(lost("killed", -9, "one\nlast words"), True)
    assert str(tail) == (
        "worker 4 with shards 1, 7: killed; the kernel killed for memory meanwhile; it last wrote: last words"
    )


def test_a_round_without_workers_names_every_loss():
    told = [classify(lost("killed", -9, "bye"), None), classify(lost("gone", worker=5, shards=(2,)), None)]
    error = nobody_left("Nobody is left.", 2, iter(told))
    assert str(error) == (
        "Nobody is left. Ranks are given up after max_retries = 2 losses:\n"
        "  worker 4 with shards 1, 7: killed; it last wrote: bye\n"
        "  worker 5 with shards 2: gone\n"
        "The rows are still held: add_worker() opens a new worker for them."
    )
    one, two = error.losses
    assert (type(one), str(one)) == (WorkerLost, str(told[0]))
    assert (one.worker, one.shards, one.cause, one.exitcode, one.stderr_tail) == (4, (1, 7), "killed", -9, "bye")
    assert (two.worker, two.exitcode) == (5, None)


def test_receipts_of_rounds_share_nothing():
    one, other = RoundReceipt(), RoundReceipt()
    for name in ("reused", "recomputed", "failed", "blacklisted", "backed_up", "heirs", "losses"):
        assert len(getattr(one, name)) == 0
        assert getattr(one, name) is not getattr(other, name)


def test_kills_for_memory_are_counted_in_every_file_that_can_be_read(monkeypatch, tmp_path):
    own, machine, odd = tmp_path / "own", tmp_path / "machine", tmp_path / "odd"
    own.write_text("low 0\noom 3\noom_kill 3\n")
    machine.write_text("pgfault 9\noom_kill 7\n")
    odd.write_text("oom_kill many\n")
    monkeypatch.setattr(losses, "_counter_files", lambda: [own, machine, odd, tmp_path / "none"])
    watch = OomWatch()
    assert watch.before == {own: 3, machine: 7}
    assert watch.grew() is False
    machine.write_text("oom_kill 8\n")
    assert watch.grew() is True
    assert watch.grew() is False
    own.write_text("oom_kill 2\n")
    assert watch.grew() is False
    own.unlink()
    machine.unlink()
    assert watch.grew() is None
    own.write_text("oom_kill 5\n")
    assert watch.grew() is False  # it was not counted before


def test_counters_are_those_of_the_own_group_in_both_layouts(monkeypatch, tmp_path):
    real = losses.Path
    groups = {
        "sys/fs/cgroup/a/b/memory.events": "",
        "sys/fs/cgroup/unified/a/b/memory.events": "",
        "sys/fs/cgroup/memory/c/memory.oom_control": "",
        "proc/vmstat": "",
        "proc/self/cgroup": "4:cpu,memory:/c\n3:memoryless:/d\n0::/a/b\n",
    }
    for name, text in groups.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(losses, "Path", lambda text: real(tmp_path) / text.lstrip("/"))
    found = [file.relative_to(tmp_path).as_posix() for file in losses._counter_files()]
    assert found == [
        "proc/vmstat",
        "sys/fs/cgroup/memory/c/memory.oom_control",
        "sys/fs/cgroup/a/b/memory.events",
        "sys/fs/cgroup/unified/a/b/memory.events",
    ]
    (tmp_path / "proc/self/cgroup").unlink()
    assert [file.name for file in losses._counter_files()] == ["vmstat"]
    (tmp_path / "proc/vmstat").unlink()
    assert losses._counter_files() == []


# Speeds and predictions


class Timed(Plain):
    """Shards that take a second each on their worker; one fails, of one nobody says who made it."""

    def __init__(self):
        super().__init__()
        self.sizes = dict.fromkeys(range(4), 5)
        self.owner = {0: 0, 1: 1, 2: 1, 3: 9}
        self.moved = []

    def workers(self):
        return [0, 1]

    def move(self, shard, worker):
        self.moved.append((shard, worker))

    def map(self, task):
        spent = {"seconds": 1.0, "cpu_seconds": 0.5}
        yield Result(0, 5, 5.0, None, None, {"worker": 0, **spent})
        yield Result(1, 5, 5.0, None, None, {"worker": 1, **spent})
        yield Result(2, 5, 0.0, None, None, {"worker": 1, **spent}, "failed")
        yield Result(3, 5, 5.0, None, None, spent)


def test_what_failed_or_was_made_by_nobody_tells_no_speed():
    pool = Timed()
    policy = Rebalance().over(pool)
    for _ in range(2):
        assert [one.shard for one in policy.map(Accumulate(None, None))] == [0, 1, 2, 3]
    assert policy.throughputs() == {0: 5.0, 1: 5.0}
    assert (policy.round, set(policy.speeds.work)) == (2, {0, 1})
    assert pool.moved == []


def test_a_prediction_is_held_against_what_worked():
    pace = Pace(0.05, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    policy = Predict(Costs(pace, {"local": Overhead()})).over(Timed())
    told = list(policy.map(Accumulate(None, None)))
    assert [one.receipt["predicted_seconds"] for one in told] == [0.25] * 4
    assert policy.ratios == [2.0]
    silent = Timed()
    silent.map = lambda task: iter([Result(0, 5, 0.0, None, None, {}, "failed")])
    policy = Predict(Costs(pace, {"local": Overhead()})).over(silent)
    list(policy.map(Accumulate(None, None)))
    assert policy.ratios == []


def test_a_prediction_knows_how_many_pieces_a_shard_has():
    pace = Pace(0.05, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    policy = Predict(Costs(pace, {"local": Overhead()}), 3).over(Timed())
    told = list(policy.map(Accumulate(None, None)))
    assert [one.receipt["predicted_seconds"] for one in told] == [0.25 + 1.5 + 1.0] * 4
    assert Predict(policy.costs).sub_chunks == 1
    for wrong in (0, True, 1.5, "2"):
        with pytest.raises(ValueError, match=rf"^sub_chunks must be an integer of at least 1, not {wrong!r}$"):
            Predict(policy.costs, wrong)


def test_the_catalog_learns_the_median_pace_of_the_model_once():
    pace = Pace(0.05, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for learns in (True, False):
        catalog = CalibrationCatalog()
        policy = Predict(Costs(pace, {"local": Overhead()}), catalog=catalog if learns else None).over(Timed())
        policy.ratios = [2.0, 4.0]
        list(policy.map(Accumulate(None, pace)))
        assert policy.ratios == [2.0, 4.0, 2.0]
        policy.close()
        policy.close()
        assert policy.ratios == []
        assert len(catalog.records) == int(learns)
    catalog = CalibrationCatalog()
    policy = Predict(Costs(pace, {"local": Overhead()}), catalog=catalog).over(Timed())
    policy.close()
    assert catalog.records == ()
    policy.ratios = [2.0, 4.0, 2.0]
    policy._model = "Pace"
    policy.close()
    (record,) = catalog.records
    assert (record.model_type, record.workload, record.sample_size, record.repeats) == ("Pace", "em", 20, 3)
    assert known_costs(catalog, "Pace").pace.row == pytest.approx(0.1)
