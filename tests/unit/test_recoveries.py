"""Recovery on scripted workers in one process: waves, backups, late replies, workers added and removed."""

import time
from types import SimpleNamespace

import pytest

from mixle.errors import BackendError, HandleClosed, RoundLosses, WorkerLost
from mixle.utils.parallel.folding.faults import RemoteFault
from mixle.utils.parallel.folding.tasks import Apply, Result
from mixle.utils.parallel.folding.transport import Transport
from mixle.utils.parallel.policies import recovery, speculate
from mixle.utils.parallel.policies import retry as retry_module
from mixle.utils.parallel.policies.assignment import level, spread
from mixle.utils.parallel.policies.exchange import Waves, open_exchange
from mixle.utils.parallel.policies.losses import RoundReceipt
from mixle.utils.parallel.policies.recovery import Recovery
from mixle.utils.parallel.policies.retry import Retry
from mixle.utils.parallel.policies.speculate import Backups, Difference, Late, differ

TASK = Apply(len)


def lost(worker, shards, cause="killed", exitcode=-9):
    error = WorkerLost(f"worker {worker} was lost: {cause}")
    error.worker, error.shards, error.cause, error.exitcode = worker, tuple(shards), cause, exitcode
    return error


def group(*losses):
    error = RoundLosses("lost")
    error.losses = losses
    return error


def result(shard, worker=0, value=1.0, **receipt):
    return Result(shard, 1, 1.0, value, None, {"worker": worker, **receipt})


# Who takes what


def test_the_largest_shards_go_first_each_to_who_has_least_before_it():
    sizes = {0: 5, 1: 9, 2: 4, 3: 9}
    assert spread(sizes, sizes, {7: 0.0, 8: 1.0}) == {7: [0, 1], 8: [2, 3]}
    assert spread([3, 1], sizes, {7: 0.0, 8: 0.0}) == {7: [1], 8: [3]}
    assert spread([5, 6, 0], {0: 2}, {7: 0.0, 8: 0.0}) == {7: [0], 8: [5, 6]}  # an unknown size counts as one row
    loads = {7: 0.0, 8: 3.0}
    spread([0, 1], {}, loads)
    assert loads == {7: 0.0, 8: 3.0}


@pytest.mark.parametrize(
    ("owner", "sizes", "workers", "moved"),
    [
        ({0: 0, 1: 0, 2: 0, 3: 0}, {0: 8, 1: 4, 2: 2, 3: 1}, [0, 1], {0: 1}),
        ({0: 0, 1: 0, 2: 0}, {0: 5, 1: 3, 2: 2}, [0, 1, 2], {0: 1, 2: 2}),
        ({0: 0, 1: 0, 2: 1}, {0: 3, 1: 3, 2: 4}, [0, 1], {}),
        ({0: 9, 1: 9, 2: 0}, {0: 3, 1: 1, 2: 2}, [0, 1], {0: 1, 1: 0}),
        ({}, {}, [0, 1], {}),
        ({0: 0, 1: 0, 2: 0, 3: 0}, {}, [0, 1], {2: 1, 3: 1}),
        ({0: 5, 1: 5, 2: 5}, {}, [0, 1], {0: 0, 1: 1, 2: 0}),
        ({0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0}, {5: 3}, [0, 1, 2], {3: 2, 4: 2, 5: 1}),
    ],
)
def test_few_moves_level_the_rows(owner, sizes, workers, moved):
    assert level(owner, sizes, workers) == moved


# Exchanges


class Runner(Transport):
    """Runs one shard at a time; `script` says on which (worker, shard) a worker is lost."""

    name = "runner"

    def __init__(self, script=(), shards=4):
        self.sizes, self.script, self.did = dict.fromkeys(range(shards), 1), set(script), []

    def load(self, source):
        raise NotImplementedError

    def map(self, task):
        yield from (result(shard, shard % 2) for shard in self.sizes)

    def run(self, task, shard, worker):
        self.did.append((worker, shard))
        if (worker, shard) in self.script:
            raise lost(worker, (shard,))
        return result(shard, worker)

    def close(self):
        pass


