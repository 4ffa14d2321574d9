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


def test_shards_of_a_worker_that_was_named_are_audited_in_every_round():
    policy = Audit(0.01).over(Pool())
    list(policy.map(TASK))
    assert policy.last_shards == set()
    policy.evidence.named[1] = "2 of 9 compared statistics were wrong"
    for _ in range(2):
        list(policy.map(TASK))
        assert policy.last_shards == {1, 4}


def test_one_worker_cannot_audit_itself_and_is_told_so_once():
    policy = Audit(1.0).over(Pool(1))
    policy.evidence.named[0] = "2 of 9 compared statistics were wrong"
    with pytest.warns(
        UserWarning, match=r"^an audit needs a second worker: .* Give num_workers=2 or more \(3 to"
    ) as told:
        for _ in range(2):
            assert len(list(policy.map(TASK))) == 6
            assert policy.last_shards == set()
    assert len(told) == 1


class Computing(Pool):
    """A pool whose workers make what `make(shard, worker)` says, under the build that `builds` says."""

    def __init__(self, make, builds=None, did_by=None):
        super().__init__()
        self.make, self.builds, self.did_by = make, builds or {}, did_by

    def run(self, task, shard, worker):
        by = worker if self.did_by is None else self.did_by(shard, worker)
        receipt = {"worker": by, "build": self.builds.get(by, "one")}
        return Result(shard, 4, 4.0, self.make(shard, worker), None, receipt)


def values(policy):
    return {result.shard: result.value for result in policy.map(TASK)}


def test_recomputation_that_ended_up_with_the_same_worker_is_no_audit():
    pool = Computing(lambda shard, worker: (1.0,), did_by=lambda shard, worker: shard % 3)
    policy = Audit(1.0).over(pool)
    values(policy)
    assert policy.last_shards == set()
    assert policy.last_evaluations == 0


def test_unlike_builds_may_differ_inside_the_envelope():
    pool = Computing(lambda shard, worker: (1.0 + worker * 2.0**-52,), builds={0: "a", 1: "b", 2: "c"})
    policy = Audit(1.0).over(pool)
    assert values(policy) == {shard: (1.0 + shard % 3 * 2.0**-52,) for shard in range(6)}
    assert policy.receipts == []


def test_unlike_builds_fold_a_worker_that_is_trusted():
    pool = Computing(
        lambda shard, worker: (7.0 if (shard, worker) == (1, 1) else 1.0 + worker * 2.0**-52,),
        builds={0: "a", 1: "b", 2: "c"},
    )
    policy = Audit(1.0).over(pool)
    policy.recompute = lambda task, shard: pytest.fail("the driver was asked")
    assert values(policy)[1] in {(1.0,), (1.0 + 2.0**-51,)}
    (receipt,) = policy.receipts
    assert receipt.suspected_workers == (1,)
    assert receipt.quarantine_status == "deferred:ambiguous_shard_ownership"  # this pool cannot move shards


def test_equal_statistics_that_are_not_finite_are_told():
    policy = Audit(1.0).over(Computing(lambda shard, worker: (np.nan if shard == 2 else 1.0,)))
    values(policy)
    (receipt,) = policy.receipts
    assert receipt.mismatch_reason == "statistic[1][0]: non-finite numeric value"
    assert receipt.quarantine_status == "deferred:three_way_disagreement"


def test_what_two_workers_agree_on_is_folded_as_it_was_heard():
    import pickle

    policy = Audit(1.0).over(Computing(lambda shard, worker: (1.0,)))
    policy.arm(lambda worker, shard, role, payload: pickle.dumps((4.0, (5.0,))))
    assert values(policy) == dict.fromkeys(range(6), (5.0,))
    assert policy.receipts == []


def test_a_users_own_type_is_compared_by_its_bytes_and_never_read():
    policy = Audit(1.0).over(Computing(lambda shard, worker: {1, 2}))
    policy.arm(lambda worker, shard, role, payload: bytes(bytearray(payload)))
    assert values(policy) == {shard: {1, 2} for shard in range(6)}
    assert policy.receipts == []
    assert len(policy.last_shards) == 6


def test_shards_that_do_not_add_up_are_audited_at_once_and_excused_if_they_are_right():
    class Alarm:
        excused = None

        def broken(self, task, results, compute):
            return [3]

        def excuse(self, shards):
            self.excused = set(shards)

    policy = Audit(0.0).over(Computing(lambda shard, worker: (1.0,)))
    policy._invariants = Alarm()
    values(policy)
    assert policy.last_shards == {3}
    assert policy.last_unbalanced == [3]
    assert policy._invariants.excused == {3}
