"""Corrupted numbers on real processes: found in the round of the fault, and without a trace in the model's bits."""

import os
import pickle
import random
import signal
import warnings
from dataclasses import replace

import audit_support as bad
import numpy as np
import psutil
import pytest

from mixle.errors import TaskError
from mixle.inference import optimize
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.testing import ChaosPlan
from mixle.utils.parallel.folding.fold import finite_guarded_fold as fold_home
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.planner import LocalEncodedData
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.base import Policy, stack
from mixle.utils.parallel.policies.retry import Retry
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData
from mixle.utils.parallel.sdc_audit import AuditedMPEncodedData, finite_guarded_fold, inject_bit_flip
from mixle.utils.parallel.transports.process import ProcessTransport

pytestmark = pytest.mark.chaos

FULL = os.environ.get("MIXLE_INJECTIONS") == "full"
DEADLINE_S = 30.0
ROWS = [float(x) for x in np.random.RandomState(7).normal(size=120)] + [
    float(x) for x in np.random.RandomState(8).normal(5.0, 1.0, size=120)
]
EST = MixtureEstimator([GaussianEstimator()] * 2)
SHARDS = 6
LOCAL = LocalEncodedData(ROWS, EST, num_shards=Strided(SHARDS))
START = LOCAL.pysp_seq_initialize(EST, 3, 0.5)
CLEAN = LOCAL.pysp_seq_estimate(EST, START).digest()


def clock(signum, frame):
    raise AssertionError(f"it hung: {DEADLINE_S:g} s are over")


@pytest.fixture(autouse=True)
def nothing_hangs():
    if not hasattr(signal, "SIGALRM"):
        yield
        return
    previous = signal.signal(signal.SIGALRM, clock)
    signal.setitimer(signal.ITIMER_REAL, DEADLINE_S * (60 if FULL else 1))
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)


def audited(workers=3, rate=1.0, estimator=EST, **more):
    return AuditedMPEncodedData(ROWS, estimator, num_workers=workers, num_shards=SHARDS, audit_rate=rate, **more)


def meeting(handle, plan):
    """Return a handle whose workers meet the faults of a plan from now on."""
    handle._retry.inner = plan.over(handle._retry.inner)
    return handle


def step(handle, estimator=EST):
    return handle.pysp_seq_estimate(estimator, START).digest()


def changed(payload, change):
    count, value = pickle.loads(payload)
    return pickle.dumps((count, change(value)))


def on(change, worker=None, shard=None, role=None):
    """Return a hook that changes the statistic of one worker, shard, role."""

    def hook(w, s, r, payload):
        chosen = (worker in {None, w}) and (shard in {None, s}) and (role in {None, r})
        return changed(payload, change) if chosen else payload

    return hook


def more(value):
    return value._replace(counts=value.counts + 1.0)


def lie(value):
    return value._replace(counts=value.counts[::-1].copy())


def scaled(by):
    return lambda value: value._replace(counts=value.counts * by)


# Without a fault


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_clean_fits_have_the_clean_bits_and_no_receipt(workers, rate):
    with audited(workers, rate) as handle, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = optimize(None, EST, enc_data=handle, max_its=5, prev_estimate=START)
        wanted = optimize(None, EST, enc_data=LOCAL, max_its=5, prev_estimate=START)
        assert model.digest() == wanted.digest()
        assert handle.audit_receipts == []
        assert handle._blacklist == set()
        assert handle._audit.round > 0


def test_class_is_a_recipe_of_the_resilient_one():
    assert issubclass(AuditedMPEncodedData, ResilientMPEncodedData)
    assert AuditedMPEncodedData._fold_fn is finite_guarded_fold is fold_home
    with audited(2, 0.5, audit_rtol=1e-9, audit_atol=0.0) as handle:
        assert (handle.audit_rate, handle.audit_rtol, handle.audit_atol) == (0.5, 1e-9, 0.0)


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 0), (0.5, 3), (1.0, 6)])
def test_evaluations_are_two_per_audited_shard(rate, expected):
    with audited(3, rate) as handle:
        step(handle)
        assert len(handle.last_round_audited_shards) == expected
        assert handle.last_round_audit_eval_count == 2 * expected
        assert handle.last_round_audit_mismatches == []


