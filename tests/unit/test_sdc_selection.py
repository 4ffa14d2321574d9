"""Which shards are audited: right on average, random, and none waits longer than 3/rate rounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixle.utils.parallel.policies.selection import Selection


def rounds(selection, shards, count, seed=1):
    rng = np.random.RandomState(seed)
    drawn = []
    for _ in range(count):
        chosen = selection.draw(range(shards), rng)
        for shard in chosen:
            selection.done(shard)
        drawn.append(chosen)
    return drawn


@settings(max_examples=40)
@given(st.floats(0.01, 1.0), st.integers(1, 30), st.integers(0, 2**31 - 1))
def test_no_shard_waits_longer_than_three_times_the_mean(rate, shards, seed):
    limit = math.ceil(3.0 / rate)
    last = dict.fromkeys(range(shards), -1)
    for number, chosen in enumerate(rounds(Selection(rate), shards, 4 * limit, seed)):
        for shard in chosen:
            last[shard] = number
        assert all(number - seen <= limit for seen in last.values()), (rate, shards, number)


@pytest.mark.parametrize(("rate", "shards"), [(0.1, 2), (0.1, 5), (0.1, 20), (0.37, 7), (1.0, 3), (0.001, 1000)])
def test_mean_is_the_rate(rate, shards):
    count = 300 if shards == 1000 else 3000
    drawn = rounds(Selection(rate), shards, count)
    assert abs(sum(map(len, drawn)) - rate * shards * count) <= shards + 1
    assert all(chosen == sorted(set(chosen)) and set(chosen) <= set(range(shards)) for chosen in drawn)


def test_default_rate_audits_small_pools():
    assert sum(map(len, rounds(Selection(0.1), 2, 10))) >= 1


@pytest.mark.parametrize("shards", [1, 4])
def test_rate_one_takes_everything_and_rate_zero_nothing(shards):
    assert rounds(Selection(1.0), shards, 3) == [list(range(shards))] * 3
    rng = np.random.RandomState(0)
    before = rng.get_state()[1].tolist()
    assert Selection(0.0).draw(range(shards), rng) == []
    assert rng.get_state()[1].tolist() == before


def test_draws_are_random_and_follow_the_generator():
    one, same, other = (rounds(Selection(0.25), 16, 20, seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert len({tuple(chosen) for chosen in one}) > 10


def test_audit_that_was_not_carried_out_does_not_count():
    selection = Selection(0.5)
    rng = np.random.RandomState(3)
    for _ in range(5):
        selection.draw(range(4), rng)
    never = {shard for shard, age in selection.age.items() if age == 5}
    assert never == {0, 1, 2, 3}
    chosen = selection.draw(range(4), rng)
    for shard in chosen:
        selection.done(shard)
    assert set(selection.draw(range(4), rng)) == never - set(chosen)


def test_credit_does_not_pile_up():
    selection = Selection(1.0)
    for _ in range(5):
        assert selection.draw([], np.random.RandomState(0)) == []
    assert selection.draw([3, 1], np.random.RandomState(0)) == [1, 3]
