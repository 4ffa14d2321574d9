"""Work space of the passes: borrowed by one at a time, kept within bounds."""

import numpy as np

import mixle.stats as st
from mixle.stats.latent import hmm_scratch
from mixle.stats.latent.hmm_scratch import KEPT, Scratch


def test_what_is_borrowed_is_nobody_elses_until_it_is_given_back():
    first, second = Scratch(), Scratch()
    a, b = first.borrow(100_003), second.borrow(100_003)
    assert not np.shares_memory(a, b)
    assert a.ctypes.data % 64 == b.ctypes.data % 64 == 0
    where = a.ctypes.data
    del first, a
    third = Scratch()
    assert third.borrow(99_001).ctypes.data == where


def test_no_more_is_kept_than_said():
    many = [Scratch() for _ in range(5)]
    for scratch in many:
        scratch.borrow(KEPT // 24)
    del many, scratch
    assert sum(raw.nbytes for raw in hmm_scratch._free) <= KEPT
    kept = len(hmm_scratch._free)
    large = Scratch()
    large.borrow(KEPT // 8 + 1)
    del large
    assert sum(raw.nbytes for raw in hmm_scratch._free) <= KEPT
    assert len(hmm_scratch._free) <= kept


def test_passes_that_are_walked_at_once_do_not_disturb_each_other():
    topics = [st.GaussianDistribution(0.0, 1.0), st.GaussianDistribution(3.0, 2.0)]
    model = st.HiddenMarkovModelDistribution(topics, [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    rng = np.random.RandomState(0)
    one, two = ([rng.normal(1.5, 2.0, n) for n in rng.randint(1, 60, 300)] for _ in range(2))
    encoder = model.dist_to_encoder()
    pair = [encoder.seq_encode(rows) for rows in (one, two)]

    def posteriors(x):
        return [r[:, : b - a].copy() for a, b, r in model.passes(x).blocks(np.ones(x.rows))]

    alone = [posteriors(x) for x in pair]
    walks = [model.passes(x).blocks(np.ones(x.rows)) for x in pair]
    for (a, b, r), (c, d, s), left, right in zip(*walks, *alone, strict=True):
        np.testing.assert_array_equal(r[:, : b - a], left)
        np.testing.assert_array_equal(s[:, : d - c], right)