def test_default_rate_audits_every_shard_within_thirty_rounds():
    with AuditedMPEncodedData(ROWS, EST, num_workers=2) as handle:
        seen = set()
        for _ in range(30):
            step_model = handle.pysp_stream_accumulate(EST, START)
            seen |= handle.last_round_audited_shards
        assert step_model[0] == len(ROWS)
        assert seen == {0, 1}


def test_only_e_steps_are_audited():
    with audited() as handle:
        handle.pysp_seq_initialize(EST, 3, 0.5)
        handle.pysp_seq_log_density_sum(START)
        assert handle._audit.round == 0
        handle.pysp_stream_accumulate(EST, START)
        handle.estep(EST, START)
        assert handle._audit.round == 2


# With a fault


@pytest.mark.parametrize("workers", [3, 4])
def test_stuck_worker_is_named_and_retired_in_the_same_round(workers):
    with audited(workers) as handle:
        process = psutil.Process(handle._procs[1].pid)
        handle.arm_corruption(on(more, worker=1))
        assert step(handle) == CLEAN
        receipts = handle.last_round_audit_mismatches
        assert receipts
        assert receipts == handle.audit_receipts
        assert {receipt.suspected_workers for receipt in receipts} == {(1,)}
        assert [receipt.quarantine_status for receipt in receipts] == ["committed"] + ["not_needed"] * (
            len(receipts) - 1
        )
        assert handle.last_round_audit_eval_count == 2 * SHARDS + len(receipts)
        assert handle._blacklist == {1}
        assert handle._failures[1] == handle.max_retries
        assert 1 not in handle._procs
        assert handle._worker_shards[1] == set()
        assert set.union(*handle._worker_shards.values()) == set(range(SHARDS))
        psutil.wait_procs([process], timeout=5)
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        assert step(handle) == CLEAN  # the hook is still armed: the worker is gone
        assert handle.last_round_audit_mismatches == []
        assert handle.audit_receipts == receipts


@pytest.mark.parametrize("role", ["primary", "audit"])
@pytest.mark.parametrize("shard", [0, 4])
def test_single_fault_in_each_role(role, shard):
    with audited() as handle:
        handle.arm_corruption(on(more, shard=shard, role=role))
        assert step(handle) == CLEAN
        (receipt,) = handle.audit_receipts
        culprit = receipt.primary_worker if role == "primary" else receipt.audit_worker
        assert (receipt.shard_id, receipt.round) == (shard, 1)
        assert len({receipt.primary_worker, receipt.audit_worker, receipt.witness_worker}) == 3
        assert receipt.suspected_workers == (culprit,)
        assert receipt.quarantine_status == "committed"
        assert receipt.mismatch_reason == "statistic[1][0]: array error exceeds tolerance"
        assert receipt.max_abs_error == 1.0
        assert receipt.primary_sha256 != receipt.audit_sha256
        assert receipt.primary_canonical_sha256 != receipt.audit_canonical_sha256
        assert (receipt.audit_rtol, receipt.audit_atol) == (1e-12, 1e-12)
        assert "StackedStatistic" in receipt.primary_value_repr


def test_witness_alone_is_never_asked_and_a_wrong_one_convicts_nobody():
    with audited() as handle:
        handle.arm_corruption(on(more, role="witness"))
        assert step(handle) == CLEAN
        assert handle.audit_receipts == []
        wrong = {"primary": more, "witness": scaled(3.0)}
        handle.arm_corruption(lambda w, s, r, data: changed(data, wrong[r]) if s == 2 and r in wrong else data)
        assert step(handle) == CLEAN
        (receipt,) = handle.audit_receipts
        assert receipt.quarantine_status == "deferred:three_way_disagreement"
        assert receipt.suspected_workers == ()
        assert handle._blacklist == set()


def test_witness_that_agrees_with_both_convicts_nobody():
    with audited(audit_rtol=1e-6) as handle:
        by = {"primary": 1.0 + 7e-7, "audit": 1.0 - 7e-7}
        handle.arm_corruption(lambda w, s, r, data: changed(data, scaled(by[r])) if s == 2 and r in by else data)
        assert step(handle) == CLEAN
        (receipt,) = handle.audit_receipts
        assert receipt.quarantine_status == "deferred:nontransitive_envelope"