def drained(exchange):
    told = []
    while (event := exchange.next()) is not None:
        told.append(("lost", event.worker, event.shards) if not isinstance(event, Result) else event.shard)
    return told


def test_a_wave_runs_shard_by_shard_and_tells_losses_after_what_arrived():
    runner = Runner(script={(1, 3)})
    exchange = open_exchange(runner, TASK, {0: [0, 2], 1: [1, 3, 5]})
    assert drained(exchange) == [0, 2, 1, ("lost", 1, (3, 5))]
    assert runner.did == [(0, 0), (0, 2), (1, 1), (1, 3)]
    exchange.give({0: [3]})
    exchange.give({0: [5]}, keep=True)
    assert drained(exchange) == [3, 5]


def test_a_loss_that_was_told_is_settled_and_carries_its_error():
    exchange = open_exchange(Runner(script={(1, 1), (0, 0)}), TASK, {0: [0], 1: [1]})
    one, two = exchange.next(), exchange.next()
    assert (one.settled, two.settled) == (True, True)
    assert (one.worker, one.shards, two.worker, two.shards) == (0, (0,), 1, (1,))
    assert str(one.told()) == "worker 0 was lost: killed"


def test_a_whole_round_is_mapped_where_nothing_can_be_dispatched():
    runner = Runner()
    assert drained(open_exchange(runner, TASK, {0: [0]}, everything=True)) == [0, 1, 2, 3]
    assert drained(open_exchange(runner, TASK, None)) == [0, 1, 2, 3]
    assert runner.did == []
    assert drained(open_exchange(runner, TASK, {0: [0]})) == [0]
    asked = []
    runner.dispatch = lambda task, given: asked.append((task, given)) or iter([result(3)])
    assert drained(open_exchange(runner, TASK, {0: [3]}, everything=True)) == [3]
    assert asked == [(TASK, {0: [3]})]
    begun = SimpleNamespace(begin=lambda *given: given)
    assert open_exchange(begun, TASK, {0: [3]}) == (TASK, {0: [3]})


def test_a_wave_that_is_given_up_ends():
    runner = Runner()
    exchange = Waves(runner, TASK, whole=False)
    exchange.close()
    exchange.give({0: [0, 1, 2]})
    assert exchange.next().shard == 0
    exchange.close()
    assert runner.did == [(0, 0)]
    assert exchange.next() is None
    plain = Waves(SimpleNamespace(map=lambda task: iter([result(0)])), TASK, whole=True)
    plain.close()
    assert plain.next() is None


# Backups and late replies


def test_results_are_compared_bit_by_bit_and_errors_are_not():
    one = result(3, 0)
    assert differ(one, result(3, 1)) is None
    assert differ(one, result(3, 1, 2.0)) == Difference(3, 0, 1, "value")
    assert differ(one, Result(3, 1, 2.0, 1.0, None, {"worker": 1})) == Difference(3, 0, 1, "weight")
    assert differ(one, Result(3, 1, 1.0, 1.0, -1.0, {})) == Difference(3, 0, None, "log_density")
    failed = Result(3, 1, 0.0, None, None, {"worker": 1}, RemoteFault("E", "x"))
    assert differ(one, failed) is None
    assert differ(failed, one) is None


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(at=100.0)
    monkeypatch.setattr(speculate, "time", SimpleNamespace(monotonic=lambda: now.at))
    return now


def test_idle_workers_are_given_the_last_shards_of_the_slowest(clock):
    backups = Backups(dict.fromkeys(range(9), 10))
    owed, todo = {0: [0, 1, 2], 1: [3, 4], 2: []}, {0, 1, 2, 3, 4}
    assert backups.choose(owed, todo, [2]) == {}  # nothing arrived yet
    clock.at += 1.0
    backups.arrived(result(5, 2, seconds=1.0), 2)
    backups.given([0])
    assert backups.choose(owed, todo, []) == {}
    clock.at += 1.24
    assert backups.choose({0: owed[0]}, todo, [2]) == {}  # not late by a quarter yet
    clock.at += 0.02
    assert backups.choose(owed, todo, [2, 3, 4]) == {2: [4], 3: [2], 4: [3]}  # 1 has waited since the round began
    assert backups.doubled == {2, 3, 4}
    assert backups.choose(owed, todo, [2, 3, 4]) == {2: [1], 3: [0]}
    assert backups.choose(owed, todo, [2]) == {}


