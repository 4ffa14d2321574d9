"""Rebalance: shards go where they are done sooner, bits stay, and a balanced pool is left alone."""

import json
import math
import os
import re
import stat
import statistics
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from mixle.inference import optimize
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.folding.tasks import Accumulate, Result
from mixle.utils.parallel.planner import (
    CalibrationCatalog,
    CalibrationRecord,
    DeviceSpec,
    Resources,
    calibrate_resources,
    encoded_data,
)
from mixle.utils.parallel.planning.catalog import keep
from mixle.utils.parallel.policies.base import stack
from mixle.utils.parallel.policies.rebalance import Move, Rebalance
from mixle.utils.parallel.policies.retry import Retry
from mixle.utils.parallel.policies.speeds import Speeds, moves
from mixle.utils.parallel.transports.local import LocalTransport

ROWS = np.random.RandomState(0).normal(size=840)
ESTIMATOR = MixtureEstimator([GaussianEstimator()] * 2)


class Timed(LocalTransport):
    """Shards of this process that say they ran on workers of given speeds, with a jitter per worker and round."""

    name = "timed"

    def __init__(self, speeds, jitter=0.0, seed=0, work=None):
        super().__init__()
        self.speeds, self.jitter, self.rng = speeds, jitter, np.random.RandomState(seed)
        self.work, self.times, self.owner = work or {}, [], {}

    def load(self, source):
        super().load(source)
        self.owner = {shard: shard % len(self.speeds) for shard in self.sizes}

    def workers(self):
        return list(range(len(self.speeds)))

    def move(self, shard, worker):
        self.owner[shard] = worker

    def _run(self, task):
        return super().map(task)

    def map(self, task):
        slowness = np.exp(self.jitter * self.rng.normal(size=len(self.speeds))) / self.speeds
        totals = dict.fromkeys(self.workers(), 0.0)
        for result in self._run(task):
            worker = self.owner[result.shard]
            seconds = float(self.work.get(result.shard, result.rows) * slowness[worker]) * 1e-3
            totals[worker] += seconds
            result.receipt.update(worker=worker, seconds=seconds)
            yield result
        self.times.append(totals)


class Told(Timed):
    """The same without computing anything: what it tells is all that the policy sees."""

    def __init__(self, speeds, shards, **options):
        super().__init__(np.array(speeds, float), **options)
        self.sizes = dict.fromkeys(range(shards), 20)
        self.owner = {shard: shard % len(speeds) for shard in range(shards)}

    def _run(self, task):
        return (Result(shard, rows, float(rows), None, None, {}) for shard, rows in self.sizes.items())


def told(speeds, shards, rounds, policy=None, **options):
    """Return the policy and its transport after rounds of told times."""
    transport = Told(speeds, shards, **options)
    bound = (Rebalance() if policy is None else policy).over(transport)
    for _ in range(rounds):
        assert len(list(bound.map(Accumulate(ESTIMATOR, None)))) == shards
    return bound, transport


def pool(speeds, shards, policy=None, **options):
    transport = Timed(np.array(speeds, float), **options)
    policy = (Rebalance() if policy is None else policy).over(transport)
    source = make_source(
        ROWS, ESTIMATOR.accumulator_factory().make().acc_to_encoder(), Strided(shards), 1, None, ESTIMATOR
    )
    return Handle(policy, source), policy, transport


def steps(handle, count):
    model = None
    digests = []
    rng = np.random.RandomState(3)
    model = handle.pysp_seq_initialize(ESTIMATOR, rng, 1.0)
    for _ in range(count):
        model = handle.pysp_seq_estimate(ESTIMATOR, model)
        digests.append(model.digest())
    return digests


def imbalance(totals):
    return max(totals.values()) / statistics.mean(totals.values())


def clean(shards, count):
    with encoded_data(ROWS, ESTIMATOR, num_shards=shards) as handle:
        return steps(handle, count)


def test_planted_speeds_are_balanced_within_three_rounds_and_bits_stay():
    handle, policy, transport = pool([1.0, 2.0, 4.0], 84, jitter=0.01)
    assert steps(handle, 6) == clean(84, 6)
    rounds = [imbalance(totals) for totals in transport.times[-6:]]
    assert rounds[0] > 1.5
    assert max(rounds[2:]) <= 1.05, rounds
    assert {move.round for move in policy.moves} <= {1, 2}
    assert sorted(sum(owner == w for owner in transport.owner.values()) for w in range(3)) == [12, 24, 48]