def test_difference_inside_the_envelope_is_settled_by_majority_and_suspects_nobody():
    with audited() as handle:
        handle.arm_corruption(on(bad.times_one_and_a_bit, shard=3, role="primary"))
        assert step(handle) == CLEAN
        assert handle.last_round_audit_mismatches == []
        (receipt,) = handle.audit_receipts
        assert receipt.comparison_mode == "exact/v1"
        assert (receipt.quarantine_status, receipt.suspected_workers) == ("not_requested", ())
        assert 0.0 < receipt.max_rel_error < 1e-15
        assert receipt.witness_worker is not None
        assert handle.last_round_audit_eval_count == 2 * SHARDS + 1
        assert handle._blacklist == set()


@pytest.mark.parametrize("change", [more, bad.times_one_and_a_bit])
def test_two_workers_defer_and_the_driver_chooses(change):
    with audited(2) as handle:
        handle.arm_corruption(on(change, worker=1))
        assert step(handle) == CLEAN
        inside = change is not more
        status = "not_requested" if inside else "deferred:insufficient_witnesses"
        assert {receipt.quarantine_status for receipt in handle.audit_receipts} == {status}
        assert len(handle.audit_receipts) == SHARDS
        assert handle.last_round_audit_eval_count == 2 * SHARDS
        assert handle._blacklist == set()
        assert step(handle) == CLEAN  # persistent until cleared
        assert len(handle.audit_receipts) == 2 * SHARDS
        handle.arm_corruption(None)
        step(handle)
        assert len(handle.audit_receipts) == 2 * SHARDS


@pytest.mark.parametrize("rows", [np.array(ROWS), list(ROWS)], ids=["array", "list"])
def test_driver_chooses_by_the_rows_that_were_given_not_by_what_became_of_them(rows):
    weights = np.linspace(0.5, 1.5, len(ROWS))
    wanted = LocalEncodedData(ROWS, EST, num_shards=Strided(SHARDS), weights=weights).pysp_seq_estimate(EST, START)
    with AuditedMPEncodedData(
        rows, EST, num_workers=2, num_shards=SHARDS, audit_rate=1.0, weights=weights, sub_chunks=1
    ) as handle:
        rows[:] = ROWS[::-1]
        weights[:] = 1.0
        handle.arm_corruption(on(more, worker=0))
        assert step(handle) == wanted.digest()
        assert len(handle.audit_receipts) == SHARDS


def test_one_worker_says_once_that_nothing_is_audited():
    with audited(1) as handle:
        with pytest.warns(UserWarning, match="needs a second worker") as told:
            assert [step(handle), step(handle)] == [CLEAN, CLEAN]
        assert len(told) == 1
        assert handle.last_round_audited_shards == set()
        assert handle.last_round_audit_eval_count == 0


class Bomb:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda folder: None, "TypeError: the hook returned NoneType, it must return bytes"),
        (lambda folder: "text", "TypeError: the hook returned str, it must return bytes"),
        (lambda folder: b"", "ValueError"),
        (lambda folder: b"garbage", ""),
        (lambda folder: pickle.dumps(3), "TypeError"),
        (lambda folder: pickle.dumps(("many", 1)), "TypeError: a count must be a number, not a str"),
        (lambda folder: pickle.dumps((1.0, Bomb(folder))), "PayloadError: posix.mkdir is not called"),
    ],
)
def test_what_a_hook_makes_unreadable_is_a_decode_failure_and_never_run(answer, text, tmp_path):
    folder = str(tmp_path / "ran")
    with audited() as handle:
        handle.arm_corruption(lambda w, s, r, data: answer(folder) if (s, r) == (1, "primary") else data)
        assert step(handle) == CLEAN
        (receipt,) = handle.audit_receipts
        assert receipt.mismatch_reason.startswith(f"payload decode/schema failure: {text}")
        assert receipt.max_abs_error == receipt.max_rel_error == np.inf
        assert receipt.primary_value_repr.startswith("<unpicklable: ")
        assert receipt.quarantine_status == "committed"
    assert not (tmp_path / "ran").exists()


