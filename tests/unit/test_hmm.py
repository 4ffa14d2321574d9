"""Hidden Markov models against enumeration of all paths, and the layouts and rules of their statistic."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hmm_support import enumerated, expected_counts

from bits import bits
from mixle.errors import KeyValidationError, NonGenerativeSequenceError, RowError
from mixle.inference import optimize
from mixle.stats import (
    CategoricalDistribution,
    CompositeDistribution,
    CompositeEstimator,
    GaussianDistribution,
    GaussianEstimator,
    HiddenMarkovEstimator,
    HiddenMarkovModelDistribution,
    HiddenMarkovModelEstimator,
    MixtureDistribution,
    OptionalDistribution,
    PoissonDistribution,
    PoissonEstimator,
    seq_encode,
    validate_estimator_keys,
)
from mixle.stats.latent.hmm_accumulator import HiddenMarkovStatistics
from mixle.stats.stacking.statistic import StackedStatistic


def labels(*p):
    return CategoricalDistribution(dict(zip("abc", p, strict=False)))


def scene(name):
    """Return (model, rows)."""
    moves = [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]]
    numbers = [GaussianDistribution(m, s) for m, s in ((-1.0, 1.0), (1.0, 0.5), (2.0, 3.0))]
    rows = [[], [0.3], [-1.0, 1.5], [0.1, 2.0, -3.0, 1.0, 0.0], [2.2], [1.0, 1.0, 1.0]]
    if name == "one state":
        return HiddenMarkovModelDistribution(numbers[:1], [1.0], [[1.0]], len_dist=PoissonDistribution(2.0)), rows
    if name == "numbers":
        return HiddenMarkovModelDistribution(numbers, [0.5, 0.3, 0.2], moves, len_dist=PoissonDistribution(2.0)), rows
    if name == "labels":
        topics = [labels(0.5, 0.3, 0.2), labels(0.1, 0.9), labels(0.2, 0.2, 0.6)]
        words = ["", "a", "cab", "abcab", "zz", "bb", "az", "ca"]
        return HiddenMarkovModelDistribution(topics, [0.2, 0.3, 0.5], moves), [list(word) for word in words]
    if name == "structural zeros":
        topics = [labels(1.0), labels(0.5, 0.5), labels(0.0, 0.0, 1.0)]
        chain = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]
        words = ["a", "ab", "aabbcc", "ba", "abcb", "ccc", "abac", "aaaa"]
        return HiddenMarkovModelDistribution(topics, [1.0, 0.0, 0.0], chain), [list(word) for word in words]
    if name == "terminal":
        chain = [[0.5, 0.3, 0.2], [0.4, 0.5, 0.1], [0.0, 0.0, 1.0]]
        return HiddenMarkovModelDistribution(numbers, [0.6, 0.3, 0.1], chain, terminal_states=[2]), rows
    if name == "taus":
        taus = [[0.5, 0.5, 0.0], [0.0, 0.2, 0.8]]
        return HiddenMarkovModelDistribution(numbers, [0.6, 0.4], [[0.9, 0.1], [0.3, 0.7]], taus), rows
    products = [
        CompositeDistribution((OptionalDistribution(d, p=0.2), labels(0.2 + 0.2 * k, 0.8 - 0.2 * k)))
        for k, d in enumerate(numbers)
    ]
    pairs = [[(x if i % 3 else None, "ab"[i % 2]) for i, x in enumerate(row)] for row in rows]
    return HiddenMarkovModelDistribution(products, [0.5, 0.3, 0.2], moves), pairs


SCENES = ["one state", "numbers", "labels", "structural zeros", "terminal", "taus", "products"]


def of_length(model, row):
    return model.len_dist.log_density(len(row)) if model.terminal_states is None else 0.0


@pytest.mark.parametrize("name", SCENES)
def test_scores_posteriors_and_best_paths_equal_enumeration(name):
    model, rows = scene(name)
    payload = model.dist_to_encoder().seq_encode(rows)
    scores, posteriors, best = model.seq_log_density(payload), model.seq_posterior(payload), model.seq_viterbi(payload)
    for i, row in enumerate(rows):
        if not row:
            expected = 0.0 if model.terminal_states is None else -math.inf
            assert scores[i] == pytest.approx(expected + of_length(model, row), rel=1e-15)
            assert posteriors[i].shape == (0, model.n_states)
            continue
        density, posterior, _, path = enumerated(model, row)
        assert scores[i] == pytest.approx(density + of_length(model, row), rel=1e-13)
        np.testing.assert_allclose(posteriors[i], posterior, atol=1e-13)
        if path is not None:
            assert best[i].tolist() == list(path)
            assert model.viterbi(row).tolist() == list(path)
            np.testing.assert_array_equal(model.posterior(row), posteriors[i])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SCENES)
def test_the_statistic_equals_enumeration(name, weighted):
    model, rows = scene(name)
    weights = np.linspace(0.0, 2.0, len(rows)) if weighted else None
    accumulator = model.estimator().accumulator_factory().make()
    total, left_out = accumulator.seq_update_scored(accumulator.acc_to_encoder().seq_encode(rows), weights, model)
    value = accumulator.value()
    states = model.n_states
    initial, counts, moves, density, lost = np.zeros(states), np.zeros(states), np.zeros((states, states)), 0.0, 0
    for row, w in zip(rows, np.ones(len(rows)) if weights is None else weights, strict=True):
        nothing = 0.0 if model.terminal_states is None else -math.inf
        score, posterior, move, _ = enumerated(model, row) if row else (nothing, np.zeros((0, states)), 0.0, None)
        score += of_length(model, row)
        if score == -math.inf:
            lost += w > 0.0
            continue
        density += w * score
        initial += w * posterior[0] if row else 0.0
        counts += w * posterior.sum(axis=0)
        moves += w * move
    assert left_out == lost
    assert total == pytest.approx(density, rel=1e-13)
    np.testing.assert_allclose(value.init_counts, initial, atol=1e-13)
    np.testing.assert_allclose(value.state_counts, counts, atol=1e-13)
    np.testing.assert_allclose(value.trans_counts, moves, atol=1e-13)
    assert (value.trans_counts[model.transitions == 0.0] == 0.0).all()


@pytest.mark.parametrize("name", ["numbers", "products", "structural zeros"])
def test_emission_statistics_are_those_of_weighted_elements(name):
    model, rows = scene(name)
    rows = [row for row in rows if row and np.isfinite(model.log_density(row))]
    accumulator = model.estimator().accumulator_factory().make()
    accumulator.seq_update(accumulator.acc_to_encoder().seq_encode(rows), np.ones(len(rows)), model)
    fitted = model.estimator().estimate(float(len(rows)), accumulator.value())
    elements = [x for row in rows for x in row]
    weights = np.concatenate([enumerated(model, row)[1] for row in rows])
    for k, topic in enumerate(model.topics):
        one = topic.estimator().accumulator_factory().make()
        one.seq_update(one.acc_to_encoder().seq_encode(elements), np.ascontiguousarray(weights[:, k]), topic)
        expected = topic.estimator().estimate(None, one.value())
        for x in elements:
            assert fitted.topics[k].log_density(x) == pytest.approx(expected.log_density(x), rel=1e-10)


def test_em_of_fifty_iterations_is_that_of_the_definition():
    rng = np.random.RandomState(3)
    rows = [rng.normal(0, 3, size=n) for n in rng.randint(1, 40, 30)]
    w, moves = np.array([0.5, 0.25, 0.25]), np.full((3, 3), 0.2) + 0.4 * np.eye(3)
    mean, variance = np.array([-3.0, 0.0, 3.0]), np.array([2.0, 2.0, 2.0])
    topics = [GaussianDistribution(float(m), float(v)) for m, v in zip(mean, variance, strict=True)]
    model = HiddenMarkovModelDistribution(topics, w, moves)
    encoded = seq_encode(rows, model=model)
    scores = []
    for _ in range(50):
        accumulator = model.estimator().accumulator_factory().make()
        scores.append(accumulator.seq_update_scored(encoded[0][1], None, model)[0])
        model = model.estimator().estimate(float(len(rows)), accumulator.value())
        initial, counts, first, second, total = np.zeros(3), np.zeros((3, 3)), np.zeros(3), np.zeros(3), 0.0
        gammas = []
        for row in rows:
            logs = -0.5 * (np.log(2 * np.pi * variance) + (row[:, None] - mean) ** 2 / variance)
            density, gamma, xi = expected_counts(w, moves, logs)
            total, initial, counts = total + density, initial + gamma[0], counts + xi
            gammas.append(gamma)
        assert scores[-1] == pytest.approx(total, rel=1e-12)
        gamma, x = np.concatenate(gammas), np.concatenate(rows)
        first = gamma.T @ x / gamma.sum(axis=0)
        second = (gamma * (x[:, None] - first) ** 2).sum(axis=0) / gamma.sum(axis=0)
        w, moves, mean, variance = initial / initial.sum(), counts / counts.sum(axis=1, keepdims=True), first, second
    np.testing.assert_allclose(model.w, w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.transitions, moves, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose([t.mu for t in model.topics], mean, rtol=1e-9)
    np.testing.assert_allclose([t.sigma2 for t in model.topics], variance, rtol=1e-9)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(scores))


def value_of(estimator, model, rows):
    accumulator = estimator.accumulator_factory().make()
    accumulator.seq_update(accumulator.acc_to_encoder().seq_encode(rows), np.ones(len(rows)), model)
    return accumulator.value()


def test_both_layouts_are_taken_and_nothing_is_shared():
    model, rows = scene("numbers")
    estimator = model.estimator()
    value = value_of(estimator, model, rows)
    assert isinstance(value, HiddenMarkovStatistics)
    assert isinstance(value.emissions, StackedStatistic)
    raw = [(m.weight * m.mean, m.scatter + m.weight * m.mean**2, m.weight, m.weight) for m in value.children]
    plain = (3, value.init_counts, value.state_counts, value.trans_counts, tuple(raw), value.length)
    for other in (plain, (*plain[:4], value.children, plain[5])):
        fitted, expected = estimator.estimate(None, other), estimator.estimate(None, value)
        assert np.array_equal(fitted.transitions, expected.transitions)
        np.testing.assert_allclose([t.mu for t in fitted.topics], [t.mu for t in expected.topics], rtol=1e-12)
        twice = estimator.accumulator_factory().make().from_value(other).combine(value).value()
        np.testing.assert_allclose(twice.trans_counts, 2.0 * value.trans_counts)
        np.testing.assert_allclose(twice.state_counts, 2.0 * value.state_counts)
    accumulator = estimator.accumulator_factory().make().from_value(plain)
    before = bits(value.trans_counts)
    accumulator.combine(plain)
    assert bits(value.trans_counts) == before
    with pytest.raises(ValueError, match="3 states, 2 are expected"):
        HiddenMarkovEstimator([GaussianEstimator()] * 2).estimate(None, value)


def test_more_weight_than_declared_is_refused_and_less_is_not():
    model, rows = scene("numbers")
    value = value_of(model.estimator(), model, rows)
    with pytest.raises(ValueError, match="assigned mass cannot exceed declared mass"):
        model.estimator().estimate(3.0, value)
    assert model.estimator().estimate(100.0, value).n_states == 3


def test_pseudo_counts_are_spread_evenly_or_over_the_prior():
    model, rows = scene("structural zeros")
    value = value_of(model.estimator(), model, rows)
    topics = [topic.estimator() for topic in model.topics]
    even = HiddenMarkovEstimator(topics, pseudo_count=(3.0, 9.0)).estimate(None, value)
    counts = value.init_counts + 1.0
    np.testing.assert_allclose(even.w, counts / counts.sum(), rtol=1e-14)
    moves = value.trans_counts + 1.0
    np.testing.assert_allclose(even.transitions, moves / moves.sum(axis=1, keepdims=True), rtol=1e-14)
    own = model.estimator(5.0).estimate(None, value)
    assert ((own.transitions == 0.0) == (model.transitions == 0.0)).all()


def test_without_data_the_chain_is_even_and_stays_where_it_is():
    model = HiddenMarkovEstimator([GaussianEstimator()] * 2).estimate(
        0.0, HiddenMarkovEstimator([GaussianEstimator()] * 2).accumulator_factory().make().value()
    )
    assert (model.w.tolist(), model.transitions.tolist()) == ([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])


def test_a_state_never_left_gets_a_self_loop_and_zeros_are_kept():
    model, rows = scene("structural zeros")
    fitted = optimize(rows[:3], model.estimator(), prev_estimate=model, max_its=5, delta=None)
    assert (fitted.transitions[model.transitions == 0.0] == 0.0).all()
    assert fitted.w.tolist() == [1.0, 0.0, 0.0]
    short = value_of(model.estimator(), model, [["a"]])
    assert model.estimator().estimate(1.0, short).transitions.tolist() == np.eye(3).tolist()


def test_a_state_without_elements_keeps_its_emission():
    topics = [GaussianDistribution(0.0, 1.0), GaussianDistribution(1e6, 1.0)]
    start = HiddenMarkovModelDistribution(topics, [1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]])
    rows = [list(np.random.RandomState(1).normal(size=9)) for _ in range(5)]
    model = optimize(rows, start.estimator(), prev_estimate=start, max_its=3, delta=None)
    assert str(model.topics[1]) == str(topics[1])
    assert any("empty states" in repair for repair in model.fit_provenance().repairs)


def test_tied_roles_share_their_counts():
    def estimator(keys):
        return HiddenMarkovEstimator([GaussianEstimator()] * 2, keys=keys)

    model, _ = scene("numbers")
    two = HiddenMarkovModelDistribution(model.topics[:2], [0.3, 0.7], [[0.9, 0.1], [0.4, 0.6]])
    other = HiddenMarkovModelDistribution(model.topics[1:], [0.8, 0.2], [[0.5, 0.5], [0.2, 0.8]])
    pair, rows = CompositeDistribution((two, other)), [([0.0, 1.0], [2.0, 1.0, 0.0]), ([1.0], [0.5, 0.5])]
    for role in range(3):
        keys = tuple("shared" if r == role else None for r in range(3))
        tied = CompositeEstimator([estimator(keys), estimator(keys)])
        validate_estimator_keys(tied)
        fitted = optimize(rows, tied, prev_estimate=pair, max_its=1, delta=None)
        a, b = fitted.dists
        same = [a.w.tolist() == b.w.tolist(), a.transitions.tolist() == b.transitions.tolist()]
        same.append([str(t) for t in a.topics] == [str(t) for t in b.topics])
        assert same == [r == role for r in range(3)]
        assert a.keys == keys
    with pytest.raises(KeyValidationError, match="different roles"):
        validate_estimator_keys(CompositeEstimator([estimator(("k", None, None)), estimator((None, "k", None))]))


def test_a_leaf_key_ties_all_states():
    estimator = HiddenMarkovEstimator([GaussianEstimator(keys="all")] * 2)
    start = HiddenMarkovModelDistribution(
        [GaussianDistribution(-1.0, 1.0), GaussianDistribution(1.0, 1.0)], [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]
    )
    rows = [[1.0, 2.0, 6.0], [-3.0]]
    model = optimize(rows, estimator, prev_estimate=start, max_its=1, delta=None)
    for topic in model.topics:
        assert topic.mu == pytest.approx(1.5, rel=1e-12)
        assert topic.sigma2 == pytest.approx(np.var([1.0, 2.0, 6.0, -3.0]), rel=1e-12)


def test_the_stationary_law_may_start_the_chain():
    model, rows = scene("numbers")
    topics = [t.estimator() for t in model.topics]
    value = value_of(HiddenMarkovEstimator(topics, PoissonEstimator()), model, rows)
    fitted = HiddenMarkovEstimator(topics, PoissonEstimator(), steady_state_init=True).estimate(None, value)
    np.testing.assert_allclose(fitted.w @ fitted.transitions, fitted.w, atol=1e-12)


def test_sampling_needs_a_length_or_a_terminal_state():
    model, _ = scene("labels")
    with pytest.raises(NonGenerativeSequenceError, match="len_dist="):
        model.sampler(1).sample()
    ending, _ = scene("terminal")
    rows = ending.sampler(1).sample(50)
    assert all(np.isfinite(ending.log_density(row)) for row in rows)
    whole, _ = scene("numbers")
    assert len(whole.sampler(1).sample(7)) == 7
    assert whole.sampler(3).sample() == whole.sampler(3).sample()


REFUSED = [
    ({"topics": []}, "at least one law"),
    ({"w": [0.5, 0.6]}, "sum to one"),
    ({"w": None}, "pass w="),
    ({"w": [0.5, 0.25, 0.25]}, r"shape \(3, 3\)"),
    ({"transitions": [[0.5, 0.6], [0.5, 0.5]]}, "row 0 of transitions must sum to one"),
    ({"transitions": [[0.5, 0.5], [1.5, -0.5]]}, "row 1 of transitions must be probabilities"),
    ({"transitions": [[0.0, 0.0], [0.5, 0.5]]}, r"states \[0\] can be reached"),
    ({"transitions": None}, "pass transitions="),
    ({"taus": [[0.5, 0.5]]}, r"taus must have shape \(2, 2\)"),
    ({"terminal_states": []}, "cannot be empty"),
    ({"terminal_states": [2]}, "outside of 0 to 1"),
    ({"terminal_values": {"a"}}, "terminal_values=.*not built in"),
]


@pytest.mark.parametrize(("changed", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_bad_parameters_are_refused(changed, message):
    arguments = {"topics": [labels(0.5, 0.5), labels(0.1, 0.9)], "w": [0.5, 0.5], "transitions": [[0.5, 0.5]] * 2}
    with pytest.raises(ValueError, match=message):
        HiddenMarkovModelDistribution(**{**arguments, **changed})


def test_a_row_of_zeros_of_a_state_out_of_reach_is_a_self_loop():
    model = HiddenMarkovModelDistribution([labels(1.0), labels(0.5, 0.5)], [1.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])
    assert model.transitions.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_other_names_of_the_arguments_and_of_the_estimator():
    topics = [labels(0.5, 0.5), labels(0.1, 0.9)]
    a = HiddenMarkovModelDistribution(topics, [0.5, 0.5], [[0.5, 0.5]] * 2)
    b = HiddenMarkovModelDistribution(components=topics, weights=[0.5, 0.5], transitions=[[0.5, 0.5]] * 2)
    assert str(a) == str(b)
    assert HiddenMarkovModelEstimator is HiddenMarkovEstimator
    assert a.components is a.topics
    assert (a.n_topics, a.n_states, a.has_topics) == (2, 2, False)


def test_the_first_bad_element_is_named_in_the_order_of_the_rows():
    model, _ = scene("numbers")
    rows = [[0.0], [1.0, math.nan], [0.0, 0.0, 0.0, math.nan]]
    with pytest.raises(RowError, match="Row 1") as caught:
        model.dist_to_encoder().seq_encode(rows)
    assert (caught.value.row, caught.value.fields) == (1, (1,))
    assert "Optional" in str(caught.value)


def test_vectors_tables_and_arrays_are_rows():
    model, _ = scene("numbers")
    table = np.arange(6.0).reshape(2, 3)
    encoder = model.dist_to_encoder()
    one = model.seq_log_density(encoder.seq_encode(table))
    two = model.seq_log_density(encoder.seq_encode([list(row) for row in table]))
    assert one.tobytes() == two.tobytes()
    assert model.seq_log_density(encoder.seq_encode([tuple(row) for row in table])).tobytes() == two.tobytes()


def test_models_nest():
    inner, _ = scene("numbers")
    outer = MixtureDistribution([inner, HiddenMarkovModelDistribution(inner.topics[:2], [1.0, 0.0], np.eye(2))])
    row = [0.5, -0.5]
    expected = np.log(0.5 * outer.components[0].density(row) + 0.5 * outer.components[1].density(row))
    assert outer.log_density(row) == pytest.approx(expected, rel=1e-13)
    twice = HiddenMarkovModelDistribution([inner, inner], [0.5, 0.5], [[0.5, 0.5]] * 2)
    assert twice.log_density([row, [1.0]]) == pytest.approx(
        inner.log_density(row) + inner.log_density([1.0]), rel=1e-13
    )
