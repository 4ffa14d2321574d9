"""Plans of faults as values, and what they do where all work is done in this process."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import mixle.stats as st
from mixle.errors import BackendError, TaskError
from mixle.testing import ChaosPlan
from mixle.testing.fault import KINDS, POINTS
from mixle.testing.ledger import Ledger
from mixle.testing.strikes import signal_of, strike
from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.retry import Retry

ROWS = np.concatenate([np.random.RandomState(0).normal(size=60), np.random.RandomState(1).normal(5.0, 1.0, size=60)])
EST = st.MixtureEstimator([st.GaussianEstimator()] * 2)
WORDS = {"exit": (3,), "hang": (0.5,), "raise_": (ValueError("planned"),), "delay": (0.25,), "hold_lock": (0.5,)}
CALLS = [(kind, at) for kind in KINDS for at in KINDS[kind]]


@pytest.fixture
def start():
    return encoded_data(ROWS, EST).pysp_seq_initialize(EST, 0, 0.5)


def local(plan, **options):
    return encoded_data(ROWS, EST, num_shards=4, policies=[plan], **options)


@pytest.mark.parametrize(("kind", "at"), CALLS)
def test_a_plan_is_written_as_it_is_made(kind, at):
    where = {} if kind == "slow" else {"at": at}
    plan = getattr(ChaosPlan(), kind)(*WORDS.get(kind, ()), worker=1, times=2, **where)
    assert eval(repr(plan), {"ChaosPlan": ChaosPlan}).faults[0].at == at
    if kind != "raise_":  # exceptions are not compared
        assert eval(repr(plan), {"ChaosPlan": ChaosPlan}) == plan
        assert hash(eval(repr(plan), {"ChaosPlan": ChaosPlan})) == hash(plan)


def test_a_plan_is_a_value():
    plan = ChaosPlan()
    more = plan.kill(worker=1, round=2, at="mid_update", skip=3)
    assert len(plan) == 0
    assert plan
    assert repr(more) == "ChaosPlan().kill(worker=1, round=2, at='mid_update', skip=3)"
    assert more != plan
    assert more == ChaosPlan(more)
    assert (more | more.stop(worker=0)).faults == (more.stop(worker=0)).faults
    assert repr(ChaosPlan().fail(KeyError)) == "ChaosPlan().raise_(KeyError(), at='before')"
    with pytest.raises(TypeError):
        more | 3


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda p: p.kill(at="midupdate"), "'midupdate' is not known. Did you mean 'mid_update'"),
        (lambda p: p.kill(wroker=1), "no such keyword: 'wroker' is not known. Did you mean 'worker'"),
        (lambda p: p.kill(worker=-1), "worker must be a whole number from 0 on, not -1"),
        (lambda p: p.kill(worker=True), "worker must be a whole number"),
        (lambda p: p.kill(worker="1"), "worker must be a whole number"),
        (lambda p: p.kill(round=0), r"round must be a whole number from 1 on \(E-steps are counted from 1\), not 0"),
        (lambda p: p.kill(round=1.5), "round must be a whole number"),
        (lambda p: p.kill(round=2, at="start"), "at='start' belongs to no round"),
        (lambda p: p.kill(shard=2, at="encode"), "at='encode' belongs to no shard"),
        (lambda p: p.kill(times=0), "times must be a whole number from 1 on"),
        (lambda p: p.kill(skip=-1), "skip must be"),
        (lambda p: p.delay(0.0), "seconds must be a finite number above 0, not 0.0"),
        (lambda p: p.delay(float("nan")), "seconds must be"),
        (lambda p: p.delay("1"), "seconds must be"),
        (lambda p: p.slow(1.0), "factor must be a finite number above 1"),
        (lambda p: p.slow(at="before"), ".slow cannot strike at='before'"),
        (lambda p: p.exit(256), "from 0 to 255, not 256"),
        (lambda p: p.exit(None), "from 0 to 255, not None"),
        (lambda p: p.exit(at="start"), r".exit cannot strike at='start'; it can at load"),
        (lambda p: p.corrupt(at="init"), ".corrupt cannot strike at='init'"),
        (lambda p: p.corrupt(-1), "bit must be"),
        (lambda p: p.garble("noize"), "Did you mean 'noise'"),
        (lambda p: p.garble("unpicklable", at="init"), "at='reply'"),
        (lambda p: p.kill(worker=1).kill(worker=1), r"is planned twice: say times=2"),
        (lambda p: p.random(0, kinds=["kil"]), "Did you mean 'kill'"),
        (lambda p: p.random(0, kinds=[]), "needs a kind of faults"),
        (lambda p: p.random(0, rounds=0), "rounds must be"),
        (lambda p: p.random(-1), "seed must be"),
    ],
)
def test_what_makes_no_sense_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make(ChaosPlan())


@pytest.mark.parametrize("exc", [KeyboardInterrupt, SystemExit(), "text", int, None])
def test_only_exceptions_are_raised(exc):
    with pytest.raises(TypeError, match="raise_ takes an exception"):
        ChaosPlan().raise_(exc)
    with pytest.raises(TypeError, match="made of faults"):
        ChaosPlan([exc])


def test_random_plans_repeat_with_their_seed():
    plans = [ChaosPlan.random(seed, rounds=6, workers=3, kinds=KINDS) for seed in range(40)]
    assert [repr(plan) for plan in plans] == [repr(ChaosPlan.random(s, 6, 3, KINDS)) for s in range(40)]
    assert len({repr(plan) for plan in plans}) == 40
    assert {fault.kind for plan in plans for fault in plan} == set(KINDS)
    for plan in plans:
        assert len({(fault.round, fault.worker) for fault in plan}) == len(plan) == 6
        assert {fault.round for fault in plan} <= set(range(1, 7))
    assert len(ChaosPlan.random(0, rounds=2, workers=2, count=99)) == 4
    assert ChaosPlan.random(0, kinds="stop").faults[0].kind == "stop"


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (ChaosPlan().kill(), "works in this process, which the fault would end. Use backend='mp'"),
        (ChaosPlan().hang(), "which the fault would end"),
        (ChaosPlan().out_of_memory(), "which the fault would end"),
        (ChaosPlan().delay(1.0, worker=0), "no workers that could be told apart: leave out worker="),
        (ChaosPlan().raise_(KeyError, at="load"), "sends nothing"),
        (ChaosPlan().delay(1.0, at="recover"), "recovers nothing"),
        (ChaosPlan().corrupt(at="reply"), "sends nothing"),
        (ChaosPlan().delay(1.0, shard=4), "there is no shard 4; name one of 0 to 3"),
    ],
)
@pytest.mark.parametrize("threads", [None, 2])
def test_what_a_backend_cannot_meet_is_refused(plan, text, threads):
    with pytest.raises(BackendError, match=text):
        local(plan, chunk_workers=threads)


@pytest.mark.parametrize("threads", [None, 2])
def test_exceptions_strike_where_and_when_they_are_planned(threads, start):
    wanted = encoded_data(ROWS, EST, num_shards=4).pysp_seq_estimate(EST, start).digest()
    plan = ChaosPlan().raise_(KeyError("planned"), round=2, shard=3).raise_(OSError("full"), round=3, at="after")
    with local(plan, chunk_workers=threads) as handle:
        assert handle.pysp_seq_estimate(EST, start).digest() == wanted
        assert plan.fired == ()
        with pytest.raises(KeyError, match="planned") as told:
            handle.pysp_seq_estimate(EST, start)
        assert isinstance(told.value, TaskError)
        assert told.value.shard == 3
        assert plan.pending == plan.faults[1:]
        with pytest.raises(OSError, match="full"):
            handle.pysp_seq_estimate(EST, start)
        assert handle.pysp_seq_estimate(EST, start).digest() == wanted
    plan.check()
    assert [(one.at, one.round, one.handle) for one in plan.log] == [("before", 2, 1), ("after", 3, 1)]
    assert plan.log[0].shard == 3
    assert plan.fired == plan.faults


@pytest.mark.parametrize("at", ["init", "score", "encode", "mid_update"])
@pytest.mark.parametrize("sub_chunks", [1, 3])
def test_every_point_of_a_local_fit_is_met(at, sub_chunks):
    plan = ChaosPlan().raise_(LookupError("planned"), at=at)
    with pytest.raises(LookupError, match="planned"), local(plan, sub_chunks=sub_chunks) as handle:
        model = handle.pysp_seq_initialize(EST, 0, 0.5)
        handle.pysp_seq_log_density_sum(handle.pysp_seq_estimate(EST, model))
    plan.check()


@pytest.mark.parametrize("at", ["before", "mid_update", "after"])
def test_corrupted_numbers_change_the_model_once(at, start):
    wanted = encoded_data(ROWS, EST, num_shards=4).pysp_seq_estimate(EST, start).digest()
    plan = ChaosPlan().corrupt(25, at=at, round=1, shard=1)
    with local(plan) as handle:
        assert handle.pysp_seq_estimate(EST, start).digest() != wanted
        assert handle.pysp_seq_estimate(EST, start).digest() == wanted
    plan.check()


def test_a_fault_that_never_came_fails_the_check(start):
    plan = ChaosPlan().delay(0.001, round=1).raise_(KeyError, round=7)
    with pytest.raises(AssertionError, match=r"was given to no handle: encoded_data"):
        plan.check()
    with local(plan) as handle:
        handle.pysp_seq_estimate(EST, start)
    with pytest.raises(AssertionError, match=r"not met in 1 E-steps: raise_\(KeyError\(\), round=7, at='before'\)"):
        plan.check()
    with pytest.raises(AssertionError, match=r"struck: delay\(seconds=0.001, round=1, at='before'\)"):
        plan.check()
    twice = ChaosPlan().delay(0.001, times=5)
    with local(twice) as handle:
        handle.pysp_seq_estimate(EST, start)
        assert len(twice.log) == 4
        assert twice.pending
        handle.pysp_seq_estimate(EST, start)
        assert len(twice.log) == 5
    twice.check()


def test_a_plan_happens_anew_on_each_handle(start):
    plan = ChaosPlan().raise_(KeyError, round=1)
    with local(plan) as first, local(plan) as second:
        for handle in (first, second):
            with pytest.raises(KeyError):
                handle.pysp_seq_estimate(EST, start)
            handle.pysp_seq_estimate(EST, start)
    assert [one.handle for one in plan.log] == [1, 2]


def test_a_local_handle_that_is_closed_and_used_again_goes_on_with_its_plan(start):
    plan = ChaosPlan().raise_(KeyError, times=2, shard=0)
    handle = local(plan)
    for _ in range(2):
        with pytest.raises(KeyError):
            handle.pysp_seq_estimate(EST, start)
        handle.close()
    handle.pysp_seq_estimate(EST, start)
    handle.close()
    assert len(plan.log) == 2


def test_contradicting_faults_are_told(start):
    """Both would raise at the same place; only one can."""
    plan = ChaosPlan().raise_(KeyError, round=1, shard=0).raise_(OSError, round=1, shard=0)
    with local(plan) as handle:
        with pytest.raises(KeyError):
            handle.pysp_seq_estimate(EST, start)
        with pytest.raises(AssertionError, match="OSError"):
            plan.check()


def test_two_plans_are_made_one(start):
    one, other = ChaosPlan().delay(0.001), ChaosPlan().raise_(KeyError, round=1)
    with pytest.raises(BackendError, match="ChaosPlan is given 2 times"):
        encoded_data(ROWS, EST, policies=[one, other])
    with local(one | other) as handle, pytest.raises(KeyError):
        handle.pysp_seq_estimate(EST, start)


def test_rounds_are_those_of_the_handle_whatever_policies_compute_besides(start):
    plan = ChaosPlan().delay(0.001, times=None).corrupt(round=3, shard=2)
    with pytest.warns(UserWarning, match="second worker"), local(plan) as _:
        handle = encoded_data(ROWS, EST, num_shards=4, policies=[Audit(1.0), Retry(2), plan])
        for _ in range(3):
            handle.pysp_seq_estimate(EST, start)
        rounds = {one.round for one in plan.log if one.handle == 2}
        assert rounds == {1, 2, 3}
        assert handle.transport.last_unbalanced == [2]
        handle.close()
    plan.check()


def test_without_a_fault_in_the_round_the_very_task_is_run(start):
    plan = ChaosPlan().delay(0.001, round=2)
    with local(plan) as handle:
        task = Accumulate(EST, start)
        handle.transport.round_begins(task)
        assert handle.transport._faulty(task) is task
        handle.transport.round_begins(other := Accumulate(EST, start))
        assert handle.transport._faulty(other) is not other


def test_the_folder_of_a_plan_is_its_users_alone_and_goes(tmp_path):
    ledger = Ledger()
    folder = ledger.open()
    assert folder.stat().st_mode & 0o077 == 0
    ledger.close()
    assert not folder.exists()
    again = ledger.open()
    del ledger
    assert not again.exists()


def test_points_are_in_the_order_of_a_fit():
    assert POINTS[0] == "start"
    assert POINTS[-1] == "close"
    assert all(set(points) <= set(POINTS) for points in KINDS.values())


def test_a_fault_that_would_end_the_driver_is_refused_there():
    (fault,) = ChaosPlan().kill(worker=0).faults
    with pytest.raises(BackendError, match=r"would end the driver, whose own process .*; use backend='mp'"):
        strike(fault, os.getpid())


def test_a_signal_that_a_platform_lacks_is_told_with_what_it_has(monkeypatch):
    monkeypatch.delattr(signal, "SIGSTOP")
    with pytest.raises(BackendError, match=r"\.stop needs SIGSTOP, which this platform lacks; use \.exit\(1\)"):
        signal_of("stop")
