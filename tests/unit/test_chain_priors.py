"""Dirichlet priors of chains, and what `model.estimator()` hands on of a prior."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from test_priors import FAMILIES

import mixle.stats as st
from bits import statistic
from mixle.inference import optimize
from mixle.stats.chain_priors import chain_alphas, check_chain_prior
from mixle.utils.parallel.planner import encoded_data
from models import MODELS

D, S = st.DirichletDistribution, st.SymmetricDirichletDistribution
PRIORS = {
    "one law for all": (S(2.5), S(1.75)),
    "a law per row": (D([2.0, 3.0, 1.5]), [D([3.0, 1.0, 1.0]), D([1.0, 5.0, 2.0]), S(2.0)]),
}


def normal_hmm(moves=None, w=None):
    moves = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]] if moves is None else moves
    topics = [st.GaussianDistribution(m, 1.0) for m in (-3.0, 0.0, 3.0)]
    return st.HiddenMarkovModelDistribution(topics, [0.4, 0.3, 0.3] if w is None else w, moves)


def sequences(count=25, length=9):
    return [_drawn(normal_hmm(), length, i) for i in range(count)]


def _drawn(model, length, seed):
    rng = np.random.RandomState(seed)
    state, row = rng.choice(3, p=model.w), []
    for _ in range(length):
        row.append(float(rng.normal(model.topics[state].mu, 1.0)))
        state = rng.choice(3, p=model.transitions[state])
    return row


def hmm_estimator(**options):
    return st.HiddenMarkovEstimator([st.GaussianEstimator() for _ in range(3)], **options)


@pytest.fixture(params=PRIORS)
def prior(request):
    return PRIORS[request.param]


def test_map_of_a_hidden_chain_is_monotone_ends_at_a_mode_and_is_the_same_everywhere(prior):
    rows, estimator = sequences(), hmm_estimator(prior=prior)
    digests = set()
    for backend, more in (("local", {}), ("mp", {"num_workers": 2})):
        gains = []
        with encoded_data(rows, estimator, backend=backend, num_shards=3, **more) as handle:
            model = optimize(
                None, estimator, enc_data=handle, prev_estimate=normal_hmm(), max_its=200, delta=1e-10,
                on_step=lambda s, gains=gains: gains.append(s.delta),
            )  # fmt: skip
        digests.add(model.digest())
        assert min(gains) >= -1e-9
    assert len(digests) == 1
    assert model.fit_provenance().objective == "map"

    def objective(m):
        return float(np.sum(m.seq_log_density(m.dist_to_encoder().seq_encode(rows)))) + estimator.model_log_density(m)

    best = objective(model)
    assert best == pytest.approx(model.fit_provenance().final_objective, rel=1e-10)
    for row in range(4):
        for to in range(3):
            w, moves = model.w.copy(), model.transitions.copy()
            line = w if row == 3 else moves[row]
            line[to] *= 1.03
            line /= line.sum()
            assert objective(st.HiddenMarkovModelDistribution(model.topics, w, moves)) < best + 1e-7


def test_rows_under_a_prior_are_what_an_optimiser_finds(prior):
    counts = (
        3,
        np.array([3.0, 1.0, 0.5]),
        np.array([9.0, 4.0, 3.0]),
        np.array([[5.0, 4.0, 0.0], [1.0, 0.5, 2.0], [0.0, 0.0, 0.0]]),
    )
    model = st.HiddenMarkovEstimator([st.PoissonEstimator()] * 3, prior=prior).estimate(
        None, (*counts, ((9.0, 9.0), (4.0, 2.0), (3.0, 1.0)), None)
    )
    alpha = chain_alphas(check_chain_prior(prior, 3, "test"), 3)
    for a, c, found in zip(
        (alpha.initial, *alpha.rows), (counts[1], *counts[3]), (model.w, *model.transitions), strict=True
    ):

        def loss(z, a=a, c=c):
            p = np.exp(z - z.max())
            return -float((c + a - 1.0) @ np.log(p / p.sum()))

        solved = minimize(loss, np.zeros(3), options={"gtol": 1e-9}).x
        p = np.exp(solved - solved.max())
        assert found == pytest.approx(p / p.sum(), abs=2e-4)


@pytest.mark.parametrize("options", [{"prior": PRIORS["one law for all"]}, {"pseudo_count": 2.0}])
def test_a_structural_zero_stays_one(options):
    moves, w = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]], [1.0, 0.0, 0.0]
    gains = []
    model = optimize(
        sequences(), hmm_estimator(**options), prev_estimate=normal_hmm(moves, w), max_its=20, delta=None,
        on_step=lambda s: gains.append(s.delta),
    )  # fmt: skip
    assert np.array_equal(model.transitions == 0.0, np.array(moves) == 0.0)
    assert np.array_equal(model.w == 0.0, np.array(w) == 0.0)
    if "prior" in options:
        assert min(gains) >= -1e-9


def test_figures_of_the_published_package():
    prior = (D([2.0, 3.0]), [D([2.0, 1.0]), D([1.0, 4.0])])
    estimator = st.HiddenMarkovEstimator([st.PoissonEstimator()] * 2, prior=prior)
    value = (
        2,
        np.array([3.0, 1.0]),
        np.array([10.0, 4.0]),
        np.array([[5.0, 4.0], [1.0, 0.0]]),
        ((10.0, 20.0), (4.0, 3.0)),
        None,
    )
    model = estimator.estimate(4.0, value)
    assert model.w == pytest.approx([4 / 7, 3 / 7])
    assert model.transitions == pytest.approx(np.array([[0.6, 0.4], [0.25, 0.75]]))
    first, rows = model.get_prior()
    assert [first.alpha.tolist(), *(row.alpha.tolist() for row in rows)] == [[5.0, 4.0], [7.0, 5.0], [2.0, 4.0]]
    assert estimator.model_log_density(model) == pytest.approx(0.936264841636673)
    chain = st.MarkovChainEstimator(prior=(["a", "b"], *prior))
    data = [list("aabba"), list("abbbb")]
    model = chain.estimate(2.0, statistic(chain, data))
    assert model.init_prob_map == pytest.approx({"a": 0.6, "b": 0.4})
    assert model.transition_map["a"] == pytest.approx({"a": 0.5, "b": 0.5})
    assert model.transition_map["b"] == pytest.approx({"a": 0.125, "b": 0.875})
    assert chain.model_log_density(model) == pytest.approx(1.1271997455200227)
    labels, first, rows = model.get_prior()
    assert (labels, first.alpha.tolist()) == (("a", "b"), [4.0, 3.0])
    assert [row.alpha.tolist() for row in rows] == [[3.0, 3.0], [2.0, 8.0]]


def test_the_posterior_of_two_batches_is_that_of_all():
    prior = (("a", "b", "c"), S(2.0), {"a": D([2.0, 1.0, 3.0]), "b": S(1.5), "c": S(1.0)})
    rows = [list(r) for r in ("abca", "bbac", "ccab", "aab", "dab", "ab")]
    whole = st.MarkovChainEstimator(prior=prior)
    first = whole.estimate(3.0, statistic(whole, rows[:3]))
    second = first.estimator().estimate(3.0, statistic(first.estimator(), rows[3:]))
    every = whole.estimate(6.0, statistic(whole, rows))
    for label in "abcd":
        assert second.init_prob_map[label] == pytest.approx(every.init_prob_map[label])
        assert second.transition_map[label] == pytest.approx(every.transition_map[label])


def numbers(value):
    """Return the numbers in what a model is written as, in order."""
    if isinstance(value, dict):
        return [x for v in value.values() for x in numbers(v)]
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in numbers(v)]
    return [float(value)] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def begun(estimator, rows):
    """Return the accumulator of a start on rows."""
    accumulator = estimator.accumulator_factory().make()
    payload = accumulator.acc_to_encoder().seq_encode(rows)
    accumulator.seq_initialize(payload, np.ones(len(rows)), np.random.RandomState(1))
    return accumulator


LEAVES = {f"leaf, {name}": family[:2] for name, family in FAMILIES.items()}
CARRIERS = LEAVES | {
    "mixture": (
        st.MixtureEstimator([st.PoissonEstimator(prior=st.GammaDistribution(2.0, 3.0))] * 2, prior=S(3.0)),
        [1, 2, 9, 8, 0, 12, 3] * 5,
    ),
    "composite": (
        st.CompositeEstimator((st.PoissonEstimator(prior=st.GammaDistribution(2.0, 3.0)), st.GaussianEstimator())),
        [(1, 0.5), (2, 1.5), (0, 3.0)] * 3,
    ),
    "markov chain": (st.MarkovChainEstimator(prior=("ab", S(2.0), S(3.0))), [list("abba"), list("aab")] * 3),
    "hidden markov": (hmm_estimator(prior=PRIORS["a law per row"]), sequences(8)),
    "hidden markov of leaves with priors": (
        st.HiddenMarkovEstimator([st.PoissonEstimator(prior=st.GammaDistribution(2.0, 3.0))] * 2, prior=(S(2.0),) * 2),
        [[1, 2, 9], [8, 0, 12, 3]] * 5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CARRIERS)
def test_the_estimator_of_a_model_under_a_prior_goes_on_from_the_posterior(name):
    estimator, rows = CARRIERS[name]
    accumulator = begun(estimator, rows)
    value = accumulator.value()
    model = estimator.estimate(None, value)
    model = type(model).from_json(model.to_json())
    carried = model.estimator()
    twice = estimator.estimate(None, accumulator.combine(begun(estimator, rows).value()).value())
    assert numbers(carried.estimate(None, value).to_dict()) == pytest.approx(numbers(twice.to_dict()), rel=1e-9)
    assert math.isfinite(carried.model_log_density(model))
    if name in LEAVES:  # a prior is not joined by a second one
        assert model.estimator(2.0).estimate(None, value).digest() == carried.estimate(None, value).digest()


@pytest.mark.parametrize("name", MODELS)
def test_without_a_prior_none_is_handed_on(name):
    model = MODELS[name]()
    assert model.dist.get_prior() is None
    estimator = model.dist.estimator()
    assert estimator.get_prior() is None


REFUSED = [
    (lambda: hmm_estimator(prior=S(2.0)), "law of the initial probabilities, laws of the rows"),
    (lambda: hmm_estimator(prior=(S(2.0), [S(2.0)] * 2)), "2 rows of transitions does not fit 3 states"),
    (lambda: hmm_estimator(prior=(D([1.0, 2.0]), S(2.0))), "2 entries does not fit 3 weights"),
    (lambda: hmm_estimator(prior=(D([0.5, 2.0, 1.0]), S(2.0))), "concentrations of at least 1"),
    (lambda: hmm_estimator(prior=(None, S(2.0))), "a law is missing"),
    (lambda: hmm_estimator(prior=(S(2.0), S(2.0)), pseudo_count=1.0), "neither pseudo_count nor steady_state_init"),
    (lambda: hmm_estimator(prior=(S(2.0), S(2.0)), steady_state_init=True), "neither pseudo_count nor"),
    (lambda: st.MarkovChainEstimator(prior=(S(2.0), S(2.0))), "labels, law of the first label, laws of the rows"),
    (lambda: st.MarkovChainEstimator(prior=("aa", S(2.0), S(2.0))), "names each label once"),
    (lambda: st.MarkovChainEstimator(prior=("ab", S(2.0), {"a": S(2.0)})), "no law of the row 'b'"),
    (lambda: st.MarkovChainEstimator(1.0, prior=("ab", S(2.0), S(2.0))), "two priors"),
    (lambda: normal_hmm().set_prior(3), "laws of the rows of transitions"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_a_prior_of_another_form_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