def test_a_short_wait_is_the_schedulers(clock):
    backups = Backups({0: 1})
    backups.arrived(result(1, 1, seconds=1e-6), 1)
    clock.at += 0.0099
    assert backups.choose({0: [0]}, {0}, [1]) == {}
    clock.at += 0.0002
    assert backups.choose({0: [0]}, {0}, [1]) == {1: [0]}


def test_what_is_known_already_is_not_done_again(clock):
    backups = Backups({})
    backups.arrived(result(1, 1, seconds=0.1), 1)
    clock.at += 9.0
    assert backups.choose({0: [0, 1]}, {0}, [1, 2]) == {1: [0]}


class Scripted:
    """An exchange that tells what it was given, then nothing."""

    def __init__(self, *events):
        self.events, self.closed = list(events), 0

    def next(self, timeout_s=None):
        return self.events.pop(0) if self.events else None

    def close(self):
        self.closed += 1


def test_late_replies_are_compared_with_what_was_used():
    gone = SimpleNamespace(worker=2, shards=(5,))
    exchange = Scripted(result(3, 1, 2.0), None, result(4, 1), gone)
    owed = {1: [3, 4], 2: [5]}
    late = Late(exchange, owed, {3: result(3, 0), 4: result(4, 0)})
    assert late.poll() == ([Difference(3, 0, 1, "value")], [])
    assert (late.owed, exchange.closed) == ({1: [4], 2: [5]}, 0)
    assert late.poll() == ([], [gone])
    assert (late.owed, exchange.closed) == ({}, 1)


def test_a_loss_among_late_replies_ends_no_look():
    gone = SimpleNamespace(worker=2, shards=(5,))
    late = Late(Scripted(gone, result(3, 1, 2.0)), {1: [3], 2: [5]}, {3: result(3, 0)})
    assert late.poll() == ([Difference(3, 0, 1, "value")], [gone])


def test_a_late_reply_that_nobody_owes_is_compared_all_the_same():
    exchange = Scripted(result(3, 1, 2.0), result(9, 1), result(4, 1))
    late = Late(exchange, {1: [4]}, {3: result(3, 0), 4: result(4, 0)})
    assert late.poll() == ([Difference(3, 0, 1, "value")], [])
    assert exchange.closed == 1


# Workers come and go


class Crew(Runner):
    """Workers that can be added, removed and moved between; some cannot be started."""

    def __init__(self, workers=2, shards=6, script=(), unable=()):
        super().__init__(script, shards)
        self.live_ones = list(range(workers))
        self.owner = {shard: shard % workers for shard in self.sizes}
        self.closed, self.unable, self.started, self.went = False, set(unable), [], []

    def workers(self):
        return list(self.live_ones)

    def grow(self):
        self.live_ones.append(max(self.live_ones) + 1)
        return self.live_ones[-1]

    def move(self, shard, worker):
        self.owner[shard] = worker

    def retire(self, worker):
        self.went.append(worker)
        self.live_ones.remove(worker)

    def start(self, ranks):
        self.started.append(list(ranks))
        if self.unable & set(ranks):
            raise RuntimeError("cannot start")


def test_workers_are_added_and_removed_and_rows_levelled():
    crew = Crew()
    policy = Retry(2).over(crew)
    assert policy.residence() == {0: [0, 2, 4], 1: [1, 3, 5]}
    assert policy.add_worker() == 2
    assert sorted(map(len, policy.residence().values())) == [2, 2, 2]
    policy.up, policy.unborn = {0, 1, 2}, {2}
    assert policy.remove_worker(0) == 0
    assert (crew.went, policy.up, set(policy.residence())) == ([0], {1, 2}, {1, 2})
    crew.sizes[policy.residence()[1][0]] = 50
    assert policy.remove_worker() == 2  # the one with the fewest rows
    assert (policy.unborn, policy.residence()) == (set(), {1: [0, 1, 2, 3, 4, 5]})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda policy: policy.remove_worker(7),
            r"^there is no worker 7: this pool has workers \[0, 1\]; name one of them$",
        ),
        (lambda policy: policy.resize(0), r"^a pool has at least 1 worker, not 0$"),
        (lambda policy: policy.resize(True), r"^a pool has at least 1 worker, not True$"),
    ],
)
def test_what_cannot_be_removed_is_told(call, words):
    with pytest.raises(BackendError, match=words):
        call(Retry(2).over(Crew()))


