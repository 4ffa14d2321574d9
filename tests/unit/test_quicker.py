"""The quicker of two ways, and threads that are left alone where they are no quicker."""

import threading

import numpy as np
import pytest

from mixle.inference import optimize
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.folding.tasks import Accumulate, Score
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.planning.quicker import Quicker
from mixle.utils.parallel.transports import local

ROWS = np.concatenate([np.random.default_rng(0).normal(0, 1, 500), np.random.default_rng(1).normal(5, 2, 500)])
ESTIMATOR = MixtureEstimator([GaussianEstimator()] * 2)


def ways(seconds, times):
    """Return the ways that are taken when they take ``seconds(way, time)``."""
    quicker, taken = Quicker(), []
    for time in range(times):
        taken.append(quicker.choose())
        quicker.took(taken[-1], seconds(taken[-1], time))
    return taken


@pytest.mark.parametrize("better", [True, False])
def test_the_quicker_way_is_taken_and_the_other_one_tried_ever_less_often(better):
    taken = ways(lambda way, _: 1.0 if way == better else 2.0, 70)
    assert taken[:3] == [True, True, False]
    assert [time for time in range(3, 70) if taken[time] != better] == [8, 16, 32, 64]


def test_a_first_time_that_warms_up_decides_nothing():
    taken = ways(lambda way, time: 9.0 if time == 0 else 1.0 if way else 2.0, 8)
    assert taken[3:] == [True] * 5


def test_what_becomes_quicker_is_found():
    taken = ways(lambda way, time: (1.0 if time < 6 else 4.0) if way else 2.0, 16)
    assert taken[3:6] == [True] * 3
    assert taken[-4:] == [False] * 4


def test_the_ratio_is_that_of_the_last_times():
    quicker = Quicker()
    assert quicker.ratio() == 1.0
    for seconds in (1.0, 6.0, 4.0, 5.0):
        quicker.took(True, seconds)
    assert quicker.ratio() == 1.0
    quicker.took(False, 2.0)
    assert quicker.ratio() == 2.0


def test_a_round_that_is_given_up_is_not_counted():
    quicker = Quicker()
    steps = quicker.timed(False, iter([1, 2]))
    assert next(steps) == 1
    steps.close()
    assert quicker.ratio() == 1.0
    assert quicker.choose()


class Always(Quicker):
    """Prefers one way."""

    way = True

    def choose(self):
        return self.way


@pytest.mark.parametrize("way", [True, False])
def test_both_ways_give_the_bits_of_one_shard_after_another_and_say_which_it_was(way, monkeypatch):
    monkeypatch.setattr(local, "Quicker", type("Chosen", (Always,), {"way": way}))
    with (
        encoded_data(ROWS, ESTIMATOR, num_chunks=4) as alone,
        encoded_data(ROWS, ESTIMATOR, num_chunks=4, chunk_workers=2) as both,
    ):
        one, other = (optimize(None, ESTIMATOR, enc_data=data, max_its=5, delta=None, seed=1) for data in (alone, both))
        assert one.digest() == other.digest()
        seen = set()
        monkeypatch.setattr(
            local, "execute", lambda *a, run=local.execute: seen.add(threading.current_thread()) or run(*a)
        )
        for task in (Accumulate(ESTIMATOR, one), Score(one)):
            assert {result.shard for result in both.transport.map(task)} == {0, 1, 2, 3}
            assert both.transport.together is way
        assert (threading.main_thread() in seen) is not way


def test_each_kind_of_task_has_its_own_choice():
    with encoded_data(ROWS, ESTIMATOR, num_chunks=4, chunk_workers=2) as data:
        model = data.pysp_seq_initialize(ESTIMATOR, np.random.RandomState(0), 0.5)
        assert data.transport.together
        together = []
        for _ in range(3):
            data.pysp_seq_estimate(ESTIMATOR, model)
            together.append(data.transport.together)
            data.pysp_seq_log_density_sum(model)
            together.append(data.transport.together)
        assert together == [True, True, True, True, False, False]