def test_bytes_returned_unchanged_are_not_read():
    seen = []

    def hook(worker, shard, role, payload):
        seen.append((worker, shard, role, pickle.loads(payload)[0]))
        return bytearray(payload)

    with audited() as handle:
        handle.arm_corruption(hook)
        assert step(handle) == CLEAN
        assert handle.audit_receipts == []
        assert {(shard, role) for _, shard, role, _ in seen} == {
            (shard, role) for shard in range(SHARDS) for role in ("primary", "audit")
        }
        assert {count for *_, count in seen} == {len(ROWS) / SHARDS}


@pytest.mark.parametrize("hook", [3, "text", b"bytes"])
def test_hook_must_be_callable(hook):
    with audited(2) as handle, pytest.raises(TypeError, match="cannot be called"):
        handle.arm_corruption(hook)


def test_two_workers_that_are_wrong_alike_are_believed():
    """Three copies tell one liar, not two that lie alike: an honest worker is retired, or the lie is not noticed."""
    with audited() as handle:
        handle.arm_corruption(lambda w, s, r, data: changed(data, lie) if w in {1, 2} else data)
        assert step(handle) != CLEAN
        assert {receipt.suspected_workers for receipt in handle.audit_receipts} <= {(0,), ()}


def test_when_everybody_is_accused_one_is_retired_at_most():
    with audited() as handle:
        handle.arm_corruption(on(more, role="primary"))
        assert step(handle) == CLEAN
        assert len(handle._blacklist) == 1
        statuses = [receipt.quarantine_status for receipt in handle.audit_receipts]
        assert statuses[0] == "committed"
        assert set(statuses[1:]) <= {"not_needed", "deferred:insufficient_witnesses"}


def test_everything_that_a_retired_worker_delivered_is_computed_again(tmp_path):
    """The worker is wrong in its own process, so that its payloads that were not audited are wrong too."""
    file = tmp_path / "wrong"
    file.write_text("")
    estimator = bad.Faulty(EST, file, bad.Flip(62))
    with audited(3, rate=0.5, estimator=estimator) as handle:
        file.write_text(str(handle._procs[1].pid))
        for _ in range(6):
            model = step(handle, estimator)
            if handle._blacklist:
                break
        assert handle._blacklist == {1}
        assert model == CLEAN
        assert len(handle.last_round_audited_shards) == SHARDS // 2


def test_survivors_that_cannot_take_over_defer_the_quarantine():
    # arrivals: 6 of the round, 6 of the audit, 1 of the witness, then the shards that would move
    plan = ChaosPlan().raise_(ValueError("a row is wrong"), skip=13)
    with meeting(audited(), plan) as handle:
        handle.arm_corruption(on(more, shard=1, role="primary"))
        assert step(handle) == CLEAN
        plan.check()
        (receipt,) = handle.audit_receipts
        assert receipt.quarantine_status == "deferred:staging_failed"
        assert receipt.suspected_workers == (1,)
        assert handle._blacklist == set()
        assert handle._worker_shards == {0: {0, 3}, 1: {1, 4}, 2: {2, 5}}


# Together with losses


def test_worker_that_dies_during_its_audit_is_recovered():
    plan = ChaosPlan().kill(skip=8)  # 6 arrivals of the round come first
    with meeting(audited(), plan) as handle:
        assert step(handle) == CLEAN
        plan.check()
        assert handle.audit_receipts == []
        assert sum(handle._failures.values()) == 1
        assert step(handle) == CLEAN
        assert len(handle.last_round_audited_shards) == SHARDS


def test_all_die_between_rounds_and_the_audit_goes_on():
    with audited(2, max_retries=5) as handle:
        for process in handle._procs.values():
            process.kill()
        assert step(handle) == CLEAN
        assert handle._audit_shards(EST, START, range(SHARDS)) == []
        for process in handle._procs.values():
            process.kill()
        assert handle._audit_shards(EST, START, range(SHARDS)) == []
        assert step(handle) == CLEAN


def test_recovered_payloads_are_audited_by_another_worker():
    with audited() as handle:
        handle.arm_kill(lambda worker, process: process.kill() if worker == 1 else None)
        handle.arm_corruption(on(more, worker=2))
        assert step(handle) == CLEAN
        assert handle.last_round_failed_workers == {1}
        assert handle.audit_receipts
        assert all(one.primary_worker != one.audit_worker for one in handle.audit_receipts)
        assert {one.suspected_workers for one in handle.audit_receipts} <= {(2,), ()}


