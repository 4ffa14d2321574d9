"""Hearings on a pool in one process: who is asked, what is folded, what is written down, who goes."""

import hashlib
import math
import pickle

import numpy as np
import pytest

from mixle.errors import WorkerLost
from mixle.utils.parallel.folding.tasks import Accumulate, Result
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.ballots import Ballot, identical, judge, listen, same
from mixle.utils.parallel.policies.canonical import canonical_sha256
from mixle.utils.parallel.policies.compare import WITHIN
from mixle.utils.parallel.policies.hearing import INSIDE
from mixle.utils.parallel.policies.receipts import ENVELOPE, EXACT

TASK = Accumulate(None, None)
ULP = 2.0**-52


class Pool:
    """Workers in one process; `make(shard, worker)` is what a worker makes of a shard, -1 is the driver."""

    name = "pool"
    closable = True

    def __init__(self, make, workers=3, shards=3, builds=None, lost=()):
        self.make, self.builds, self.lost = make, builds or {}, set(lost)
        self.sizes = dict.fromkeys(range(shards), 4)
        self.owner = {shard: shard % workers for shard in self.sizes}
        self.live, self.did, self.went = list(range(workers)), [], []

    def workers(self):
        return list(self.live)

    def map(self, task):
        for shard, worker in self.owner.items():
            yield self.result(shard, worker)

    def run(self, task, shard, worker):
        if (shard, worker) in self.lost:
            raise WorkerLost("gone")
        self.did.append((shard, worker))
        return self.result(shard, worker)

    def result(self, shard, worker):
        made = self.make(shard, worker)
        if isinstance(made, Result):
            return made
        receipt = {"worker": worker, "build": self.builds.get(worker, "one")}
        return Result(shard, 4, 4.0, made, None, receipt)

    def move(self, shard, worker):
        self.owner[shard] = worker

    def retire(self, worker):
        self.went.append(worker)
        self.live.remove(worker)


def audited(pool, *, rate=1.0, hook=None, own=None, **settings):
    """Return (policy, what one round folds); `own` is what the driver makes of a shard."""
    policy = Audit(rate, invariants=False, **settings).over(pool)
    policy.recompute = lambda task, shard: own and Result(shard, 4, 4.0, own(shard), None, {"build": "one"})
    policy.arm(hook)
    return policy, {result.shard: result.value for result in policy.map(TASK)}


def wrong(*places, by=7.0):
    return lambda shard, worker: (by if (shard, worker) in places else 1.0,)


def test_equal_statistics_leave_no_receipt():
    policy, folded = audited(Pool(wrong()))
    assert folded == dict.fromkeys(range(3), (1.0,))
    assert (policy.receipts, policy.last_mismatches, policy.alarms) == ([], [], [])
    assert (policy.last_shards, policy.last_evaluations) == ({0, 1, 2}, 6)


def test_who_stands_alone_is_retired_and_everything_is_written_down():
    pool = Pool(wrong((1, 1)))
    policy, folded = audited(pool, rtol=1e-9, atol=1e-10)
    assert folded == dict.fromkeys(range(3), (1.0,))
    (one,) = policy.receipts
    assert policy.last_mismatches == [one]
    bad, good = pickle.dumps((4.0, (7.0,))), pickle.dumps((4.0, (1.0,)))
    assert (one.round, one.shard_id, one.primary_worker, one.comparison_mode) == (1, 1, 1, ENVELOPE)
    assert {one.audit_worker, one.witness_worker} == {0, 2}
    assert (one.primary_nbytes, one.audit_nbytes) == (len(bad), len(good))
    assert one.first_diff_byte_offset == next(i for i in range(len(bad)) if bad[i] != good[i])
    assert one.primary_sha256 == hashlib.sha256(bad).hexdigest()
    assert one.audit_sha256 == hashlib.sha256(good).hexdigest()
    assert (one.audit_rtol, one.audit_atol) == (1e-9, 1e-10)
    assert (one.max_abs_error, one.max_rel_error) == (6.0, 6.0 / 7.0)
    assert one.mismatch_reason == "statistic[1][0]: numeric error exceeds tolerance"
    assert one.primary_canonical_sha256 == canonical_sha256((4.0, (7.0,)))
    assert one.audit_canonical_sha256 == canonical_sha256((4.0, (1.0,)))
    assert (one.suspected_workers, one.quarantine_status) == ((1,), "committed")
    assert (one.primary_value_repr, one.audit_value_repr) == ("(4.0, (7.0,))", "(4.0, (1.0,))")
    assert pool.went == [1]
    assert pool.owner[1] in {0, 2}
    assert policy.last_evaluations == 7
    assert sum(policy.evidence.trials.values()) == 6
    assert policy.evidence.faults == {1: 1}


