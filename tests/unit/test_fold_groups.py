"""Groups of 256 shards that are folded where they live give the bits of the one fold."""

from __future__ import annotations

import numpy as np
import pytest

import mixle.stats as st
from bits import bits
from mixle.utils.parallel.folding.fold import GroupSum, fold_groups, fold_results
from mixle.utils.parallel.folding.tasks import Result
from mixle.utils.parallel.folding.travel import pack_results, unpack_results

ESTIMATOR = st.GaussianEstimator()


def results(shards):
    found = []
    for shard in range(shards):
        accumulator = ESTIMATOR.accumulator_factory().make()
        rows = np.random.RandomState(shard).normal(shard % 7, 1.0, size=5)
        accumulator.seq_update(accumulator.acc_to_encoder().seq_encode(rows), np.ones(5), None)
        found.append(Result(shard, 5, 5.0, accumulator.value(), None))
    return found


@pytest.mark.parametrize("shards", [1, 255, 256, 257, 512, 513, 600])
@pytest.mark.parametrize("places", [1, 2, 3])
def test_in_place_or_not_the_bits_are_the_same(shards, places):
    everything = results(shards)
    folded = []
    for place in range(places):  # whole groups on each place, one of them cut in two on the last
        own = [r for r in everything if r.shard // 256 % places == place]
        middle = len(own) // 2 if place == 2 else len(own)
        for part in (own[:middle], own[middle:]):
            folded += unpack_results(pack_results(fold_groups(ESTIMATOR, part, shards)))
    expected, got = fold_results(ESTIMATOR, everything), fold_results(ESTIMATOR, folded[::-1])
    assert got[0] == expected[0]
    assert bits(got[1]) == bits(expected[1])
    assert any(isinstance(r.value, GroupSum) for r in folded) == (shards > 256)


def test_the_guard_names_the_group():
    bad = results(300)
    bad[3] = Result(3, 5, float("nan"), bad[3].value, None)
    with pytest.raises(ValueError, match=r"\(shards 0 to 255\) contains a non-finite statistic"):
        fold_results(ESTIMATOR, fold_groups(ESTIMATOR, bad, 300), guard=True)


def test_the_guard_checks_the_sum_of_the_groups():
    large = [Result(r.shard, 5, 1e308 if r.shard % 256 == 0 else 0.0, r.value, None) for r in results(512)]
    with pytest.raises(ValueError, match=r"^there \(running observation count\) contains"):
        fold_results(ESTIMATOR, fold_groups(ESTIMATOR, large, 512), "there", guard=True)
    assert fold_results(ESTIMATOR, fold_groups(ESTIMATOR, large, 512))[0] == np.inf


def test_whole_groups_are_folded_and_others_stay_as_they_were():
    everything = results(800)
    own = everything[1:256] + everything[256:512] + everything[600:700] + everything[768:]
    folded = fold_groups(ESTIMATOR, own, 800)
    assert [r.shard for r in folded] == [r.shard for r in own]
    assert folded[:255] == own[:255]
    assert isinstance(folded[255].value, GroupSum)
    assert [r.value for r in folded[256:511]] == [None] * 255
    assert folded[511:611] == own[511:611]
    assert isinstance(folded[611].value, GroupSum)  # the last group is whole with the 32 shards that are left
    assert folded[611].value.nobs == 5.0 * 32
    assert [r.value for r in folded[612:]] == [None] * 31