def test_the_last_worker_stays_and_a_pool_gets_the_size_it_is_asked_for():
    crew = Crew()
    policy = Retry(2).over(crew)
    policy.resize(4)
    assert crew.live_ones == [0, 1, 2, 3]
    policy.resize(1)
    (last,) = crew.live_ones
    with pytest.raises(BackendError, match=rf"^worker {last} is the last one: add_worker\(\) first, or close\(\)$"):
        policy.remove_worker()
    policy.blacklist = {last}
    policy.add_worker()
    assert crew.went[-1] == last  # it was given up, and leaves once someone can take its shards


@pytest.mark.parametrize("verb", ["grow", "retire"])
def test_a_transport_whose_workers_are_fixed_says_so(verb):
    bare = Runner()
    if verb == "retire":
        bare.grow = lambda: 1
    with pytest.raises(BackendError, match=r"^'runner' has no workers that can be added or removed; use backend='mp'$"):
        Retry(2).over(bare).add_worker()


# The round of a retry policy


def shards_of(policy):
    return sorted(one.shard for one in policy.map(TASK))


def test_ranks_that_cannot_be_started_are_left_out_as_long_as_someone_works():
    crew = Crew(3, unable={2})
    policy = Retry(2).over(crew)
    with pytest.raises(RuntimeError, match="cannot start"):
        shards_of(policy)
    policy.up = {0, 1}
    assert shards_of(policy) == list(range(6))
    assert policy.up == {0, 1}
    assert {worker for worker, _ in crew.did} <= {0, 1}
    crew.start = lambda ranks: (_ for _ in ()).throw(HandleClosed("closed meanwhile"))
    with pytest.raises(HandleClosed, match="closed meanwhile"):
        shards_of(policy)


def test_a_closed_pool_and_one_without_workers_say_so():
    crew = Crew()
    policy = Retry(2).over(crew)
    crew.closed = True
    with pytest.raises(HandleClosed, match=r"^this pool is closed: make a new handle$"):
        shards_of(policy)
    crew.closed, policy.blacklist = False, {0, 1}
    with pytest.raises(RoundLosses, match=r"^this pool has no live workers left\. Ranks are given up after"):
        shards_of(policy)


def gone(worker, shards=(1,), cause="killed"):
    return SimpleNamespace(worker=worker, shards=shards, settled=True, told=lambda: lost(worker, shards, cause))


def test_a_lost_rank_is_started_again_until_it_is_given_up(caplog):
    caplog.set_level("INFO", "mixle")
    crew = Crew(3)
    spawned = []
    crew.spawn = spawned.append
    policy, receipt = Retry(2).over(crew), RoundReceipt()
    policy.up = {0, 1, 2}
    assert not policy.is_last_chance(1)
    policy.settle(gone(1), receipt)
    assert (policy.failures, spawned, policy.unborn, receipt.blacklisted) == ({1: 1}, [[1]], {1}, set())
    assert policy.is_last_chance(1)
    receipt.heirs = {1: 2}
    policy.settle(gone(1), receipt)
    assert (policy.failures, spawned, policy.unborn) == ({1: 2}, [[1]], set())
    assert (policy.blacklist, receipt.blacklisted, crew.went) == ({1}, {1}, [1])
    assert crew.owner[1] == 2  # who computes it now keeps it
    assert crew.owner[4] == 0
    assert [one.blacklisted for one in receipt.losses] == [False, True]
    told = [(record.levelname, record.message) for record in caplog.records]
    assert told == [
        ("WARNING", "lost worker 1 with shards 1: killed"),
        ("WARNING", "lost worker 1 with shards 1: killed"),
        ("ERROR", "worker 1 was lost 2 times and is given up"),
    ]
    last = caplog.records[-1]
    assert (last.worker, last.shards, last.kind, last.exitcode) == (1, (1,), "signal", -9)