def test_an_auditor_that_stands_alone_is_the_suspect():
    pool = Pool(wrong((0, 1), (2, 1)))
    policy, folded = audited(pool)
    assert folded == dict.fromkeys(range(3), (1.0,))
    for one in policy.receipts:
        assert one.primary_worker in {0, 2}
        assert (one.audit_worker, one.suspected_workers) == (1, (1,))
    assert pool.went == ([1] if policy.receipts else [])


def test_a_difference_inside_the_envelope_is_settled_and_suspects_nobody():
    pool = Pool(lambda shard, worker: (1.0 + ULP * ((shard, worker) == (1, 1)),))
    policy, folded = audited(pool)
    assert folded == dict.fromkeys(range(3), (1.0,))
    (one,) = policy.receipts
    assert (one.comparison_mode, one.mismatch_reason) == (EXACT, INSIDE)
    assert INSIDE == "canonical digests differ within the declared numeric envelope"
    assert (one.suspected_workers, one.quarantine_status) == ((), "not_requested")
    assert (one.witness_worker is None, one.max_abs_error) == (False, ULP)
    assert (policy.last_mismatches, pool.went) == ([], [])
    assert policy.evidence.faults == {1: 1}
    assert policy.last_evaluations == 7


def test_workers_of_another_build_may_differ_inside_the_envelope():
    pool = Pool(lambda shard, worker: (1.0 + ULP * (worker == 1),), builds={1: "two"})
    policy, folded = audited(pool)
    assert folded == {0: (1.0,), 1: (1.0 + ULP,), 2: (1.0,)}
    assert policy.receipts == []
    assert policy.evidence.faults == {}


def test_without_quarantine_nobody_is_asked_or_sent_away():
    pool = Pool(wrong((1, 1)))
    policy, folded = audited(pool, quarantine=False, own=lambda shard: (1.0,))
    (one,) = policy.receipts
    assert (one.quarantine_status, one.suspected_workers, one.witness_worker) == ("disabled", (), None)
    assert folded[1] == (1.0,)
    assert (pool.went, policy.last_evaluations) == ([], 6)
    assert policy.evidence.faults == {1: 1}  # the driver knows


def test_two_workers_cannot_tell_who_is_wrong_but_the_driver_can():
    pool = Pool(wrong((1, 1)), workers=2, shards=2)
    policy, folded = audited(pool, own=lambda shard: (1.0,))
    (one,) = policy.receipts
    assert (one.quarantine_status, one.suspected_workers) == ("deferred:insufficient_witnesses", ())
    assert folded == {0: (1.0,), 1: (1.0,)}
    assert pool.went == []


def test_without_a_witness_and_without_the_rows_the_delivery_stands():
    policy, folded = audited(Pool(wrong((1, 1)), workers=2, shards=2))
    assert folded == {0: (1.0,), 1: (7.0,)}
    assert policy.evidence.faults == {}
    (one,) = policy.receipts
    assert one.quarantine_status == "deferred:insufficient_witnesses"


def test_three_that_all_differ_are_settled_by_the_driver():
    pool = Pool(lambda shard, worker: (1.0 + worker if shard == 1 else 1.0,))
    policy, folded = audited(pool, own=lambda shard: (9.0,))
    (one,) = policy.receipts
    assert (one.quarantine_status, one.suspected_workers) == ("deferred:three_way_disagreement", ())
    assert folded[1] == (9.0,)
    assert folded[0] == folded[2] == (9.0,)  # nobody who delivered them is trusted any more
    assert policy.evidence.faults == {0: 1, 1: 1, 2: 1}


