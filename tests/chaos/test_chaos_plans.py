"""Plans of faults on real worker processes: bits, losses and leaks."""

import sys

import numpy as np
import pytest
from leaks import FULL, nothing_hangs_and_nothing_is_left_behind  # noqa: F401 - a fixture

import mixle.stats as st
from mixle.errors import BackendError, RoundLosses
from mixle.testing import ChaosPlan
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.retry import Retry
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="signals of Linux"),
]

ROWS = np.concatenate([np.random.RandomState(0).normal(size=60), np.random.RandomState(1).normal(5.0, 1.0, size=60)])
EST = st.MixtureEstimator([st.GaussianEstimator()] * 2)
LOCAL = encoded_data(ROWS, EST, num_shards=6, sub_chunks=2)
START = LOCAL.pysp_seq_initialize(EST, 0, 0.5)


def rounds(handle, count=4):
    model, digests = START, []
    for _ in range(count):
        model = handle.pysp_seq_estimate(EST, model)
        digests.append(model.digest())
    return digests


CLEAN = rounds(LOCAL)


def pool(plan, *policies, workers=3):
    policies = [*policies, plan]
    return encoded_data(ROWS, EST, backend="mp", num_workers=workers, num_shards=6, sub_chunks=2, policies=policies)


@pytest.mark.parametrize("seed", range(60 if FULL else 3))
def test_random_plans_leave_the_bits_alone(seed):
    kinds = ("kill", "stop", "segfault", "exit", "garble", "delay")
    plan = ChaosPlan.random(seed, rounds=4, workers=3, kinds=kinds)
    with pool(plan, Retry(10)) as handle:
        assert rounds(handle) == CLEAN
    assert plan.log


def test_an_audit_finds_the_worker_that_a_plan_spoils():
    plan = ChaosPlan().corrupt(worker=1, round=2, times=None)
    with pool(plan, Audit(1.0), Retry(2)) as handle:
        assert rounds(handle) == CLEAN
        assert {one.suspected_workers for one in handle.transport.receipts} == {(1,)}
        assert {one.round for one in plan.log} == {2}
        assert handle.transport.workers() == [0, 2]
    plan.check()


def test_without_retry_a_loss_is_raised():
    plan = ChaosPlan().kill(worker=1, round=1)
    with pool(plan) as handle:
        with pytest.raises(RoundLosses, match="worker 1"):
            handle.pysp_seq_estimate(EST, START)
        assert handle.pysp_seq_estimate(EST, START).digest() == CLEAN[0]
    plan.check()


def test_a_plan_for_a_worker_that_was_retired_before_is_told():
    """The pool shrinks in round 1; what was planned for round 3 is not met, and the check says so."""
    plan = ChaosPlan().kill(worker=2, round=1).kill(worker=2, round=3)
    with pool(plan, Retry(1)) as handle:
        assert rounds(handle) == CLEAN
        assert handle.transport.blacklist == {2}
    assert len(plan.log) == 1
    with pytest.raises(AssertionError, match=r"not met in 4 E-steps: kill\(worker=2, round=3, at='before'\)"):
        plan.check()


def test_a_handle_whose_workers_are_taken_away():
    plan = ChaosPlan().kill(worker=2, round=2).kill(worker=0, round=3)
    with ResilientMPEncodedData(ROWS, EST, num_workers=3, num_shards=6, sub_chunks=2, policies=[plan]) as handle:
        handle.remove_worker(2)
        assert rounds(handle) == CLEAN
    assert [one.worker for one in plan.log] == [0]
    assert [fault.worker for fault in plan.pending] == [2]


def test_workers_and_shards_that_do_not_exist_are_refused():
    with pytest.raises(BackendError, match=r"there is no worker 3; name one of \[0, 1, 2\]"):
        pool(ChaosPlan().kill(worker=3), Retry(2))
    with pytest.raises(BackendError, match="there is no shard 6; name one of 0 to 5"):
        pool(ChaosPlan().kill(shard=6))


def test_the_recipe_takes_only_what_belongs_inside_of_it():
    with pytest.raises(BackendError, match="Audit belongs outside of the recovery"):
        ResilientMPEncodedData(ROWS, EST, num_workers=2, policies=[Audit(1.0)])


def test_two_handles_meet_the_same_plan():
    plan = ChaosPlan().kill(worker=1, round=1, at="reply")
    with pool(plan, Retry(2), workers=2) as first, pool(plan, Retry(2), workers=2) as second:
        assert rounds(first) == rounds(second) == CLEAN
    assert [one.handle for one in plan.log] == [1, 2]
