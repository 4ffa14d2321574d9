"""Parts of the audit on their own: cores, evidence, rows and models as received, the driver's own work."""

import os
import socket
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mixle.errors import CorruptedRows
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.folding.digests import sealed
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.folding.tasks import Accumulate, execute
from mixle.utils.parallel.planner import LocalEncodedData
from mixle.utils.parallel.policies.cores import assign_cores, bind, elsewhere, physical_cores
from mixle.utils.parallel.policies.driver import DriverChecks
from mixle.utils.parallel.policies.evidence import Evidence
from mixle.utils.parallel.policies.intake import Intake
from mixle.utils.parallel.sdc_audit import AuditedMPEncodedData
from mixle.utils.parallel.transports.process import wire
from mixle.utils.parallel.transports.process.parcels import Definitions
from mixle.utils.parallel.transports.process.worker import Birth, Worker

ROWS = np.random.RandomState(2).normal(size=60) + np.repeat([0.0, 6.0], 30)
EST = MixtureEstimator([GaussianEstimator()] * 2)
LOCAL = LocalEncodedData(ROWS, EST, num_shards=2)
START = LOCAL.pysp_seq_initialize(EST, 3, 0.5)


# Cores


def topology(folder, siblings):
    for cpu, text in siblings.items():
        place = folder / f"cpu{cpu}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(text + "\n")
    return folder