def test_a_launcher_that_ends_again_and_again_gives_its_ranks_up():
    crew = Crew(2)
    policy, receipt = Retry(2).over(crew), RoundReceipt()
    policy.up = {0, 1}
    for deaths in range(retry_module.LAUNCHER_DEATHS + 1):
        assert policy.blacklist == set()
        policy.settle(gone(1, cause="its launcher ended"), receipt)
        assert policy.failures.get(1, 0) == (2 if deaths == retry_module.LAUNCHER_DEATHS else 0)
    assert policy.blacklist == {1}


@pytest.mark.parametrize("error", [RuntimeError("no memory"), HandleClosed("closed")])
def test_a_rank_that_cannot_be_started_again_is_told_later(error):
    crew = Crew(2)

    def spawn(ranks):
        raise error

    crew.spawn = spawn
    policy = Retry(3).over(crew)
    if isinstance(error, HandleClosed):
        with pytest.raises(HandleClosed):
            policy.settle(gone(1), RoundReceipt())
    else:
        policy.settle(gone(1), RoundReceipt())
    assert policy.unborn == set()


def test_where_nobody_is_left_everyone_who_may_is_started(monkeypatch):
    crew = Crew(3)
    policy = Retry(2).over(crew)
    policy.blacklist, policy.unborn = {0}, {1}
    policy.revive([4, 2], RoundReceipt())
    assert (crew.started, policy.up, policy.unborn) == ([[1, 2]], {1, 2}, set())
    crew.unable = {1}
    with pytest.raises(RoundLosses, match=r"^no surviving worker available to recover shard 2\. Ranks are") as caught:
        policy.revive([4, 2], RoundReceipt())
    assert str(caught.value.__cause__) == "cannot start"
    policy.blacklist = {0, 1, 2}
    with pytest.raises(RoundLosses, match="to recover shard 3"):
        policy.revive([3], RoundReceipt())
    policy.blacklist = set()
    crew.start = lambda ranks: (_ for _ in ()).throw(HandleClosed("closed"))
    with pytest.raises(HandleClosed):
        policy.revive([3], RoundReceipt())


def test_shards_of_busy_workers_go_around_them():
    crew = Crew(3)
    policy = Retry(2).over(crew)
    policy.up = {0, 1, 2}
    policy.late = [Late(Scripted(), {1: [7]}, {})]
    assert policy.late_work() == {1: [7]}
    assert policy._around_the_late(policy.residence()) == {0: [0, 1, 3], 2: [2, 4, 5]}
    del crew.sizes[0], crew.sizes[3]
    policy.late = [Late(Scripted(), {1: [7]}, {})]
    assert policy._around_the_late({0: [0, 3], 1: [1], 2: [2]}) == {0: [0, 3], 2: [1, 2]}  # unknown sizes are one row
    policy.late = [Late(Scripted(), {1: [7]}, {})]
    assert policy._around_the_late({0: [0], 1: [1], 2: [2]}) == {0: [0, 1], 2: [2]}
    policy.late = [Late(Scripted(), {0: [7], 1: [8], 2: [9]}, {})]
    assert policy._around_the_late(policy.residence()) == policy.residence()  # everyone is busy


def test_a_worker_that_is_lost_while_it_is_late_is_settled():
    crew = Crew(2)
    policy, receipt = Retry(2).over(crew), RoundReceipt()
    policy.up = {0, 1}
    policy.late = [Late(Scripted(result(3, 1, 2.0), gone(1)), {1: [3, 5]}, {3: result(3, 0)})]
    policy.poll_late(receipt)
    assert policy.differences == [Difference(3, 0, 1, "value")]
    assert (policy.late, policy.up, receipt.failed, policy.failures) == ([], {0}, {1}, {1: 1})


def test_a_loss_while_the_kernel_killed_for_memory_is_told_so():
    policy, receipt = Retry(3).over(Crew(2)), RoundReceipt()
    policy._memory = SimpleNamespace(grew=lambda: True)
    policy.settle(gone(1), receipt)
    assert [(one.kind, one.out_of_memory) for one in receipt.losses] == [("out of memory", True)]