@pytest.mark.parametrize(("workers", "shards"), [(2, 20), (4, 40), (16, 160)])
def test_a_balanced_pool_is_left_alone_for_a_hundred_rounds_of_jitter(workers, shards):
    for seed in range(5):
        policy, _ = told([1.0] * workers, shards, 100, jitter=0.1, seed=seed)
        assert (policy.round, policy.moves) == (100, [])


def test_shards_of_unlike_cost_are_told_from_workers_of_unlike_speed():
    heavy = {shard: 60.0 if shard % 4 == 0 else 20.0 for shard in range(40)}  # all heavy ones start on worker 0
    _, transport = told([1.0] * 4, 40, 25, work=heavy)
    rounds = [imbalance(totals) for totals in transport.times]
    assert rounds[0] > 1.9
    assert rounds[-1] <= 1.07, rounds


def test_a_worker_that_slows_down_later_loses_shards():
    policy, transport = told([1.0, 1.0], 40, 6, jitter=0.01, policy=Rebalance(window=4))
    assert policy.moves == []
    transport.speeds = np.array([0.5, 1.0])
    for _ in range(10):
        list(policy.map(Accumulate(ESTIMATOR, None)))
    assert imbalance(transport.times[-1]) <= 1.06


def test_each_record_has_what_was_expected_beside_what_was_measured():
    handle, policy, _ = pool([1.0, 2.0], 12)
    steps(handle, 4)
    first, last = handle.records[0], handle.records[-1]
    assert "predicted_seconds" not in first.extra
    assert last.extra["predicted_seconds"] == pytest.approx(sum(
        policy.speeds.seconds(shard, last.rank) for shard in last.extra["shards"]
    ), rel=1e-6)  # fmt: skip
    assert policy.throughputs()[1] == pytest.approx(2.0 * policy.throughputs()[0])


def test_the_catalogue_learns_at_the_end(tmp_path):
    catalog, path = CalibrationCatalog(), tmp_path / "deep" / "catalog.json"
    handle, _, _ = pool([1.0, 2.0], 12, policy=Rebalance(catalog=catalog, catalog_path=path))
    steps(handle, 3)
    handle.transport.close()
    handle.transport.close()
    (record,) = CalibrationCatalog.load(path).records
    assert record == catalog.records[0]
    assert (record.model_type, record.workload, record.repeats) == ("MixtureDistribution", "estep", 3)
    assert [device.name for device in record.resources.devices] == ["cpu:0", "cpu:1"]
    slow, fast = (device.throughput for device in record.resources.devices)
    assert fast == pytest.approx(2.0 * slow)


def test_moves_never_make_a_round_longer():
    rng = np.random.RandomState(1)
    for _ in range(300):
        shards, workers = rng.randint(1, 12), rng.randint(1, 5)
        owner = {s: int(rng.randint(workers)) for s in range(shards)}
        seconds = {s: {w: float(rng.rand() + 0.01) for w in range(workers)} for s in range(shards)}
        planned, gain = moves(owner, range(workers), seconds)

        def peak(where, seconds=seconds, workers=workers):
            return max(sum(seconds[s][w] for s, w in where.items() if w == worker) for worker in range(workers))

        assert peak(owner | planned) == pytest.approx(peak(owner) * (1.0 - gain))
        assert 0.0 <= gain < 1.0
        assert all(owner[s] != w for s, w in planned.items())


def test_nothing_is_known_before_a_round():
    speeds = Speeds()
    assert (speeds.speed(3), speeds.known(3), speeds.doubt([0, 1])) == (1.0, False, float("inf"))
    speeds.note([(0, 0, 0.0, 8.0), (1, 1, 2.0, 8.0)])  # a clock that saw no time tells nothing
    assert (speeds.known(0), speeds.speed(0), speeds.speed(1)) == (False, 4.0, 4.0)


