"""Laws of hidden Markov models over random chains, sequences and ways to cut them."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import mixle.stats as st
from mixle.inference import optimize
from mixle.stats.latent.hmm_take import take
from models import MODELS

LABELS = "abc"


@s.composite
def laws(draw, size):
    """Return probabilities, some of them zero."""
    parts = draw(s.lists(s.integers(0, 5), min_size=size, max_size=size).filter(any))
    return [part / sum(parts) for part in parts]


@s.composite
def chains(draw):
    """Return a model of one to three states over three labels, zeros included."""
    states = draw(s.integers(1, 3))
    topics = [st.CategoricalDistribution(dict(zip(LABELS, draw(laws(3)), strict=True))) for _ in range(states)]
    moves = [draw(laws(states)) for _ in range(states)]
    return st.HiddenMarkovModelDistribution(topics, draw(laws(states)), moves)


words = s.lists(s.sampled_from(LABELS), max_size=5)


def by_paths(model, row):
    """Return the probability of a row, and of its likeliest path, over all paths."""
    total, best = 0.0, 0.0
    for path in itertools.product(range(model.n_states), repeat=len(row)):
        p = 1.0
        for t, (state, x) in enumerate(zip(path, row, strict=True)):
            p *= model.w[state] if t == 0 else model.transitions[path[t - 1], state]
            p *= model.topics[state].pmap[x]
        total, best = total + p, max(best, p)
    return total, best


def path_density(model, row, path):
    p = 1.0
    for t, (state, x) in enumerate(zip(path, row, strict=True)):
        p *= model.w[state] if t == 0 else model.transitions[path[t - 1], state]
        p *= model.topics[state].pmap[x]
    return p


@settings(max_examples=150)
@given(model=chains(), rows=s.lists(words, min_size=1, max_size=6))
def test_scores_and_best_paths_are_those_of_all_paths(model, rows):
    payload = model.dist_to_encoder().seq_encode(rows)
    for row, score, path in zip(rows, model.seq_log_density(payload), model.seq_viterbi(payload), strict=True):
        total, best = by_paths(model, row)
        assert score == (pytest.approx(math.log(total), rel=1e-12, abs=1e-13) if total else -math.inf)
        if total:
            assert path_density(model, row, path.tolist()) == pytest.approx(best, rel=1e-9)


@settings(max_examples=100)
@given(model=chains(), rows=s.lists(words, min_size=1, max_size=12), data=s.data())
def test_how_rows_are_cut_changes_no_score_and_no_sum(model, rows, data):
    encoder, make = model.dist_to_encoder(), model.estimator().accumulator_factory().make
    payload = encoder.seq_encode(rows)
    whole, scores = make(), model.seq_log_density(payload)
    total, left_out = whole.seq_update_scored(payload, None, model)
    cut = data.draw(s.integers(0, len(rows)))
    parts, sums = make(), [0.0, 0]
    for a, b in ((0, cut), (cut, len(rows))):
        part = encoder.slice(payload, a, b)
        assert model.seq_log_density(part).tobytes() == scores[a:b].tobytes()
        one = make()
        found = one.seq_update_scored(part, None, model)
        sums = [sums[0] + found[0], sums[1] + found[1]]
        parts.combine(one.value())
    assert sums == [pytest.approx(total, rel=1e-13, abs=1e-13), left_out]
    for field in ("init_counts", "state_counts", "trans_counts"):
        np.testing.assert_allclose(getattr(parts.value(), field), getattr(whole.value(), field), atol=1e-12)


@settings(max_examples=100)
@given(model=chains(), rows=s.lists(words, min_size=1, max_size=8), data=s.data())
def test_counts_add_up_and_em_never_falls(model, rows, data):
    weights = np.array(data.draw(s.lists(s.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=len(rows), max_size=len(rows))))
    estimator = model.estimator()
    accumulator = estimator.accumulator_factory().make()
    payload = accumulator.acc_to_encoder().seq_encode(rows)
    before, _ = accumulator.seq_update_scored(payload, weights, model)
    value = accumulator.value()
    possible = np.isfinite(model.seq_log_density(payload))
    sizes = np.array([len(row) for row in rows])
    assert value.init_counts.sum() == pytest.approx((weights * (possible & (sizes > 0))).sum(), abs=1e-12)
    assert value.state_counts.sum() == pytest.approx((weights * possible * sizes).sum(), abs=1e-12)
    assert value.trans_counts.sum() == pytest.approx((weights * possible * np.maximum(sizes - 1, 0)).sum(), abs=1e-12)
    assert (value.trans_counts[model.transitions == 0.0] == 0.0).all()
    if not value.state_counts.sum():
        return
    fitted = estimator.estimate(None, value)
    after = fitted.seq_log_density(payload)[possible & (weights > 0.0)]
    assert (after * weights[possible & (weights > 0.0)]).sum() >= before - 1e-9


@settings(max_examples=50)
@given(model=chains(), rows=s.lists(words, max_size=8), data=s.data())
def test_sequences_cut_like_all_other_rows(model, rows, data):
    encoder = model.dist_to_encoder()
    payload = encoder.seq_encode(rows)
    start = data.draw(s.integers(0, len(rows)))
    stop = data.draw(s.integers(start, len(rows)))
    cut, direct = encoder.slice(payload, start, stop), encoder.seq_encode(rows[start:stop])
    assert cut.sizes.tolist() == direct.sizes.tolist()
    got = [cut.elements.labels[code] for code in cut.elements.x]
    assert got == [direct.elements.labels[code] for code in direct.elements.x]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_rows_of_every_model_are_taken_in_any_order_and_emitted(name):
    model = MODELS[name]()
    rows = list(model.rows)[:9]
    for encoder in (model.dist.dist_to_encoder(), model.estimator.accumulator_factory().make().acc_to_encoder()):
        payload = encoder.seq_encode(rows)
        whole = np.asarray(model.dist.seq_log_density(payload))
        for index in (list(range(len(rows)))[::-1], [2, 0], [1, 1, 3], []):
            part = take(encoder, payload, np.array(index, np.int64))
            np.testing.assert_allclose(model.dist.seq_log_density(part), whole[index], rtol=1e-13)
    chain = st.HiddenMarkovModelDistribution([model.dist] * 2, [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]])
    ends = [(4, len(rows)), (0, 1), (0, 0), (1, 4)]
    scores = chain.seq_log_density(chain.dist_to_encoder().seq_encode([rows[start:stop] for start, stop in ends]))
    np.testing.assert_allclose(scores, [whole[start:stop].sum() for start, stop in ends], rtol=1e-11)
    estimator = st.HiddenMarkovEstimator([model.estimator] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = optimize([rows, rows[:4], rows[::-1]], estimator, max_its=1, seed=1)
    assert np.isfinite(fitted.w).all()
