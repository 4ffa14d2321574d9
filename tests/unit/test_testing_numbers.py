"""Bits of numbers inside of any object, and what a worker's wrong number looks like."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import mixle.stats as st
from bits import bits, statistic
from mixle.testing.corruption import Corruption
from mixle.testing.numbers import BANDS, altered, count_numbers, flip_bytes, flipped, relative_difference, set_bit
from mixle.utils.parallel.folding.shards import Strided, cut, encode_shard
from models import MODELS


def all_numbers(value):
    """Return every double of a value as an integer, by altering none."""
    found = []
    for number in range(count_numbers(value)):

        def look(where):
            found.append(int(where[0]))

        altered(value, number, look)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_every_number_of_a_statistic_can_be_altered_and_nothing_else_is(name):
    model = MODELS[name]()
    value = statistic(model.estimator, model.rows, model=model.dist)
    before, total = bits(value), count_numbers(value)
    numbers = all_numbers(value)
    assert len(numbers) == total
    rng = random.Random(1)
    for number in rng.sample(range(total), min(total, 12)):
        bit = rng.randrange(64)
        wrong = altered(value, number, flipped(bit))
        found = all_numbers(wrong)
        assert [i for i in range(total) if found[i] != numbers[i]] == [number]
        assert found[number] ^ numbers[number] == 1 << bit
        assert bits(altered(wrong, number, flipped(bit))) == before
    assert bits(value) == before


@pytest.mark.parametrize("name", MODELS)
def test_a_model_received_wrongly_is_still_a_model(name):
    dist = MODELS[name]().dist
    total = count_numbers(dist)
    if not total:
        pytest.skip("has no float number")
    twin = altered(dist, total - 1, flipped(1))
    assert type(twin) is type(dist)
    assert all_numbers(twin)[-1] == all_numbers(dist)[-1] ^ 2


def test_bands_are_the_bits_of_a_double():
    assert sorted(bit for band in BANDS.values() for bit in band) == list(range(64))
    assert altered(1.5, 0, flipped(*BANDS["sign"])) == -1.5
    assert altered(1.0, 0, flipped(52)) == 0.5
    assert altered(1.0, 0, flipped(51)) == 1.5
    assert altered(1.0, 0, flipped(0)) == math.nextafter(1.0, 2.0)
    assert altered(1.0, 0, set_bit(51)) == altered(1.5, 0, set_bit(51)) == 1.5
    assert altered((1.0, 2.0), 3, flipped(63)) == (1.0, -2.0)
    with pytest.raises(ValueError, match="no float number inside a str"):
        altered("text", 0, flipped(1))
    assert bytes(flip_bytes([b"ab", memoryview(b"c")], 8 + 24)[0]) == b"acc"


def test_a_difference_of_models_is_that_of_their_worst_parameter():
    one, other = st.GaussianDistribution(1.0, 2.0), st.GaussianDistribution(1.0, 2.5)
    assert relative_difference(one, one) == 0.0
    assert relative_difference(one, other) == 0.2
    pair = st.CompositeDistribution([one, one])
    assert relative_difference(pair, st.CompositeDistribution([one, st.CompositeDistribution([one, one])])) == math.inf


@pytest.mark.parametrize("name", ["gaussian", "multivariate gaussian", "composite"])
def test_a_wrong_row_is_another_row(name):
    model = MODELS[name]()
    encoder = model.estimator.accumulator_factory().make().acc_to_encoder()
    positions = Strided(1).resolve(len(model.rows))[0]
    shard = encode_shard(0, model.rows, positions, encoder, cut(positions, 1, Strided(1)))
    before = model.dist.seq_log_density(shard.chunks[0].payload)
    wrong = Corruption("encoded", 0.5, how="row").of_shard(shard)
    after = model.dist.seq_log_density(wrong.chunks[0].payload)
    (row,) = np.flatnonzero(before != after)
    assert after[row] in before
    assert model.dist.seq_log_density(shard.chunks[0].payload).tobytes() == before.tobytes()
