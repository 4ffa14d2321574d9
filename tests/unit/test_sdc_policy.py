"""What the audit policy asks of a transport."""

import numpy as np
import pytest

from mixle.utils.parallel.folding.tasks import Accumulate, Result
from mixle.utils.parallel.policies.audit import Audit


class Pool:
    """A transport of three workers in one process, which notes who did what."""

    name = "pool"
    closable = True

    def __init__(self, workers=3):
        self.sizes = dict.fromkeys(range(6), 4)
        self.owner = {shard: shard % workers for shard in self.sizes}
        self.count, self.did, self.held = workers, [], []

    def workers(self):
        return list(range(self.count))

    def map(self, task):
        for shard, worker in self.owner.items():
            yield self.run(task, shard, worker)

    def run(self, task, shard, worker):
        self.did.append((shard, worker))
        return Result(shard, 4, 4.0, (float(shard),), None, {"worker": worker, "build": "one"})

    def hold(self, shard, worker):
        self.held.append((shard, worker))


TASK = Accumulate(None, None)


def test_second_worker_of_a_shard_stays_the_same_and_is_told_to_keep_it():
    pool = Pool()
    policy = Audit(1.0, rng=np.random.RandomState(4)).over(pool)
    for _ in range(4):
        assert len(list(policy.map(TASK))) == 6
    partners = dict(pool.held)
    assert len(pool.held) == len(partners) == 6
    assert all(worker != pool.owner[shard] for shard, worker in partners.items())
    second = [(shard, worker) for shard, worker in pool.did if worker != pool.owner[shard]]
    assert sorted(second) == sorted(list(partners.items()) * 4)
    assert len(set(partners.values())) > 1  # drawn at random


def test_partner_that_is_gone_is_replaced():
    pool = Pool()
    policy = Audit(1.0).over(pool)
    list(policy.map(TASK))
    pool.count = 2
    pool.owner = {shard: shard % 2 for shard in pool.sizes}
    pool.did.clear()
    list(policy.map(TASK))
    assert {worker for _, worker in pool.did} == {0, 1}
    assert policy.last_shards == set(range(6))


def test_results_of_other_tasks_pass_through_untouched():
    pool = Pool()
    policy = Audit(1.0).over(pool)
    assert len(list(policy.map(None))) == len(pool.did) == 6
    assert policy.round == 0


def test_each_binding_has_a_record_of_its_own():
    audit = Audit(0.5)
    one, other = audit.over(Pool()), audit.over(Pool())
    list(one.map(TASK))
    assert (one.round, other.round) == (1, 0)
    assert one.receipts is not other.receipts


@pytest.mark.parametrize("rng", [3, np.random.RandomState(3)])
def test_generators_are_taken_as_elsewhere(rng):
    policy = Audit(0.5, rng=rng).over(Pool())
    list(policy.map(TASK))
    assert len(policy.last_shards) == 3


@pytest.mark.parametrize("word", ["quarantine", "invariants"])
def test_switches_are_booleans(word):
    with pytest.raises(TypeError, match=f"{word} must be True or False"):
        Audit(0.5, **{word: 1})
