"""What an audit does beside its hearings: altered replies, the driver's own shards, folds and M-steps."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from fold_support import PlainEncoder, PlainEstimator, PlainModel

from mixle.errors import RoundLosses
from mixle.stats import GaussianEstimator
from mixle.utils.parallel.folding.faults import RemoteFault
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.mstep import m_step, m_step_beside
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.folding.tasks import Accumulate, Apply, Result, Score
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.ballots import Ballot
from mixle.utils.parallel.policies.driver import DriverChecks
from mixle.utils.parallel.policies.hearing import Hearing
from mixle.utils.parallel.policies.own import own_result

ROWS = [float(i) for i in range(10)]


def source(rows=ROWS, weights=None, pieces=1):
    return make_source(rows, PlainEncoder(), Strided(3), pieces, weights, PlainEstimator())


# What the driver makes of a shard


def test_the_driver_computes_a_shard_from_the_rows_it_holds():
    result = own_result(source(), None, Accumulate(PlainEstimator(), None), 1)
    assert (result.shard, result.rows, result.weight) == (1, 3, 3.0)
    assert result.value == (1.0 + 4.0 + 7.0, 1.0 + 16.0 + 49.0, 3.0, 3.0)
    assert result.receipt["recomputed"] is True
    assert "seconds" in result.receipt


def test_weights_and_pieces_are_those_of_the_workers():
    weights = np.arange(10.0)
    held = source(weights=weights, pieces=2)
    seen = own_result(held, None, Apply(lambda shard: [(c.positions, c.weights.tolist()) for c in shard.chunks]), 1)
    assert seen.value == [(range(1, 8, 6), [1.0, 7.0]), (range(4, 5, 6), [4.0])]


def test_rows_that_only_the_transport_holds_are_read_from_it():
    held = make_source(ROWS, PlainEncoder(), Strided(3), 1, None, None)
    held = held.__class__(**{**held.__dict__, "rows": None})
    transport = SimpleNamespace(rows_of=lambda shard: [100.0 + shard] * 3)
    assert own_result(held, transport, Accumulate(PlainEstimator(), None), 2).value[0] == 306.0
    assert own_result(held, SimpleNamespace(), Accumulate(PlainEstimator(), None), 2) is None


def test_what_cannot_be_read_or_computed_is_left_to_others():
    assert own_result(source(), None, Score(object()), 1) is None
    held = source()
    assert own_result(held.__class__(**{**held.__dict__, "rows": ["x"] * 10}), None, Score(PlainModel(0, 1)), 1) is None


# Replies that were altered on their way


class Altering:
    """Two workers; the first reply of shard 1 arrives altered, `again` says what its second try gives."""

    name = "altering"

    def __init__(self, kind="mixle.errors.AlteredPayload", again=None):
        self.sizes, self.owner, self.kind, self.again, self.asked = {0: 4, 1: 4}, {0: 0, 1: 1}, kind, again, []

    def workers(self):
        return [0, 1]

    def map(self, task):
        yield Result(0, 4, 4.0, (1.0,), None, {"worker": 0})
        yield Result(1, 4, 0.0, None, None, {"worker": 1}, RemoteFault(self.kind, "changed"))

    def run(self, task, shard, worker):
        self.asked.append((shard, worker))
        return Result(shard, 4, 4.0, (2.0,), None, {"worker": worker}, self.again)


def round_of(pool):
    policy = Audit(0.0, invariants=False).over(pool)
    return policy, {result.shard: result for result in policy.map(Accumulate(None, None))}


def test_an_altered_reply_is_asked_for_once_more_and_told():
    pool = Altering()
    policy, results = round_of(pool)
    assert pool.asked == [(1, 1)]
    assert results[1].value == (2.0,)
    assert results[1].receipt["altered"] == 1
    assert [str(alarm) for alarm in policy.alarms] == ["round 1, shard 1, worker 1: wire: sent again"]
    assert policy.round == 1


@pytest.mark.parametrize(
    ("script", "asked"), [({"again": RemoteFault("AlteredPayload", "again")}, [(1, 1)]), ({"kind": "ValueError"}, [])]
)
def test_what_stays_an_error_is_handed_on_and_nothing_is_audited(script, asked):
    pool = Altering(**script)
    policy, results = round_of(pool)
    assert pool.asked == asked
    assert results[1].error.message == "changed"
    assert (policy.alarms, policy.round) == ([], 0)


def test_a_binding_begins_with_an_empty_record():
    policy = Audit(0.5).over(Altering())
    assert (policy.round, policy.receipts, policy.last_mismatches, policy.last_unbalanced) == (0, [], [], [])
    assert (policy.last_shards, policy.last_evaluations, policy.hook, policy.alarms) == (set(), 0, None, [])
    assert (policy.notes, policy.cores, policy.evidence.named) == ((), {}, {})
    assert policy.recompute(Accumulate(None, None), 0) is None


def test_a_transport_that_chooses_itself_is_told_in_the_notes():
    class Cluster(Altering):
        run = None

        def __getattribute__(self, name):
            if name == "run":
                raise AttributeError(name)
            return super().__getattribute__(name)

    (note,) = Audit(0.5).over(Cluster()).notes
    assert note == (
        "'altering' chooses itself who computes what, so nothing is recomputed by a second worker: an audit checks "
        "that the sums of a mixture's components add up, and computes a shard again if they do not"
    )


# The driver's M-step


ARGS = (GaussianEstimator(), 3.0, None)


class Steps:
    """Workers that make an M-step; `script` says what each one in turn makes of it, None that it is lost."""

    name = "steps"

    def __init__(self, *script, owner=None):
        self.script, self.asked = list(script), []
        self.owner = {0: 0, 1: 1, 2: 2, 3: 2} if owner is None else owner

    def workers(self):
        return [0, 1, 2]

    def run(self, task, shard, worker):
        assert task.function is m_step_beside
        assert task.args is ARGS
        assert shard == min(one for one, home in self.owner.items() if home == worker)
        self.asked.append(worker)
        made = self.script.pop(0)
        return Result(shard, 1, 1.0, made, None, {"worker": worker}, None if made is not None else RemoteFault("E", ""))


def checked(model, pool, rate=1.0):
    audit = SimpleNamespace(rate=rate, round=4, alarms=[], inner=pool, rng=np.random.RandomState(2))
    checks = DriverChecks(audit)
    checks.begin()
    return checks.model(model, ARGS), [str(alarm) for alarm in audit.alarms]


GOOD, BAD, OTHER = np.array([1.0]), np.array([2.0]), np.array([3.0])


@pytest.mark.parametrize(
    ("script", "made", "outcome"),
    [
        ([GOOD], GOOD, None),
        ([None], GOOD, None),
        ([BAD, GOOD], GOOD, "outvoted by two others"),
        ([BAD, BAD], BAD, "replaced by what two others computed"),
        ([BAD, OTHER], GOOD, "left alone: all three differ"),
    ],
)
def test_two_of_three_m_steps_decide(script, made, outcome):
    pool = Steps(*script)
    model, told = checked(GOOD, pool)
    assert model.tolist() == made.tolist()
    assert len(pool.asked) == len(script) == len(set(pool.asked))
    if outcome is None:
        assert told == []
    elif outcome.startswith("outvoted"):
        assert told == [f"round 4, worker {pool.asked[0]}: M-step: {outcome}"]
    else:
        assert told == [f"round 4, driver: M-step: {outcome}"]


def test_where_no_third_worker_is_the_driver_computes_once_more():
    class Estimator:
        def estimate(self, nobs, value):
            return np.array([nobs])

    args = (Estimator(), 1.0, None)
    pool = Steps(BAD, owner={0: 1})
    pool.run = lambda task, shard, worker: Result(shard, 1, 1.0, BAD, None, {"worker": worker})
    audit = SimpleNamespace(rate=1.0, round=4, alarms=[], inner=pool, rng=np.random.RandomState(2))
    checks = DriverChecks(audit)
    checks.begin()
    assert checks.model(GOOD, args) is GOOD
    assert [str(alarm) for alarm in audit.alarms] == ["round 4, worker 1: M-step: outvoted by two others"]


def test_an_m_step_is_checked_only_when_its_turn_has_come_and_someone_can():
    assert checked(GOOD, Steps(), rate=0.5) == (GOOD, [])
    assert checked(GOOD, Steps(owner={})) == (GOOD, [])
    assert checked(None, Steps()) == (None, [])


def test_an_m_step_beside_is_the_m_step():
    class Keeping:
        def estimate(self, nobs, value):
            return [nobs, value]

        def keep_empty(self, model, previous, value):
            return [*model, previous, value]

    assert m_step(Keeping(), 2.0, "v") == [2.0, "v"]
    assert m_step(Keeping(), 2.0, "v", "before") == m_step_beside(None, Keeping(), 2.0, "v", "before")
    assert m_step_beside("a shard", Keeping(), 2.0, "v", "before") == [2.0, "v", "before", "v"]


# The driver's fold


class Residuals:
    """What the invariants say of each fold in turn."""

    def __init__(self, *found):
        self.found, self.seen = list(found), []

    def total_residual(self, estimator, value):
        self.seen.append((estimator, value))
        return self.found.pop(0)


def folds(*values):
    script = list(values)
    return lambda: (3.0, script.pop(0))


def test_a_fold_that_does_not_add_up_twice_alike_is_rounding_and_widens_the_bound():
    audit = SimpleNamespace(rate=0.0, round=4, alarms=[])
    checks, residuals = DriverChecks(audit), Residuals(1.0, 1.5, 3.0, 3.01, None)
    checks.begin()
    assert checks.fold("est", folds([1.0]), residuals) == (3.0, [1.0])
    assert checks.slack == 1.0
    assert checks.fold("est", folds([2.0], [2.0]), residuals) == (3.0, [2.0])
    assert checks.slack == 3.0
    assert checks.fold("est", folds([3.0]), residuals) == (3.0, [3.0])  # up to twice what was seen
    assert checks.fold("est", folds([4.0], [4.0]), residuals) == (3.0, [4.0])
    assert checks.slack == 6.02
    assert checks.fold("est", folds([5.0]), residuals) == (3.0, [5.0])
    assert residuals.seen == [("est", [float(i)]) for i in range(1, 6)]
    assert audit.alarms == []


def test_the_bound_is_not_widened_by_a_fold_whose_turn_it_was():
    checks = DriverChecks(SimpleNamespace(rate=1.0, round=4, alarms=[]))
    checks.begin()
    assert checks.due
    checks.fold("est", folds([1.0], [1.0]), Residuals(0.9))
    assert checks.slack == 1.0


def test_three_folds_that_differ_leave_the_first():
    audit = SimpleNamespace(rate=0.0, round=4, alarms=[])
    assert DriverChecks(audit).fold("est", folds([1.0], [2.0], [3.0]), Residuals(9.0)) == (3.0, [1.0])
    assert [str(alarm) for alarm in audit.alarms] == ["round 4, driver: fold: left alone: all three differ"]


def test_folds_of_a_foreign_type_are_compared_by_their_pickles():
    audit = SimpleNamespace(rate=1.0, round=4, alarms=[])
    checks = DriverChecks(audit)
    checks.begin()
    assert checks.fold("est", folds({1}, {1}), None) == (3.0, {1})
    assert checks.fold("est", folds({1}, {2}, {2}), None) == (3.0, {2})
    assert [alarm.outcome for alarm in audit.alarms] == ["replaced by two others that agree"]


# Rounds that lose workers, and engines that know themselves where shards live


class Losing(Altering):
    """All but the last shard arrive, then the round is lost."""

    def map(self, task):
        yield Result(0, 4, 4.0, (1.0,), None, {"worker": 0})
        raise RoundLosses("gone")


def test_a_draw_of_a_round_that_was_lost_is_taken_back():
    policy = Audit(1.0, invariants=False).over(Losing())
    arrived = []
    with pytest.raises(RoundLosses):
        arrived.extend(policy.map(Accumulate(None, None)))
    rounds = policy.map(Accumulate(None, None))
    assert next(rounds).shard == 0
    assert policy.round == 0
    assert policy._selection.credit == 2.0


class Engine:
    """An engine that moves shards about: nobody owns one, and any worker may be asked for it."""

    name = "engine"

    def __init__(self, fails=False):
        self.sizes, self.fails, self.asked = {0: 2, 1: 2}, fails, []

    def workers(self):
        return [0, 1]

    def load(self, source):
        pass

    def map(self, task):
        if self.fails:
            raise RoundLosses("gone")
        yield from (Result(shard, 2, 2.0, (float(shard),), None, {"worker": shard}) for shard in self.sizes)

    def run(self, task, shard, worker):
        self.asked.append((shard, worker))
        return Result(shard, 2, 2.0, (float(shard),), None, {"worker": worker})


def test_shards_that_nobody_owns_are_computed_by_the_engine():
    engine = Engine()
    policy = Audit(1.0, invariants=False).over(engine)
    assert policy.audit(Accumulate(None, None), [0, 1]) == []
    assert policy.last_shards == {0, 1}
    assert sorted(engine.asked) == [(0, 1), (1, 0)]


def test_a_collection_is_computed_again_by_its_engine():
    engine = Engine()
    policy = Audit(1.0, invariants=False).over(engine)
    policy.load(make_source(ROWS, PlainEncoder(), Strided(2), 1, None, None).__class__(None, None, None, (), ()))
    again = policy.recompute(Accumulate(None, None), 1)
    assert (again.value, again.receipt["recomputed"]) == ((1.0,), True)
    assert policy.recompute(Accumulate(None, None), 7) is None
    engine.fails = True
    assert policy.recompute(Accumulate(None, None), 1) is None


def test_without_another_worker_nothing_is_computed_twice():
    class Alone(Altering):
        def workers(self):
            return [0]

    policy = Audit(1.0, invariants=False).over(Alone())
    policy.evidence.named[0] = "named"
    assert policy._seconds([0, 5]) == {}


def test_a_statistic_of_a_local_class_is_heard_as_well():
    class Local:
        def __init__(self, number):
            self.number = number

    ballot = Ballot(Result(0, 1, 1.0, Local(2.0), None, {}), 0)
    assert pickle.loads(ballot.raw)[1].number == 2.0


def test_what_is_urgent_and_nobody_can_compute_stays():
    policy = Audit(1.0, invariants=False).over(Altering())
    hearing = Hearing(policy, Accumulate(None, None), {0: Result(0, 4, 4.0, (1.0,), None, {"worker": 0})}, True)
    policy.recompute = lambda task, shard: None
    policy.inner.workers = lambda: [0]
    hearing.hold([0], urgent=[0])
    assert (hearing.audited, hearing.kept, hearing.evaluations) == (set(), {}, 0)


@pytest.mark.parametrize(("own", "kept"), [((2.0,), True), ((1.0,), False)])
def test_what_is_urgent_and_nobody_else_can_compute_is_computed_by_the_driver(own, kept):
    policy = Audit(1.0, invariants=False).over(Altering())
    hearing = Hearing(policy, Accumulate(None, None), {0: Result(0, 4, 4.0, (1.0,), None, {"worker": 0})}, True)
    mine = Result(0, 4, 4.0, own, None, {"recomputed": True})
    policy.recompute = lambda task, shard: mine
    policy.inner.workers = lambda: [0]
    hearing.hold([0], urgent=[0])
    assert (hearing.audited, hearing.evaluations) == ({0}, 2)
    assert [one.value for one in hearing.kept.values()] == [own] * kept


def test_the_driver_recomputes_from_the_rows_it_was_given():
    policy = Audit(1.0, invariants=False).over(Engine())
    policy.load(source())
    again = policy.recompute(Accumulate(PlainEstimator(), None), 1)
    assert (again.value, again.receipt["recomputed"]) == ((12.0, 66.0, 3.0, 3.0), True)
