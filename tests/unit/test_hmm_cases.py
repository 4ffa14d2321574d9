"""Inputs behind public bug reports of other libraries, with the right outcome: sequences; and starts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mixle.inference import optimize, seq_initialize
from mixle.stats import (
    CategoricalDistribution,
    CategoricalEstimator,
    CompositeEstimator,
    DiagonalGaussianEstimator,
    GaussianDistribution,
    GaussianEstimator,
    HiddenMarkovEstimator,
    HiddenMarkovModelDistribution,
    IntegerCategoricalEstimator,
    MixtureEstimator,
    MultivariateGaussianEstimator,
    OptionalEstimator,
    PoissonEstimator,
    seq_encode,
    seq_log_density_sum,
)
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.planner import encoded_data

pytestmark = pytest.mark.filterwarnings("ignore:EM stopped")


def hidden(estimator, states=2, **options):
    return HiddenMarkovEstimator([estimator] * states, **options)


def quietly(rows, estimator, **options):
    """Fit without a word about convergence."""
    return optimize(rows, estimator, **{"max_its": 30, "delta": None, "init_p": 1.0, "seed": 3, **options})


def sound(model):
    """Return whether the chain's probabilities are finite and sum to one."""
    laws = np.concatenate([model.w[None, :], model.transitions])
    return bool(np.isfinite(laws).all() and np.allclose(laws.sum(axis=1), 1.0, atol=1e-12) and (laws >= 0.0).all())


FLOORED = {
    "Gaussian": (GaussianEstimator(), [[1.0] * 6, [2.0] * 5, [1.0, 2.0, 1.0]]),
    "diagonal": (DiagonalGaussianEstimator(2), [[(1.0, 0.0)] * 6, [(2.0, 5.0)] * 5]),
    "full": (MultivariateGaussianEstimator(2), [[(1.0, 0.0)] * 6, [(2.0, 5.0)] * 5]),
    "mixture": (MixtureEstimator([GaussianEstimator()] * 2), [[1.0, 1.0, 2.0, 2.0] * 3, [7.0, 7.0, 9.0] * 3]),
}


@pytest.mark.parametrize("name", FLOORED)
def test_T08_point_masses_get_a_floor(name):
    estimator, rows = FLOORED[name]
    model = quietly(rows, hidden(estimator))
    assert sound(model)
    assert np.isfinite(model.seq_log_density(model.dist_to_encoder().seq_encode(rows))).all()


def test_T10_a_state_that_empties_keeps_its_parameters_and_is_reported():
    away = GaussianDistribution(1e7, 1.0)
    start = HiddenMarkovModelDistribution([GaussianDistribution(0.0, 1.0), away], [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]])
    rows = [list(np.random.RandomState(i).normal(size=20)) for i in range(5)]
    model = quietly(rows, start.estimator(), prev_estimate=start, max_its=5)
    assert str(model.topics[1]) == str(away)
    assert any("empty" in repair for repair in model.fit_provenance().repairs)


@pytest.mark.parametrize("rows", [[[3.0] * 10], [[3.0]] * 4, [[3.0, 3.0, 4.0]]])
def test_T17_more_states_than_distinct_elements(rows):
    model = quietly(rows, hidden(GaussianEstimator(), 4))
    assert sound(model)
    assert np.isfinite(seq_log_density_sum(seq_encode(rows, model=model), model)[1])


def test_T21_initial_counts_that_vanish_still_sum_to_one():
    topics = [GaussianDistribution(0.0, 1e-3), GaussianDistribution(9.0, 1e-3), GaussianDistribution(50.0, 1e-3)]
    start = HiddenMarkovModelDistribution(topics, [1e-300, 1.0 - 1e-300, 0.0], np.full((3, 3), 1.0 / 3.0))
    rows = [[9.0, 0.0, 9.0, 50.0, 0.1, 0.0]] * 3
    model = quietly(rows, start.estimator(), prev_estimate=start, max_its=40)
    assert sound(model)
    assert model.w.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("family", [CategoricalEstimator(), IntegerCategoricalEstimator(), PoissonEstimator()])
