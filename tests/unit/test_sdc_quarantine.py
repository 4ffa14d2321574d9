"""Retiring a suspect: everything is computed elsewhere first, and if that does not work nothing changes."""

import pytest

from mixle.errors import RoundLosses, WorkerLost
from mixle.utils.parallel.folding.tasks import Result
from mixle.utils.parallel.policies.quarantine import gather, live_workers, retire, worker_of


class Pool:
    """A pool of workers that keeps a record; shards live on worker ``shard % 3``."""

    max_retries = 2

    def __init__(self, fails=(), moved_to=None):
        self.sizes = dict.fromkeys(range(6), 10)
        self.owner = {shard: shard % 3 for shard in self.sizes}
        self.gone, self.fails, self.moved_to, self.record = set(), set(fails), moved_to, []

    def workers(self):
        return [worker for worker in range(3) if worker not in self.gone]

    def run(self, task, shard, worker):
        self.record.append((shard, worker))
        if worker in self.fails:
            raise WorkerLost("gone")
        return Result(shard, 10, 10.0, task, None, {"worker": worker if self.moved_to is None else self.moved_to})

    def move(self, shard, worker):
        self.owner[shard] = worker

    def retire(self, worker):
        assert worker not in self.owner.values()
        self.gone.add(worker)


def state(pool):
    return dict(pool.owner), set(pool.gone)


def test_shards_are_computed_by_survivors_then_move_and_the_suspect_goes():
    pool = Pool()
    status, staged = retire(pool, "task", 1, {0, 2}, [4, 5])
    assert status == "committed"
    assert sorted(staged) == [1, 4, 5]  # what lives there and what was delivered from there
    assert {worker for _, worker in pool.record} == {0, 2}
    assert pool.gone == {1}
    assert pool.owner[5] == 2  # delivered, but it lives elsewhere
    assert {pool.owner[1], pool.owner[4]} == {0, 2}


@pytest.mark.parametrize(
    ("pool", "suspect", "survivors", "status"),
    [
        (Pool(), 7, {0, 1, 2}, "not_needed"),
        (Pool(), 1, {1}, "deferred:no_safe_survivor"),
        (Pool(), 1, set(), "deferred:no_safe_survivor"),
        (Pool(fails={0}), 1, {0, 2}, "deferred:staging_failed"),
        (Pool(moved_to=1), 1, {0, 2}, "deferred:staging_failed"),
    ],
)
def test_nothing_changes_unless_everything_is_safe(pool, suspect, survivors, status):
    before = state(pool)
    assert retire(pool, "task", suspect, survivors, [])[0] == status
    assert state(pool) == before


def test_owners_that_are_not_known_defer():
    pool = Pool()
    del pool.owner[3]
    assert retire(pool, "task", 1, {0, 2}, [])[0] == "deferred:ambiguous_shard_ownership"
    del pool.owner
    assert retire(pool, "task", 1, {0, 2}, [])[0] == "deferred:ambiguous_shard_ownership"


def test_gather_returns_what_arrives_before_a_loss():
    pool = Pool(fails={2})
    assert sorted(gather(pool, "task", {0: [0, 3], 2: [2, 5], 1: [1]})) == [0, 1, 3]

    def dispatch(task, assignment):
        yield Result(4, 1, 1.0, None, None)
        raise RoundLosses("lost")

    pool.dispatch = dispatch
    assert sorted(gather(pool, "task", {1: [4, 1]})) == [4]


def test_who_made_a_result_and_who_lives():
    class Bare:
        pass

    assert live_workers(Bare()) == [0]
    assert worker_of(Result(4, 1, 1.0, None, None), Pool()) == 1
    assert worker_of(Result(4, 1, 1.0, None, None, {"worker": 2}), Pool()) == 2
    assert worker_of(Result(4, 1, 1.0, None, None), Bare()) == 0
    pool = Pool()
    pool.blacklist = {0}
    assert live_workers(pool) == [1, 2]