def test_speeds_are_means_of_logarithms_and_work_follows_its_share():
    speeds = Speeds()
    speeds.note([(0, 0, 1.0, 0.25), (1, 1, 1.0, 30.0), (1, 2, 3.0, 10.0), (2, 3, math.inf, 7.0)])
    assert speeds.speed(0) == 1.0  # nothing is smaller than one byte
    assert speeds.work == {0: 1.0, 1: 30.0 + 0.5 * (10.0 - 30.0), 2: 10.0 + 0.5 * (30.0 - 10.0), 3: 7.0}
    assert speeds.speed(1) == pytest.approx(10.0)
    assert not speeds.known(2)
    assert speeds.speed(2) == pytest.approx(math.sqrt(10.0))
    assert speeds.seconds(1, 1) == pytest.approx(2.0)
    assert speeds.seconds(9, 1) == pytest.approx(0.1)  # of a shard that was never seen
    speeds.note([(1, 1, 2.0, 99.0), (1, 2, 2.0, 99.0)])  # its size is known already
    assert speeds.work[1] == pytest.approx(20.0 + 0.5 * (20.0 - 20.0))
    assert speeds.speed(1) == pytest.approx(10.0)
    speeds.note([(1, 1, 8.0, 99.0)])
    assert speeds.speed(1) == pytest.approx((10.0 * 10.0 * 2.5) ** (1.0 / 3.0))


def test_speeds_of_a_window_of_rounds_count():
    speeds = Speeds(window=2)
    for seconds in (1.0, 2.0, 4.0):
        speeds.note([(0, 0, seconds, 8.0)])
    assert speeds.speed(0) == pytest.approx(8.0 / math.sqrt(8.0))
    assert Speeds().window == Rebalance().window == 20
    assert Speeds().jitter == Rebalance().jitter == 0.1
    assert Rebalance().threshold == 0.05


def test_doubt_is_of_the_difference_of_two_means():
    speeds = Speeds(jitter=0.5)
    for first, second in ((1.0, 1.0), (math.e, 1.0), (1.0, math.nan)):
        speeds.note([(0, 0, first, 8.0), (1, 1, second, 8.0)])
    spread = 4.0 * 0.25 + 2.0 / 3.0  # logarithms of 0, -1, 0 about their mean
    expected = 4.0 * math.sqrt(2.0 * spread / (4.0 + 2.0 + 1.0) / 2.0)
    assert speeds.doubt([0, 1, 7]) == pytest.approx(expected)
    assert speeds.doubt([0]) == pytest.approx(4.0 * math.sqrt(2.0 * spread / 6.0 / 3.0))
    assert speeds.doubt([7]) == math.inf


@pytest.mark.parametrize(
    ("owner", "workers", "seconds", "planned", "gain"),
    [
        ({}, [0, 1], {}, {}, 0.0),
        ({0: 0}, [0, 1], {0: {0: 0.0, 1: 0.0}}, {}, 0.0),
        ({0: 0}, [0, 1], {0: {0: 1.0, 1: 1.0}}, {}, 0.0),
        ({0: 0}, [0, 1], {0: {0: 2.0, 1: 1.0}}, {0: 1}, 0.5),
        ({0: 0, 1: 0, 2: 7}, [0, 1], {s: {0: 2.0, 1: 2.0} for s in range(3)}, {0: 1}, 0.5),
        ({0: 0, 1: 0, 2: 1, 3: 1}, [0, 1, 2], {s: {0: 2.0, 1: 2.0, 2: 2.0} for s in range(4)}, {0: 2}, 0.0),
        (
            {0: 0, 1: 0, 2: 0},
            [0, 1],
            {0: {0: 5.0, 1: 5.0}, 1: {0: 3.0, 1: 3.0}, 2: {0: 2.0, 1: 2.0}},
            {0: 1},
            0.5,
        ),
    ],
)
def test_moves_by_hand(owner, workers, seconds, planned, gain):
    assert moves(owner, workers, seconds) == (planned, gain)


def test_moves_stand_in_the_order_of_shards():
    planned, gain = moves({5: 0, 1: 0, 3: 0, 0: 0}, [0, 1], {s: {0: 1.0, 1: 1.0} for s in (0, 1, 3, 5)})
    assert (list(planned), gain) == ([0, 1], 0.5)


def shares(pool, sizes, speeds):
    """Return a policy that has learned speeds of workers, over a pool with shards of given sizes."""
    policy = Rebalance(threshold=0.2, jitter=0.0).over(pool)
    policy.speeds.note([(worker, 100 + worker, 1.0, speed) for worker, speed in speeds.items()])
    policy.speeds.work.update(sizes)
    return policy