def test_what_others_computed_is_noted(caplog):
    caplog.set_level("INFO", "mixle")
    crew = Crew(2, script={(1, 3)})
    crew.map = lambda task: Waves(crew, task, False)._one_by_one({0: [0, 2, 4], 1: [1, 3, 5]})
    assert shards_of(Retry(3).over(crew)) == list(range(6))
    last = caplog.records[-1]
    assert (last.message, last.shards) == ("recovered: shards [3, 5] were computed by other workers", [3, 5])


def test_an_altered_reply_is_asked_for_again_and_one_that_stays_altered_is_an_error(caplog):
    class Altering(Crew):
        tries = 0

        def run(self, task, shard, worker):
            found = super().run(task, shard, worker)
            if shard == 3 and self.tries > 0:
                self.tries -= 1
                return Result(3, 1, 0.0, None, None, {"worker": worker}, RemoteFault("AlteredPayload", "Changed."))
            return found

    crew = Altering()
    crew.dispatch = None
    del crew.dispatch
    crew.map = lambda task: (crew.run(task, shard, crew.owner[shard]) for shard in crew.sizes)
    policy = Retry(2).over(crew)
    crew.tries = 1
    told = {one.shard: one for one in policy.map(TASK)}
    assert told[3].error is None
    assert told[3].receipt["altered"] == 1
    (loss,) = policy.last.losses
    assert (loss.worker, loss.shards, loss.kind, loss.cause) == (1, (3,), "garbled reply", "Changed. Asked again")
    assert (policy.failures, policy.last.failed, policy._record) == ({}, set(), [loss])
    (record,) = caplog.records
    assert record.message == "lost a reply of worker 1 with shards 3: Changed. Asked again"
    assert (record.worker, record.shards, record.kind) == (1, (3,), "garbled reply")
    crew.tries = 99
    assert {one.shard: one for one in policy.map(TASK)}[3].error.message == "Changed."


def test_a_transport_that_forgets_a_shard_is_told():
    class Forgetful(Crew):
        def map(self, task):
            yield result(0)

    with pytest.raises(
        RuntimeError, match=r"^transport 'runner' delivered no result for shards \[1, 2, 3, 4, 5\]; its map must"
    ):
        shards_of(Retry(2).over(Forgetful()))


def test_second_computations_of_a_lost_worker_are_missing_and_it_is_settled():
    crew = Crew(2, script={(1, 2)})
    crew.dispatch = lambda task, given: Waves(crew, task, False)._one_by_one(given)
    policy = Retry(3).over(crew)
    told = [(one.shard, one.receipt.get("second", False)) for one in policy.map_beside(TASK, {1: [0, 2, 4]})]
    assert sorted(told[:6]) == [(shard, False) for shard in range(6)]
    assert told[6:] == [(0, True)]
    assert (policy.last.failed, policy.failures) == ({1}, {1: 1})


def test_second_computations_that_a_transport_forgets_are_missing():
    crew = Crew(2)
    crew.dispatch = lambda task, given: iter(
        [result(shard, worker) for worker, shards in given.items() for shard in shards if len(shards) == 3 or shard]
    )
    policy = Retry(3).over(crew)
    told = [(one.shard, one.receipt.get("second", False)) for one in policy.map_beside(TASK, {1: [0, 2]})]
    assert sorted(told) == [*((0, False), (1, False), (2, False)), (2, True), *((3, False), (4, False), (5, False))]


def test_second_computations_are_waited_for_while_a_worker_is_being_started():
    crew = Crew(2)
    first = Scripted(*(result(shard, shard % 2) for shard in range(6)))
    scripts = [first, Scripted(None, result(2, 1), None, None, result(0, 1))]
    given = []
    crew.live, crew.begin = list, lambda task, assignment: given.append(assignment) or scripts.pop(0)
    policy = Retry(3).over(crew)
    policy.unborn = {7}
    told = [(one.shard, one.receipt.get("second", False)) for one in policy.map_beside(TASK, {1: [0, 2]})]
    assert told == [*((shard, False) for shard in range(6)), (2, True), (0, True)]
    assert given == [{0: [0, 2, 4], 1: [1, 3, 5]}, {1: [0, 2]}]
    assert first.closed == 1