def test_siblings_make_one_core_and_workers_go_round(tmp_path):
    root = topology(tmp_path, {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5", 2: "2-3", 3: "2-3"})
    assert physical_cores(range(6), root) == [(0, 4), (1, 5), (2, 3)]
    assert physical_cores([0, 1, 5], root) == [(0,), (1, 5)]  # only what this process may use
    assert physical_cores([0, 7], root) == [(0,), (7,)]  # of the last one nothing is told
    homes = assign_cores(range(5), physical_cores(range(6), root))
    assert homes == {0: (0, 4), 1: (1, 5), 2: (2, 3), 3: (0, 4), 4: (1, 5)}
    assert elsewhere([1, 3, 4], [0], homes) == [1, 4]
    assert elsewhere([3], [0], homes) == [3]
    assert elsewhere([1, 2], [0], {}) == [1, 2]
    assert assign_cores([0, 1], []) == {}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the platform binds no process")
def test_workers_are_bound_and_stay_so():
    cores = physical_cores()
    with AuditedMPEncodedData(ROWS, EST, num_workers=2, audit_rate=1.0, pin=True) as handle:
        wanted = handle.pysp_seq_estimate(EST, START).digest()
        for worker, process in handle._procs.items():
            assert os.sched_getaffinity(process.pid) == set(cores[worker % len(cores)])
        handle._procs[1].kill()
        handle.pysp_seq_estimate(EST, START)
        assert handle.pysp_seq_estimate(EST, START).digest() == wanted
        assert os.sched_getaffinity(handle._procs[1].pid) == set(cores[1 % len(cores)])
    assert not bind(-1, [0])
    with pytest.raises(TypeError, match="pin must be True or False"):
        AuditedMPEncodedData(ROWS, EST, num_workers=2, pin=1)


# Evidence


@pytest.mark.parametrize("rate", [1e-1, 1e-2, 1e-3, 1e-4])
def test_a_worker_that_is_wrong_now_and_then_is_named_by_its_second_fault(rate):
    rng, evidence = np.random.RandomState(int(1 / rate)), Evidence()
    for faults, gap in enumerate(rng.geometric(rate, 2), 1):
        evidence.add([0, 1] * int(gap), [1])
        assert set(evidence.named) == ({1} if faults == 2 else set())
    assert "2 of" in evidence.named[1]


def test_a_sound_worker_is_not_named_by_one_fault_nor_by_two_that_are_far_apart():
    evidence = Evidence()
    assert evidence.add([0], [0]) == []
    evidence.score[0] = 0.0  # as after a million trials without a fault
    assert evidence.add([0], [0]) == []
    assert evidence.add([0], [0]) == [0]
    assert evidence.add([0], [0]) == []  # told once


# Rows and models as received


class Pool:
    """One worker that may hold other rows; `fresh` says what it makes of them when it encodes them anew."""

    def __init__(self, fresh):
        self.sizes, self.owner, self.fresh, self.dropped = {0: 30, 1: 30}, {0: 0, 1: 0}, fresh, []

    def run(self, task, shard, worker):
        return self.fresh(task, shard)

    def forget(self, shard, worker):
        self.dropped.append((shard, worker))


ENCODER = EST.accumulator_factory().make().acc_to_encoder()


def computed(task, shard, rows=ROWS):
    return execute(task, make_source(rows, ENCODER, Strided(2), 1, None, EST).encode(shard), 0)


def corrupted(task, shard):
    rows = ROWS.copy()
    rows[shard] += 1.0
    return computed(task, shard, rows)


def intake(fresh, own):
    task = Accumulate(EST, START, True, 0)
    found = Intake(Pool(fresh), own)
    found.begin(task)
    results = {shard: computed(task, shard) for shard in (0, 1)}
    assert found.mend(task, results, 1) == []
    return task, found, results


def test_other_rows_are_dropped_and_the_shard_is_computed_again():
    task, found, results = intake(computed, None)
    results[1] = corrupted(task, 1)
    (alarm,) = found.mend(task, results, 2)
    assert (alarm.round, alarm.shard, alarm.worker, alarm.check) == (2, 1, 0, "rows")
    assert str(alarm) == "round 2, shard 1, worker 0: rows: computed again from a fresh copy"
    assert found.transport.dropped == [(1, 0)]
    assert found.sound(results[1])


@pytest.mark.parametrize("seal", [None, "0" * 64])
def test_a_fresh_copy_is_believed_if_it_has_the_sha256_of_the_first_encoding(seal):
    asked = []

    def fresh(task, shard):
        asked.append((type(task).__name__, shard))
        return computed(task, shard)

    task, found, results = intake(fresh, computed)
    held = make_source(ROWS, ENCODER, Strided(2), 1, None, EST).encode(1)
    found.seals = {0: "0" * 64, 1: sealed(held) if seal is None else seal}
    results[1] = corrupted(task, 1)
    (alarm,) = found.mend(task, results, 2)
    assert alarm.outcome == ("computed by the driver" if seal else "computed again from a fresh copy")
    assert asked == [("Accumulate", 1), ("Apply", 1)]
    asked.clear()
    results[0] = replace(computed(task, 0), receipt={**results[0].receipt, "model": 17})
    assert [one.check for one in found.mend(task, results, 3)] == ["model", "model"]  # of both shards of the worker
    assert {kind for kind, _ in asked} == {"Accumulate"}  # whose rows nobody doubts


def test_the_driver_computes_where_the_worker_cannot():
    task, found, results = intake(corrupted, computed)
    results[0] = corrupted(task, 0)
    (alarm,) = found.mend(task, results, 2)
    assert alarm.outcome == "computed by the driver"
    assert found.sound(results[0])


@pytest.mark.parametrize("own", [corrupted, lambda task, shard: None])
def test_rows_without_a_clean_copy_are_an_error_that_says_what_to_do(own):
    task, found, results = intake(corrupted, own)
    results[0] = corrupted(task, 0)
    with pytest.raises(CorruptedRows, match=r"the rows of shard 0 changed in memory.*build a new handle"):
        found.mend(task, results, 2)


def test_encoder_that_is_no_function_of_the_rows_is_left_alone():
    task, found, results = intake(corrupted, lambda task, shard: computed(task, shard, ROWS[::-1].copy()))
    results[0] = corrupted(task, 0)
    (alarm,) = found.mend(task, results, 2)
    assert alarm.outcome.startswith("left alone")
    assert found.mend(task, {0: corrupted(task, 0)}, 3) == []


def test_first_encoding_that_two_others_contradict_is_the_wrong_one():
    task, found, _ = intake(computed, computed)
    found.rows[1] = corrupted(task, 1).receipt["rows"]
    assert found.contest(task, {1: computed(task, 1)}, 2) == []
    assert found.mend(task, {1: computed(task, 1)}, 2) == []
    (alarm,) = found.contest(task, {1: corrupted(task, 1)}, 2)
    assert str(alarm) == "round 2, shard 1, worker 0: rows: its second computation was dropped"
    assert found.transport.dropped == [(1, 0)]


def test_the_sha256_of_rows_is_taken_where_they_live():
    class Told(Pool):
        def map(self, task):
            for shard in self.sizes:
                yield execute(task, make_source(ROWS, ENCODER, Strided(2), 1, None, EST).encode(shard), 0)

    pool = Told(computed)
    found = Intake(pool, None)
    found.seal()
    held = {shard: make_source(ROWS, ENCODER, Strided(2), 1, None, EST).encode(shard) for shard in (0, 1)}
    assert found.seals == {shard: sealed(one) for shard, one in held.items()}
    assert all(len(one) == 64 for one in found.seals.values())
    pool.map = lambda task: iter([replace(computed(task, 0), value=None), replace(computed(task, 1), error="lost")])
    found.seal()
    assert found.seals == {}


def test_model_whose_pickle_differs_everywhere_is_not_looked_at_any_more():
    def elsewhere_pickled(task, shard):
        result = computed(task, shard)
        return replace(result, receipt={**result.receipt, "model": 17})

    task, found, results = intake(elsewhere_pickled, computed)
    for number in (2, 3):  # one worker, twice
        results[1] = elsewhere_pickled(task, 1)
        alarms = found.mend(task, results, number)
        assert {alarm.check for alarm in alarms} == {"model"}
        found.begin(task)
    assert found.mend(task, {1: elsewhere_pickled(task, 1)}, 4) == []


def test_a_flipped_bit_that_leaves_the_statistic_as_it_is_ends_no_check_of_models():
    def flipped(task, shard):
        result = computed(task, shard)
        return replace(result, receipt={**result.receipt, "model": 17})

    task, found, _ = intake(flipped, computed)
    told = computed(task, 1).receipt | {"model": found.model}
    for number in range(2, 8, 2):
        (alarm,) = found.mend(task, {1: flipped(task, 1)}, number)
        assert (alarm.check, alarm.outcome) == ("model", "confirmed by the driver")
        found.begin(task)
        assert found.mend(task, {1: replace(computed(task, 1), receipt=told)}, number + 1) == []


def test_a_worker_that_keeps_another_model_is_replaced_by_the_driver():
    def elsewhere_started(task, shard):
        result = computed(task, shard)
        return replace(result, receipt={**result.receipt, "model": 17}, weight=result.weight + 1.0)

    task, found, _ = intake(elsewhere_started, computed)
    found.opaque.add(type(START))  # as after equal bits by chance
    results = {1: elsewhere_started(task, 1)}
    (alarm,) = found.mend(task, results, 2)
    assert (alarm.check, alarm.outcome) == ("model", "computed by the driver")
    assert results[1].weight == computed(task, 1).weight
    assert found.opaque == set()
    assert found.model is not None


def test_of_a_worker_with_another_model_no_second_computation_is_believed():
    """It says so with the last of its shards only."""
    task, found, _ = intake(computed, None)
    seconds = {shard: replace(computed(task, shard), receipt={**computed(task, shard).receipt}) for shard in (0, 1)}
    seconds[1].receipt["model"] = 17
    assert found.believed(seconds) == {}
    seconds[0].receipt["worker"] = 1
    assert found.believed(seconds) == {0: seconds[0]}
    seconds[1].receipt["model"] = found.model
    assert found.believed(seconds) == seconds
    assert found.believed({1: corrupted(task, 1)}) == {}


def test_a_worker_reads_a_task_anew_unless_the_frame_before_had_it():
    here, there = socket.socketpair()
    with here, there:
        worker, sender = Worker(Birth(0, 0, -1, -1), here), Definitions()

        def opened(flags, checked=4):
            parcel = memoryview(b"".join(map(bytes, sender.parcel(Accumulate(EST, START, True, checked)))))
            return worker.open(wire.Head(wire.TASK, flags, 0, -1, 1, len(parcel)), parcel, None)

        first = opened(0)
        assert opened(wire.SAME) is opened(wire.SAME) is first
        anew = opened(0)  # sent again, since the worker's copy changed, say
        assert anew is not first
        assert opened(wire.SAME, 5).checked == 5
        assert opened(wire.SAME) is not anew
        assert opened(0, None) is not opened(wire.SAME, None)


# The driver's own work


class Scripted:
    """Folds that are wrong where the script says so."""

    def __init__(self, *wrong):
        self.wrong, self.calls = wrong, 0

    def __call__(self):
        self.calls += 1
        return 3.0, np.array([1.0, 2.0 + 1e-3 * (self.calls in self.wrong)])


@pytest.mark.parametrize(
    ("wrong", "outcome", "calls"),
    [
        ((), None, 2),
        ((1,), "replaced by two others that agree", 3),
        ((2,), "confirmed by a third one", 3),
    ],
)
def test_two_of_three_folds_decide(wrong, outcome, calls):
    audit = SimpleNamespace(rate=1.0, round=4, alarms=[])
    checks, fold = DriverChecks(audit), Scripted(*wrong)
    checks.begin()
    assert checks.fold(EST, fold, None)[1].tolist() == [1.0, 2.0]
    assert fold.calls == calls
    assert [alarm.outcome for alarm in audit.alarms] == ([] if outcome is None else [outcome])


def test_a_fold_that_fails_once_is_done_again_and_one_that_fails_twice_raises():
    audit = SimpleNamespace(rate=0.0, round=4, alarms=[])
    checks, script = DriverChecks(audit), [ValueError("not finite"), (3.0, [1.0])]

    def fold():
        made = script.pop(0)
        if isinstance(made, Exception):
            raise made
        return made

    assert checks.fold(EST, fold, None) == (3.0, [1.0])
    assert [alarm.outcome for alarm in audit.alarms] == ["failed once, and not again"]
    script += [ValueError("not finite"), ValueError("not finite")]
    with pytest.raises(ValueError, match="not finite"):
        checks.fold(EST, fold, None)


def test_driver_checks_take_their_turn_at_the_rate():
    checks, turns = DriverChecks(SimpleNamespace(rate=0.25, round=0, alarms=[])), []
    for _ in range(12):
        checks.begin()
        turns.append(checks.due)
    assert sum(turns) == 3