def test_user_error_is_raised_as_ever():
    plan = ChaosPlan().raise_(ValueError("a row is wrong"), skip=2)
    with meeting(audited(), plan) as handle:
        with pytest.raises(TaskError, match="a row is wrong"):
            step(handle)
        assert step(handle) == CLEAN


# Audits by hand


def test_audit_called_directly_recomputes_both_sides():
    with audited(rate=0.5) as handle:
        heard = []

        def hook(worker, shard, role, payload):
            heard.append((shard, role))
            return changed(payload, more) if role == "primary" else payload

        handle.arm_corruption(hook)
        receipts = handle._audit_shards(EST, START, {0, 1, 2, 5}, quarantine_on_mismatch=False)
        assert len(receipts) == len(handle.last_round_audited_shards) == 2
        assert handle.last_round_audited_shards <= {0, 1, 2, 5}
        assert [receipt.quarantine_status for receipt in receipts] == ["disabled"] * 2
        assert handle.last_round_audit_eval_count == 4
        assert sorted({role for _, role in heard}) == ["audit", "primary"]
        assert handle._blacklist == set()
        handle._audit_shards(EST, START, set(range(SHARDS)))
        assert len(handle._blacklist) == 1
        handle.arm_corruption(None)
        assert step(handle) == CLEAN


def test_audit_of_nothing_and_of_strangers():
    with audited() as handle:
        assert handle._audit_shards(EST, START, set()) == []
        assert (handle.last_round_audited_shards, handle.last_round_audit_eval_count) == (set(), 0)
        with pytest.raises(ValueError, match=r"no shards \[17\]"):
            handle._audit_shards(EST, START, {0, 17})
    with pytest.raises(RuntimeError, match="closed"):
        handle._audit_shards(EST, START, {0})


@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan, np.inf, True, "0.1", None, np.bool_(True), 1 + 0j])
def test_rates_outside_of_zero_to_one_are_refused(rate):
    with pytest.raises(ValueError, match=r"audit_rate must be finite and within \[0, 1\]"):
        AuditedMPEncodedData(ROWS, EST, num_workers=2, audit_rate=rate)


@pytest.mark.parametrize("word", ["audit_rtol", "audit_atol"])
@pytest.mark.parametrize("value", [-1e-12, np.nan, np.inf, False, "x", None])
def test_tolerances_must_be_finite_and_not_negative(word, value):
    with pytest.raises(ValueError, match="audit_rtol/atol must be finite and nonnegative"):
        AuditedMPEncodedData(ROWS, EST, num_workers=2, **{word: value})


def test_selection_follows_the_generator():
    def shards(rng):
        with audited(3, rate=0.34, rng=rng) as handle:
            drawn = []
            for _ in range(8):
                step(handle)
                drawn.append(sorted(handle.last_round_audited_shards))
            return drawn

    assert shards(np.random.RandomState(5)) == shards(np.random.RandomState(5))
    assert shards(np.random.RandomState(5)) != shards(np.random.RandomState(6))


# As a policy


@pytest.mark.parametrize("policies", [[Audit(1.0), Retry(2)], [Retry(2), Audit(1.0)], [Audit(1.0)]])
def test_policy_over_a_transport(policies):
    transport = stack(ProcessTransport(3), policies)
    source = make_source(ROWS, EST.accumulator_factory().make().acc_to_encoder(), Strided(SHARDS), 1, None, EST)
    with Handle(transport, source) as handle:
        assert step(handle) == CLEAN
        transport.arm(on(more, worker=2))
        assert step(handle) == CLEAN
        assert {receipt.suspected_workers for receipt in transport.receipts} == {(2,)}
        assert transport.workers() == [0, 1]
        assert step(handle) == CLEAN


def test_policy_without_quarantine_lets_the_driver_choose():
    transport = stack(ProcessTransport(3), [Audit(1.0, quarantine=False), Retry(2)])
    source = make_source(ROWS, EST.accumulator_factory().make().acc_to_encoder(), Strided(SHARDS), 1, None, EST)
    with Handle(transport, source) as handle:
        transport.arm(on(more, worker=2))
        assert step(handle) == CLEAN
        assert {receipt.quarantine_status for receipt in transport.receipts} == {"disabled"}
        assert transport.workers() == [0, 1, 2]
        assert transport.last_evaluations == 2 * SHARDS


