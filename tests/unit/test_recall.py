"""What shards of one task share: the same bits as each on its own, nothing beyond the task, no scratch in two hands."""

import gc
import weakref

import pytest

from bits import bits
from mixle import stats
from mixle.stats.recall import borrowed, recalled, recalling
from mixle.utils.parallel.folding.shards import encode_shard
from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.planner import encoded_data
from models import MODELS


class Task:
    """What is at hand."""


def counted():
    calls = []

    def make():
        calls.append(1)
        return object()

    return calls, make


@pytest.mark.parametrize("name", sorted(MODELS))
def test_shards_of_one_task_have_the_bits_of_each_on_its_own(name):
    one = MODELS[name]()
    estimator = stats.MixtureEstimator([one.estimator, one.estimator])
    model = stats.MixtureDistribution([one.dist, one.dist], [0.25, 0.75])
    encoder = estimator.accumulator_factory().make().acc_to_encoder()
    cuts = [(0, 3), (3, 100), (100, len(one.rows))]
    shards = [
        encode_shard(i, one.rows[a:b], range(a, b), encoder, (range(a, b),)) for i, (a, b) in enumerate(cuts) if a < b
    ]
    task = Accumulate(estimator, model)
    together = [bits(task.run(shard)) for shard in (*shards, *shards[::-1])]
    alone = [bits(Accumulate(estimator, model).run(shard)) for shard in (*shards, *shards[::-1])]
    assert together == alone


def test_a_model_that_is_altered_between_rounds_is_read_again():
    rows = [(0.0, 1.0), (4.0, 5.0), (4.5, 4.0)]
    leaf = stats.CompositeDistribution([stats.GaussianDistribution(0.0, 1.0)] * 2)
    other = stats.CompositeDistribution([stats.GaussianDistribution(4.0, 1.0)] * 2)
    model = stats.MixtureDistribution([leaf, other], [0.5, 0.5])
    with encoded_data(rows, model=model, backend="local", num_shards=3) as handle:
        before = handle.pysp_seq_log_density_sum(model)
        handle.pysp_stream_accumulate(model.estimator(), model)
        leaf.dists[0].mu = 1.0
        after = handle.pysp_seq_log_density_sum(model)
        _, found = handle.pysp_stream_accumulate(model.estimator(), model)
    assert before != after
    with encoded_data(rows, model=model, backend="local", num_shards=3) as fresh:
        assert bits(fresh.pysp_stream_accumulate(model.estimator(), model)[1]) == bits(found)


def test_a_thing_is_found_once_for_the_same_objects_of_a_task():
    calls, make = counted()
    task, members = Task(), [object(), object()]
    with recalling(task):
        first = recalled("a", members, make)
        assert recalled("a", list(members), make) is first
        assert recalled("b", members, make) is not first
        assert recalled("a", members[::-1], make) is not first
    assert len(calls) == 3
    with recalling(task):
        assert recalled("a", members, make) is first
    with recalling(Task()):
        assert recalled("a", members, make) is not first
    assert recalled("a", members, make) is not recalled("a", members, make)


def test_nothing_outlives_its_task():
    task, member = Task(), Task()
    with recalling(task):
        gone = [weakref.ref(member), weakref.ref(recalled("a", [member], Task))]
    del member
    assert [one() is None for one in gone] == [False, False]
    del task
    gc.collect()
    assert [one() is None for one in gone] == [True, True]


def test_scratch_is_in_one_hand_at_a_time():
    calls, make = counted()
    task = Task()
    with recalling(task):
        one, other = Task(), Task()
        mine, theirs = borrowed("x", one, make), borrowed("x", other, make)
        assert mine is not theirs
        del one
        again = Task()
        assert borrowed("x", again, make) is mine
        assert borrowed("y", again, make) is not theirs
    assert len(calls) == 3
    assert borrowed("x", again, make) is not borrowed("x", again, make)
