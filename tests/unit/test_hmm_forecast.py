"""What follows a sequence, by enumeration; and what a start says about components without rows."""

import itertools

import numpy as np
import pytest

import mixle.stats as st
from mixle.inference import optimize
from models import MODELS

PLAIN = [n for n in MODELS if n.startswith("hidden markov") and "terminal" not in n]


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_forecast_is_the_ratio_of_likelihoods(name, length):
    d = MODELS[name]().dist
    row = (d.sampler(4).sample(20)[3] * 3)[:length] if length else []
    plain = st.HiddenMarkovModelDistribution(d.topics, d.w, d.transitions)
    if plain.log_density(row) == -np.inf:
        row = row[:1] * length
    ahead = plain.forecast(row, 3)
    assert ahead.states.shape == (3, d.n_states)
    assert ahead.states.sum(axis=1) == pytest.approx([1.0] * 3, abs=1e-14)
    other = d.sampler(9).sample(5)[0][:1] or d.topics[0].sampler(1).sample(1)
    element = next(iter(other))
    expected = plain.log_density([*row, element]) - plain.log_density(row)
    assert ahead.observations[0].log_density(element) == pytest.approx(expected, rel=1e-10)


def test_two_steps_ahead_by_enumeration():
    d = MODELS["hidden markov"]().dist
    row = [-3.0, 4.0, 3.5]
    weights = np.zeros(2)
    for path in itertools.product(range(2), repeat=5):
        p = d.w[path[0]]
        for a, b in itertools.pairwise(path):
            p *= d.transitions[a, b]
        for state, x in zip(path, row, strict=False):
            p *= d.topics[state].density(x)
        weights[path[-1]] += p
    assert d.forecast(row, 2).states[1] == pytest.approx(weights / weights.sum(), rel=1e-12)
    encoded = d.dist_to_encoder().seq_encode([row, [], row[:1]])
    found = d.seq_forecast(encoded, 2)
    assert found.shape == (3, 2, 2)
    assert found[0].tobytes() == d.forecast(row, 2).states.tobytes()
    assert found[1, 0] == pytest.approx(d.w)


def test_what_has_no_future_is_refused():
    terminal = MODELS["hidden markov of unlike families with a terminal state"]().dist
    with pytest.raises(ValueError, match="terminal states"):
        terminal.forecast([1.0], 1)
    d = MODELS["hidden markov of products with a structural zero"]().dist
    with pytest.raises(ValueError, match="horizon"):
        d.forecast([], 0)
    with pytest.raises(ValueError, match="sequence 0 is impossible"):
        d.forecast([("z", 1)], 1)


PRODUCT = st.CompositeEstimator((st.GaussianEstimator(), st.CategoricalEstimator()))


@pytest.mark.filterwarnings("ignore:EM stopped")
@pytest.mark.parametrize(
    ("rows", "estimator"),
    [
        ([3.0] * 5 + [4.0] * 5, st.MixtureEstimator([st.GaussianEstimator()] * 3)),
        (
            [(1.0, "a")] * 10,
            st.MixtureEstimator([PRODUCT] * 2),
        ),
        ([[1.0, 2.0]] * 5, st.HiddenMarkovEstimator([st.GaussianEstimator()] * 3)),
        ([(1.0, 2)] * 6, st.JointMixtureEstimator([st.GaussianEstimator()] * 2, [st.PoissonEstimator()] * 2)),
    ],
    ids=["mixture", "of products", "hidden markov", "joint"],
)
def test_components_without_distinct_rows_are_reported(rows, estimator):
    fitted = optimize(rows, estimator, max_its=3, init_p=1.0)
    assert any("distinct sampled rows" in note for note in fitted.fit_provenance().repairs)
    spread = [0.0, 1.0, 5.0, 6.0, 9.0, 11.0]
    fine = optimize(spread, st.MixtureEstimator([st.GaussianEstimator(min_covar=0.1)] * 2), max_its=3, init_p=1.0)
    assert not any("distinct" in note for note in fine.fit_provenance().repairs)
