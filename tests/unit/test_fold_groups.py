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