def test_a_witness_between_the_two_names_nobody():
    order = {}

    def make(shard, worker):
        if shard != 1:
            return (0.0,)
        order.setdefault(worker, len(order))
        return ([0.0, 2.0, 1.0][order[worker]],)

    policy, folded = audited(Pool(make), own=lambda shard: (5.0,), rtol=0.0, atol=1.0)
    (one,) = policy.receipts
    assert (one.quarantine_status, one.suspected_workers) == ("deferred:nontransitive_envelope", ())
    assert (one.audit_rtol, one.audit_atol, one.max_abs_error) == (0.0, 1.0, 2.0)
    assert folded[1] == (5.0,)


def test_what_a_doubted_worker_delivered_unaudited_is_computed_elsewhere():
    pool = Pool(lambda shard, worker: (7.0 if worker == 1 else 1.0,), shards=9)
    policy, folded = audited(pool, rate=0.34)
    while not policy.receipts:
        folded = {result.shard: result.value for result in policy.map(TASK)}
    assert folded == dict.fromkeys(range(9), (1.0,))
    assert pool.went == [1]
    assert set(pool.owner.values()) == {0, 2}


def test_of_two_mismatches_of_one_suspect_the_second_needs_no_quarantine():
    pool = Pool(lambda shard, worker: (7.0 if worker == 1 else 1.0,), shards=6)
    policy, folded = audited(pool)
    assert folded == dict.fromkeys(range(6), (1.0,))
    told = [one.quarantine_status for one in policy.receipts]
    assert told[0] == "committed"
    assert set(told[1:]) == {"not_needed"}
    assert all(one.suspected_workers == (1,) for one in policy.receipts)
    assert [one.shard_id for one in policy.receipts] == sorted(one.shard_id for one in policy.receipts)


def test_what_a_retired_worker_said_of_others_is_not_believed_any_more():
    pool = Pool(wrong((1, 1), (2, 2)))
    policy, folded = audited(pool)
    assert folded == dict.fromkeys(range(3), (1.0,))
    told = [(one.shard_id, one.quarantine_status, one.suspected_workers) for one in policy.receipts]
    assert told == [(1, "committed", (1,)), (2, "deferred:insufficient_witnesses", ())]
    assert pool.went == [1]


def test_a_suspect_that_cannot_go_is_told_once_per_mismatch():
    class Fixed(Pool):
        move = None

        def __getattribute__(self, name):
            if name == "move":
                raise AttributeError(name)
            return super().__getattribute__(name)

    pool = Fixed(lambda shard, worker: (7.0 if worker == 1 else 1.0,), shards=6)
    policy, folded = audited(pool)
    assert folded == dict.fromkeys(range(6), (1.0,))
    assert {one.quarantine_status for one in policy.receipts} == {"deferred:ambiguous_shard_ownership"}


@pytest.mark.parametrize("role", ["primary", "audit"])
def test_a_payload_that_cannot_be_read_is_told_and_replaced(role):
    def hook(worker, shard, heard_as, payload):
        assert heard_as in {"primary", "audit", "witness"}
        return b"garbage" if (shard, heard_as) == (2, role) else payload

    policy, folded = audited(Pool(wrong()), hook=hook)
    assert folded == dict.fromkeys(range(3), (1.0,))
    (one,) = policy.receipts
    assert one.mismatch_reason.startswith("payload decode/schema failure: ")
    assert (one.max_abs_error, one.max_rel_error) == (math.inf, math.inf)
    text = {"primary": one.primary_value_repr, "audit": one.audit_value_repr}
    reason = one.mismatch_reason.partition("failure: ")[2]
    assert text.pop(role) == f"<unpicklable: {reason}>"
    assert list(text.values()) == ["(4.0, (1.0,))"]
    digests = {"primary": one.primary_canonical_sha256, "audit": one.audit_canonical_sha256}
    assert digests[role] == hashlib.sha256(b"raw:garbage").hexdigest()
    assert one.suspected_workers == ((one.primary_worker,) if role == "primary" else (one.audit_worker,))


def test_where_nothing_can_be_read_the_round_ends_with_what_to_do():
    with pytest.raises(RuntimeError) as caught:
        audited(Pool(wrong(), workers=2, shards=2), hook=lambda worker, shard, role, payload: b"")
    assert str(caught.value).startswith("no readable payload of shard 0 is left: payload decode/schema failure: ")
    assert str(caught.value).endswith(". Clear the hook with arm_corruption(None), or build a new handle from the rows")