@pytest.mark.parametrize("seed", range(4))
def test_T22_rare_ones_never_end_in_nan(family, seed):
    rng = np.random.RandomState(seed)
    row = (rng.random_sample(600) < 0.03).astype(int).tolist()
    model = optimize([row], hidden(family), max_its=60, delta=1e-6, seed=seed, init_p=1.0)
    assert sound(model)
    assert math.isfinite(model.log_density(row))


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 2, 2, 2, 2, 4, 2, 4, 2], [1, 3, 4, 2, 4, 3, 4]],
        [[1, 2, 1, 1, 2], [2, 2, 1]],
        [[-5, 100, -5], [100, 100]],
        [["u", "v", "u"], ["v"]],
    ],
    ids=["T26", "T27", "gaps", "words"],
)
def test_T26_T27_symbols_need_not_start_at_zero_or_be_dense(rows):
    families = [CategoricalEstimator()] + ([] if isinstance(rows[0][0], str) else [IntegerCategoricalEstimator()])
    for family in families:
        model = quietly(rows, hidden(family))
        assert sound(model)
        assert math.isfinite(seq_log_density_sum(seq_encode(rows, model=model), model)[1])


def test_T28_a_symbol_never_seen_is_impossible_or_smoothed_by_the_declared_support():
    rows = [[0, 0, 2, 2, 0, 0], [0, 0, 2, 2, 0, 0], [0, 2, 0, 2, 0, 0]]
    model = quietly(rows, hidden(CategoricalEstimator()))
    assert model.log_density([0, 1, 0]) == -math.inf
    assert math.isfinite(model.log_density([0, 2, 0]))
    declared = quietly(rows, hidden(IntegerCategoricalEstimator(0, 2, pseudo_count=1.0)))
    assert math.isfinite(declared.log_density([0, 1, 0]))
    with pytest.warns(UserWarning, match="1 row is supported by no component"):
        left_out = quietly([*rows, [0, 7]], model.estimator(), prev_estimate=model, max_its=2)
    assert left_out.log_density([0, 2, 0]) > -math.inf


@pytest.mark.parametrize("gap", [math.nan, None])
def test_T37_missing_elements_are_marginalised_under_optional_and_refused_elsewhere(gap):
    rows = [[0.1, gap, -0.2, 5.0, 5.1], [gap, 5.2, gap], [gap]]
    with pytest.raises(ValueError, match="Optional"):
        quietly(rows, hidden(GaussianEstimator()))
    model = quietly(rows, hidden(OptionalEstimator(GaussianEstimator())), max_its=5)
    assert sound(model)
    assert model.log_density([gap]) == pytest.approx(0.0, abs=1e-12)
    assert len(model.viterbi([0.0, gap, 5.0])) == 3
    whole = sum(
        model.w[i] * model.transitions[i, j] * model.topics[i].density(0.1) * model.transitions[j, k]
        * model.topics[k].density(5.0)
        for i in range(2) for j in range(2) for k in range(2)
    )  # fmt: skip
    assert model.density([0.1, gap, 5.0]) == pytest.approx(float(whole), rel=1e-12)


def test_T38_none_is_a_label_to_a_categorical_and_missing_to_an_optional():
    rows = [["a", None, "b"], [None, "a"], ["b", "b"]]
    as_label = quietly(rows, hidden(CategoricalEstimator()), max_its=5)
    assert None in as_label.topics[0].pmap
    missing = quietly(rows, hidden(OptionalEstimator(CategoricalEstimator())), max_its=5)
    assert set(missing.topics[0].dist.pmap) == {"a", "b"}
    assert missing.log_density([None]) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("rows", [[], [[]], [[], []]], ids=["no rows", "an empty row", "empty rows"])
def test_nothing_to_learn_from(rows):
    estimator = hidden(GaussianEstimator(), 2, len_estimator=PoissonEstimator())
    if not rows:
        with pytest.raises(ValueError, match="no observations"):
            quietly(rows, estimator)
        return
    model = quietly(rows, estimator, max_its=2)
    assert sound(model)
    assert model.log_density([]) == pytest.approx(-model.len_dist.lam, abs=1e-9)