def test_without_workers_to_choose_an_audit_checks_sums_and_says_so():
    from mixle.utils.parallel.folding.transport import Transport

    class Bare(Transport):
        name = "bare"

        def load(self, source): ...

        def map(self, task): ...

        def close(self): ...

    (note,) = stack(Bare(), [Audit(0.1)]).notes
    assert "'bare' chooses itself who computes what" in note
    assert stack(ProcessTransport(2), [Audit(0.1)]).notes == ()
    with pytest.raises(TypeError, match="quarantine must be True or False"):
        Audit(0.1, quarantine=1)


# Campaigns


@pytest.mark.injections
@pytest.mark.parametrize(("workers", "trials"), [(2, 60), (3, 6)])
def test_campaign_on_payloads(workers, trials):
    """One flipped bit per round, anywhere in an audited payload: the model has the clean bits every time."""
    trials = 1000 if FULL else trials
    rng = random.Random(workers)
    escapes, silent = [], 0
    handle = audited(workers)
    for trial in range(trials):
        shard, role, bit = rng.randrange(SHARDS), rng.choice(["primary", "audit"]), rng.randrange(1 << 20)
        handle.arm_corruption(
            lambda w, s, r, data, at=(shard, role), bit=bit: inject_bit_flip(data, bit) if (s, r) == at else data
        )
        before = len(handle.audit_receipts)
        if step(handle) != CLEAN:
            escapes.append((trial, shard, role, bit))
        silent += len(handle.audit_receipts) == before
        if handle._blacklist:
            handle.close()
            handle = audited(workers)
    handle.close()
    assert escapes == []
    # bits of the pickle that carry no number, such as the length of its frame
    assert silent <= trials * 0.1


@pytest.mark.injections
def test_campaign_on_statistics(tmp_path):
    """One worker whose adder has a stuck bit, a different one each round: every wrong statistic is noticed."""
    trials = 1000 if FULL else 50
    rng = random.Random(11)
    file = tmp_path / "wrong"
    with audited(2) as handle:
        for trial in range(1, trials + 1):
            file.write_text(str(handle._procs[rng.randrange(2)].pid))
            estimator = bad.Faulty(EST, file, bad.Flip(rng.randrange(1 << 20)))
            assert step(handle, estimator) == CLEAN
            assert len(handle.audit_receipts) == trial * SHARDS
        assert handle._blacklist == set()


@pytest.mark.injections
@pytest.mark.parametrize("bit", [0, 20, 51, 52, 62, 63] if not FULL else range(64))
def test_stuck_bit_is_named_wherever_it_is(bit, tmp_path):
    """Outside the envelope the worker is retired; inside it nobody is suspected and the bits are clean all the same."""
    file = tmp_path / "wrong"
    file.write_text("")
    estimator = bad.Faulty(EST, file, bad.Flip(bit))
    with audited(3) as handle:
        file.write_text(str(handle._procs[2].pid))
        assert step(handle, estimator) == CLEAN
        modes = {receipt.comparison_mode for receipt in handle.audit_receipts}
        assert len(modes) == 1
        assert handle._blacklist == (set() if modes == {"exact/v1"} else {2})