def test_of_two_results_of_a_shard_the_first_is_used_and_the_second_compared():
    policy, receipt = Retry(2).over(Crew(2)), RoundReceipt()
    policy.up = {0, 1}
    round_ = Recovery(policy, TASK, {0: [3, 0, 4], 1: [3, 4, 1]}, receipt, everything=False)
    assert [round_._take(result(3, 0)), round_._take(result(4, 1)), round_._take(result(0, 0))] == [True] * 3
    assert (receipt.backed_up, receipt.reused) == ({3, 4}, {0})
    assert (round_.owed, round_.todo) == ({0: [4], 1: [3, 1]}, {1})
    assert not round_._take(result(3, 1, 2.0))
    assert not round_._take(result(4, 0))
    assert not round_._take(result(0, 0, 5.0))  # nobody owed it twice: what was used is not kept
    assert policy.differences == [Difference(3, 0, 1, "value")]
    assert round_.owed == {0: [], 1: [1]}


class Talking:
    """An exchange with a script of events and of calls that make them; it notes what it is given meanwhile."""

    def __init__(self, *events):
        self.events, self.given, self.closed, self.patience = list(events), [], 0, []

    def give(self, assignment, keep=None):
        self.given.append((assignment, keep))

    def next(self, timeout_s=None):
        self.patience.append(timeout_s)
        event = self.events.pop(0) if self.events else None
        return event() if callable(event) else event

    def close(self):
        self.closed += 1


def talking(policy, crew, *events):
    exchange = Talking(*events)
    crew.begin = lambda task, assignment: exchange
    return exchange, policy.over(crew)


def test_a_slow_worker_is_backed_up_and_its_late_reply_compared(clock):
    def later():
        clock.at += 99.0

    first = result(0, 0, seconds=1.0)
    exchange, policy = talking(Retry(2, speculate=True), Crew(2, 2), first, later, result(1, 0))
    assert [(one.shard, one.receipt["worker"]) for one in policy.map(TASK)] == [(0, 0), (1, 0)]
    assert exchange.given == [({0: [1]}, True)]
    assert exchange.patience == [speculate.TICK_S] * 3
    assert (policy.last.backed_up, policy.last.reused, exchange.closed) == ({1}, {0}, 0)
    assert policy.late_work() == {1: [1]}
    policy.poll_late(policy.last)
    assert policy.late_work() == {1: [1]}  # nothing came yet
    exchange.events.append(result(1, 1, 2.0))
    policy.poll_late(policy.last)
    assert policy.differences == [Difference(1, 0, 1, "value")]
    assert (policy.late, exchange.closed) == ([], 1)


def test_a_round_waits_for_the_exit_status_of_a_lost_worker(monkeypatch):
    looks, waits = [], []

    class Dying:
        worker, shards = 1, (1,)

        @property
        def settled(self):
            looks.append(True)
            return len(looks) > 3

        def told(self):
            return lost(1, (1,))

    exchange, policy = talking(Retry(3), Crew(2, 2), result(0, 0), Dying(), result(1, 0))
    monkeypatch.setattr(policy, "wait", waits.append)
    assert shards_of(policy) == [0, 1]
    assert exchange.given == [({0: [1]}, None)]
    assert exchange.patience == [None, None, recovery.SETTLE_S]
    assert (policy.failures, policy.last.recomputed, policy.last.failed) == ({1: 1}, {1}, {1})
    assert len(waits) == len(looks) - 2 > 0  # all but the look before the result and the last one


def test_where_the_only_worker_was_lost_it_is_started_again_for_what_it_owed():
    crew = Crew(1, 2)
    exchange, policy = talking(Retry(3), crew, gone(0, (0, 1)), result(0, 0), result(1, 0))
    assert shards_of(policy) == [0, 1]
    assert crew.started == [[0], [0]]
    assert exchange.given == [({0: [0, 1]}, None)]