def separate(count=60, length=25, seed=0):
    """Return rows of three well separated states, and their model."""
    topics = [GaussianDistribution(m, 1.0) for m in (-8.0, 0.0, 8.0)]
    moves = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    rng = np.random.RandomState(seed)
    model = HiddenMarkovModelDistribution(topics, [0.2, 0.3, 0.5], moves)
    rows = []
    for _ in range(count):
        state = rng.choice(3, p=model.w)
        row = []
        for _ in range(length):
            row.append(float(rng.normal(topics[state].mu)))
            state = rng.choice(3, p=model.transitions[state])
        rows.append(row)
    return model, rows


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rows", ["many", "few", "one"])
def test_a_start_finds_separate_states(rows, seed):
    _, data = separate()
    data = {"many": data, "few": data[:2], "one": [[x for row in data for x in row]]}[rows]
    start = seq_initialize(seq_encode(data, estimator=hidden(GaussianEstimator(), 3)), hidden(GaussianEstimator(), 3),
                           np.random.RandomState(seed), p=1.0)  # fmt: skip
    assert sorted(t.mu for t in start.topics) == pytest.approx([-8.0, 0.0, 8.0], abs=1.5)
    assert (np.diag(start.transitions) > 0.4).all()


def test_a_start_agrees_across_maps_to_rounding():
    _, rows = separate()
    pairs = [[(x, "ab"[int(x > 0)]) for x in row] for row in rows]
    inner = MixtureEstimator([GaussianEstimator()] * 2)
    for data, family in (
        (rows, GaussianEstimator()),
        (rows, inner),
        (pairs, CompositeEstimator([GaussianEstimator(), CategoricalEstimator()])),
        ([[label for _, label in row] for row in pairs], CategoricalEstimator()),
    ):
        estimator = hidden(family, 3)
        scores = []
        for shard_map in (Strided(1), Strided(7), Contiguous(4)):
            with encoded_data(data, estimator, num_shards=shard_map) as handle:
                start = handle.pysp_seq_initialize(estimator, np.random.RandomState(5), 0.5)
                scores.append(handle.pysp_seq_log_density_sum(start)[1])
        assert scores[1:] == pytest.approx([scores[0]] * 2, rel=1e-10)


def test_labels_start_apart_and_trials_differ():
    topics = [CategoricalDistribution({"a": p, "b": 1.0 - p}) for p in (0.9, 0.1)]
    truth = HiddenMarkovModelDistribution(topics, [0.5, 0.5], [[0.95, 0.05], [0.05, 0.95]])
    rng = np.random.RandomState(0)
    rows = []
    for _ in range(40):
        state, row = int(rng.randint(2)), []
        for _ in range(50):
            row.append("a" if rng.random_sample() < topics[state].pmap["a"] else "b")
            state = state if rng.random_sample() < 0.95 else 1 - state
        rows.append(row)
    best = seq_log_density_sum(seq_encode(rows, model=truth), truth)[1]
    models = [quietly(rows, hidden(CategoricalEstimator()), seed=seed, max_its=150) for seed in range(3)]
    scores = [seq_log_density_sum(seq_encode(rows, model=m), m)[1] for m in models]
    assert min(scores) > best
    starts = {str(quietly(rows, hidden(CategoricalEstimator()), seed=seed, max_its=1)) for seed in range(3)}
    assert len(starts) == 3


def test_a_fit_recovers_the_chain():
    truth, rows = separate(count=300)
    model = quietly(rows, hidden(GaussianEstimator(), 3), init_p=0.2)
    order = np.argsort([t.mu for t in model.topics])
    np.testing.assert_allclose(model.transitions[np.ix_(order, order)], truth.transitions, atol=0.03)
    np.testing.assert_allclose(model.w[order], truth.w, atol=0.1)
    assert [model.topics[k].mu for k in order] == pytest.approx([-8.0, 0.0, 8.0], abs=0.1)