def test_a_second_worker_that_is_lost_or_fails_is_no_audit():
    broken = Result(1, 4, 0.0, None, None, {"worker": 2, "build": "one"}, error="failed")
    pool = Pool(lambda shard, worker: broken if (shard, worker) in {(1, 0), (1, 2)} else (1.0,), lost={(2, 0), (2, 1)})
    policy, folded = audited(pool)
    assert folded == dict.fromkeys(range(3), (1.0,))
    assert (policy.last_shards, policy.last_evaluations) == ({0}, 2)
    assert policy.receipts == []


def test_an_audit_outside_a_round_folds_nothing_and_tells_unknown_shards():
    pool = Pool(wrong((1, 1)))
    policy = Audit(1.0, invariants=False).over(pool)
    assert [one.shard_id for one in policy.audit(TASK, [0, 1])] == [1]
    assert policy.round == 1
    assert pool.went == [1]
    with pytest.raises(ValueError, match=r"^there are no shards \[3, 9\]; name some of 0 \.\.\. 2$"):
        policy.audit(TASK, [9, 0, 3])
    again = Audit(1.0, invariants=False).over(Pool(wrong((1, 1))))
    assert [one.quarantine_status for one in again.audit(TASK, [1], quarantine=False)] == ["disabled"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate": 1.5}, r"audit_rate must be finite and within \[0, 1\], not 1\.5"),
        ({"rate": -0.1}, r"audit_rate must be finite and within \[0, 1\], not -0\.1"),
        ({"rate": math.nan}, r"audit_rate must be finite and within \[0, 1\], not nan"),
        ({"rate": True}, r"audit_rate must be finite and within \[0, 1\], not True"),
        ({"rate": "0.5"}, r"audit_rate must be finite and within \[0, 1\], not '0\.5'"),
        ({"rate": None}, r"audit_rate must be finite and within \[0, 1\], not None"),
        ({"rate": 10**400}, r"audit_rate must be finite and within \[0, 1\], not 10"),
        ({"rtol": -1e-9}, "audit_rtol/atol must be finite and nonnegative, not -1e-09"),
        ({"atol": math.inf}, "audit_rtol/atol must be finite and nonnegative, not inf"),
        ({"atol": np.bool_(True)}, "audit_rtol/atol must be finite and nonnegative, not "),
    ],
)
def test_numbers_of_an_audit_are_checked(settings, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        Audit(**settings)
    assert (Audit(0).rate, Audit(1).rate, Audit(rtol=0, atol=2).atol) == (0.0, 1.0, 2.0)


def test_a_hook_must_be_callable():
    policy = Audit(1.0).over(Pool(wrong()))
    with pytest.raises(
        TypeError, match=r"^a hook is called as hook\(worker, shard, role, payload\); 3 cannot be called$"
    ):
        policy.arm(3)


# What was delivered


def ballot(value, *, weight=4.0, score=None, left_out=None, worker=1):
    receipt = {} if left_out is None else {"left_out": left_out}
    return Ballot(Result(0, 4, weight, value, score, receipt), worker)


def judged(left, right, rtol=0.0, atol=0.0):
    found = judge(left, right, rtol, atol)
    return found.reason


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        (ballot((1.0,)), ballot((1.0,)), WITHIN),
        (ballot((1.0,)), ballot((2.0,)), "statistic[1][0]: numeric error exceeds tolerance"),
        (ballot((1.0,)), ballot((1.0,), weight=5.0), "statistic[0]: numeric error exceeds tolerance"),
        (ballot((math.nan,)), ballot((math.nan,)), "statistic[1][0]: non-finite numeric value"),
        (ballot((1.0,), score=2.0), ballot((1.0,), score=3.0), "log_density: numeric error exceeds tolerance"),
        (ballot((1.0,), score=2.0), ballot((1.0,)), "log_density: value/schema mismatch"),
        (ballot((1.0,), left_out=2), ballot((1.0,), left_out=3), "left_out: integer mismatch"),
        (ballot((1.0,), left_out=0), ballot((1.0,)), WITHIN),
        (ballot((0.0,)), ballot((-0.0,)), WITHIN),
        (ballot((1.0,), score=math.inf), ballot((1.0,), score=math.inf), WITHIN),
    ],
)
def test_weight_value_score_and_rows_left_out_are_compared(left, right, reason):
    assert judged(left, right) == reason