def test_shards_move_when_that_saves_more_than_the_threshold():
    pool = Told([1.0, 1.0], 4)
    policy = shares(pool, {0: 4.0, 1: 1.0, 2: 1.0, 3: 1.0}, {0: 1.0, 1: 1.0})
    policy._move()
    assert policy.moves == []  # a fifth of the round is not more than a fifth
    policy.speeds.work[0], policy.round = 3.0, 7
    policy._move()
    assert policy.moves == [Move(7, 2, 0, 1)]
    assert pool.owner == {0: 0, 1: 1, 2: 1, 3: 1}
    pool = Told([1.0, 1.0], 6)
    policy = shares(pool, dict.fromkeys(range(6), 1.0), {0: 1.0, 1: 3.0})
    policy._move()
    assert policy.moves == [Move(0, 0, 0, 1), Move(0, 2, 0, 1)]
    assert pool.owner == {0: 1, 1: 1, 2: 1, 3: 1, 4: 0, 5: 1}


def test_workers_that_are_given_up_or_alone_are_given_nothing():
    pool = Told([1.0, 1.0, 1.0], 6)
    policy = shares(pool, dict.fromkeys(range(6), 1.0), {0: 1.0, 1: 5.0, 2: 5.0})
    pool.blacklist = {2}
    policy._move()
    assert {move.after for move in policy.moves} == {1}
    pool = Told([1.0, 1.0], 6)
    policy = shares(pool, dict.fromkeys(range(6), 1.0), {0: 1.0, 1: 5.0})
    pool.blacklist = {1}
    policy._move()
    assert policy.moves == []
    policy = Rebalance(threshold=0.2, jitter=0.0).over(Told([1.0, 1.0], 6))
    policy._move()  # nobody was seen at work
    assert policy.moves == []


def test_sizes_are_bytes_where_they_are_told_and_rows_elsewhere():
    class Sized(Told):
        def map(self, task):
            for result in super().map(task):
                result.receipt["bytes"] = {0: 160, 1: 0}.get(result.shard)
                yield result

    policy = Rebalance().over(Sized([1.0, 1.0, 1.0], 3))
    first = list(policy.map(Accumulate(ESTIMATOR, None)))
    assert policy.speeds.work == {0: 160.0, 1: 20.0, 2: 20.0}
    assert all("predicted_seconds" not in one.receipt for one in first)
    second = list(policy.map(Accumulate(ESTIMATOR, None)))
    assert [one.receipt["predicted_seconds"] for one in second] == pytest.approx([0.02] * 3)
    assert policy.throughputs() == pytest.approx({0: 1000.0, 1: 1000.0, 2: 1000.0})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 1.5}, "threshold is the part of a round that moves must save, in (0, 1), not 1.5"),
        ({"jitter": True}, "jitter must be a finite number of at least 0, not True"),
        ({"window": True}, "window must be an integer of at least 1, not True"),
    ],
)
def test_settings_are_refused_in_words(options, words):
    with pytest.raises(ValueError, match="^" + re.escape(words) + "$"):
        Rebalance(**options)
    edge = Rebalance(0.999, jitter=0, window=np.int64(1))
    assert (edge.threshold, type(edge.jitter), edge.jitter, type(edge.window), edge.window) == (
        0.999,
        float,
        0.0,
        int,
        1,
    )


@pytest.mark.parametrize(
    "options", [{"threshold": 0.0}, {"threshold": 1.0}, {"threshold": True}, {"jitter": -1.0}, {"jitter": float("inf")},
                {"window": 0}, {"window": 2.5}],
)  # fmt: skip
def test_settings_are_checked(options):
    with pytest.raises(ValueError, match=r"must be|is the part"):
        Rebalance(**options)


def test_a_transport_without_moves_is_refused():
    with pytest.raises(ValueError, match="needs a transport that can move and workers; 'local' cannot"):
        Rebalance().over(LocalTransport())


