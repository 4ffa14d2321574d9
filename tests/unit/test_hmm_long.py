"""Batches, long sequences, underflow: what a sequence scores depends on nothing but itself and the model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hmm_support import expected_counts, log_sum

import mixle.stats.latent.hmm_batches as hmm_batches
from mixle.stats import (
    CategoricalDistribution,
    GaussianDistribution,
    HiddenMarkovModelDistribution,
    MixtureDistribution,
    PoissonDistribution,
    UniformDistribution,
)
from mixle.stats.latent.hmm_batches import BATCH_ROWS, LONG, batches, places, sources


def chain(states, rng, emissions=None):
    topics = emissions or [GaussianDistribution(3.0 * rng.normal(), 1.0 + k / 9) for k in range(states)]
    moves = rng.dirichlet(np.ones(states), states)
    return HiddenMarkovModelDistribution(topics, rng.dirichlet(np.ones(states)), moves)


def statistic(model, rows, weights=None):
    accumulator = model.estimator().accumulator_factory().make()
    payload = accumulator.acc_to_encoder().seq_encode(rows)
    total, left_out = accumulator.seq_update_scored(payload, weights, model)
    return total, left_out, accumulator.value(), payload


def test_batches_hold_every_element_once():
    rng = np.random.RandomState(0)
    for sizes in (
        rng.randint(0, 9, 2 * BATCH_ROWS + 1),
        np.array([0, 0]),
        np.zeros(0, np.int64),
        np.array([LONG, LONG + 1, 0, 5]),
        np.full(20, 50_000),
    ):
        found = batches(sizes)
        order = sources(sizes, hmm_batches.ends_of(sizes)[:-1])
        assert np.array_equal(np.sort(order), np.arange(sizes.sum()))
        assert np.array_equal(order[places(sizes)], np.arange(sizes.sum()))
        assert [b.offset for b in found] == np.cumsum([0, *(b.total for b in found)])[:-1].tolist()
        for batch in found:
            assert (np.diff(batch.counts) <= 0).all()
            assert batch.chained == (sizes[batch.rows[0]] > LONG)
            assert batch.total <= hmm_batches.BATCH_ELEMENTS or len(np.unique(batch.rows)) == 1
            order_of = np.lexsort((batch.times(), batch.ranks()))
            times, ranks = batch.times()[order_of], batch.ranks()[order_of]
            follows = ranks[1:] == ranks[:-1]
            assert (np.diff(times)[follows] == 1).all()
            assert np.array_equal(times[np.flatnonzero(np.concatenate([[True], ~follows]))], batch.begins)


@pytest.mark.parametrize("states", [1, 2, 8, 16, 17, 25, 40])
def test_a_sequence_has_the_same_bits_alone_and_among_others(states):
    rng = np.random.RandomState(states)
    model = chain(states, rng)
    rows = [list(3.0 * rng.normal(size=n)) for n in rng.randint(0, 40, BATCH_ROWS + 200)]
    encoder = model.dist_to_encoder()
    whole = model.seq_log_density(encoder.seq_encode(rows))
    for part in (slice(0, 1), slice(5, 12), slice(3, None, 7), slice(BATCH_ROWS - 3, None)):
        np.testing.assert_array_equal(model.seq_log_density(encoder.seq_encode(rows[part])), whole[part])
    assert [model.log_density(row) for row in rows[:20]] == whole[:20].tolist()


def test_a_long_sequence_has_the_same_bits_alone_and_among_others():
    rng = np.random.RandomState(7)
    model = chain(5, rng)
    rows = [list(3.0 * rng.normal(size=n)) for n in (LONG + 1, 3, 2 * LONG + 77, LONG, 10_000)]
    whole = model.seq_log_density(model.dist_to_encoder().seq_encode(rows))
    assert [model.log_density(row) for row in rows] == whole.tolist()


FAMILIES = {
    "numbers": None,
    "labels": lambda rng: [
        CategoricalDistribution(dict(zip("abcde", map(float, rng.dirichlet(np.ones(5))), strict=True)))
        for _ in range(3)
    ],
    "counts": lambda _: [PoissonDistribution(lam) for lam in (1.0, 5.0, 20.0)],
    "unlike": lambda _: [
        GaussianDistribution(0.0, 1.0),
        UniformDistribution(-30.0, 30.0),
        MixtureDistribution([GaussianDistribution(5.0, 1.0), GaussianDistribution(-5.0, 1.0)], [0.5, 0.5]),
    ],
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_segments_change_nothing_but_rounding(name, weighted, monkeypatch):
    rng = np.random.RandomState(3)
    make = FAMILIES[name]
    model = chain(3, rng, None if make is None else make(rng))
    sampler = MixtureDistribution(model.topics, [0.4, 0.3, 0.3]).sampler(5)
    rows = [list(sampler.sample(n)) for n in (LONG + 900, 3, 2 * LONG + 77, 0, 500)]
    weights = np.array([0.5, 2.0, 1.5, 1.0, 0.0]) if weighted else None
    results = []
    for limit in (LONG, 10**9):
        monkeypatch.setattr(hmm_batches, "LONG", limit)
        total, left_out, value, payload = statistic(model, rows, weights)
        posterior, path = model.seq_posterior(payload), model.seq_viterbi(payload)
        results.append((total, left_out, value, np.concatenate(posterior), np.concatenate(path)))
    (total, left_out, value, posterior, path), (total_, left_out_, value_, posterior_, path_) = results
    assert total == pytest.approx(total_, rel=1e-13)
    assert left_out == left_out_ == 0
    for field in ("init_counts", "state_counts", "trans_counts"):
        np.testing.assert_allclose(getattr(value, field), getattr(value_, field), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(posterior, posterior_, atol=1e-11)
    assert np.array_equal(path, path_)


def test_segments_of_a_chain_with_structural_zeros_and_impossible_rows(monkeypatch):
    moves = [[0.999, 0.001, 0.0], [0.0, 0.999, 0.001], [0.0, 0.0, 1.0]]
    topics = [CategoricalDistribution({label: 0.5, "x": 0.5}) for label in "abc"]
    model = HiddenMarkovModelDistribution(topics, [1.0, 0.0, 0.0], moves)
    good = list("ax" * 1500 + "bx" * 1000 + "cx" * 800)
    rows = [good, good[::-1], ["a"] * 10, ["x"] * 6000, ["a", "z"] + ["x"] * 5000]
    total, left_out, value, _ = statistic(model, rows)
    assert left_out == 2
    assert (value.trans_counts[model.transitions == 0.0] == 0.0).all()
    monkeypatch.setattr(hmm_batches, "LONG", 10**9)
    total_, left_out_, value_, _ = statistic(model, rows)
    assert (left_out_, total_) == (left_out, pytest.approx(total, rel=1e-12))
    np.testing.assert_allclose(value.trans_counts, value_.trans_counts, rtol=1e-9, atol=1e-9)


def test_segments_end_in_a_terminal_state(monkeypatch):
    moves = [[0.9, 0.0999, 0.0001], [0.1, 0.8999, 0.0001], [0.0, 0.0, 1.0]]
    topics = [GaussianDistribution(m, 1.0) for m in (0.0, 2.0, 9.0)]
    model = HiddenMarkovModelDistribution(topics, [0.5, 0.5, 0.0], moves, terminal_states=[2])
    rows = [[*np.random.RandomState(n).normal(size=n), 9.0] for n in (LONG, 10)]
    total, _, value, _ = statistic(model, rows)
    assert value.state_counts[2] == pytest.approx(2.0)
    monkeypatch.setattr(hmm_batches, "LONG", 10**9)
    assert statistic(model, rows)[0] == pytest.approx(total, rel=1e-13)


@pytest.mark.parametrize("steps", [LONG, 100_000])
def test_no_underflow_however_long(steps):
    rng = np.random.RandomState(1)
    model = chain(4, rng)
    row = rng.normal(size=steps)
    logs = np.array([t.seq_log_density(row) for t in model.topics]).T
    with np.errstate(divide="ignore"):
        forward, move = np.log(model.w) + logs[0], np.log(model.transitions)
    for t in range(1, steps):
        forward = log_sum(forward[:, None] + move, 0) + logs[t]
    assert model.log_density(row) == pytest.approx(float(log_sum(forward, 0)), rel=1e-11)  # log space loses more
    total, left_out, value, _ = statistic(model, [row])
    assert left_out == 0
    assert math.isfinite(total)
    assert value.state_counts.sum() == pytest.approx(steps, rel=1e-11)
    assert value.trans_counts.sum() == pytest.approx(steps - 1, rel=1e-11)


def far_apart():
    """Return a chain whose reachable state is sometimes thousands of nats below the other, and rows of it."""
    topics = [GaussianDistribution(0.0, 1e-4), GaussianDistribution(1.0, 1e-4)]
    model = HiddenMarkovModelDistribution(topics, [1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]])
    return model, [[0.0, 1.0, 0.0, 0.0], [1.0, 1.0], [0.0] * 5, [0.5, 0.2, 0.9], [0.0, 0.0, 1.0, 1.0]]


@pytest.mark.parametrize("repeat", [1, 1200])
def test_a_scale_that_vanishes_sends_its_sequence_to_log_space(repeat):
    model, rows = far_apart()
    rows = [row * repeat for row in rows]
    _, left_out, value, payload = statistic(model, rows)
    scores, posteriors = model.seq_log_density(payload), model.seq_posterior(payload)
    initial, counts, moves = np.zeros(2), np.zeros(2), np.zeros((2, 2))
    for row, score, posterior in zip(rows, scores, posteriors, strict=True):
        logs = np.array([t.seq_log_density(np.array(row)) for t in model.topics]).T
        total, gamma, xi = expected_counts(model.w, model.transitions, logs)
        assert score == pytest.approx(total, rel=1e-12)
        np.testing.assert_allclose(posterior, gamma, atol=1e-7)
        initial, counts, moves = initial + gamma[0], counts + gamma.sum(axis=0), moves + xi
    assert left_out == 0
    for field, expected in (("init_counts", initial), ("state_counts", counts), ("trans_counts", moves)):
        np.testing.assert_allclose(getattr(value, field), expected, rtol=1e-7, atol=1e-12)
    elements = sum(map(len, rows))
    assert value.init_counts.sum() == pytest.approx(len(rows), rel=1e-14)
    assert value.state_counts.sum() == pytest.approx(elements, rel=1e-14)
    assert value.trans_counts.sum() == pytest.approx(elements - len(rows), rel=1e-14)
    assert [model.log_density(row) for row in rows] == scores.tolist()


def test_impossible_sequences_leave_their_neighbours_alone():
    topics = [CategoricalDistribution({"a": 0.5, "b": 0.5}), CategoricalDistribution({"b": 0.5, "c": 0.5})]
    model = HiddenMarkovModelDistribution(topics, [1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]])
    good = [list("ab"), list("abc"), list("b"), list("aab")]
    bad = [list("ca"), list("zz"), list("aca"), list("az")]
    mixed = [row for pair in zip(good, bad, strict=True) for row in pair]
    scores = model.seq_log_density(model.dist_to_encoder().seq_encode(mixed))
    assert np.isneginf(scores[1::2]).all()
    assert scores[::2].tobytes() == model.seq_log_density(model.dist_to_encoder().seq_encode(good)).tobytes()
    total, left_out, value, _ = statistic(model, mixed)
    assert left_out == 4
    alone = statistic(model, good)
    assert total == alone[0]
    np.testing.assert_allclose(value.trans_counts, alone[2].trans_counts, rtol=1e-14)
    assert all(not p.any() for p in model.seq_posterior(model.dist_to_encoder().seq_encode(bad)))


def test_elements_can_be_taken_in_any_order():
    rng = np.random.RandomState(2)
    model = chain(3, rng)
    rows = [list(rng.normal(size=n)) for n in (3, LONG + 5, 0, 7, 7, 1)]
    encoder = model.dist_to_encoder()
    payload = encoder.seq_encode(rows)
    whole = model.seq_log_density(payload)
    for index in ([5, 1, 0], [2], [], [4, 4, 3]):
        part = encoder.take(payload, np.array(index, np.int64))
        assert model.seq_log_density(part).tobytes() == whole[index].tobytes()
        again = encoder.seq_encode([rows[i] for i in index])
        assert np.array_equal(part.elements, again.elements)