class Corrupting(Policy):
    """Payloads that are wrong when they arrive: what memory, wire or worker may do to them."""

    order = 0
    withheld = frozenset({"begin", "open", "loaded"})

    def bind(self):
        self.change = self.edit = None

    def map(self, task):
        return (self.altered(result) for result in self.inner.map(task))

    def altered(self, result):
        if self.edit is not None:
            result = self.edit(result)
        return result if self.change is None else replace(result, value=self.change(result.shard, result.value))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda r: replace(r, log_density=r.log_density + 1.0), "log_density: numeric error exceeds tolerance"),
        (lambda r: replace(r, log_density=np.nan), "log_density: non-finite numeric value"),
        (lambda r: replace(r, receipt={**r.receipt, "left_out": 3}), "left_out: integer mismatch"),
        (lambda r: replace(r, weight=r.weight + 1.0), "statistic[0]: numeric error exceeds tolerance"),
    ],
)
def test_everything_that_is_folded_is_audited(edit, reason):
    transport = stack(ProcessTransport(3), [Audit(1.0), Corrupting()])
    source = make_source(ROWS, EST.accumulator_factory().make().acc_to_encoder(), Strided(SHARDS), 1, None, EST)
    with Handle(transport, source) as handle:
        transport.inner.edit = lambda result: edit(result) if result.shard == 2 else result
        found, wanted = handle.estep(EST, START), LOCAL.estep(EST, START)
        assert (found.nobs, found.log_density, found.left_out) == (wanted.nobs, wanted.log_density, wanted.left_out)
        (receipt,) = transport.receipts
        assert receipt.mismatch_reason == reason
        assert receipt.suspected_workers == (2,)
        assert receipt.quarantine_status == "committed"


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("retire", ["not asked for", "fails"])
def test_what_a_doubted_worker_delivered_unaudited_is_not_folded(workers, retire, monkeypatch):
    transport = stack(ProcessTransport(workers), [Audit(0.5, quarantine=retire == "fails"), Corrupting()])
    fault = transport.inner
    source = make_source(ROWS, EST.accumulator_factory().make().acc_to_encoder(), Strided(SHARDS), 1, None, EST)
    monkeypatch.setattr("mixle.utils.parallel.policies.hearing.retire", lambda *_: ("deferred:staging_failed", {}))
    wrong = []

    def edit(result):
        if result.receipt["worker"] != 1:
            return result
        wrong.append(result.shard)
        return replace(result, value=lie(result.value))  # it adds up: invariants are silent

    with Handle(transport, source) as handle:
        fault.edit = edit
        caught = 0
        for _ in range(6):
            del wrong[:]
            digest = step(handle)
            if set(wrong) & transport.last_shards:
                caught += bool(set(wrong) - transport.last_shards)
                assert digest == CLEAN
        assert caught
        assert transport.workers() == list(range(workers))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("policies", [[Retry(2)], []], ids=["with retry", "alone"])
def test_second_computations_run_beside_the_round(tmp_path, policies):
    """A worker waits in its own part of the round until another one is at its second computation of the same shard."""
    estimator = bad.Meeting(EST, tmp_path, ROWS[0])
    transport = stack(ProcessTransport(2), [Audit(1.0), *policies])
    source = make_source(ROWS, EST.accumulator_factory().make().acc_to_encoder(), Strided(2), 1, None, EST)
    with Handle(transport, source) as handle:
        model = handle.pysp_seq_estimate(estimator, START)
        assert transport.last_evaluations == 4
    assert model.digest() == LocalEncodedData(ROWS, EST, num_shards=Strided(2)).pysp_seq_estimate(EST, START).digest()


@pytest.mark.injections
@pytest.mark.parametrize("workers", [1, 3])
def test_campaign_with_invariants_alone(workers):
    """At rate 0 sums that do not add up are found; what escapes moves no parameter by more than 1e-10."""
    trials = 1000 if FULL else 80
    rng = random.Random(workers)
    fault = Corrupting()
    transport = stack(ProcessTransport(workers), [Audit(0.0), fault])
    fault = transport.inner
    source = make_source(ROWS, EST.accumulator_factory().make().acc_to_encoder(), Strided(SHARDS), 1, None, EST)
    wanted = LOCAL.pysp_seq_estimate(EST, START)
    escapes, found = [], 0
    with Handle(transport, source) as handle:
        assert step(handle) == CLEAN
        assert transport.last_unbalanced == []
        assert transport.last_shards == set()
        for _ in range(trials):
            target, bit = rng.randrange(SHARDS), rng.randrange(1 << 20)
            fault.change = lambda s, value, at=target, bit=bit: bad.flip_number(value, bit) if s == at else value
            before = len(transport.receipts)
            if len(transport.workers()) < 3 and workers == 3:
                break  # one is retired each time that it is found
            model = handle.pysp_seq_estimate(EST, START)
            if transport.last_unbalanced:
                found += 1
                assert transport.last_unbalanced == [target]
                assert len(transport.receipts) == before + 1
                assert model.digest() == CLEAN
            elif model.digest() != CLEAN:
                escapes.append(max_relative(model, wanted))
    assert found >= 1
    assert max(escapes, default=0.0) < 1e-10


def max_relative(model, wanted):
    numbers = [np.array([*part.w, *(x for c in part.components for x in (c.mu, c.sigma2))]) for part in (model, wanted)]
    return float(np.max(np.abs(numbers[0] - numbers[1]) / np.abs(numbers[1])))