class Paced(GaussianEstimator):
    """An estimator whose E-step waits: as long per shard as the worker that it runs on is slow."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def accumulator_factory(self):
        return PacedFactory(super().accumulator_factory(), self.folder)


class PacedFactory:
    def __init__(self, inner, folder):
        self.inner, self.folder = inner, folder

    def make(self):
        made = self.inner.make()
        update, folder = made.seq_update, self.folder

        def paced(x, weights, estimate):
            time.sleep(slowness(folder))
            update(x, weights, estimate)

        made.seq_update = paced
        return made


def slowness(folder):
    """Return 16, 8 or 4 ms, the first process that asks having the longest."""
    for name, seconds in (("0", 0.016), ("1", 0.008), ("2", 0.004)):
        place = Path(folder, name)
        try:
            with place.open("x", encoding="ascii") as new:
                new.write(str(os.getpid()))
        except FileExistsError:
            pass
        if place.read_text(encoding="ascii") == str(os.getpid()):
            return seconds
    return 0.004


def test_workers_of_three_speeds_on_a_real_pool(tmp_path):
    estimator = Paced(str(tmp_path))
    options = {"backend": "mp", "num_workers": 3, "num_shards": 42}
    with encoded_data(ROWS, GaussianEstimator(), **options) as plain:
        model = plain.pysp_seq_estimate(GaussianEstimator(), None)
    policy = Rebalance()
    with encoded_data(ROWS, estimator, policies=[policy, Retry(2)], **options) as handle:
        for _ in range(30):  # a busy machine jitters: the policy waits until it is sure
            assert handle.pysp_seq_estimate(estimator, None).digest() == model.digest()
            if handle.transport.moves and handle.transport.moves[-1].round < handle.transport.round - 2:
                break
        owner, moved = dict(handle.transport.owner), handle.transport.moves
        records = handle.records
    assert moved
    held = sorted(sum(worker == w for worker in owner.values()) for w in range(3))
    assert held[0] < 14 < held[2], held
    first, last = (max(r.e_step_seconds for r in records if r.round == n) for n in (0, records[-1].round))
    print(
        f"held {held}, busiest {first:.3f} s, then {last:.3f} s, moves before rounds {sorted({m.round for m in moved})}"
    )
    assert records[-1].extra["predicted_seconds"] > 0.0


def record(name="cpu:0", speed=2.0):
    return CalibrationRecord("Gaussian", "estep", Resources((DeviceSpec(name, throughput=speed),)), 5, 1, timestamp=1.0)


def test_several_writers_lose_no_record(tmp_path):
    path = tmp_path / "catalog.json"
    threads = [threading.Thread(target=keep, args=(record(f"cpu:{i}"), None, path)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = {one.resources.devices[0].name for one in CalibrationCatalog.load(path).records}
    assert names == {f"cpu:{i}" for i in range(12)}


@pytest.mark.parametrize("text", ['{"records": [{"model_type', "[]", '{"records": 3}', '{"records": [3]}', "\x00"])
def test_a_torn_or_foreign_catalogue_is_named_and_left_alone(tmp_path, text):
    path = tmp_path / "catalog.json"
    path.write_text(text, encoding="utf-8")
    for line in (lambda: CalibrationCatalog.load(path), lambda: keep(record(), None, path)):
        with pytest.raises(ValueError, match=r"catalog\.json is no calibration catalog"):
            line()
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_catalogue_says_what_to_type(tmp_path):
    path = tmp_path / "catalog.json"
    keep(record(), None, path)
    before = json.loads(path.read_text(encoding="utf-8"))
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(PermissionError) as caught:
            calibrate_resources([1.0, 2.0], GaussianEstimator().estimate(None, (1.0, 2.0, 1.0, 1.0)), catalog_path=path)
    finally:
        tmp_path.chmod(stat.S_IRWXU)
    assert "pass catalog_path=" in "".join(caught.value.__notes__)
    assert json.loads(path.read_text(encoding="utf-8")) == before


def test_a_stack_has_rebalance_between_retry_and_the_rest():
    transport = Timed(np.ones(2))
    assert isinstance(stack(transport, [Rebalance(), Retry(2)]), Rebalance)
    with pytest.raises(ValueError, match="Rebalance is given 2 times"):
        stack(transport, [Rebalance(), Rebalance()])


def test_a_fit_with_the_policy_has_the_bits_of_one_without():
    with encoded_data(ROWS, ESTIMATOR, num_shards=6) as handle:
        whole = optimize(None, ESTIMATOR, enc_data=handle, max_its=4, delta=None, seed=1)
    options = {"backend": "mp", "num_workers": 2, "num_shards": 6, "policies": [Rebalance(threshold=0.01, jitter=0.0)]}
    with encoded_data(ROWS, ESTIMATOR, **options) as handle:
        assert optimize(None, ESTIMATOR, enc_data=handle, max_its=4, delta=None, seed=1).digest() == whole.digest()