def test_where_nobody_owns_a_shard_a_loss_says_itself_what_is_owed():
    class Ownerless(Runner):
        def workers(self):
            return [0, 1]

        def map(self, task):
            yield from (result(0, 0), result(2, 0))
            raise group(lost(1, (1,)))

    runner = Ownerless(shards=3)
    policy = Retry(3).over(runner)
    assert shards_of(policy) == [0, 1, 2]
    assert (runner.did, policy.last.recomputed, policy.last.reused) == ([(0, 1)], {1}, {0, 2})


def test_a_worker_without_shards_leaves_first():
    crew = Crew(3)
    crew.owner = {shard: shard % 2 for shard in crew.sizes}
    assert Retry(2).over(crew).remove_worker() == 2
    assert crew.went == [2]


def test_late_replies_are_looked_at_while_a_round_runs():
    policy = Retry(2).over(Crew())
    policy.late = [Late(Scripted(None, result(9, 1, 2.0)), {7: [9]}, {9: result(9, 0)})]
    assert shards_of(policy) == list(range(6))
    assert (policy.differences, policy.late) == ([Difference(9, 0, 1, "value")], [])


def test_encodings_under_way_are_not_waited_for():
    policy, encoding = Retry(2).over(Crew()), Scripted()
    policy._encoding = [encoding]
    assert shards_of(policy) == list(range(6))
    assert (encoding.closed, policy._encoding) == (1, [])


def test_a_rank_without_heirs_is_given_up_where_it_stands():
    crew = Crew(1)
    policy, receipt = Retry(1).over(crew), RoundReceipt()
    policy.settle(gone(0), receipt)
    assert (policy.blacklist, receipt.blacklisted, crew.went) == ({0}, {0}, [])
    assert crew.owner == dict.fromkeys(range(6), 0)
    policy = Retry(1).over(Runner())
    policy.settle(gone(0), receipt)
    assert policy.blacklist == {0}


def test_processes_of_ranks_that_are_being_started_are_waited_for(caplog):
    caplog.set_level("INFO", "mixle")
    crew = Crew(2)
    crew.live, crew.processes = lambda: [0, 1], lambda: {0: "one", 1: "two"}
    policy = Retry(2).over(crew)
    assert policy.processes() == {0: "one", 1: "two"}
    policy.up, policy.unborn = {0}, {1}
    assert policy.processes() == {0: "one", 1: "two"}
    assert (crew.started, policy.up, policy.unborn) == ([[1]], {0, 1}, set())
    assert [record.message for record in caplog.records] == ["worker 1 was started again"]
    crew.closed, policy.unborn = True, {1}
    assert policy.processes() == {0: "one", 1: "two"}
    assert crew.started == [[1]]


def test_a_dispatch_adds_its_losses_to_those_of_the_round():
    crew = Crew(2, script={(1, 3)})
    policy = Retry(3).over(crew)
    shards_of(policy)
    policy.last = RoundReceipt()
    assert [one.shard for one in policy.dispatch(TASK, {1: [1, 3]})] == [1, 3]
    assert (policy.last.failed, [one.worker for one in policy.last.losses]) == ({1}, [1])
    assert policy.run(TASK, 2, 0).shard == 2


def test_closing_forgets_what_was_late():
    crew = Crew(2)
    policy = Retry(2).over(crew)
    policy.late = [Late(Scripted(), {1: [3]}, {})]
    policy.close()
    assert policy.late == []


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "2", None])
def test_retries_are_a_positive_count(value):
    words = "must be at least 1." if value in (0, -1) else f"must be an integer, not {value!r}"
    with pytest.raises((TypeError, ValueError)) as caught:
        Retry(value)
    assert str(caught.value) == f"max_retries {words}"
    with pytest.raises(TypeError, match=r"^speculate must be True or False, not 1$"):
        Retry(2, speculate=1)


def test_a_policy_waits_for_events_where_it_can(monkeypatch):
    waited = []
    monkeypatch.setattr(time, "sleep", waited.append)
    crew = Crew(2)
    policy = Retry(2).over(crew)
    policy.wait(0.25)
    policy.wait(0.0005)
    assert waited == [0.001, 0.0005]
    asked = []
    crew.live = lambda: asked.append(True)
    policy.wait(0.5)
    assert asked == [True]