def test_a_score_inside_the_envelope_is_no_mismatch():
    assert judged(ballot((1.0,), score=2.0), ballot((1.0,), score=2.5), atol=1.0) == WITHIN
    assert judged(ballot((1.0,), score=2.0), ballot((1.0,), score=2.5), atol=0.1).startswith("log_density")


class Weird:
    """A user's value: compared by its frame, since nothing is known of it."""

    def __init__(self, number):
        self.number = number

    def __repr__(self):
        raise ArithmeticError("no text")


class Secret:
    def __reduce__(self):
        raise ArithmeticError("stays here")


def test_values_of_the_user_are_told_by_their_frames():
    one, same_one, other = ballot(Weird(1.0)), ballot(Weird(1.0)), ballot(Weird(2.0))
    assert identical(one, same_one)
    assert not identical(one, other)
    assert judged(one, same_one) == WITHIN
    assert judged(one, other).startswith("payload decode/schema failure: TypeError: unsupported statistic type")
    assert one.key == same_one.key != other.key
    assert one.canonical == hashlib.sha256(b"raw:" + one.raw).hexdigest()
    assert one.text == "<unprintable: ArithmeticError>"
    assert not identical(ballot(Secret()), ballot(Secret()))


def test_a_ballot_that_failed_has_no_key_and_says_why():
    bad = listen(Result(3, 4, 4.0, (1.0,), None, {}), lambda *_: 5, "audit", 2)
    assert (bad.worker, bad.raw, bad.key) == (2, b"", "")
    assert bad.failed.reason == "payload decode/schema failure: TypeError: the hook returned int, it must return bytes"
    assert bad.text == "<unpicklable: TypeError: the hook returned int, it must return bytes>"
    assert not identical(bad, ballot((1.0,)))
    assert not identical(ballot((1.0,)), bad)
    assert judge(ballot((1.0,)), bad, 0.0, 0.0) is bad.failed
    long = listen(Result(3, 4, 4.0, (1.0,), None, {}), lambda *_: pickle.dumps((True, None)), "audit", 2)
    assert long.failed.reason == "payload decode/schema failure: TypeError: a count must be a number, not a bool"
    text = listen(Result(3, 4, 4.0, (1.0,), None, {}), lambda *_: pickle.dumps(("x", None)), "audit", 2)
    assert text.failed.reason == "payload decode/schema failure: TypeError: a count must be a number, not a str"


def test_what_a_hook_returns_is_heard():
    told = []

    def hook(*facts):
        told.append(facts)
        return memoryview(pickle.dumps((np.float64(5.0), [2.0])))

    result = Result(3, 4, 4.0, (1.0,), None, {})
    heard = listen(result, hook, "witness", 2)
    assert told == [(2, 3, "witness", pickle.dumps((4.0, (1.0,))))]
    assert heard.statistic == (5.0, [2.0])
    assert type(heard.result.weight) is float
    kept = listen(result, lambda worker, shard, role, payload: bytearray(payload), "audit", 2)
    assert kept.result is result
    assert kept.raw == kept.heard == pickle.dumps((4.0, (1.0,)))
    unheard = listen(result, None, "audit", 2)
    assert (unheard.heard, unheard.raw) == (None, pickle.dumps((4.0, (1.0,))))
    assert ballot(["x" * 3000]).text == repr((4.0, ["x" * 3000]))[:2000]


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        (1.0, 1.0, True),
        (0.0, -0.0, False),
        (1, 1.0, False),
        ("a", "a", True),
        ("a", "b", False),
        (b"a", b"a", True),
        (True, True, True),
        (None, None, True),
        ((1, 2.0), (1, 2.0), True),
        ((1, 2.0), (1, 2.5), False),
        ((1,), (1, 2), False),
        ([1, [2]], [1, [2]], True),
        ([1], (1,), False),
        (np.zeros(2), np.zeros(2), True),
        (np.zeros(2), np.zeros(3), False),
        (np.zeros(2), np.zeros(2, np.float32), False),
        (np.zeros(2), -np.zeros(2), False),
        (np.array([1], object), np.array([1], object), None),
        ({"a": 1}, {"a": 1}, None),
        ((1, {"a": 1}), (1, {"a": 1}), None),
        (({"a": 1}, 1), ({"a": 1}, 2), None),
        (1j, complex("1j"), None),
    ],
)
def test_equal_types_and_bits_are_told_where_they_can_be(left, right, told):
    assert same(left, right) is told
